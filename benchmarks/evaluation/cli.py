"""`agent-gym eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import typer

EXIT_ERRORS = 1
EXIT_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("eval")(evaluate_agent)


def evaluate_agent(
    agent: str = typer.Option(
        None,
        "--agent",
        "-a",
        help="oracle, random, human, run:FOLDER (@latest, @best, @reference), hf:PATH, openai:MODEL@URL.",
    ),
    suite: str = typer.Option(
        None, "--suite", help="Play a list of evaluations in place of one: smoke, standard, paper, a TOML file."
    ),
    suites: bool = typer.Option(False, "--suites", help="List the suites with their parts, and stop."),
    env_id: str = typer.Option(None, "--env", "-e", help="Environment id; run:FOLDER has its own when not given."),
    split: str = typer.Option("test", "--split", help="Split whose tasks are played."),
    episodes: int = typer.Option(
        None, "--episodes", "-n", max=10_000_000, help="Tasks, the first ones of the split [100]."
    ),
    seeds: str = typer.Option(
        None, "--seeds", help="One evaluation seed or several: 0,1,2 or 0-4 [0; for run:FOLDER the run's own seed]."
    ),
    option: list[str] = typer.Option(None, "--option", "-o", help="Option of the environment, name=value."),
    agent_option: list[str] = typer.Option(
        None, "--agent-option", help="Option of an hf: or openai: agent, name=value (prompt, temperature, ...)."
    ),
    tasks: Path = typer.Option(
        None, "--tasks", help="Task ids of the split, one a line, or a task file (JSON lines)."
    ),
    max_turns: int = typer.Option(None, "--max-turns", min=1, help="Turn limit; the environment's when not given."),
    parallel: int = typer.Option(64, "--parallel", min=1, help="Episodes played at once."),
    workers: int = typer.Option(0, "--workers", min=0, help="Processes for environments; 0 uses this one."),
    device: str = typer.Option("auto", "--device", help="Device of local models: auto, cpu, cuda, cuda:N, mps."),
    output: Path = typer.Option(
        None, "--output", help="Result file (JSON), episodes are written beside it; for a suite a folder."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on with the evaluation in --output."),
    only_estimate: bool = typer.Option(
        False, "--estimate", help="Print the tokens and the cost of an openai: agent, and stop."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON instead of a table."),
) -> None:
    """Evaluate an agent on a fixed list of tasks.

    \b
        agent-gym eval --env Sokoban-v0 --agent oracle
        agent-gym eval --env Sokoban-6x6-2-v0 --agent random --episodes 500 --output results/random.json
        agent-gym eval --agent run:runs/quickstart-seed0 --episodes 1000
        agent-gym eval --agent run:runs/quickstart-seed0@reference --seeds 0-3      pass@k and pass^k
        agent-gym eval --env Boxoban-v0 --agent oracle --option levels=boxoban --split valid
        agent-gym eval --env ALFWorld-v0 --agent hf:models/smollm2 --agent-option max_reply_tokens=64
        agent-gym eval --env ALFWorld-v0 --agent openai:MODEL@http://localhost:8000/v1 --parallel 16
        agent-gym eval --env WebShop-v0 --agent openai:MODEL --agent-option prompt_price=0.15 --estimate
        agent-gym eval --suite standard --agent random --output results/random

    The same tasks are played with the same episode seeds by every agent, so results can be compared task by
    task. The result names environment, split, task list (by a digest), seeds and agent. Episodes in which the
    environment, a tool or the agent's service failed count as neither success nor failure. After an interruption
    the same command with --resume plays what is missing. docs/evaluation.md explains protocol, metrics and agents.
    Exit status 1: some episodes ended in errors.
    """
    import json
    from dataclasses import asdict

    from rich.console import Console

    from agent_gym.support.errors import ConfigError
    from agent_gym.terminal.options import parse_options
    from benchmarks.evaluation.agents import default_environment, default_seed
    from benchmarks.evaluation.plan import EvalConfig
    from benchmarks.evaluation.show import result_table

    if suites:
        from benchmarks.evaluation.suites.cli import show_suites

        show_suites()
        return
    if agent is None:
        raise ConfigError("who plays? Name an agent with --agent; `agent-gym eval --help` lists the kinds")
    if suite is not None:
        from benchmarks.evaluation.suites.cli import evaluate_suite

        refused = {"--env": env_id, "--episodes": episodes, "--option": option, "--tasks": tasks}
        refused |= {"--max-turns": max_turns, "--split": split != "test", "--seeds": seeds}
        given = [name for name, value in refused.items() if value]
        if given or output is None:
            raise ConfigError(
                f"a suite says itself what is played; leave out {', '.join(given)}"
                if given
                else "a suite needs a folder for its results: --output results/NAME"
            )
        base = EvalConfig(
            env_id="",
            parallel=parallel,
            workers=workers,
            device=device,
            agent_options=parse_options(agent_option or []),
        )
        try:
            failed = evaluate_suite(suite, agent, output, base, as_json=as_json, only_estimate=only_estimate)
        except KeyboardInterrupt:
            _say_interrupted("the same command goes on")
        if failed:
            raise typer.Exit(EXIT_ERRORS)
        return
    options = parse_options(option or [])
    if env_id is None:
        found = default_environment(agent)
        if found is None:
            raise ConfigError(f"agent {agent!r} plays any environment: name one with --env")
        env_id, options = found[0], {**found[1], **options}
    task_ids, task_file = read_task_list(tasks)
    config = EvalConfig(
        env_id=env_id,
        options=options,
        split=split,
        episodes=episodes,
        seeds=(default_seed(agent),) if seeds is None else parse_seeds(seeds),
        task_ids=task_ids,
        task_file=task_file,
        max_turns=max_turns,
        parallel=parallel,
        workers=workers,
        device=device,
        agent_options=parse_options(agent_option or []),
        output=output,
        resume=resume,
    )
    if only_estimate:
        _print_estimate(config, agent)
        return
    try:
        result = _evaluate_with_progress(config, agent)
    except KeyboardInterrupt:
        kept = "nothing is kept without --output" if output is None else "the same command with --resume goes on"
        _say_interrupted(kept)
    if as_json:
        typer.echo(json.dumps(asdict(result.summary), indent=2))
    else:
        console = Console()
        console.print(result_table(result, console.width))
        if output is not None:
            console.print(f"Written to {output}; episodes in {config.episodes_path}", highlight=False, markup=False)
    errors = [row for row in result.rows if row.error]
    if errors:
        shown = errors[0].error.strip().splitlines()[-1]
        names = ", ".join(f"{name} {count}" for name, count in result.summary.errors.items())
        Console(stderr=True).print(
            f"{len(errors)} episodes ended in errors ({names}), the first (task {errors[0].task_id}): {shown}",
            markup=False,
            style="red",
            soft_wrap=True,
        )
        raise typer.Exit(EXIT_ERRORS)


def _say_interrupted(remedy: str) -> NoReturn:
    """Say how to go on, and leave."""
    from rich.console import Console

    Console(stderr=True).print(f"interrupted; {remedy}", style="red", highlight=False, markup=False)
    raise typer.Exit(EXIT_INTERRUPTED) from None


def _print_estimate(config: Any, agent: str) -> None:
    from benchmarks.evaluation.run import estimate

    found = estimate(config, agent)
    typer.echo(f"{agent} asks no service that counts tokens." if found is None else found.text())


def _evaluate_with_progress(config: Any, agent: str) -> Any:
    from benchmarks.evaluation.agents import find_kind
    from benchmarks.evaluation.progress import EvaluationProgress
    from benchmarks.evaluation.run import evaluate

    with EvaluationProgress(quiet=find_kind(agent).interactive) as shown:
        return evaluate(
            config,
            agent,
            on_plan=shown.planned,
            on_estimate=shown.estimated,
            on_episode=shown.ended,
            on_notice=shown.notice,
        )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of `0,1,2` or `0-4`.

    Raises:
        ConfigError: The text is neither.
    """
    from agent_gym.support.errors import ConfigError

    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"--seeds takes numbers such as 0,1,2 or 0-4, got {text!r}")
        if dash and int(last) < int(first):
            raise ConfigError(f"--seeds takes ranges from the lower to the higher number, got {text!r}")
        seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"--seeds must be different numbers, got {text!r}")
    return tuple(seeds)


def read_task_list(path: Path | None) -> tuple[tuple[str, ...] | None, str | None]:
    """Return (ids, None) for a file of ids, (None, path) for a task file, (None, None) for no file.

    Raises:
        DataError: The file is missing or holds nothing.
    """
    from agent_gym.support.errors import DataError

    if path is None:
        return None, None
    if not path.is_file():
        raise DataError(f"no task list at {path}; expected ids, one a line, or tasks as JSON lines")
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    ids = tuple(line for line in lines if line and not line.startswith("#"))
    if not ids:
        raise DataError(f"{path} holds no task")
    return (None, str(path)) if ids[0].startswith("{") else (ids, None)
