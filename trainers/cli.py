"""`agent-gym train` and `agent-gym report`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

import typer

EXIT_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    app.command("train")(train)
    app.command("report")(report)


def train(
    overrides: list[str] = typer.Argument(None, help="Settings to override: section.field=value."),
    preset: str = typer.Option(None, "--preset", "-p", help="A bundled preset; --list shows them."),
    config: Path = typer.Option(None, "--config", "-c", help="Settings file, TOML or JSON."),
    algorithm: str = typer.Option(None, "--algorithm", help="Row of the algorithm table, as published."),
    env_id: str = typer.Option(None, "--env", help="Environment id (env.id)."),
    model: str = typer.Option(None, "--model", help='"tiny", a folder or a hub id (model.path).'),
    iterations: int = typer.Option(None, "--iterations", min=0, help="Iterations."),
    seed: int = typer.Option(None, "--seed", min=0, help="Seed."),
    ray: str = typer.Option(None, "--ray", help='Environments in Ray actors: "local" or an address (env.ray).'),
    device: str = typer.Option(None, "--device", help="auto, cpu, cuda, cuda:N or mps."),
    output: Path = typer.Option(None, "--output", help="Run folder; runs/<preset>-seed<seed> when not given."),
    resume: Path = typer.Option(
        None, "--resume", help="Continue the run in this folder, for longer with iterations=N."
    ),
    show: bool = typer.Option(False, "--show", help="Print the settings as JSON, for --config, and stop."),
    estimate: bool = typer.Option(False, "--estimate", help="Print the memory and speed to expect, and stop."),
    listing: bool = typer.Option(False, "--list", help="List presets and algorithms and stop."),
) -> None:
    """Train a policy: cold start by cloning the environment's expert, then reinforcement learning.

    \b
        agent-gym train --preset quickstart
        agent-gym train --preset quickstart --algorithm grpo --seed 1 --output runs/grpo-1
        agent-gym train --preset quickstart optim.learning_rate=1e-3 rollout.groups=32
        agent-gym train --resume runs/quickstart-seed0
        agent-gym train --resume runs/quickstart-seed0 iterations=200

    A resumed run has the settings in its folder. It may be given another number of iterations: those that are done
    stay, a learning rate that falls (optim.schedule) follows the new number from there on, and the evaluation after
    training is done anew. What is kept may change too: run.checkpoint_every, run.keep_checkpoints,
    run.episodes_every, run.episodes_groups, run.stop_on.

    Settings of your own: write a preset's into a file, edit it, and train with it.

    \b
        agent-gym train --preset quickstart --show > run.json
        agent-gym train --config run.json

    The run folder holds the settings, metrics.jsonl, TensorBoard events, episodes and checkpoints. Ctrl-C
    finishes the current iteration, saves and exits with status 0; a second Ctrl-C exits at once, and the last
    checkpoint stays whole.
    """
    if listing:
        _list()
        return
    from agent_gym.support.errors import ConfigError
    from trainers.settings.reading import merge, read_preset, read_settings, resolve_config, to_values

    flags = {
        "algorithm": algorithm,
        "env.id": env_id,
        "model.path": model,
        "iterations": iterations,
        "seed": seed,
        "device": device,
        "env.ray": ray,
    }
    given = [f"{name}={value}" for name, value in flags.items() if value is not None]
    if resume is not None:
        _resume(resume, [*given, *(overrides or [])], {"--preset": preset, "--config": config, "--output": output})
        return
    if preset is not None and config is not None:
        raise ConfigError("give either --preset or --config, not both")
    if preset is None and config is None:
        raise ConfigError("give --preset or --config; `agent-gym train --list` shows the presets")
    base = read_preset(preset) if preset is not None else read_settings(config)
    resolved = resolve_config(merge(base, [*given, *(overrides or [])]))
    if show:
        typer.echo(json.dumps(to_values(resolved), indent=2))
    elif estimate:
        _stay_offline(resolved)
        _estimate(resolved)
    else:
        _run(output or Path("runs") / f"{preset or config.stem}-seed{resolved.seed}", resolved)


def report(
    runs: list[Path] = typer.Argument(..., help="Run folders; several are compared."),
    output: Path = typer.Option(
        None, "--output", "-o", help="File to write; RUN/report.html, or comparison.html for several runs."
    ),
) -> None:
    """Write one self-contained HTML page about a training run, or a comparison of several.

    \b
        agent-gym report runs/quickstart-seed0
        agent-gym report runs/sampo runs/grpo --output sampo-grpo.html

    The page holds results with intervals, warnings, curves, ratio quantiles, KL buckets, task types and sample
    episodes. It works offline, and on a run that is still going on.
    """
    from rich.console import Console

    from trainers.report import write_report

    target = output or (Path("comparison.html") if len(runs) > 1 else None)
    path = write_report(runs, target)
    Console(stderr=True).print(f"Report: {path}", highlight=False, markup=False, soft_wrap=True)


def _resume(path: Path, changes: Sequence[str], others: Mapping[str, Any]) -> None:
    """Go on with the run in a folder.

    Args:
        path: The run folder.
        changes: Overrides of its settings.
        others: Options that say which settings a new run has, by name; none may be given.

    Raises:
        ConfigError: One is, or a setting may not change any more.
    """
    from agent_gym.support.errors import ConfigError
    from trainers.run.extend import check_changes

    clash = [name for name, value in others.items() if value]
    if clash:
        raise ConfigError(
            f"--resume continues a run with the settings in its folder, so it takes no {', '.join(clash)}"
        )
    check_changes(changes)
    _run(path, None, changes)


def _list() -> None:
    from rich.console import Console

    from trainers.settings.algorithm import ALGORITHMS
    from trainers.settings.reading import PRESETS, preset_names

    console = Console(highlight=False)
    width = get_terminal_size().columns - 1

    def show(head: str, text: str) -> None:
        lines = wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
        console.print("\n".join(lines), markup=False, soft_wrap=True)

    console.print("[bold]presets[/bold]")
    for name in preset_names():
        lines = (PRESETS / f"{name}.toml").read_text(encoding="utf-8").splitlines()
        about = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
        show(f"  {name:<17}", about)
    console.print("[bold]algorithms[/bold]")
    show("  ", ", ".join(ALGORITHMS))


def _estimate(config: Any) -> None:
    from trainers.estimate import DEVICES, longest_episode, model_shape, report

    typer.echo(report(model_shape(config), config, longest_episode(config), DEVICES["H100-80GB"]))


def _run(path: Path, config: Any, changes: Sequence[str] = ()) -> None:
    """Create or open the run folder, train, and print what came of it.

    Args:
        path: The run folder.
        config: Settings of a new run; None opens an earlier one.
        changes: Overrides of the earlier run's settings.
    """
    from trainers.policy.files import check_model
    from trainers.policy.ranks import launched_size, leave, open_ranks
    from trainers.run.extend import extend
    from trainers.run.folder import RunFolder, open_run

    should_stop = _stop_on_interrupt(alone=launched_size() == 1)
    with open_ranks() as ranks, ExitStack() as stack:
        if ranks.is_main:
            if config is not None:  # before anything slow is imported
                _stay_offline(config)
                check_model(config.model)
            folder = stack.enter_context(open_run(path, config))
            if changes:
                extend(folder, changes)
        ranks.from_main(None)  # the folder is there now
        if not ranks.is_main:
            folder = RunFolder.open(path, writes=False)
        _stay_offline(folder.config())
        from trainers.loop import Trainer
        from trainers.run.console import ConsoleReporter
        from trainers.run.reporter import Reporter, SilentReporter

        console = ConsoleReporter()
        reporter: Reporter = console if ranks.is_main else SilentReporter()
        summary = Trainer(folder, reporter, should_stop, ranks).run()
        if ranks.is_main:
            console.summary(summary, path)
    if ranks.size > 1:
        leave()


def _stay_offline(config: Any) -> None:
    """Keep Hugging Face's libraries, which are yet to be imported, from asking the hub."""
    if not config.model.allow_downloads:
        os.environ["HF_HUB_OFFLINE"] = "1"


def _stop_on_interrupt(alone: bool) -> Callable[[], bool]:
    """Return a function that tells whether Ctrl-C was pressed; the second press exits at once.

    With `alone` False the process has a launcher, which passes on the signal that the terminal has sent already,
    and ends what does not stop in time: then a second signal is no second press.
    """
    pressed = False

    def on_interrupt(number: int, frame: object) -> None:
        nonlocal pressed
        if pressed:
            if alone:
                os._exit(EXIT_INTERRUPTED)
            return
        pressed = True
        # A handler runs between any two instructions, in the middle of an import too: nothing but a system call.
        os.write(2, b"\nStopping after this iteration or phase; press Ctrl-C again to exit at once.\n")

    signal.signal(signal.SIGINT, on_interrupt)
    signal.signal(signal.SIGTERM, on_interrupt)
    return lambda: pressed
