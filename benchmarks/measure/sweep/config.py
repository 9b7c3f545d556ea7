"""What a sweep runs: algorithms with their overrides, seeds, and the settings that all runs share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_gym.support.errors import ConfigError, suggest
from trainers.settings.reading import read_settings, resolve_config
from trainers.settings.run import TrainConfig

STABILITY = Path(__file__).parent / "stability.toml"
_FIELDS = ("name", "seeds", "algorithms", "settings")


@dataclass(frozen=True)
class SweepConfig:
    """A sweep.

    Attributes:
        name: Shown in table and figure.
        algorithms: Row of `trainers.settings.algorithm.ALGORITHMS` -> fields that differ from it.
        seeds: Every algorithm is run once per seed.
        settings: Settings of all runs, as in a preset, without `algorithm` and `seed`.

    Raises:
        ConfigError: Something is missing, unknown, or not a setting of a run.
    """

    name: str
    algorithms: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.algorithms or not self.seeds:
            raise ConfigError("a sweep needs at least one algorithm and one seed")
        for name in ("algorithm", "seed"):
            if name in self.settings:
                raise ConfigError(f"settings of a sweep must not hold {name!r}; the sweep sets it")
        for algorithm in self.algorithms:
            self.run_config(algorithm, self.seeds[0])

    @classmethod
    def read(cls, path: str | Path) -> SweepConfig:
        """Read a sweep file.

        Raises:
            ConfigError: The file is missing or malformed, or a field is unknown.
        """
        values = read_settings(path)
        for name in values:
            if name not in _FIELDS:
                raise ConfigError(f"{path}: a sweep has no field {name!r}.{suggest(name, _FIELDS)}")
        missing = [name for name in _FIELDS if name not in values]
        if missing:
            raise ConfigError(f"{path}: a sweep needs {', '.join(missing)}")
        return cls(str(values["name"]), values["algorithms"], tuple(values["seeds"]), values["settings"])

    def run_config(self, algorithm: str, seed: int) -> TrainConfig:
        """Return the settings of one run."""
        chosen = {"name": algorithm, **self.algorithms[algorithm]}
        return resolve_config({**self.settings, "algorithm": chosen, "seed": seed})

    def start_config(self, seed: int) -> TrainConfig:
        """Return the settings of the run that makes the start of a seed: the cold start and nothing after it."""
        return resolve_config({**self.settings, "iterations": 0, "seed": seed})

    def restricted(
        self, algorithms: tuple[str, ...] | None, seeds: tuple[int, ...] | None, iterations: int | None
    ) -> SweepConfig:
        """Return the sweep with fewer algorithms, other seeds or other iterations; None leaves them.

        Raises:
            ConfigError: An algorithm is not in the sweep.
        """
        for name in algorithms or ():
            if name not in self.algorithms:
                known = ", ".join(self.algorithms)
                raise ConfigError(
                    f"no algorithm {name!r} in this sweep.{suggest(name, self.algorithms)} It has: {known}"
                )
        return dataclasses.replace(
            self,
            algorithms={name: self.algorithms[name] for name in algorithms or self.algorithms},
            seeds=seeds or self.seeds,
            settings=dict(self.settings) | ({} if iterations is None else {"iterations": iterations}),
        )
