"""`agent-gym eval`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from benchmarks.evaluation.plan import EvalConfig
    from benchmarks.evaluation.results import EvaluationResult

EXIT_ERRORS = 1
EXIT_INTERRUPTED = 130

_AGENT_HELP = "oracle, random, human, run:FOLDER (@latest, @best, @reference), hf:PATH, openai:MODEL@URL."
_SUITE_HELP = "Play a list of evaluations in place of one: smoke, standard, paper, a TOML file."
_OUTPUT_HELP = "Result file (JSON), episodes are written beside it; for a suite a folder."
_ESTIMATE_HELP = "Print the tokens and the cost of an openai: agent, and stop."
_AGENT_OPTION_HELP = "Option of an hf: or openai: agent, name=value (prompt, temperature, ...)."
_TASKS_HELP = "Task ids of the split, one a line, or a task file (JSON lines)."

AgentName = Annotated[str | None, typer.Option("--agent", "-a", help=_AGENT_HELP)]
SuiteName = Annotated[str | None, typer.Option("--suite", help=_SUITE_HELP)]
ListSuites = Annotated[bool, typer.Option("--suites", help="List the suites with their parts, and stop.")]
EnvId = Annotated[
    str | None,
    typer.Option("--env", "-e", help="Environment id; run:FOLDER has its own when not given."),
]
Split = Annotated[str, typer.Option("--split", help="Split whose tasks are played.")]
Episodes = Annotated[
    int | None,
    typer.Option("--episodes", "-n", max=10_000_000, help="Tasks, the first ones of the split [100]."),
]
_SEEDS_HELP = "One evaluation seed or several: 0,1,2 or 0-4 [0; for run:FOLDER the run's own seed]."
Seeds = Annotated[str | None, typer.Option("--seeds", help=_SEEDS_HELP)]
EnvOptions = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="Option of the environment, name=value.")
]
AgentOptions = Annotated[list[str] | None, typer.Option("--agent-option", help=_AGENT_OPTION_HELP)]
Tasks = Annotated[Path | None, typer.Option("--tasks", help=_TASKS_HELP)]
MaxTurns = Annotated[
    int | None,
    typer.Option("--max-turns", min=1, help="Turn limit; the environment's when not given."),
]
Parallel = Annotated[int, typer.Option("--parallel", min=1, help="Episodes played at once.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Processes for environments; 0 uses this one.")]
Device = Annotated[str, typer.Option("--device", help="Device of local models: auto, cpu, cuda, cuda:N, mps.")]
Output = Annotated[Path | None, typer.Option("--output", help=_OUTPUT_HELP)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the evaluation in --output.")]
OnlyEstimate = Annotated[bool, typer.Option("--estimate", help=_ESTIMATE_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("eval")(evaluate_agent)


def evaluate_agent(
    agent: AgentName = None,
    suite: SuiteName = None,
    suites: ListSuites = False,
    env_id: EnvId = None,
    split: Split = "test",
    episodes: Episodes = None,
    seeds: Seeds = None,
    option: EnvOptions = None,
    agent_option: AgentOptions = None,
    tasks: Tasks = None,
    max_turns: MaxTurns = None,
    parallel: Parallel = 64,
    workers: Workers = 0,
    device: Device = "auto",
    output: Output = None,
    resume: Resume = False,
    only_estimate: OnlyEstimate = False,
    as_json: AsJson = False,
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
    from agent_gym.support.errors import ConfigError
    from agent_gym.terminal.options import parse_options
    from benchmarks.evaluation.arguments import parse_seeds, read_task_list

    if suites:
        from benchmarks.evaluation.suites.cli import show_suites

        show_suites()
        return
    if agent is None:
        raise ConfigError("who plays? Name an agent with --agent; `agent-gym eval --help` lists the kinds")
    settings = {"parallel": parallel, "workers": workers, "device": device}
    if suite is not None:
        refused = {"--env": env_id, "--episodes": episodes, "--option": option, "--tasks": tasks}
        refused |= {"--max-turns": max_turns, "--split": split != "test", "--seeds": seeds}
        folder = _folder_of_suite(refused, output)
        settings["agent_options"] = parse_options(agent_option or [])
        _play_suite(suite, agent, folder, settings, as_json=as_json, only_estimate=only_estimate)
        return
    env_id, options = _environment(agent, env_id, parse_options(option or []))
    task_ids, task_file = read_task_list(tasks)
    settings |= {
        "options": options,
        "split": split,
        "episodes": episodes,
        "seeds": _default_seeds(agent, output if resume else None) if seeds is None else parse_seeds(seeds),
        "task_ids": task_ids,
        "task_file": task_file,
        "max_turns": max_turns,
        "agent_options": parse_options(agent_option or []),
        "output": output,
        "resume": resume,
    }
    _play(env_id, agent, settings, as_json=as_json, only_estimate=only_estimate)


def _folder_of_suite(refused: Mapping[str, Any], output: Path | None) -> Path:
    """Return the folder of a suite's results.

    Raises:
        ConfigError: There is none, or an option was given that the suite decides.
    """
    from agent_gym.support.errors import ConfigError

    given = [name for name, value in refused.items() if value]
    if given:
        raise ConfigError(f"a suite says itself what is played; leave out {', '.join(given)}")
    if output is None:
        raise ConfigError("a suite needs a folder for its results: --output results/NAME")
    return output


def _play_suite(
    name: str, agent: str, folder: Path, settings: Mapping[str, Any], *, as_json: bool, only_estimate: bool
) -> None:
    from benchmarks.evaluation.plan import EvalConfig
    from benchmarks.evaluation.suites.cli import evaluate_suite

    base = EvalConfig(env_id="", **settings)
    try:
        failed = evaluate_suite(name, agent, folder, base, as_json=as_json, only_estimate=only_estimate)
    except KeyboardInterrupt:
        _say_interrupted("the same command goes on")
    if failed:
        raise typer.Exit(EXIT_ERRORS)


def _default_seeds(agent: str, earlier: Path | None) -> tuple[int, ...]:
    """Return the seeds where none are named: those of the evaluation that goes on, else the agent's own."""
    from benchmarks.evaluation.agents import default_seed
    from benchmarks.evaluation.results import EvaluationResult

    if earlier is not None and earlier.exists():
        return tuple(EvaluationResult.read(earlier).header["seeds"])
    return (default_seed(agent),)


