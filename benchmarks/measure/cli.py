"""`agent-gym bench`: speed of what the package does, and comparisons of algorithms."""

from __future__ import annotations

from pathlib import Path

import typer

from benchmarks.measure.options import FiguresOutput


def register(app: typer.Typer) -> None:
    """Add the group and its subcommands."""
    from benchmarks.measure.retrieval import cli as retrieval

    bench = typer.Typer(help="Measure speed, and compare algorithms.", no_args_is_help=True, rich_markup_mode=None)
    for command in (throughput, search, trainer, site, sweep, searchqa):
        bench.command(command.__name__)(command)
    retrieval.register(bench)
    app.add_typer(bench, name="bench")


def throughput(
    env: str = typer.Option(
        "sokoban", "--env", help="What to measure: sokoban, alfworld, webshop, searchqa, or all of them."
    ),
    upstream: list[str] = typer.Option(
        [], "--upstream", help="Python interpreter that has the original package, or SUITE=PYTHON; repeatable."
    ),
    seconds: float = typer.Option(2.0, "--seconds", min=0.05, help="CPU seconds per measurement."),
    repeats: int = typer.Option(5, "--repeats", min=1, help="Measurements of which the median counts."),
    data: Path = typer.Option(
        None, "--data", help="ALFWorld games, a WebShop store, or questions and passages; generated if none."
    ),
    output: FiguresOutput = None,
    plot: Path = typer.Option(None, "--plot", help="Draw the figures of --env all (PNG, SVG or PDF)."),
) -> None:
    """Measure steps and resets per second and memory per environment, beside the original package.

    \b
        agent-gym bench throughput --env sokoban
        python -m venv upstream && upstream/bin/pip install gym-sokoban==0.0.6 "setuptools<81"
        agent-gym bench throughput --env sokoban --upstream upstream/bin/python --output throughput.json
        agent-gym bench throughput --env alfworld --data json_2.1.1
        agent-gym bench throughput --env webshop --data stores/webshop
        agent-gym bench throughput --env all --upstream alfworld=alf/bin/python --plot all.png

    Both sides run one after the other on one core, without rendering, in processes of their own. Figures are
    CPU time; the original is measured with the interpreter named by --upstream, else with this one. With --env all
    every environment is measured in the same terms, from import to 256 environments in one process.
    """
    from benchmarks.measure.throughput.report import run_suite
    from benchmarks.measure.throughput.upstream.interpreters import Upstreams

    run_suite(env, Upstreams.read(upstream), seconds, repeats, output, data=data, plot=plot)


def search(
    products: int = typer.Option(100_000, "--products", min=1, help="Products of the generated catalogue."),
    queries: int = typer.Option(200, "--queries", min=1, help="Queries to measure."),
    index: Path = typer.Option(None, "--index", help="Keep the index in this folder, or search the one in it."),
    output: FiguresOutput = None,
) -> None:
    """Measure the WebShop search: time to build, size, memory and latency.

    \b
        agent-gym bench search
        agent-gym bench search --products 1000000 --index million

    Product texts are generated with the word frequencies of the real catalogue. Figures are CPU time of one
    thread; building and searching happen in processes of their own.
    """
    from benchmarks.measure.search.report import run_search

    run_search(products, queries, index, output)


def trainer(
    against: str = typer.Option("trl", "--against", help="What to compare with: trl."),
    upstream: Path = typer.Option(None, "--upstream", help="Python interpreter that has TRL; this one if none."),
    model: Path = typer.Option(None, "--model", help="Folder of a language model; a small one is built if none."),
    groups: int = typer.Option(16, "--groups", min=1, help="Prompts of a batch."),
    group_size: int = typer.Option(8, "--group-size", min=2, help="Replies to each prompt."),
    reply_tokens: int = typer.Option(32, "--reply-tokens", min=1, help="Longest reply."),
    iterations: int = typer.Option(5, "--iterations", min=1, help="Iterations of which the median counts."),
    output: FiguresOutput = None,
) -> None:
    """Measure one training iteration beside TRL's GRPOTrainer: tokens per second and memory.

    \b
        pip install -c constraints.txt trl==1.16.0 datasets
        agent-gym bench trainer --against trl --output trainer.json

    Both sides train the same model on the same prompts with one reply to each, the same batch and reply limit, one
    optimiser step, 32-bit weights and one thread, one after the other in processes of their own. Ours is the whole
    loop with its environments.
    """
    from rich.console import Console

    from agent_gym.support.errors import ConfigError
    from agent_gym.terminal.progress import working
    from benchmarks.measure.figures import write_figures
    from benchmarks.measure.throughput.trainer.report import measure_trainer, trainer_table

    if against != "trl":
        raise ConfigError(f"--against takes trl, got {against!r}")
    with working("Measuring"):
        figures = measure_trainer(
            upstream,
            groups=groups,
            group_size=group_size,
            reply_tokens=reply_tokens,
            iterations=iterations,
            model=model,
        )
    console = Console()
    console.print(trainer_table(figures))
    if figures["upstream_missing"]:
        console.print(figures["upstream_missing"], highlight=False, markup=False, soft_wrap=True)
    write_figures(output, figures)


