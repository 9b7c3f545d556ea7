"""Search QA as a text environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.info import InvalidActionPolicy, StopReason
from agent_gym.core.replies import ReplyGrammar
from agent_gym.core.tasks import Task, TaskSet
from agent_gym.envs.searchqa import options as given
from agent_gym.envs.searchqa.actions import TEMPLATES, ActionKind, parse_action
from agent_gym.envs.searchqa.data.generator import WorldKey
from agent_gym.envs.searchqa.data.library import generated_retriever
from agent_gym.envs.searchqa.oracle import next_action
from agent_gym.envs.searchqa.passages import LEAST_LIMIT, PassageStyle, begin, escape, show_passages
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.questions.rewards import RewardKind, answer_reward
from agent_gym.envs.searchqa.questions.scoring import WRONG, Scores, Scoring, mentions_answer, score_answer
from agent_gym.envs.searchqa.tasks import GENERATED, OTHER_WORLDS, GeneratedQuestions, choose_tasks, task_of
from agent_gym.retrieval.base import Passage, Retriever, RetrieverError
from agent_gym.support.arguments import checked
from agent_gym.support.checks import check_choice, check_whole
from agent_gym.support.errors import ConfigError, DataError

SPARE_TURNS = 2
"""Turns beyond the number of hops that a generated question allows: one for the answer, one to err."""
_WORLDS = 16
_NO_TURN_LEFT = "No turn is left, so the search was not carried out."
_MOST_SHOWN = 8_192  # of a question or an error
_KNOBS = ("entities", "aliases", "near_names", "facts_per_passage")
"""Arguments that are fields of `WorldSpec`."""


class SearchQAEnv(TextEnv):
    """Answer questions by searching a corpus.

    ## Description
    The protocol is Search-R1's: search as often as the turns allow, read the passages found, then give one short
    answer. By default questions and corpus are a generated world whose names and facts exist nowhere else, so no
    answer can come from pre-training. Published question sets and any corpus or Search-R1-compatible server take
    their place by argument.

    ## Action Space
    `UnicodeText`: `search[query]` or `answer[text]`; blanks around query and answer are dropped. Models write
    `<search>query</search>` and `<answer>text</answer>` (`reply_grammar`). An action of another form, an empty one
    and a query without a letter or digit are invalid: nothing is searched, the turn counts.

    ## Observation Space
    `UnicodeText`: the question, then the passages of each search between `<information>` tags, best first. What
    could act as a tag or chat marker in a passage is escaped, a passage is one line, and `observation_limit` leaves
    out whole passages from the last (a first one too long is cut and marked `[...]`).

    ## Rewards
    `reward="em"`: 1 for an answer that equals a gold answer after normalisation, else 0; success is the same.
    `"format"` and `"format_retrieval"` are Search-R1's format variants, see `RewardKind`. Info holds F1 and sub-EM.
    Retrieved text never earns a reward, except for the bonus that `format_retrieval` is named after.

    ## Starting State
    The question. Splits of the sources:

    | questions | splits | sizes |
    |---|---|---|
    | `"generated"` | train, valid, test | 2**31, 10,000, 10,000, over 16, 4, 4 worlds that share no name |
    | files | train, valid, test, all | as their names say; train is the default where there is one, else test |
    | files without a split in their names | train, valid, test, all (default) | about 80, 10, 10 per cent |

    The last are divided by a hash of the question's text, so that copies of a question share a split. A source
    with a dev file and no test file is tested on the dev file, as in the published evaluations.

    ## Episode End
    Terminated by an answer, and with stop reason `tool_error` when the retriever fails in spite of retries.
    Truncated after `max_turns` turns: 4 on question files, hops + 2 on generated questions. A search on the last
    turn is not carried out, since nobody would see what it found: with `max_turns=n`, at most n - 1 searches are
    executed. Search-R1's four searches and a closing answer are `max_turns=5`.

    ## Information
    Beside the keys of `StepInfo`: `searchqa/searches` (searches executed), `searchqa/documents` (ids of the last
    search), `searchqa/prediction`, `searchqa/em`, `searchqa/f1`, `searchqa/sub_em` and `searchqa/source`. The task
    type is the source, for generated questions shape and hops ("bridge-2"). The anchor is the question and the
    sorted ids of the documents in view; `anchor="observation"` gives the text.

    ## Arguments

    Args:
        split: Split name; see above.
        questions: "generated", a file, a folder, a list of them, or a mapping from source names to them.
        corpus: Passages: a corpus file or an index folder (also looked up below `AGENT_GYM_DATA`).
        retriever: In place of `corpus`: a `Retriever`, or the address of a server.
        retriever_options: How a server is asked: `RemoteConfig`'s timeout, retries, backoff, dialect.
        weights: Source -> how often it is drawn relative to the others; every question equally often when None.
        hops: Hops of generated questions: a number or (fewest, most); 1 to 4 by default.
        types: Shapes of generated questions: "bridge", "intersection", "comparison", "temporal", one or several.
        entities: Entities of a generated world, default 1,000 (60 if terse).
        worlds: Worlds of the training split, default 16; the other splits have at most 4.
        aliases: Share of the entities with a second name, default 0.1 (0 if terse).
        near_names: Share of the entities named like another but for the ending, default 0.05 (0 if terse).
        facts_per_passage: Facts of one generated passage; 0 (default) puts all facts of an entity into one.
        style: "prose", or "terse" for generated text without sentences, which very small models can learn.
        top_k: Passages of a search.
        scoring: "squad" (published) or "strict"; see `scoring`.
        reward: "em", "format" or "format_retrieval".
        passage_style: "search-r1", "verl-agent" or "plain": how passages are headed.
        observation_limit: Most characters of an observation with passages.
        tasks: A TaskSet, a list of Task or a task file; excludes `split`, `questions`, `weights` and the arguments
            of generated worlds.
        max_turns: Turn limit for every task; see above for None.
        render_mode: "ansi" or None.
        invalid_action: "continue", "terminate" or "raise"; see `TextEnv`.
        anchor: "state" or "observation"; see `TextEnv`.

    Raises:
        ConfigError: An argument is out of range, or questions of files have no corpus.
        DataError: Question files or a corpus are missing or malformed.

    ## Version History
    - v0: first version.
    """

    name: ClassVar[str] = "searchqa"
    default_max_turns: ClassVar[int] = 4
    prompt_folder: ClassVar[Path] = Path(__file__).parent
    reply_grammar: ClassVar[ReplyGrammar] = ReplyGrammar({"search": "search[{}]", "answer": "answer[{}]"})

    # the running episode
    _question: Question | None = None
    _asked = ""
    _searcher: Retriever | None = None
    _queries: tuple[str, ...] = ()
    _seen: tuple[Passage, ...] = ()
    _documents: tuple[str, ...] = ()
    _scores = WRONG
    _prediction = ""
    _invalid_turns = 0

    @checked
    def __init__(
        self,
        *,
        split: str | None = None,
        questions: str | Path | Sequence[str | Path] | Mapping[str, Any] | None = None,
        corpus: str | Path | None = None,
        retriever: Retriever | str | None = None,
        retriever_options: Mapping[str, Any] | None = None,
        weights: Mapping[str, float] | None = None,
        hops: int | Sequence[int] | None = None,
        types: str | Sequence[str] | None = None,
        entities: int | None = None,
        worlds: int | None = None,
        aliases: float | None = None,
        near_names: float | None = None,
        facts_per_passage: int | None = None,
        style: str | None = None,
        top_k: int = 3,
        scoring: str = Scoring.SQUAD,
        reward: str = RewardKind.EM,
        passage_style: str = PassageStyle.SEARCH_R1,
        observation_limit: int = 4_000,
        tasks: TaskSet | Sequence[Task] | str | Path | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        invalid_action: str = "continue",
        anchor: str = "state",
    ) -> None:
        self.scoring = check_choice("scoring", Scoring, scoring)
        self.reward_kind = check_choice("reward", RewardKind, reward)
        self.passage_style = check_choice("passage_style", PassageStyle, passage_style)
        self.top_k = check_whole("top_k", top_k, 1)
        self.observation_limit = check_whole("observation_limit", observation_limit, LEAST_LIMIT)
        shape = {"hops": hops, "types": types, "worlds": worlds, "entities": entities, "aliases": aliases}
        shape |= {"near_names": near_names, "facts_per_passage": facts_per_passage, "style": style}
        named = {"questions": questions, "weights": weights, **shape}
        self._retriever = given.retriever_of(corpus, retriever, retriever_options)
        chosen = resolve_tasks(type(self), tasks, split, named)
        usual_turns = self.default_max_turns
        if chosen is None and (questions is None or questions == GENERATED):
            if weights is not None:
                raise ConfigError("weights choose between sources of question files; give questions= too")
            chosen = _generated(split or "train", shape)
            usual_turns = chosen.spec.hops[1] + SPARE_TURNS
        elif chosen is None:
            _check_files(shape, self._retriever)
            chosen = choose_tasks(questions, split, weights)
        self._given_turns = max_turns is not None
        super().__init__(
            chosen,
            max_turns=usual_turns if max_turns is None else max_turns,
            render_mode=render_mode,
            invalid_action=invalid_action,
            anchor=anchor,
            max_observation_length=max(self.observation_limit, _MOST_SHOWN) + 1_024,
        )
        self._fixed_turns = self._given_turns

    @property
    def max_turns(self) -> int:
        """Turns after which an episode is truncated; setting it fixes it for all tasks."""
        return self._max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        TextEnv.max_turns.fset(self, value)  # type: ignore[attr-defined]
        self._fixed_turns = True

    @property
    def turn_limit(self) -> int | None:
        """Turn limit of every task, None while each question has its own."""
        return self.max_turns if self._fixed_turns else None

    def world_digest(self) -> str:
        """Return the fingerprint of the passages, "" for those of generated worlds."""
        return "" if self._retriever is None else self._retriever.fingerprint

    @property
    def question(self) -> Question:
        """The question in play.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        _ = self.task
        assert self._question is not None
        return self._question

    @property
    def retriever(self) -> Retriever:
        """What the running episode searches.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        _ = self.task
        assert self._searcher is not None
        return self._searcher

    def _begin(self, task: Task) -> str:
        try:
            question = Question.from_record(task.record)
            self._searcher = self._retriever_for(question)
        except DataError as error:
            raise DataError(f"task {task.id!r}: {error}") from error
        self._question, self._asked = question, begin(escape(question.question), _MOST_SHOWN)
        if not self._fixed_turns:
            generated = "world" in question.metadata and question.hops is not None
            self._max_turns = question.hops + SPARE_TURNS if generated else self.default_max_turns  # type: ignore[operator]
        self._queries, self._seen, self._documents = (), (), ()
        self._scores, self._prediction, self._invalid_turns = WRONG, "", 0
        return f"Question: {self._goal()}"

    def _retriever_for(self, question: Question) -> Retriever:
        if self._retriever is not None:
            return self._retriever
        world = question.metadata.get("world")
        if world is None:
            raise ConfigError(
                f"task {self.task.id!r} is not of a generated world: give corpus= (a corpus file or an index "
                "folder) or retriever= (a server's address)"
            )
        return generated_retriever(WorldKey.from_record(world))

    def _act(self, action: str) -> Outcome:
        parsed = parse_action(action)
        if isinstance(parsed, str):
            return self._rejection(parsed)
        return self._search(parsed.text) if parsed.kind is ActionKind.SEARCH else self._answer(parsed.text)

    def _search(self, query: str) -> Outcome:
        if self._turn + 1 >= self.max_turns:
            return Outcome(_NO_TURN_LEFT)
        assert self._searcher is not None
        try:
            passages = self._searcher.passages(self._searcher.search(query, self.top_k))
        except RetrieverError as error:
            shown = f"The search failed: {error}"[:_MOST_SHOWN]
            return Outcome(shown, ended=True, stop_reason=StopReason.TOOL_ERROR)
        observation, shown_count = show_passages(passages, self.passage_style, self.observation_limit)
        passages = passages[:shown_count]
        self._queries += (query,)
        self._seen += tuple(passage for passage in passages if passage not in self._seen)
        self._documents = tuple(passage.id for passage in passages)
        return Outcome(observation)

    def _answer(self, text: str) -> Outcome:
        question = self.question
        scores = score_answer(text, question.golds, self.scoring)
        self._scores, self._prediction = scores, text
        retrieved = self.reward_kind is RewardKind.FORMAT_RETRIEVAL and any(
            mentions_answer(passage.contents, question.golds, self.scoring) for passage in self._seen
        )
        reward = answer_reward(
            self.reward_kind, correct=scores.em, well_formed=not self._invalid_turns, retrieved_gold=retrieved
        )
        said = "The answer is correct." if scores.em else "The answer is not correct."
        return Outcome(said, reward, success=scores.em, ended=True, score=float(scores.em))

    def _reject(self, reason: str) -> str:
        if self.invalid_action is not InvalidActionPolicy.RAISE:
            self._invalid_turns += 1
        return (
            f"{reason} Search with <search>query</search>, or finish with <answer>text</answer>; exactly one of "
            "the two in a reply."
        )

    def _situation(self) -> Situation:
        shown = "" if self._turn == 0 else self._observation
        anchor = "\n".join((self._goal(), *sorted(self._documents)))
        return Situation(anchor, action_templates=TEMPLATES, prompt_observation=shown)

    def _extras(self) -> dict[str, Any]:
        scores: Scores = self._scores
        return {
            "searchqa/searches": len(self._queries),
            "searchqa/documents": self._documents,
            "searchqa/prediction": self._prediction,
            "searchqa/em": scores.em,
            "searchqa/f1": scores.f1,
            "searchqa/sub_em": scores.sub_em,
            "searchqa/source": self.question.source,
        }

    def _goal(self) -> str:
        return self._asked

    def oracle_action(self) -> str:
        """Return the expert's next action: a search while evidence is missing, then the answer.

        On question files the expert answers "unknown" where the corpus does not hold the evidence.

        Raises:
            ResetNeeded: No episode is running.
        """
        self._require_running()
        return next_action(self.question, self._seen, self._queries, self.max_turns - self._turn)

    def task_from_record(self, record: Any) -> Task:
        """Return the task of a question row: question, golden_answers, and what else is known.

        Raises:
            DataError: The record is no question.
        """
        return task_of(Question.from_record(record), "custom", "custom")

    def render(self) -> str | None:
        """Return question and last observation as text ("ansi")."""
        return f"{self._goal()}\n\n{self._observation}" if self.render_mode == "ansi" else None


def _generated(split: str, shape: Mapping[str, Any]) -> GeneratedQuestions:
    """Return the generated questions that the arguments describe."""
    knobs = {name: shape[name] for name in _KNOBS if shape[name] is not None}
    spec, world = given.question_spec(shape["hops"], shape["types"]), given.world_spec(shape["style"], knobs)
    count = _WORLDS if shape["worlds"] is None else check_whole("worlds", shape["worlds"], 1)
    return GeneratedQuestions(spec, world, split, count if split == "train" else min(count, OTHER_WORLDS))


def _check_files(shape: Mapping[str, Any], retriever: Retriever | None) -> None:
    """Raise ConfigError for arguments that do not go with questions of files."""
    extra = [key for key, value in shape.items() if value is not None]
    if extra:
        raise ConfigError(
            f"{', '.join(extra)} describe generated worlds, but questions= names files; drop one side"
        )
    if retriever is None:
        raise ConfigError(
            "questions of files need passages to search: give corpus= (a corpus file or an index folder) "
            "or retriever= (a server's address)"
        )
