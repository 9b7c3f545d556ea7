"""What an evaluated agent is, and what it takes to add a kind of agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from agent_gym.core.replies import ReplyMode
from agent_gym.play.driver import Agent, EnvHandle

if TYPE_CHECKING:
    from benchmarks.evaluation.agents.estimate import Rehearsal
    from benchmarks.evaluation.agents.ledger import Ledger


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings that do not belong to the agent's name.

    Attributes:
        parallel: Most episodes that are answered at once.
        device: Device of local models: auto, cpu, cuda, cuda:N or mps.
        options: The kind's own options by name (see `benchmarks.evaluation.agents.play_options`).
    """

    parallel: int = 64
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Contestant:
    """An agent ready to play one environment.

    Attributes:
        spec: The text that named it.
        player: Who answers; see `agent_gym.play.driver.Agent`.
        identity: What tells it apart from other agents, as JSON values: weights' checksum, prompt, sampling.
            A resumed evaluation must find it unchanged, and result files hold it.
        reply_mode: How strictly its replies are parsed.
        most_parallel: Most episodes that it can play at once, None for any number.
        ledger: Counts what asking it takes, where that is paid for.
        rehearsal: Estimates the same beforehand.
        close: Called when no more is asked of it, also after an interruption.
    """

    spec: str
    player: Agent
    identity: Mapping[str, Any] = field(default_factory=dict)
    reply_mode: ReplyMode = ReplyMode.LENIENT
    most_parallel: int | None = None
    ledger: Ledger | None = None
    rehearsal: Rehearsal | None = None
    close: Callable[[], None] | None = None


class AgentKind(ABC):
    """One kind of agent: a name, and how to make an agent from what follows it in `name:argument`.

    Packages add kinds through the entry-point group `agent_gym.agents`, each entry naming a subclass.
    """

    name: ClassVar[str]
    """The word before the colon."""
    usage: ClassVar[str]
    """How it is written, for help and messages: `run:FOLDER`."""
    summary: ClassVar[str]
    """What it is, in one clause."""
    interactive: ClassVar[bool] = False
    """Whether it uses the terminal itself, so that no progress may be shown there."""

    @abstractmethod
    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Make the agent.

        Args:
            argument: Text after the colon, "" when there is none.
            handle: The environment that will be played.
            settings: Batch size, device and the options of this kind.

        Raises:
            ConfigError: The argument is missing, not wanted or malformed.
            DataError: What it names is not there.
        """

    def environment(self, argument: str) -> tuple[str, dict[str, Any]] | None:
        """Return id and options of the environment that this agent was made for, if there is one."""
        return None

    def seed(self, argument: str) -> int:
        """Return the seed of evaluations for which nobody names one."""
        return 0
