"""Suite files.

```toml
about = "What the suite is for, in one sentence."
include = ["standard"]            # parts of other suites come first

[[part]]
name = "alfworld"                 # files are called name-split
env = "ALFWorld-v0"
splits = ["valid_seen"]
episodes = 100                    # the first tasks of the split; all of them when left out
seeds = [0]
max_turns = 50                    # the environment's own when left out
options = { data = "json_2.1.1" }
needs = { data = "how to get the data that this option names" }
requires = "browser"              # a tool beyond the base install
tasks = { valid_seen = 140 }      # how many tasks there must be
digests = { valid_seen = "..." }  # hash of the task list and its data (TextEnv.tasks_digest)
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent_gym.support.checks import check_choice
from agent_gym.support.data import resolve_data
from agent_gym.support.errors import ConfigError, DataError, suggest

_FOLDER = Path(__file__).parent


class Tool(StrEnum):
    """Tools beyond the base install that a part may require."""

    BROWSER = "browser"
    """A Chromium with its driver, and the extra `[webshop]`."""


@dataclass(frozen=True)
class Part:
    """One evaluation of a suite.

    Attributes:
        name: Name of its result file, without ending.
        env: Environment id.
        split: Split whose tasks are played.
        episodes: Tasks, the first ones of the split; None plays all.
        seeds: Every task is played once per seed.
        max_turns: Turn limit; None is the environment's own.
        options: Arguments of the environment.
        needs: Option that names data -> how to get them.
        requires: Tool that must be there, None for the base install.
        tasks: Tasks that there must be, 0 where the suite does not say.
        digest: Hash that the task list must have, "" where the suite does not say.
    """

    name: str
    env: str
    split: str
    episodes: int | None = None
    seeds: tuple[int, ...] = (0,)
    max_turns: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    requires: Tool | None = None
    tasks: int = 0
    digest: str = ""

    def missing(self) -> str:
        """Return what this machine lacks to play the part, with what to do; "" when nothing."""
        for option, hint in self.needs.items():
            try:
                resolve_data(self.options[option], "benchmark data")
            except DataError:
                name = self.options[option]
                return (
                    f"no data named {str(name)!r}: {hint}; put or link it under that name into a folder, and set "
                    "AGENT_GYM_DATA to the folder"
                )
        if self.requires is Tool.BROWSER:
            from agent_gym.envs.webshop.browser.tools import missing_tools

            return missing_tools()
        return ""


@dataclass(frozen=True)
class Suite:
    """A named list of evaluations.

    Attributes:
        name: Its name.
        about: What it is for.
        parts: The evaluations, in order.
    """

    name: str
    about: str
    parts: tuple[Part, ...]


def bundled_suites() -> list[str]:
    """Return the names of the bundled suites."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_suite(name: str | Path) -> Suite:
    """Read a suite.

    Args:
        name: Name of a bundled suite, or a TOML file.

    Raises:
        ConfigError: There is no such suite, or its file says something that a suite cannot say.
    """
    path = Path(name) if str(name).endswith(".toml") else _FOLDER / f"{name}.toml"
    if not path.is_file():
        if path == Path(name):
            raise ConfigError(f"there is no suite file {path}; bundled suites: {', '.join(bundled_suites())}")
        known = bundled_suites()
        raise ConfigError(
            f"no suite {str(name)!r}.{suggest(str(name), known)} Bundled suites: {', '.join(known)}; a file of "
            "your own ends in .toml"
        )
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML ({error})") from error
    _only_known(values, {"about", "include", "part"}, str(path))
    parts = [part for other in values.get("include", ()) for part in load_suite(other).parts]
    for row in values.get("part", ()):
        parts += _parts(row, str(path))
    names = [part.name for part in parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not parts:
        raise ConfigError(
            f"{path} must hold parts of different names; {f'twice: {twice}' if twice else 'it has none'}"
        )
    return Suite(path.stem, str(values.get("about", "")), tuple(parts))


_BY_SPLIT = {"splits", "tasks", "digests"}
_GIVEN = {item.name for item in fields(Part)} - {"split", "digest"} | _BY_SPLIT


def _parts(row: Mapping[str, Any], where: str) -> Iterator[Part]:
    """Yield the parts of one `[[part]]`, one for each split."""
    where = f"{where}, part {row.get('name', '?')!r}"
    _only_known(row, _GIVEN, where)
    for name in ("name", "env", "splits"):
        if not row.get(name):
            raise ConfigError(f"{where}: {name} is missing")
    unknown = sorted({*row.get("tasks", {}), *row.get("digests", {})} - set(row["splits"]))
    if unknown:
        raise ConfigError(f"{where}: tasks and digests are about splits, which {unknown} are not")
    for option in row.get("needs", {}):
        if option not in row.get("options", {}):
            raise ConfigError(f"{where}: it needs {option!r}, which its options do not name")
    common = {key: value for key, value in row.items() if key not in _BY_SPLIT | {"name", "seeds", "requires"}}
    for split in row["splits"]:
        yield Part(
            name=f"{row['name']}-{split}".replace("_", "-"),
            split=split,
            seeds=tuple(row.get("seeds", (0,))),
            requires=check_choice(f"{where}: requires", Tool, row["requires"]) if "requires" in row else None,
            tasks=row.get("tasks", {}).get(split, 0),
            digest=row.get("digests", {}).get(split, ""),
            **common,
        )


def _only_known(values: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in values:
        if name not in known:
            raise ConfigError(
                f"{where}: unknown key {name!r}.{suggest(name, known)} Known: {', '.join(sorted(known))}"
            )
