"""`agent-gym data`: brings benchmark data into the form that environments read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

EXIT_DIFFERS = 1


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    group = typer.Typer(help="Import and look at benchmark data.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    group.command("list")(list_data)
    group.command("check")(check_data)
    group.command("import-webshop")(import_webshop)
    group.command("generate-webshop")(generate_webshop)
    group.command("show-webshop")(show_webshop)
    group.command("generate-searchqa")(generate_searchqa)
    app.add_typer(group, name="data")


def _group() -> None:
    """Import and look at benchmark data."""


def list_data() -> None:
    """List the published data sets, where they come from, and which of them are here.

    A set is looked for under its usual name in the working directory and in the folder that AGENT_GYM_DATA names.
    """
    from rich.console import Console
    from rich.table import Column, Table

    from agent_gym.envs.datasets import DATASETS

    # Every text is meant to be copied: what does not fit goes on in the next line.
    names = ("set", "for", "argument", "here", "from", "licence")
    table = Table(*(Column(name, overflow="fold") for name in names), box=None, pad_edge=False)
    for data in DATASETS:
        found = data.find()
        here = "-" if found is None else str(found)
        argument = f"{data.argument}={data.folder}"
        table.add_row(*(data.name, data.env_id, argument, here, data.source, data.licence))
    Console().print(table)


def check_data(
    name: str = typer.Argument(..., help="Data set: alfworld, boxoban, webshop, searchqa or wiki-18."),
    path: Path = typer.Option(None, "--path", help="The copy; its usual place when not given."),
) -> None:
    """Compare a copy of a data set with what its authors published, part by part.

    \b
        agent-gym data check alfworld
        agent-gym data check boxoban --path downloads/boxoban-levels

    Copies with equal digests hold the same tasks in the same order. Exit status 1: a part is missing or has another
    number of tasks.
    """
    from rich.console import Console
    from rich.table import Table

    from agent_gym.envs.datasets import check, find_dataset

    verdicts = check(find_dataset(name), path)
    table = Table("part", "published", "found", "", "digest of the ids", box=None, pad_edge=False)
    for one in verdicts:
        published = "-" if one.published is None else f"{one.published:,}"
        table.add_row(one.part, published, f"{one.found:,}", "ok" if one.agrees else "differs", one.digest)
    Console().print(table)
    if not all(one.agrees for one in verdicts):
        raise typer.Exit(EXIT_DIFFERS)


def import_webshop(
    folder: Path = typer.Argument(..., help="Folder with the official files (plain, .gz or .xz)."),
    store: Path = typer.Argument(..., help="Folder of the new store."),
    small: bool = typer.Option(False, "--small", help="Take the 1,000-product files where both are there."),
    limit: int = typer.Option(None, "--limit", min=1, help="Read only this many product records."),
    price_seed: int = typer.Option(0, "--price-seed", min=0, help="Seed of the price table and price limits."),
    nouns: str = typer.Option(
        None, "--nouns", help="Nouns of titles: a JSON table, or spacy to tag every title (3 ms each)."
    ),
    replace: bool = typer.Option(False, "--replace", help="Replace the store that is there."),
) -> None:
    """Import a WebShop catalogue into a store that environments map into memory and share.

    \b
        agent-gym data import-webshop downloads stores/webshop
        agent-gym data import-webshop downloads stores/webshop-1000 --small
        agent-gym play --env WebShop-v0 --option catalog=stores/webshop

    The folder holds items_shuffle.json, items_ins_v2.json and items_human_ins.json, which the original's setup
    script downloads (github.com/princeton-nlp/WebShop). A table title_nouns.json beside them is stored too. An
    interrupted import leaves nothing behind.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from agent_gym.envs.webshop.data.official import OfficialFiles, import_catalog, read_json_file
    from agent_gym.envs.webshop.world.nouns import spacy_tagger

    files = OfficialFiles.find(folder, small=small)
    table: Any = None
    if nouns is not None:
        table = spacy_tagger() if nouns == "spacy" else read_json_file(Path(nouns))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("Products", total=None, note="")

        def show(done: int, size: int, products: int) -> None:
            note = f"{products:,} products" if done < size else f"{products:,} products, writing"
            progress.update(bar, total=size, completed=done, note=note)

        import_catalog(
            files,
            store,
            price_seed=price_seed,
            limit=limit,
            nouns=table,
            on_progress=show,
            replace=replace,
        )
    show_webshop(store)


def generate_webshop(
    store: Path = typer.Argument(..., help="Folder of the new store."),
    products: int = typer.Option(None, "--products", min=3, help="Number of products [1000]."),
    difficulty: str = typer.Option("standard", "--difficulty", help="tiny, easy, standard or hard."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the catalogue."),
) -> None:
    """Write a generated WebShop catalogue of any size as a store.

    \b
        agent-gym data generate-webshop stores/million --products 1000000
    """
    from agent_gym.envs.webshop.data.catalogues import generate_store
    from agent_gym.envs.webshop.options import shop_spec

    knobs = {"seed": seed, **({} if products is None else {"products": products})}
    generate_store(shop_spec(difficulty, knobs), store)
    show_webshop(store)


def show_webshop(
    store: Path = typer.Argument(..., help="Folder of a store."),
) -> None:
    """Show what a store holds and what it was made of."""
    from rich.console import Console
    from rich.table import Table

    from agent_gym.envs.webshop.data.store import open_store
    from agent_gym.envs.webshop.world.kinds import GoalKind

    found = open_store(store)
    table = Table("what", "number", box=None, pad_edge=False)
    table.add_row("products", f"{len(found):,}")
    for kind in GoalKind:
        goals = found.goal_tables[kind]
        parts = ", ".join(f"{split} {len(places):,}" for split, places in goals.splits.items())
        table.add_row(f"{kind.value} goals", f"{len(goals):,} ({parts})")
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    table.add_row("megabytes on disk", f"{size / 1e6:,.1f}")
    table.add_row("seed of the prices", str(found.price_seed))
    table.add_row("nouns of titles", "stored" if found.has_nouns else "not stored: spaCy or a rule of thumb")
    table.add_row("digest", found.digest)
    for name, entry in found.manifest["sources"].get("files", {}).items():
        table.add_row(name, f"{entry['bytes']:,} bytes, sha256 {entry['sha256'][:12]}")
    Console().print(table)


def generate_searchqa(
    folder: Path = typer.Argument(..., help="Folder of the new files."),
    entities: int = typer.Option(1_000, "--entities", min=40, help="Entities, each with a passage."),
    questions: int = typer.Option(1_000, "--questions", min=1, help="Questions."),
    split: str = typer.Option("test", "--split", help="Whose names: train, valid or test."),
    world: int = typer.Option(0, "--world", min=0, help="Which world of the split."),
) -> None:
    """Write a generated world of Search QA as corpus.jsonl and questions.jsonl, for other programs too.

    \b
        agent-gym data generate-searchqa worlds/test
        agent-gym serve retriever worlds/test/corpus.jsonl
    """
    from agent_gym.envs.searchqa.data.generator import QuestionSpec, WorldKey, WorldSpec, export_world
    from agent_gym.envs.searchqa.tasks import generated_split

    key = WorldKey(WorldSpec(entities=entities), generated_split(split), world)
    manifest = export_world(key, QuestionSpec(), questions, folder)
    for name, entry in manifest["files"].items():
        typer.echo(f"{folder / name}: {entry['rows']:,} rows, sha256 {entry['sha256'][:12]}")