def site(
    catalog: str = typer.Option(
        "generated", "--catalog", help="Store, folder of the official files, or generated."
    ),
    shoppers: int = typer.Option(100, "--shoppers", min=1, help="Visitors at once."),
    seconds: float = typer.Option(60.0, "--seconds", min=1.0, help="How long they shop."),
    think: float = typer.Option(1.0, "--think", min=0.0, help="Mean pause between two pages, in seconds."),
    output: FiguresOutput = None,
) -> None:
    """Put the WebShop site under load: scripted shoppers from search to purchase, many at once.

    \b
        agent-gym bench site
        agent-gym bench site --shoppers 100 --think 0

    The site runs in a process of its own. Any error is an error of this command.
    """
    from benchmarks.measure.site.report import run_site

    run_site(catalog, shoppers, seconds, think, output)


def sweep(
    config: Path = typer.Option(
        None, "--config", "-c", help="Sweep file (TOML); the bundled stability sweep if none."
    ),
    output: Path = typer.Option(..., "--output", help="Folder of the runs, table and figure."),
    only: str = typer.Option(None, "--only", help="Algorithms to run, separated by commas; all when not given."),
    seeds: str = typer.Option(None, "--seeds", help="Seeds, such as 0 or 0-2; the file's when not given."),
    iterations: int = typer.Option(
        None, "--iterations", min=1, help="Iterations per run; the file's when not given."
    ),
    report: bool = typer.Option(False, "--report", help="Only write table and figure of the finished runs."),
) -> None:
    """Train several algorithms at one setting and compare how stable they are.

    \b
        agent-gym bench sweep --output sweeps/stability
        agent-gym bench sweep --output sweeps/short --only sampo,cispo --seeds 0 --iterations 5

    All algorithms start from the same cloned policy, one for each seed. Finished runs are kept and unfinished
    ones go on from their last checkpoint, so the command can be stopped and given again. Writes sweep.json,
    sweep.md and sweep.png into the folder.
    """
    from benchmarks.evaluation.arguments import parse_seeds
    from benchmarks.measure.sweep.cli import run

    names = None if only is None else tuple(name.strip() for name in only.split(","))
    run(
        config,
        output,
        algorithms=names,
        seeds=None if seeds is None else parse_seeds(seeds),
        iterations=iterations,
        report_only=report,
    )


def searchqa(
    questions: int = typer.Option(1_000, "--questions", min=1, help="Questions of each number of hops."),
    hops: int = typer.Option(None, "--hops", min=1, max=4, help="Number of hops; each from 1 to 4 when not given."),
    entities: int = typer.Option(10_000, "--entities", min=40, help="Entities (passages) of the world."),
    option: list[str] = typer.Option(None, "--option", "-o", help="Option of the environment, name=value."),
    output: FiguresOutput = None,
) -> None:
    """Check that generated questions can be answered by searching, and only so.

    \b
        agent-gym bench searchqa
        agent-gym bench searchqa --entities 2000 --option aliases=0.3

    Plays the expert through the real retriever, a guesser that never searches, and a single search whose passages
    are looked through for the answer, by number of hops and by type.
    """
    from agent_gym.terminal.options import parse_options
    from benchmarks.measure.searchqa import run

    run(questions, entities, output, parse_options(option or []), hops)
