"""Checks a generated SearchQA world: the expert wins, and nothing short of searching does.

Three agents answer the same questions, by number of hops and by type: the environment's expert through the real
retriever; a guesser that never searches and says the most frequent answer to other questions of the same world with
the same last relation; and the best that any agent could do after a single search with the question itself, which
counts as right whenever the answer stands anywhere in the passages found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.envs.searchqa.questions.scoring import mentions_answer, score_answer
from agent_gym.envs.searchqa.world.composer import MOST_HOPS

TOP_K = 3
_HEADS = ("questions", "n", "expert EM", "its searches", "guesser EM", "answer shown by one search")
_OTHERS = 2_000  # questions that the guesser has seen the answers of


@dataclass
class Tally:
    """Counts of one group of questions."""

    questions: int = 0
    oracle: int = 0
    searches: int = 0
    guessed: int = 0
    exposed: int = 0
    missed: list[str] = field(default_factory=list)

    def shares(self) -> dict[str, float]:
        """Return the counts as shares of the questions."""
        return {
            "questions": self.questions,
            "oracle_em": self.oracle / self.questions,
            "searches": self.searches / self.questions,
            "guesser_em": self.guessed / self.questions,
            "one_search": self.exposed / self.questions,
        }


def check_world(
    questions: int,
    entities: int,
    options: Mapping[str, Any] | None = None,
    hops: Iterable[int] = range(1, MOST_HOPS + 1),
) -> dict[str, Tally]:
    """Play questions of every number of hops in one test world.

    Args:
        questions: Questions of each number of hops.
        entities: Entities of the world.
        options: Further arguments of the environment.
        hops: Numbers of hops.

    Returns:
        "<hops> hops" and "<type>-<hops>" -> counts.
    """
    tallies: dict[str, Tally] = defaultdict(Tally)
    for number in hops:
        env = SearchQAEnv(
            split="test", hops=number, entities=entities, worlds=1, top_k=TOP_K, **dict(options or {})
        )
        guesses = _guesses(env, questions)
        for row in _play(env, questions, guesses):
            for name in (f"{number} hops", row["type"]):
                tally = tallies[name]
                tally.questions += 1
                tally.oracle += row["oracle"]
                tally.searches += row["searches"]
                tally.guessed += row["guessed"]
                tally.exposed += row["exposed"]
                if not row["oracle"]:
                    tally.missed.append(row["task"])
    return dict(tallies)


def _guesses(env: SearchQAEnv, start: int) -> dict[str, str]:
    """Return the most frequent answer by last relation, over questions after the first `start`."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for place in range(start, min(start + _OTHERS, len(env.tasks))):
        record = env.tasks[place].record
        seen[record["metadata"]["chain"][-1][1]][record["golden_answers"][0]] += 1
    return {relation: counts.most_common(1)[0][0] for relation, counts in seen.items()}


def _play(env: SearchQAEnv, questions: int, guesses: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for place in range(questions):
        task = env.tasks[place]
        _, info = env.reset(seed=0, options={"task_id": task.id})
        golds = task.record["golden_answers"]
        retriever = env.retriever
        found = retriever.passages(retriever.search(info["goal"], TOP_K))
        while not info["stop_reason"]:
            _, _, _, _, info = env.step(env.oracle_action())
        relation = task.record["metadata"]["chain"][-1][1]
        yield {
            "task": task.id,
            "type": task.type,
            "oracle": info["success"],
            "searches": info["searchqa/searches"],
            "guessed": score_answer(guesses.get(relation, "unknown"), golds).em,
            "exposed": any(mentions_answer(passage.contents, golds) for passage in found),
        }


def run(
    questions: int, entities: int, output: Path | None, options: Mapping[str, Any], hops: int | None = None
) -> None:
    """Check a world, print the table and write the figures."""
    from rich.console import Console
    from rich.table import Table

    from agent_gym.terminal.progress import working
    from benchmarks.measure.figures import write_figures

    with working("Playing"):
        tallies = check_world(questions, entities, options, [hops] if hops else range(1, MOST_HOPS + 1))
    rows = {name: tally.shares() for name, tally in sorted(tallies.items())}
    table = Table(*_HEADS)
    for name, row in rows.items():
        cells = (f"{row[key]:.3f}" for key in ("oracle_em", "searches", "guesser_em", "one_search"))
        table.add_row(name, f"{row['questions']:.0f}", *cells)
    Console().print(table)
    write_figures(output, {"entities": entities, "options": dict(options), "rows": rows})
