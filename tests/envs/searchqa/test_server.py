"""The environment on a retrieval server that is killed and restarted in the middle of an evaluation."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from agent_gym.core.info import StopReason
from agent_gym.envs.searchqa.data.generator import QuestionSpec, WorldKey, WorldSpec, export_world
from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.envs.searchqa.world.composer import QuestionType
from agent_gym.envs.searchqa.world.names import GeneratedSplit
from agent_gym.retrieval.building import build_index
from agent_gym.retrieval.lexical.bm25 import MemoryBm25
from agent_gym.support.errors import ConfigError
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.results import EpisodeRow
from benchmarks.evaluation.run import evaluate

pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

QUESTIONS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a generated world as files, and its index."""
    made = tmp_path_factory.mktemp("world")
    key = WorldKey(WorldSpec(entities=120), GeneratedSplit.TEST, 0)
    export_world(key, QuestionSpec((2, 2), (QuestionType.BRIDGE,)), QUESTIONS, made)
    build_index(made / "corpus.jsonl", made / "index")
    return made


@pytest.mark.slow
def test_a_killed_and_restarted_server_costs_the_episodes_in_between_and_no_others(folder: Path) -> None:
    from tests.retrieval.serving import free_port, start_server, stop_server

    port = free_port()
    process = start_server(folder / "index", port)
    ended: list[EpisodeRow] = []

    def watch(row: EpisodeRow) -> None:
        nonlocal process
        ended.append(row)
        if len(ended) == 8:
            assert stop_server(process, signal.SIGKILL) == -signal.SIGKILL
        if len(ended) == 14:
            process = start_server(folder / "index", port)

    config = EvalConfig(
        env_id="agent_gym/SearchQA-v0",
        options={
            "questions": {"world": str(folder / "questions.jsonl")},
            "retriever": f"http://127.0.0.1:{port}",
            "retriever_options": {"retries": 1, "backoff": 0.01, "timeout": 5.0},
        },
        split="all",
        episodes=QUESTIONS,
        parallel=1,
    )
    try:
        result = evaluate(config, "oracle", on_episode=watch)
    finally:
        stop_server(process)
    lost = [row for row in result.rows if row.error]
    assert [row.success for row in ended if not row.error] == [True] * 18
    assert len(lost) == result.summary.n_error == 6
    assert all(row.stop_reason == StopReason.TOOL_ERROR and "did not answer" in row.error for row in lost)
    assert result.summary.success.value == 1.0, "episodes that a tool lost are no failures"


class TestOptions:
    def test_options_of_a_server_need_an_address_and_known_names(self, corpus: MemoryBm25) -> None:
        with pytest.raises(ConfigError, match="no address"):
            SearchQAEnv(retriever=corpus, retriever_options={"retries": 1})
        with pytest.raises(ConfigError, match=r"'retrys'.*Did you mean 'retries'"):
            SearchQAEnv(retriever="http://localhost:1", retriever_options={"retrys": 1})
        with pytest.raises(ConfigError, match="dialect must be one of"):
            SearchQAEnv(retriever="http://localhost:1", retriever_options={"dialect": "latin"})

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"timeout": "5"}, "timeout must be a finite number greater than 0, got '5'"),
            ({"timeout": 0}, "timeout must be .* got 0"),
            ({"timeout": float("nan")}, "timeout must be .* got nan"),
            ({"retries": 1.5}, "retries must be a whole number of at least 0, got 1.5"),
            ({"backoff": None}, "backoff must be"),
            ({"longest_wait": -1}, "longest_wait must be"),
            ({"batch": 0}, "batch must be"),
        ],
    )
    def test_values_that_cannot_be_used_are_refused_at_construction(
        self, options: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(ConfigError, match=reason):
            SearchQAEnv(retriever="http://localhost:1", retriever_options=options)
