"""Reads run folders, finished or not, into what the page shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_gym.play.episode import Episode, read_episodes
from agent_gym.support.errors import DataError
from agent_gym.support.intervals import Interval, IntervalMethod
from trainers.report.charts import PREFIXES, drawn_metrics
from trainers.report.intervals import by_task, difference, rate
from trainers.run.folder import CONFIG, EPISODES, OUTLIERS, REFERENCE, SUMMARY, not_a_run, read_values
from trainers.run.jsonl_log import read_log
from trainers.run.tracking import read_metrics
from trainers.run.warnings import read_warnings
from trainers.settings.algorithm import ALGORITHMS
from trainers.settings.warnings import WarningName

_MOST_POINTS = 1500  # iterations in the curves; a longer run is thinned
_MOST_OUTLIERS = 24
_MOST_TEXT = 6000  # characters of one text


@dataclass(frozen=True)
class Score:
    """Success of one evaluation before and after training."""

    name: str
    split: str
    before: Interval | None
    after: Interval | None
    gain: Interval | None
    types: tuple[TypeScore, ...]


@dataclass(frozen=True)
class TypeScore:
    """Success of one task type before and after training."""

    name: str
    before: Interval | None
    after: Interval | None


@dataclass(frozen=True)
class SampleTurn:
    """One turn as the page shows it."""

    observation: str
    reply: str
    action: str | None
    reward: float
    notes: tuple[str, ...]
    prompt: str
    """The whole prompt as it was tokenised, "" when it is not known."""
    tokens: int


@dataclass(frozen=True)
class SampleEpisode:
    """One episode as the page shows it."""

    title: str
    where: str
    success: bool
    reward: float
    stop_reason: str
    goal: str
    turns: tuple[SampleTurn, ...]
    final: str


@dataclass(frozen=True)
class RunData:
    """Everything a page says of a run."""

    name: str
    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    iterations: list[int]
    """Numbers from 1, as the terminal shows them; files count from 0."""
    series: dict[str, list[float | None]]
    warnings: list[dict[str, Any]]
    holding: dict[str, list[int]]
    """Warning -> iterations in which it held."""
    scores: tuple[Score, ...]
    episodes: tuple[SampleEpisode, ...]
    outliers: tuple[dict[str, Any], ...]
    seconds: float
    extremes: dict[str, float] = field(default_factory=dict)
    """Largest and smallest values over all iterations, thinned ones included."""

    @property
    def planned(self) -> int:
        """Iterations the run was to have."""
        return int(self.config.get("iterations", 0))

    @property
    def done(self) -> int:
        """Iterations it has."""
        return self.iterations[-1] if self.iterations else 0

    @property
    def algorithm(self) -> str:
        """Name of the algorithm's row in the table, with the fields that differ from it."""
        name = str(self.config.get("algorithm_name", ""))
        if name not in ALGORITHMS:
            return name
        row = json.loads(json.dumps(asdict(ALGORITHMS[name])))
        given = self.config.get("algorithm", {})
        changed = [f"{key}={_value(given[key])}" for key in row if key in given and given[key] != row[key]]
        return f"{name} with {', '.join(changed)}" if changed else name

    @property
    def environments(self) -> str:
        """Ids of what it plays."""
        env = self.config.get("env", {})
        return " + ".join(part["id"] for part in env.get("mix") or ()) or str(env.get("id", ""))

    @property
    def stopped(self) -> dict[str, Any] | None:
        """What the detector said when it ended the run."""
        found: dict[str, Any] | None = self.summary.get("stopped")
        return None if found is None else _numbered(found)


