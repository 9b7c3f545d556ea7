"""From an agent's name to the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agent_gym.play.driver import EnvHandle
from agent_gym.support.errors import AgentGymError, ConfigError, suggest
from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.basic import OracleKind, RandomKind
from benchmarks.evaluation.agents.human import HumanKind
from benchmarks.evaluation.agents.local import LocalKind
from benchmarks.evaluation.agents.openai import OpenAIKind
from benchmarks.evaluation.agents.trained import RunKind

GROUP = "agent_gym.agents"
_BUNDLED: tuple[type[AgentKind], ...] = (OracleKind, RandomKind, HumanKind, RunKind, LocalKind, OpenAIKind)


def agent_kinds() -> dict[str, AgentKind]:
    """Return the known kinds by name: the bundled ones and those that installed packages add.

    Raises:
        ConfigError: A package's kind cannot be loaded, or has the name of another.
    """
    kinds = {kind.name: kind() for kind in _BUNDLED}
    for name, entry in _added().items():
        kinds[name] = _load(entry)
    return kinds


def _added() -> dict[str, EntryPoint]:
    """Return the entry points of other packages by the name of their kind."""
    bundled = {kind.name for kind in _BUNDLED}
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        other = found.get(entry.name)
        if entry.name in bundled or (other is not None and other.value != entry.value):
            raise ConfigError(
                f"the agent {entry.name!r} of {entry.value} has the name of "
                f"{'a bundled agent' if other is None else other.value}; uninstall one of the packages"
            )
        found[entry.name] = entry
    return found


def _load(entry: EntryPoint) -> AgentKind:
    try:
        kind = entry.load()()
    except Exception as error:
        raise ConfigError(f"the agent {entry.name!r} of {entry.value} cannot be loaded: {error!r}") from error
    if not isinstance(kind, AgentKind) or kind.name != entry.name:
        raise ConfigError(
            f"the entry point {entry.name!r} of group {GROUP} names {entry.value}; expected a subclass of "
            f"benchmarks.evaluation.agents.AgentKind whose name is {entry.name!r}"
        )
    return kind


def make_agent(spec: str, handle: EnvHandle, settings: AgentSettings | None = None) -> Contestant:
    """Make the agent that a text names.

    Args:
        spec: `oracle`, `random`, `human`, `run:FOLDER`, `hf:PATH`, `openai:MODEL@URL`, or another kind with its
            argument.
        handle: The environment that will be played.
        settings: Batch size, device and options of the kind.

    Raises:
        ConfigError: There is no such kind, the message lists all; or its argument or options cannot be used.
        DataError: What the argument names is not there.
    """
    kind, argument = _split(spec)
    settings = settings or AgentSettings()
    options = _Options(settings.options)
    try:
        made = kind.make(argument, handle, replace(settings, options=options))
        options.require_read(kind.name)
        return made
    except AgentGymError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"the agent {spec!r} cannot be made: {error}; it is written {kind.usage} ({kind.summary})"
        ) from error


class _Options(Mapping[str, Any]):
    """Options that know which of them were read: a kind that reads none would ignore what a user asks for."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)
        self._unread = set(given)

    def __getitem__(self, name: str) -> Any:
        self._unread.discard(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def require_read(self, agent: str) -> None:
        """Raise a ConfigError where an option was not read."""
        if self._unread:
            raise ConfigError(f"agent {agent!r} takes no --agent-option {', '.join(sorted(self._unread))}")


def default_environment(spec: str) -> tuple[str, dict[str, Any]] | None:
    """Return id and options of the environment that an agent was made for, None where it plays any.

    Raises:
        ConfigError: There is no such kind.
        DataError: What the argument names is not there.
    """
    kind, argument = _split(spec)
    return kind.environment(argument)


def default_seed(spec: str) -> int:
    """Return the seed that an agent is evaluated with where nobody names one.

    Raises:
        ConfigError: There is no such kind.
        DataError: What the argument names is not there.
    """
    kind, argument = _split(spec)
    return kind.seed(argument)


def find_kind(spec: str) -> AgentKind:
    """Return the kind of the agent that a text names; loads no other package's kinds.

    Raises:
        ConfigError: There is no such kind; the message lists the known ones.
    """
    return _split(spec)[0]


def _split(spec: str) -> tuple[AgentKind, str]:
    name, _, argument = spec.partition(":")
    for kind in _BUNDLED:
        if kind.name == name:
            return kind(), argument
    added = _added()
    if name not in added:
        known = [*(kind.usage for kind in _BUNDLED), *added]
        names = [*(kind.name for kind in _BUNDLED), *added]
        raise ConfigError(f"no agent {spec!r}.{suggest(name, names)} Known agents: {', '.join(known)}")
    return _load(added[name]), argument
