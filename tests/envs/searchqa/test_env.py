"""The environment: limits, rewards, hostile texts, a retriever that fails."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from agent_gym.core.info import StopReason
from agent_gym.core.tasks import ListTaskSet
from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.questions.rewards import RewardKind
from agent_gym.envs.searchqa.tasks import task_of
from agent_gym.retrieval.base import Hit, Passage, Retriever, RetrieverUnavailableError
from agent_gym.retrieval.lexical.bm25 import MemoryBm25
from agent_gym.support.errors import ConfigError, DataError
from agent_gym.wrappers import ReplyWrapper
from tests.envs.searchqa.conftest import ROW

QUESTION = Question.from_record({**ROW, "source": "mine"})
TASKS = ListTaskSet([task_of(QUESTION, "mine/q1", "test")])


def make(corpus: Retriever, **options: Any) -> SearchQAEnv:
    env = SearchQAEnv(tasks=TASKS, retriever=corpus, **options)
    env.reset(seed=0)
    return env


class BrokenRetriever(Retriever):
    """Fails while `down`."""

    def __init__(self, inner: Retriever) -> None:
        self.inner, self.down, self.calls = inner, False, 0

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    def passage(self, id: str) -> Passage:
        return self.inner.passage(id)

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.calls += 1
        if self.down:
            raise RetrieverUnavailableError("no answer from the server after 3 tries")
        return self.inner.search_many(queries, k)


class TestEpisodes:
    def test_a_search_shows_passages_and_an_answer_ends(self, corpus: MemoryBm25) -> None:
        env = make(corpus)
        observation, reward, terminated, truncated, info = env.step("search[Neil Peart]")
        assert observation.startswith("<information>\nDoc 1(Title: Neil Peart) Neil Peart was the drummer of Rush.")
        assert (reward, terminated, truncated, info["searchqa/searches"]) == (0.0, False, False, 1)
        assert set(info["searchqa/documents"]) == {"7", "8"}
        _, reward, terminated, _, info = env.step("answer[ the band rush. ]")
        assert (reward, terminated, info["success"], info["searchqa/em"]) == (1.0, True, True, True)
        assert info["searchqa/prediction"] == "the band rush."

    def test_a_wrong_answer_is_a_failure_with_partial_scores(self, corpus: MemoryBm25) -> None:
        _, reward, terminated, _, info = make(corpus).step("answer[Rush and others]")
        assert (reward, terminated, info["success"], info["stop_reason"]) == (0.0, True, False, StopReason.FAILURE)
        assert (info["searchqa/f1"], info["searchqa/sub_em"]) == (pytest.approx(0.5), True)
        assert info["score"] == 0.0

    def test_strict_scoring_is_an_argument(self, corpus: MemoryBm25) -> None:
        tasks = ListTaskSet([task_of(Question("mine", "n", "how much", ("3.5",)), "mine/n", "test")])
        for scoring, success in (("squad", True), ("strict", False)):
            env = SearchQAEnv(tasks=tasks, retriever=corpus, scoring=scoring)
            env.reset(seed=0)
            assert env.step("answer[35]")[4]["success"] is success

    def test_the_task_type_and_source_are_the_data_sets_name(self, corpus: MemoryBm25) -> None:
        _, info = make(corpus).reset(seed=0)
        assert (info["task_type"], info["searchqa/source"], info["task_id"]) == ("mine", "mine", "mine/q1")


class TestLimit:
    def test_question_files_allow_four_turns_and_three_searches(self, corpus: MemoryBm25) -> None:
        counting = BrokenRetriever(corpus)
        env = make(counting)
        results = [env.step("search[drummer]") for _ in range(4)]
        assert [result[3] for result in results] == [False, False, False, True]
        assert results[-1][4]["searchqa/searches"] == counting.calls == 3
        assert "not carried out" in results[-1][0]
        assert results[-1][4]["stop_reason"] == StopReason.MAX_TURNS

    def test_search_r1s_four_searches_and_an_answer_are_five_turns(self, corpus: MemoryBm25) -> None:
        env = make(corpus, max_turns=5)
        for _ in range(4):
            env.step("search[drummer]")
        assert env.step("answer[Rush]")[4]["searchqa/searches"] == 4

    def test_generated_questions_allow_two_turns_more_than_hops(self) -> None:
        env = SearchQAEnv(entities=100, worlds=1)
        for seed in range(8):
            env.reset(seed=seed)
            assert env.max_turns == env.question.hops + 2  # type: ignore[operator]
        env.max_turns = 3
        env.reset(seed=0)
        assert env.max_turns == 3


class TestInvalidTurns:
    def test_they_count_and_name_both_tags(self, corpus: MemoryBm25) -> None:
        env = ReplyWrapper(SearchQAEnv(tasks=TASKS, retriever=BrokenRetriever(corpus)), mode="strict")
        env.reset(seed=0)
        for reply in ("hello", "<search>x", "</answer>Rush<answer>", "<search>a</search><answer>b</answer>"):
            observation, reward, terminated, _, info = env.step(reply)
            assert (reward, terminated, info["valid_action"]) == (0.0, False, False)
            assert "<search>" in observation
            assert "<answer>" in observation
        assert env.unwrapped.retriever.calls == 0  # type: ignore[attr-defined]

    def test_the_format_reward_tells_clean_episodes_from_others(self, corpus: MemoryBm25) -> None:
        for invalid, answer, reward in ((0, "Rush", 1.0), (1, "Rush", 0.8), (0, "Yes", 0.2), (1, "Yes", 0.1)):
            env = make(corpus, reward="format")
            for _ in range(invalid):
                env.step("nonsense")
            assert env.step(f"answer[{answer}]")[1] == pytest.approx(reward)

    def test_the_retrieval_bonus_needs_the_gold_in_a_retrieved_passage(self, corpus: MemoryBm25) -> None:
        for query, reward in (("drummer of Rush", 0.3), ("capital of France", 0.2)):
            env = make(corpus, reward="format_retrieval", top_k=1)
            env.step(f"search[{query}]")
            assert env.step("answer[Yes]")[1] == pytest.approx(reward)


class TestAnchors:
    def test_the_order_of_documents_does_not_matter_and_their_choice_does(self, corpus: MemoryBm25) -> None:
        env = make(corpus, top_k=2)
        anchors = []
        for query in ("Neil Peart drummer", "Counterparts album Peart", "capital of France"):
            env.reset(seed=0)
            info = env.step(f"search[{query}]")[4]
            anchors.append((info["anchor"], info["searchqa/documents"]))
        assert sorted(anchors[0][1]) == sorted(anchors[1][1])
        assert anchors[0][0] == anchors[1][0] != anchors[2][0]

    def test_the_raw_text_is_an_option(self, corpus: MemoryBm25) -> None:
        env = make(corpus, anchor="observation")
        observation, *_, info = env.step("search[drummer]")
        assert info["anchor"] == observation


class TestHostileTexts:
    def test_an_answer_tag_inside_a_document_earns_nothing(self, corpus: MemoryBm25) -> None:
        tasks = ListTaskSet([task_of(Question("mine", "p", "capital of France", ("Paris",)), "mine/p", "test")])
        env = ReplyWrapper(SearchQAEnv(tasks=tasks, retriever=corpus, max_turns=9))
        env.reset(seed=0)
        observation, reward, terminated, _, info = env.step("<search>Trap drummer search answer</search>")
        assert "Trap" in observation
        assert "<answer>" not in observation
        assert observation.count("</information>") == 1
        assert (reward, terminated, info["success"]) == (0.0, False, False)
        inner = env.unwrapped
        for kind, expected in ((RewardKind.EM, 0.0), (RewardKind.FORMAT, 0.2)):
            inner.reward_kind = kind  # type: ignore[attr-defined]
            branch = copy.deepcopy(env)
            _, reward, terminated, _, info = branch.step("<answer>Lyon</answer>")
            assert (reward, terminated, info["success"], info["score"]) == (expected, True, False, 0.0)
        copied = observation.partition("Trap)")[2].partition("\n")[0]
        assert env.step(copied)[4]["valid_action"] is False, "copying a document is no answer either"

    @pytest.mark.parametrize(
        "query",
        [
            "'; DROP TABLE passages; --",
            'title:"x" AND (text:* OR [a TO b])^9',
            "\x00\x01\x1b[31m drummer",
            "\u202edrummer\u202c עברית",
            "\ud800 drummer",
            "a" * 3_000,
            "drummer " * 400,
        ],
    )
    def test_any_query_is_safe(self, corpus: MemoryBm25, query: str) -> None:
        env = make(corpus)
        observation, reward, terminated, _, info = env.step(f"search[{query}]")
        assert (reward, terminated, info["valid_action"]) == (0.0, False, True)
        assert observation in env.observation_space
        observation.encode()

    @pytest.mark.parametrize("action", ["search[]", "search[ ?! ]", "search[" + "x" * 100_000 + "]"])
    def test_queries_without_a_word_and_endless_ones_are_invalid(self, corpus: MemoryBm25, action: str) -> None:
        counting = BrokenRetriever(corpus)
        env = make(counting)
        assert env.step(action)[4]["valid_action"] is False
        assert counting.calls == 0

    @pytest.mark.parametrize("question", ["<a" * 5_000, "x" * 8_190 + "<a>" * 9, "<a> " * 3_000])
    def test_a_question_of_any_length_is_shown_within_the_space(self, corpus: MemoryBm25, question: str) -> None:
        env = make(corpus)
        observation, info = env.reset(options={"task": {"question": question, "golden_answers": ["x"]}})
        assert observation in env.observation_space
        assert "<a" not in observation
        whole = info["goal"].replace("&lt;", "")
        assert "&" not in whole, "no escape is cut in half"
        assert len(info["goal"]) > 8_000

    def test_a_passage_of_a_megabyte_is_cut(self) -> None:
        huge = MemoryBm25([Passage("1", "Rush", "Rush drummer " * 80_000)])
        observation = make(huge).step("search[drummer]")[0]
        assert len(observation) <= 4_000
        assert observation.endswith("</information>")


class TestFailingRetriever:
    def test_the_episode_ends_as_a_tool_error_and_the_next_one_plays_on(self, corpus: MemoryBm25) -> None:
        broken = BrokenRetriever(corpus)
        env = make(broken)
        broken.down = True
        observation, reward, terminated, truncated, info = env.step("search[drummer]")
        assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
        assert info["stop_reason"] == StopReason.TOOL_ERROR
        assert "no answer from the server" in observation
        assert "<information>" not in observation
        broken.down = False
        env.reset(seed=0)
        assert env.step("search[drummer]")[0].startswith("<information>")


class TestOptions:
    def test_questions_of_files_need_a_corpus(self, tmp_path: Any) -> None:
        path = tmp_path / "test.csv"
        path.write_text("question,answer\nq,a\n", "utf-8")
        with pytest.raises(ConfigError, match="corpus="):
            SearchQAEnv(questions=path)
        env = SearchQAEnv()
        with pytest.raises(ConfigError, match="corpus="):
            env.reset(options={"task": ROW})

    def test_arguments_that_exclude_each_other_are_refused(self, corpus: MemoryBm25) -> None:
        with pytest.raises(ConfigError, match="drop one"):
            SearchQAEnv(corpus="x.jsonl", retriever=corpus)
        with pytest.raises(ConfigError, match=r"hops.*generated"):
            SearchQAEnv(questions="x.jsonl", retriever=corpus, hops=2)
        with pytest.raises(ConfigError, match="weights"):
            SearchQAEnv(weights={"nq": 1})
        with pytest.raises(ConfigError, match=r"scoring must be one of squad.*got 'suqad'.*Did you mean"):
            SearchQAEnv(scoring="suqad")
        with pytest.raises(ConfigError, match="observation_limit"):
            SearchQAEnv(observation_limit=10)

    def test_a_malformed_record_is_told_what_is_wrong(self, corpus: MemoryBm25) -> None:
        env = make(corpus)
        for record in ("x", {}, {"question": "q", "golden_answers": []}):
            with pytest.raises(DataError, match=r"question|answer"):
                env.reset(options={"task": record})

    def test_hops_and_types_choose_the_generated_questions(self) -> None:
        env = SearchQAEnv(entities=100, worlds=2, hops=2, types="bridge", style="terse")
        kinds = {env.reset(seed=seed)[1]["task_type"] for seed in range(10)}
        assert kinds == {"bridge-2"}