def read_run(path: str | Path, name: str = "") -> RunData:
    """Read a run folder.

    Args:
        path: The folder.
        name: How the page calls it; the folder's name when empty.

    Raises:
        DataError: It is not a run folder, or its settings or summary are damaged.
    """
    path = Path(path)
    if not (path / CONFIG).is_file():
        raise DataError(not_a_run(path))
    config = read_values(path / CONFIG)
    summary = read_values(path / SUMMARY) if (path / SUMMARY).is_file() else {}
    rows = read_metrics(path)
    thin = rows[:: max(1, -(-len(rows) // _MOST_POINTS))]
    if rows and thin[-1] is not rows[-1]:
        thin.append(rows[-1])
    prefixes = tuple(prefix for prefix, _, _ in PREFIXES)
    wanted = drawn_metrics()
    names = [name for name in _names(rows) if name in wanted or name.startswith(prefixes)]
    return RunData(
        name=name or path.resolve().name,
        path=path,
        config=config,
        summary=summary,
        iterations=[_numbered(row)["iteration"] for row in thin],
        series={name: [_short(row.get(name)) for row in thin] for name in names},
        warnings=[_numbered(row) for row in read_warnings(path)],
        holding={
            warning.value: [_numbered(row)["iteration"] for row in rows if row.get(f"warning/{warning.value}")]
            for warning in WarningName
        },
        scores=tuple(_scores(path, summary)),
        episodes=tuple(_samples(path)),
        outliers=tuple(_outliers(path)),
        seconds=sum(sum((row.get("seconds") or {}).values()) for row in rows),
        extremes=_extremes(rows),
    )


def _value(value: Any) -> str:
    """Return a setting as it is written on the command line; of a table, only that there is one."""
    return "{...}" if isinstance(value, dict) else value if isinstance(value, str) else json.dumps(value)


def _numbered(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a file with its iteration counted from 1."""
    return {**row, "iteration": int(row.get("iteration", 0)) + 1}


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return [name for name in names if name not in ("iteration", "seconds")]


def _short(value: Any) -> float | None:
    """Return a number with five significant digits: more cannot be seen, and pages stay small."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")


_EXTREMES = {
    "best_success": ("rollout/success", max),
    "grad_norm": ("optim/grad_norm_max", max),
    "kl": ("policy/kl_reference", max),
    "valid_format": ("replies/valid_format", min),
    "length": ("replies/length", max),
    "low_rows": ("ratio/negative_rows_low", max),
}


def _extremes(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found = {}
    for name, (metric, pick) in _EXTREMES.items():
        values = [float(row[metric]) for row in rows if row.get(metric) is not None]
        if values:
            found[name] = float(pick(values))
    found["episodes"] = sum(float(row.get("rollout/episodes") or 0.0) for row in rows)
    return found


# Evaluations ---------------------------------------------------------------------------------------------


def _scores(path: Path, summary: Mapping[str, Any]) -> Iterator[Score]:
    """Yield the evaluations of a summary; intervals come from their episodes."""
    before, after = summary.get("before", {}), summary.get("after", {})
    played: dict[str, tuple[list[Episode], list[Episode]]] = {}
    for name in before:
        played[name] = (_evaluation(path, name, "before"), _evaluation(path, name, "after"))
    for name, found in before.items():
        first, last = played[name]
        if not first:  # all parts of a mix together
            parts = [pair for other, pair in played.items() if other.startswith(f"{name}/")]
            first = [episode for pair in parts for episode in pair[0]]
            last = [episode for pair in parts for episode in pair[1]]
        tasks = [by_task((_key(episode), episode.success) for episode in episodes) for episodes in (first, last)]
        kinds = sorted({episode.task_type for episode in first + last})
        yield Score(
            name=name,
            split=str(found.get("split", "")),
            before=rate(tasks[0]) or _bare(found),
            after=rate(tasks[1]) or (_bare(after[name]) if name in after else None),
            gain=difference(tasks[0], tasks[1]),
            types=tuple(TypeScore(kind, _of_type(first, kind), _of_type(last, kind)) for kind in kinds),
        )


def _key(episode: Episode) -> str:
    return f"{episode.env_id} {episode.task_id}"


def _bare(found: Mapping[str, Any]) -> Interval:
    """Return a success rate whose episodes are gone, without an interval."""
    return Interval(float(found["success"]), float("nan"), float("nan"), int(found["n_ok"]), IntervalMethod.NONE)


def _of_type(episodes: Sequence[Episode], kind: str) -> Interval | None:
    return rate(by_task((_key(episode), episode.success) for episode in episodes if episode.task_type == kind))


def _evaluation(path: Path, name: str, when: str) -> list[Episode]:
    file = path / EPISODES / f"{name.replace('/', '-')}-{when}.jsonl"
    return list(read_episodes(file)) if file.is_file() else []


# Samples -------------------------------------------------------------------------------------------------


def _samples(path: Path) -> Iterator[SampleEpisode]:
    """Yield episodes to look at: solved and unsolved ones of the last evaluation, and the last ones trained on."""
    prompts = _Prompts(path)
    folder = path / EPISODES
    after = sorted(folder.glob("test*-after.jsonl"))
    for file in after or sorted(folder.glob("test*-before.jsonl")):
        found = list(read_episodes(file))
        where = file.stem.replace("-", " ")
        for success in (True, False):
            alike = [episode for episode in found if episode.success is success and episode.turns]
            for episode in alike[: 2 if len(after) < 2 else 1]:
                yield _sample(episode, where, prompts)
    trained = sorted(folder.glob("iteration-*.jsonl"))
    if trained:
        for episode in list(read_episodes(trained[-1]))[:1]:
            number = int(trained[-1].stem.removeprefix("iteration-")) + 1
            yield _sample(episode, f"training, iteration {number}", prompts)


def _sample(episode: Episode, where: str, prompts: _Prompts) -> SampleEpisode:
    turns = []
    for turn in episode.turns:
        notes = [] if turn.valid_format else [f"invalid format: {turn.reason}"]
        if not turn.valid_action:
            notes.append("action not accepted")
        if turn.finish_reason != "stop":
            notes.append(f"reply ended by {turn.finish_reason.replace('_', ' ')}")
        prompt = prompts.text(turn.prompt_ids)
        turns.append(
            SampleTurn(
                observation=_clip(turn.observation),
                reply=_clip(turn.reply),
                action=turn.action,
                reward=turn.reward,
                notes=tuple(notes),
                prompt=prompt,
                tokens=len(turn.reply_ids or ()),
            )
        )
    return SampleEpisode(
        title=episode.task_id,
        where=where,
        success=episode.success,
        reward=episode.reward,
        stop_reason=str(episode.stop_reason.value),
        goal=_clip(episode.goal),
        turns=tuple(turns),
        final=_clip(episode.final_observation),
    )


class _Prompts:
    """Turns prompt ids back into text with the run's tokenizer, where there is one."""

    def __init__(self, path: Path) -> None:
        self._path = path / REFERENCE / "tokenizer.json"
        self._tokenizer: Any = None

    def text(self, ids: Sequence[int] | None) -> str:
        if not ids or not self._path.is_file():
            return ""
        if self._tokenizer is None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(self._path))
        return _clip(self._tokenizer.decode(list(ids), skip_special_tokens=False))


def _clip(text: str) -> str:
    return (
        text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + f" ... ({len(text) - _MOST_TEXT} more characters)"
    )


def _excess(row: Mapping[str, Any]) -> float:
    """How far a step lies beyond its limit, in units of the limit, so that both pools compare."""
    value = row.get("z") if row.get("z") is not None else row.get("entropy")
    return float(value or 0.0) / max(abs(float(row.get("limit") or 1.0)), 1e-3)


def _outliers(path: Path) -> list[dict[str, Any]]:
    """Return the steps that STAPO found farthest out, in order of iteration."""
    rows = read_log(path / OUTLIERS)
    rows.sort(key=_excess, reverse=True)
    rows = sorted(rows[:_MOST_OUTLIERS], key=lambda row: (row.get("iteration", 0), str(row.get("task_id"))))
    return [
        {key: _clip(value) if isinstance(value, str) else value for key, value in _numbered(row).items()}
        for row in rows
    ]
