"""What a run plays: environments, their mixture and curricula, and how they are shown to the policy."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

from agent_gym.core.prompts import ContextMode
from agent_gym.core.replies import ReplyMode
from agent_gym.support.errors import ConfigError
from trainers.settings.strict import STRICT

_VERSION = re.compile(r"-v\d+$")
_LABEL = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class DifficultyStage:
    """One stage of a curriculum; it lasts until one of its conditions holds, the last stage to the end."""

    __pydantic_config__ = STRICT

    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment, laid over its own and over those of the stages before."""
    iterations: int | None = None
    """Leave the stage after as many iterations."""
    success: float | None = None
    """Leave the stage once the mean success of training episodes, over `window` iterations, reaches this."""
    window: int = 3
    """Iterations over which success is averaged."""

    @property
    def ends(self) -> bool:
        """Whether anything ends the stage."""
        return self.iterations is not None or self.success is not None

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("window", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} of a stage must be at least {least}, got {value}")
        if self.success is not None and not 0 < self.success <= 1:
            raise ConfigError(f"success of a stage must be above 0 and at most 1, got {self.success}")


@dataclass(frozen=True)
class EnvPart:
    """One environment of several that a run trains on together; what is None is taken from `env`."""

    __pydantic_config__ = STRICT

    id: str
    """Environment id."""
    name: str = ""
    """Name in metrics and files; the id without namespace and version when empty."""
    weight: float = 1.0
    """Share of the groups, relative to the other weights."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment, without `split` and `tasks`."""
    stages: tuple[DifficultyStage, ...] = ()
    """Curriculum of this environment."""
    train_split: str | None = None
    """Split that cloning and training draw tasks from."""
    test_split: str | None = None
    """Split that evaluation plays."""
    prompt: str | None = None
    """Prompt template."""
    history_length: int | None = None
    """Earlier exchanges shown in window context."""

    @property
    def label(self) -> str:
        """The name, or what stands for it."""
        return self.name or _VERSION.sub("", self.id.rpartition("/")[2])

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise ConfigError(f"weight of {self.id} must be above 0, got {self.weight}")
        if not _LABEL.fullmatch(self.label):
            raise ConfigError(f"name {self.label!r} may hold letters, digits, dots, dashes and underscores only")


@dataclass(frozen=True)
class EnvSettings:
    """What is played, and how it is shown to the policy."""

    __pydantic_config__ = STRICT

    id: str = "agent_gym/Sokoban-v0"
    """Environment id."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment, without `split` and `tasks`."""
    train_split: str = "train"
    """Split that cloning and training draw tasks from."""
    test_split: str = "test"
    """Split that evaluation plays, never trained on."""
    stages: tuple[DifficultyStage, ...] = ()
    """Curriculum: options laid over `options` from stage to stage. Cloning plays the first stage, evaluation the
    last one."""
    mix: tuple[EnvPart, ...] = ()
    """Environments to train on together, in place of `id`, `options` and `stages`."""
    pool_size: int | None = None
    """Train on the first n tasks of the split only; None uses all."""
    prompt: str = "prompt"
    """Name of one of the environment's prompt templates, or a path to one."""
    history_length: int = 2
    """Earlier (observation, action) pairs shown in window context."""
    context: ContextMode = ContextMode.WINDOW
    """`window`: a fresh prompt every turn, one row a turn. `full`: one growing conversation, one row an
    episode."""
    thoughts: bool = False
    """Whether the prompt asks for a thought before the action."""
    reply_mode: ReplyMode = ReplyMode.LENIENT
    """How strictly replies are parsed."""
    workers: int = 0
    """Processes that run environments; 0 keeps them in the trainer's process, which is faster for worlds as
    cheap as the bundled ones."""
    ray: str | None = None
    """Run the workers as Ray actors: "local", or the address of a cluster ("auto", host:port, ray://host:port).
    `workers` says how many, 0 as many as the cluster has room for."""


@dataclass(frozen=True)
class Part:
    """One environment of a run.

    Attributes:
        name: Its name in metrics and files; "" where it is the only one.
        weight: Its share of the groups; all weights add up to 1.
        settings: Its settings, without parts of its own.
    """

    name: str
    weight: float
    settings: EnvSettings


def parts(settings: EnvSettings) -> tuple[Part, ...]:
    """Return the environments that settings describe: one, or those of the mix."""
    if not settings.mix:
        return (Part("", 1.0, settings),)
    total = sum(item.weight for item in settings.mix)
    found = []
    for item in settings.mix:
        own: dict[str, Any] = {
            name: value
            for name in ("train_split", "test_split", "prompt", "history_length")
            if (value := getattr(item, name)) is not None
        }
        single = replace(settings, id=item.id, options=item.options, stages=item.stages, mix=(), **own)
        found.append(Part(item.label, item.weight / total, single))
    return tuple(found)


def at_stage(settings: EnvSettings, stage: int) -> EnvSettings:
    """Return the settings of one environment at a stage of its curriculum; a stage of -1 is the last one."""
    upto = settings.stages[: stage + 1] if stage >= 0 else settings.stages
    options = dict(settings.options)
    for item in upto:
        options |= item.options
    return replace(settings, options=options, stages=())
