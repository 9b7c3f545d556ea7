"""Measures SearchQA: turns and episode starts per second, and what share of a turn is retrieval.

Every episode has the usual shape of four turns, three searches and an answer. The queries are the question, its
supporting titles where they are known, and else the question's words. Retrieval alone is measured with the same
queries on the same index.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.support.errors import DataError
from agent_gym.terminal.progress import working
from benchmarks.measure.figures import versions, write_figures
from benchmarks.measure.throughput.rates import cpu_rate

EPISODES = 100
_SEARCHES = 3
_CORPORA = ("*passages*.jsonl*", "corpus*.jsonl*")


def make_searchqa(data: Path | None) -> SearchQAEnv:
    """Return the environment to measure.

    Args:
        data: Folder with question files and a corpus (`*passages*.jsonl` or `corpus*.jsonl`, also compressed); None
            measures a generated world of 10,000 passages.

    Raises:
        DataError: The folder holds no corpus or no questions.
    """
    if data is None:
        return SearchQAEnv(split="test", entities=10_000, worlds=1, max_turns=_SEARCHES + 1)
    corpora = [path for pattern in _CORPORA for path in sorted(data.glob(pattern))]
    if not corpora:
        raise DataError(f"no corpus in {data}; expected a file like {' or '.join(_CORPORA)}")
    return SearchQAEnv(questions=data, split="test", corpus=corpora[0], max_turns=_SEARCHES + 1)


def measure_searchqa(env: SearchQAEnv, seconds: float, repeats: int) -> dict[str, Any]:
    """Return the figures.

    Args:
        env: The environment.
        seconds: CPU seconds of one measurement.
        repeats: Measurements of which the median counts.
    """
    ids = env.tasks.ids
    picked = [ids[place * len(ids) // EPISODES] for place in range(EPISODES)]
    scripts = [_script(env, task_id) for task_id in picked]
    retriever = env.retriever
    queries = [query for _, script in scripts for query in script]

    def episodes() -> None:
        for task_id, script in scripts:
            env.reset(seed=0, options={"task_id": task_id})
            for query in script:
                env.step(f"search[{query}]")
            env.step("answer[nobody]")

    def searches() -> None:
        for query in queries:
            retriever.passages(retriever.search(query, env.top_k))

    def starts() -> None:
        for task_id in picked:
            env.reset(seed=0, options={"task_id": task_id})

    steps = len(queries) + len(scripts)
    episodes()
    with_starts = median(cpu_rate(episodes, steps, seconds) for _ in range(repeats))
    search_rate = median(cpu_rate(searches, len(queries), seconds) for _ in range(repeats))
    start_rate = median(cpu_rate(starts, len(picked), seconds) for _ in range(repeats))
    turn_seconds = steps / with_starts - len(picked) / start_rate
    return {
        "suite": "searchqa",
        **versions(),
        "passages": retriever.size,
        "episodes": len(scripts),
        "steps_per_s": steps / turn_seconds,
        "starts_per_s": start_rate,
        "searches_per_s": search_rate,
        "retrieval_share": len(queries) / search_rate / turn_seconds,
    }


def _script(env: SearchQAEnv, task_id: str) -> tuple[str, Sequence[str]]:
    """Return a task with its three queries."""
    _, info = env.reset(seed=0, options={"task_id": task_id})
    goal = info["goal"]
    half = len(goal) // 2
    return task_id, [goal, *env.question.supporting_titles, goal[:half], goal[half:]][:_SEARCHES]


def run_searchqa(seconds: float, repeats: int, data: Path | None, output: Path | None) -> None:
    """Measure, print the table and write the figures."""
    with working("Measuring"):
        figures = measure_searchqa(make_searchqa(data), seconds, repeats)
    table = Table("SearchQA", "per CPU second", title=f"{figures['passages']:,} passages, BM25, top 3")
    for name, key in (("turns", "steps_per_s"), ("episode starts", "starts_per_s"), ("searches", "searches_per_s")):
        table.add_row(name, f"{figures[key]:,.0f}")
    table.add_row("share of retrieval in a turn", f"{figures['retrieval_share']:.2f}")
    Console().print(table)
    write_figures(output, figures)
