"""`agent-gym bench recall`, `retrieval` and `serving`."""

from __future__ import annotations

from pathlib import Path

import typer

from benchmarks.measure.options import FiguresOutput

EXIT_ERRORS = 1


def register(bench: typer.Typer) -> None:
    """Add the subcommands to `agent-gym bench`."""
    bench.command("recall")(recall)
    bench.command("retrieval")(retrieval)
    bench.command("serving")(serving)


def recall(
    index: str = typer.Argument(..., help="Index folder or corpus file."),
    questions: list[Path] = typer.Argument(..., help="Question files (JSON lines with metadata.supporting_ids)."),
    kinds: str = typer.Option("bm25", "--kinds", help="Rankings, separated by commas: bm25, dense, hybrid."),
    output: FiguresOutput = None,
) -> None:
    """Measure how many supporting passages the question itself finds, at k = 3 and 10.

    \b
        agent-gym index build wiki_passages.jsonl.xz wiki.index && agent-gym index embed wiki.index
        agent-gym bench recall wiki.index hotpotqa/questions_dev.jsonl --kinds bm25,dense,hybrid
    """
    from agent_gym.retrieval.opening import RetrieverKind
    from agent_gym.support.checks import check_choice
    from benchmarks.measure.retrieval.report import run_recall

    wanted = [check_choice("--kinds", RetrieverKind, kind.strip()) for kind in kinds.split(",")]
    run_recall(index, questions, wanted, output)


def retrieval(
    passages: int = typer.Option(100_000, "--passages", min=1, help="Passages of the generated corpus."),
    queries: int = typer.Option(500, "--queries", min=1, help="Queries to measure."),
    folder: Path = typer.Option(None, "--folder", help="Keep corpus and index here; an index there is reused."),
    output: FiguresOutput = None,
) -> None:
    """Measure BM25 search: time to build, size, memory, latency, and two processes that share an index.

    \b
        agent-gym bench retrieval
        agent-gym bench retrieval --passages 1000000 --folder million
    """
    from benchmarks.measure.retrieval.report import run_scaling

    run_scaling(passages, queries, folder, output)


def serving(
    index: Path = typer.Argument(..., help="Index folder to serve."),
    questions: list[Path] = typer.Argument(None, help="Question files; generated queries if none."),
    clients: int = typer.Option(200, "--clients", min=1, help="Concurrent requests."),
    seconds: float = typer.Option(60.0, "--seconds", min=0.1, help="Duration."),
    restart: bool = typer.Option(False, "--restart", help="Kill the server in the middle and start it again."),
    output: FiguresOutput = None,
) -> None:
    """Search a retrieval server from many clients in both dialects and compare every answer.

    Without --restart clients do not retry, so every fault counts. Exit status 1: errors or wrong answers.
    """
    from benchmarks.measure.retrieval.report import run_load

    figures = run_load(index, questions or [], clients=clients, seconds=seconds, restart=restart, output=output)
    if figures.errors or figures.wrong:
        raise typer.Exit(EXIT_ERRORS)