def _environment(agent: str, env_id: str | None, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return id and options of what is played: the agent's own environment where none is named.

    Raises:
        ConfigError: None is named, and the agent plays any.
    """
    from agent_gym.support.errors import ConfigError
    from benchmarks.evaluation.agents import default_environment

    if env_id is not None:
        return env_id, options
    found = default_environment(agent)
    if found is None:
        raise ConfigError(f"agent {agent!r} plays any environment: name one with --env")
    return found[0], {**found[1], **options}


def _play(env_id: str, agent: str, settings: Mapping[str, Any], *, as_json: bool, only_estimate: bool) -> None:
    import json
    from dataclasses import asdict

    from rich.console import Console

    from benchmarks.evaluation.plan import EvalConfig
    from benchmarks.evaluation.show import result_table

    config = EvalConfig(env_id=env_id, **settings)
    if only_estimate:
        _print_estimate(config, agent)
        return
    try:
        result = _evaluate_with_progress(config, agent)
    except KeyboardInterrupt:
        unkept = config.output is None
        _say_interrupted("nothing is kept without --output" if unkept else "the same command with --resume goes on")
    if as_json:
        typer.echo(json.dumps(asdict(result.summary), indent=2))
    else:
        console = Console()
        console.print(result_table(result, console.width))
        if config.output is not None:
            text = f"Written to {config.output}; episodes in {config.episodes_path}"
            console.print(text, highlight=False, markup=False)
    _report_errors(result)


def _report_errors(result: EvaluationResult) -> None:
    """Say how many episodes ended in errors, and leave; nothing where none did."""
    from rich.console import Console

    errors = [row for row in result.rows if row.error]
    if not errors:
        return
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


def _print_estimate(config: EvalConfig, agent: str) -> None:
    from benchmarks.evaluation.run import estimate

    found = estimate(config, agent)
    typer.echo(f"{agent} asks no service that counts tokens." if found is None else found.text())


def _evaluate_with_progress(config: EvalConfig, agent: str) -> EvaluationResult:
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
