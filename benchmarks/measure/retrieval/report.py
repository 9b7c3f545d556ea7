"""Runs the measurements of text search and shows them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_gym.retrieval import RetrieverKind, open_index, open_retriever
from agent_gym.terminal.progress import working
from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, versions, write_figures
from benchmarks.measure.retrieval.corpus import queries as generated_queries
from benchmarks.measure.retrieval.load import LoadFigures, measure_load
from benchmarks.measure.retrieval.recall import Recall, measure_recall, read_questions

KS = (3, 10)
_RECALL_HEADS = ("questions", "ranking", "k", "any", "all", "mean recall")
_SCALING = "benchmarks.measure.retrieval.scaling"


def run_recall(index: str, files: Sequence[Path], kinds: Sequence[RetrieverKind], output: Path | None) -> None:
    """Measure recall on question files, print the table and write the figures; raises as its parts do."""
    table = Table(*_RECALL_HEADS, box=None)
    figures: list[dict[str, Any]] = []
    for kind in kinds:
        retriever = open_retriever(index, kind)
        for path in files:
            for recall in measure_recall(retriever, read_questions(path), KS):
                table.add_row(*_recall_row(path, kind, recall))
                row = {"file": path.name, "kind": kind.value, "fingerprint": retriever.fingerprint}
                figures.append(row | asdict(recall))
    Console().print(table)
    write_figures(output, {**versions(), "recall": figures})


def run_scaling(passages: int, queries: int, folder: Path | None, output: Path | None) -> None:
    """Measure the word index on generated passages, print the table and write the figures.

    Args:
        passages: Size of the corpus.
        queries: Queries measured.
        folder: Keeps corpus and index; an index that is there is searched without building.
        output: JSON file to write, or None.

    Raises:
        AgentGymError: A measurement failed.
    """
    with working(f"Measuring {passages:,} passages"), tempfile.TemporaryDirectory() as scratch:
        figures = measure_scaling(passages, queries, Path(scratch) if folder is None else folder)
    Console().print(scaling_table(figures))
    write_figures(output, versions() | figures)


def measure_scaling(passages: int, queries: int, folder: Path, seconds: float = 10.0) -> dict[str, Any]:
    """Return the figures of one corpus size."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus, index = folder / "corpus.jsonl", folder / "index"
    figures: dict[str, Any] = {"queries": queries}
    if not index.exists():
        if not corpus.exists():
            run_module(_SCALING, {"stage": "corpus", "corpus": str(corpus), "count": passages})
        figures |= run_module(_SCALING, {"stage": "build", "corpus": str(corpus), "index": str(index)})
    figures["passages"] = open_index(index).size
    warm = max(10, queries // 10)
    figures |= run_module(_SCALING, {"stage": "queries", "index": str(index), "queries": queries, "warm": warm})
    sharing = {"stage": "sharing", "index": str(index), "processes": 2, "seconds": seconds}
    return figures | run_module(_SCALING, sharing)


def scaling_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures as a table."""
    title = f"BM25 of {figures['passages']:,} generated passages, best 3 per query"
    table = figure_table(title)
    if "build_cpu_s" in figures:
        table.add_row("build, s (CPU / wall)", f"{figures['build_cpu_s']:,.0f} / {figures['build_wall_s']:,.0f}")
        table.add_row("build, peak memory MB", f"{figures['build_peak_bytes'] / 1e6:,.0f}")
        sizes = [f"{figures[f'{part}_bytes'] / 1e6:,.0f}" for part in ("corpus", "passages", "words")]
        table.add_row("corpus / stored passages / words, MB", " / ".join(sizes))
    table.add_row("open, ms", f"{figures['open_ms']:.1f}")
    for share in ("p50", "p95"):
        pair = f"{figures[f'{share}_cpu_ms']:.2f} / {figures[f'{share}_wall_ms']:.2f}"
        table.add_row(f"query {share}, ms (CPU / wall)", pair)
    table.add_row("the index adds to a process, MB: private", f"{figures['added_private_bytes'] / 1e6:,.1f}")
    table.add_row("the same with mapped files", f"{figures['added_resident_bytes'] / 1e6:,.0f}")
    table.add_row("a forked process, MB: private", f"{figures['child_private_bytes'] / 1e6:,.0f}")
    table.add_row(f"{figures['processes']} processes, queries/s", f"{figures['queries_per_s']:,.0f}")
    table.add_row("each, queries per CPU second", f"{figures['queries_per_cpu_s']:,.0f}")
    return table


def run_load(
    index: Path,
    files: Sequence[Path],
    *,
    clients: int,
    seconds: float,
    restart: bool = False,
    output: Path | None = None,
) -> LoadFigures:
    """Put a server under load, print the table, write and return the figures."""
    size = open_index(index).size
    asked = [question for path in files for question, _ in read_questions(path)]
    with working(f"Searching from {clients} clients for {seconds:g} s"):
        figures = measure_load(
            index, asked or generated_queries(400, size), clients=clients, seconds=seconds, restart=restart
        )
    title = f"{clients} clients of a server of {size:,} passages for {seconds:g} s"
    table = figure_table(title)
    table.add_row("requests answered", f"{figures.requests:,}")
    table.add_row("requests/s", f"{figures.requests / seconds:,.0f}")
    table.add_row("wrong answers", str(figures.wrong))
    table.add_row("errors", ", ".join(f"{n} {name}" for name, n in figures.errors.items()) or "0")
    table.add_row(
        "p50 / p95 / longest, ms", f"{figures.p50_ms:.0f} / {figures.p95_ms:.0f} / {figures.longest_ms:.0f}"
    )
    if figures.first_error:
        table.add_row("the first error", figures.first_error)
    table.add_row("server killed and restarted", str(figures.restarts))
    Console().print(table)
    write_figures(output, versions() | asdict(figures))
    return figures


def _recall_row(path: Path, kind: RetrieverKind, recall: Recall) -> tuple[str, ...]:
    name = f"{path.parent.name}/{path.name} ({recall.questions})"
    shares = (f"{share:.3f}" for share in (recall.some, recall.all, recall.mean))
    return (name, kind.value, str(recall.k), *shares)
