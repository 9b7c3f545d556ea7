"""The folder of a run: what is where, and what a resumed run may rely on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.files import settle, unwritable
from agent_gym.support.locks import exclusive
from trainers.settings.reading import read_settings, resolve_config, to_values
from trainers.settings.run import TrainConfig

CONFIG = "config.json"
SUMMARY = "summary.json"
REFERENCE = "reference"
CHECKPOINTS = "checkpoints"
COLD_START = "cold-start"
EPISODES = "episodes"
OUTLIERS = "stapo_outliers.jsonl"
REPORT = "report.html"
LOCK = ".lock"
_OF_THE_END = ("after", "iterations", "stopped", "checksum")  # entries of the summary


def not_a_run(path: Path) -> str:
    """Return why a path is no run folder, and what to do."""
    if not path.exists():
        return f"there is no run folder {path}; `agent-gym train --output FOLDER` makes one"
    return f"{path} is not a run folder: it holds no {CONFIG}; give a folder that `agent-gym train` wrote"


def read_values(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run folder.

    Raises:
        DataError: The file holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; restore it, or give another run folder") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is damaged: it must hold a JSON object, got {type(values).__name__}")
    return values


class RunFolder:
    """A run folder.

    | path | what |
    |---|---|
    | `config.json` | resolved settings |
    | `summary.json` | evaluation before and after, cold start, timing |
    | `metrics.jsonl`, `tensorboard/` | metrics of every iteration |
    | `report.html` | the page that `agent-gym report` makes, written at the end |
    | `warnings.jsonl` | what the detector warned of, and when |
    | `stapo_outliers.jsonl` | outlier turns with their text, see `trainers.stapo.log` |
    | `episodes/` | samples of training episodes, and the evaluations' episodes |
    | `reference/` | the policy after the cold start: start of training, reference of the KL term |
    | `cold-start/` | the policy amid its cloning, while that is unfinished |
    | `checkpoints/` | whole checkpoints only |
    | `.lock` | number of the process that trains here, see `open_run` |

    Args:
        path: The folder.
        writes: False in a process that leaves writing to another one; it reads what that one wrote.
    """

    def __init__(self, path: str | Path, *, writes: bool = True) -> None:
        self.path = Path(path)
        self.writes = writes

    @classmethod
    def create(cls, path: str | Path, config: TrainConfig) -> RunFolder:
        """Make a new run folder; one in which a run failed before it made anything is used again.

        Raises:
            ConfigError: The folder exists and is not empty.
        """
        folder = cls(path)
        if folder.path.is_file():
            raise ConfigError(f"{folder.path} is a file; give a folder for the run")
        if folder.path.is_dir() and not folder._holds_nothing():
            raise ConfigError(
                f"the run folder {folder.path} exists and is not empty; continue it with --resume, or give "
                "another --output"
            )
        (folder.path / EPISODES).mkdir(parents=True, exist_ok=True)
        folder._write(CONFIG, to_values(config))
        return folder

    @classmethod
    def open(cls, path: str | Path, *, writes: bool = True) -> RunFolder:
        """Open the folder of an earlier run.

        Raises:
            DataError: It is not a run folder.
        """
        folder = cls(path, writes=writes)
        if not (folder.path / CONFIG).is_file():
            raise DataError(not_a_run(folder.path))
        if writes:
            (folder.path / EPISODES).mkdir(exist_ok=True)
        return folder

    def _holds_nothing(self) -> bool:
        for entry in self.path.iterdir():
            empty = entry.name == EPISODES and entry.is_dir() and not any(entry.iterdir())
            if not (empty or entry.name in (CONFIG, f".tmp-{CONFIG}", LOCK)):
                return False
        return True

    def discard(self) -> None:
        """Remove the settings of a run that made nothing."""
        if self._holds_nothing():
            (self.path / CONFIG).unlink(missing_ok=True)
            with suppress(OSError):
                self.episodes.rmdir()

    def reopen(self, config: TrainConfig) -> None:
        """Give the run other settings to go on with; what was said of its end is dropped first."""
        summary = self.summary()
        kept = {name: value for name, value in summary.items() if name not in _OF_THE_END}
        if kept != summary:
            self._write(SUMMARY, kept)
        for path in self.episodes.glob("*-after.jsonl"):
            path.unlink()
        self._write(CONFIG, to_values(config))

    def config(self) -> TrainConfig:
        """Return the run's settings.

        A file without `algorithm.hgpo_base` was written where `hgpo` had one form, which is called `added`: its run
        goes on by that.
        """
        values = read_settings(self.path / CONFIG)
        algorithm = values.get("algorithm")
        if isinstance(algorithm, dict) and algorithm.get("advantage") == "hgpo":
            algorithm.setdefault("hgpo_base", "added")
        return resolve_config(values)

    @property
    def reference(self) -> Path:
        """Folder of the policy after the cold start."""
        return self.path / REFERENCE

    @property
    def cold_start(self) -> Path:
        """Folder of the unfinished cold start."""
        return self.path / COLD_START

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def episodes(self) -> Path:
        """Folder of recorded episodes."""
        return self.path / EPISODES

    def save_reference(self, policy: Any) -> None:
        """Write the policy after the cold start; it is whole or not there."""
        partial = self.path / f".tmp-{REFERENCE}"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(self.reference, ignore_errors=True)
        policy.save(partial)
        settle(partial, self.reference)
        shutil.rmtree(self.cold_start, ignore_errors=True)

    def summary(self) -> dict[str, Any]:
        """Return what is known of the run's results so far."""
        path = self.path / SUMMARY
        return read_values(path) if path.is_file() else {}

    def update_summary(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Add results to the summary and return it."""
        summary = {**self.summary(), **values}
        if self.writes:
            self._write(SUMMARY, summary)
        return summary

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        partial = self.path / f".tmp-{name}"
        partial.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        settle(partial, self.path / name)


@contextmanager
def open_run(path: str | Path, config: TrainConfig | None) -> Iterator[RunFolder]:
    """Make a run folder, or open an earlier one, for this process alone.

    Of a run that fails before it made anything no folder stays.

    Args:
        path: The folder.
        config: Settings of a new run; None opens an earlier one.

    Raises:
        BusyError: Another process trains in it.
        ConfigError: The folder of a new run exists and is not empty.
        DataError: There is no earlier run, or the place cannot be written to.
    """
    path = Path(path)
    if config is None:
        RunFolder.open(path, writes=False)
    elif path.is_file():
        raise ConfigError(f"{path} is a file; give a folder for the run")
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    remedy = "wait for it, or stop it" + ("" if config is None else ", or give another --output")
    try:
        with ExitStack() as held:
            try:
                path.mkdir(parents=True, exist_ok=True)
                held.enter_context(exclusive(path / LOCK, f"{path} is being trained", remedy))
                folder = RunFolder.open(path) if config is None else RunFolder.create(path, config)
            except OSError as error:
                raise unwritable(path / CONFIG, error) from error
            try:
                yield folder
            except BaseException:
                if config is not None:
                    folder.discard()
                raise
    except BaseException:
        with suppress(OSError):  # as far as they are empty
            for each in made:
                each.rmdir()
        raise
