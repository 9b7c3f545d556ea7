"""The settings of a training run and their checks: nested frozen dataclasses."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict

from agent_gym.core.prompts import ContextMode
from agent_gym.core.replies import ReplyMode
from agent_gym.support.errors import ConfigError
from trainers.rollout.samplers.base import SamplingSettings
from trainers.run.detector import check_names
from trainers.settings.algorithm import AdvantageKind, AlgorithmConfig, get_algorithm
from trainers.settings.cloning import CloningSettings
from trainers.settings.lora import LoraSettings
from trainers.settings.tiny import TinySpec
from trainers.update.schedules import Schedule

TINY = "tiny"

_STRICT = ConfigDict(extra="forbid")
_VERSION = re.compile(r"-v\d+$")
_LABEL = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class DifficultyStage:
    """One stage of a curriculum; it lasts until one of its conditions holds, the last stage to the end."""

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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


class Precision(StrEnum):
    """Dtype of mixed-precision computation. float16 is none: its gradients vanish without a scaled loss."""

    BFLOAT16 = "bfloat16"


class SamplerKind(StrEnum):
    """Engine that draws replies."""

    HF = "hf"
    """In the trainer's process, decoding in step."""
    CONTINUOUS = "continuous"
    """In the trainer's process, with transformers' continuous batching; for CUDA."""
    VLLM = "vllm"
    """vLLM with weights of its own, handed over after every update; extra `[vllm]`."""


@dataclass(frozen=True)
class EnvSettings:
    """What is played, and how it is shown to the policy."""

    __pydantic_config__ = _STRICT

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
class ModelSettings:
    """The policy."""

    __pydantic_config__ = _STRICT

    path: str = TINY
    """"tiny" builds a small decoder on the spot; otherwise a folder or hub id of a causal language model."""
    dtype: str = "auto"
    """Weights' dtype: auto (the checkpoint's), float32, bfloat16. Full training at small learning rates needs
    float32: 16 bits round most updates away. float16 is refused: most of its gradients would be 0."""
    autocast: Precision | None = None
    """Compute in this dtype while the weights keep theirs; None computes in the weights' dtype."""
    lora: LoraSettings | None = None
    """Train low-rank adapters of this size instead of the weights (`model.lora.rank=16`); None trains all."""
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    """Extra variables of the chat template (`{"enable_thinking": false}`)."""
    allow_downloads: bool = False
    """Let Hugging Face download missing files."""
    hidden: int = 64
    """Width of the tiny model."""
    layers: int = 2
    """Layers of the tiny model."""
    heads: int = 4
    """Attention heads of the tiny model."""
    vocab_size: int = 512
    """Most tokens of the tiny model's tokenizer."""

    def __post_init__(self) -> None:
        if self.path == TINY:
            self.tiny_spec()

    def tiny_spec(self) -> TinySpec:
        """Return the sizes of the tiny model.

        Raises:
            ConfigError: They do not fit each other.
        """
        return TinySpec(hidden=self.hidden, layers=self.layers, heads=self.heads, vocab_size=self.vocab_size)


@dataclass(frozen=True)
class ColdStartSettings(CloningSettings):
    """Imitation of the environment's oracle before reinforcement learning."""

    __pydantic_config__ = _STRICT

    episodes: int = 0
    """Oracle episodes on training tasks; 0 skips cloning."""
    noise: float = 0.0
    """Chance that the demonstrator takes a random admissible action in place of the oracle's. Demonstrations by
    people are imperfect too; what is wrong with them is what reinforcement learning can mend."""
    min_score: float = 0.9
    """Episodes that score less are left out."""


@dataclass(frozen=True)
class RolloutSettings:
    """Sampling of episodes."""

    __pydantic_config__ = _STRICT

    groups: int = 16
    """Tasks per iteration."""
    group_size: int = 8
    """Episodes per task."""
    temperature: float = 1.0
    """Sampling temperature; log-probabilities are evaluated at it."""
    max_reply_tokens: int = 512
    """Longest reply, per turn."""
    max_context_tokens: int = 2048
    """Longest prompt and reply together (window) or conversation (full)."""
    max_parallel: int = 256
    """Most episodes running at once."""
    sampler: SamplerKind = SamplerKind.HF
    """Engine that draws the replies: hf, continuous (for CUDA) or vllm (extra `[vllm]`)."""
    sampler_options: dict[str, Any] = field(default_factory=dict)
    """Options of the engine as it documents them (vllm: gpu_memory_utilization, ...; continuous: num_blocks,
    ...); hf has none."""
    importance_correction: bool = False
    """Weigh each token by what the trainer's policy says of it against what the sampler said, where the engine
    computes otherwise than the trainer (truncated importance sampling)."""
    importance_cap: float = 2.0
    """Largest such weight."""

    def __post_init__(self) -> None:
        self.sampling()

    def sampling(self) -> SamplingSettings:
        """Return how training replies are drawn: from the whole distribution.

        Raises:
            ConfigError: They cannot be drawn so.
        """
        return SamplingSettings(temperature=self.temperature, max_reply_tokens=self.max_reply_tokens).for_training()


@dataclass(frozen=True)
class OptimSettings:
    """Optimisation."""

    __pydantic_config__ = _STRICT

    learning_rate: float = 1e-6
    """AdamW learning rate after the warm-up."""
    schedule: Schedule = Schedule.CONSTANT
    """Course of the rate over the iterations: constant (the published recipes), or linear or cosine down to 0,
    which lets the noise of large steps settle at the end."""
    warmup_steps: int = 0
    """Optimiser steps over which the learning rate rises linearly."""
    weight_decay: float = 0.01
    """AdamW weight decay."""
    beta1: float = 0.9
    """AdamW's decay of the mean gradient, in [0, 1)."""
    beta2: float = 0.999
    """AdamW's decay of the mean squared gradient, in [0, 1)."""
    grad_clip: float = 1.0
    """Gradient norm is clipped to this; 0 clips nothing, and the norm is logged all the same."""
    passes: int = 1
    """Passes over each batch."""
    minibatch_rows: int = 0
    """Most rows per optimiser step; the batch is cut into as equal parts as can be, and 0 takes it whole.
    Trajectory-level ratios keep an episode's rows together, so a minibatch may then be a little larger."""
    max_tokens_per_microbatch: int = 16_384
    """Tokens per forward and backward pass, padding included: bounds memory, never changes results. Rows of
    like length share a pass."""
    share_equal_rows: bool = True
    """Rows of equal tokens go through the model once, which changes results by rounding only. Groups that
    start from one state hold many where prompts are short."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time, equal results."""

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation before, during and after training."""

    __pydantic_config__ = _STRICT

    every: int = 0
    """Iterations between evaluations; 0 evaluates before and after only."""
    episodes: int = 200
    """Test tasks played during training."""
    final_episodes: int = 0
    """Test tasks played before and after training; 0 is the same as `episodes`."""
    pool: bool = False
    """Also evaluate on the training pool (needs `env.pool_size`)."""
    temperature: float = 1.0
    """Sampling temperature."""
    top_p: float = 1.0
    """Nucleus sampling, evaluation only."""
    top_k: int = 0
    """Top-k sampling, evaluation only; 0 is off."""
    greedy: bool = False
    """Take the most likely token instead of sampling."""

    def __post_init__(self) -> None:
        self.sampling()

    def sampling(self, max_reply_tokens: int = 1) -> SamplingSettings:
        """Return how evaluation replies of a length are drawn.

        Raises:
            ConfigError: They cannot be drawn so.
        """
        return SamplingSettings(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            max_reply_tokens=max_reply_tokens,
            greedy=self.greedy,
        )


@dataclass(frozen=True)
class RunSettings:
    """What is kept in the run folder."""

    __pydantic_config__ = _STRICT

    checkpoint_every: int = 10
    """Iterations between checkpoints; the last iteration is always kept."""
    keep_checkpoints: int = 2
    """Checkpoints kept beside the best one."""
    episodes_every: int = 10
    """Iterations between samples of episodes written to `episodes/`; 0 writes none."""
    episodes_groups: int = 2
    """Groups written each time."""
    stop_on: tuple[str, ...] = ()
    """Warnings of `trainers.run.detector` that end the run with its best checkpoint; "collapse" stands for
    ratio_collapse and success_collapse."""
    threads: int = 1
    """CPU threads of torch; 0 leaves torch's default. One is fastest for tiny models."""
    deterministic: bool = True
    """Deterministic kernels, so that equal settings give equal weights on one kind of machine."""


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a run."""

    __pydantic_config__ = _STRICT

    env: EnvSettings = field(default_factory=EnvSettings)
    """The environment."""
    model: ModelSettings = field(default_factory=ModelSettings)
    """The policy."""
    cloning: ColdStartSettings = field(default_factory=ColdStartSettings)
    """The cold start."""
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    """Sampling."""
    algorithm: AlgorithmConfig = field(default_factory=lambda: get_algorithm("sampo"))
    """Advantages, ratios, clipping, aggregation, filtering, regularisers."""
    algorithm_name: str = "sampo"
    """Row of the table that `algorithm` started from."""
    optim: OptimSettings = field(default_factory=OptimSettings)
    """Optimisation."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    """Evaluation."""
    run: RunSettings = field(default_factory=RunSettings)
    """The run folder."""
    iterations: int = 100
    """Iterations of sampling and updating."""
    seed: int = 0
    """Everything random derives from it."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""

    @property
    def trains(self) -> bool:
        """Whether the run changes any weights, rather than evaluating a model only."""
        return self.iterations > 0 or self.cloning.episodes > 0

    def __post_init__(self) -> None:
        for section, limits in _LEAST.items():
            settings = getattr(self, section) if section else self
            for name, least in limits.items():
                value = getattr(settings, name)
                if value is not None and not least <= value < math.inf:
                    where = f"{section}.{name}" if section else name
                    raise ConfigError(f"{where} must be a number of at least {least}, got {value}")
        if self.env.train_split == self.env.test_split:
            raise ConfigError(
                f"env.train_split and env.test_split are both {self.env.test_split!r}; evaluation needs tasks that "
                "training never sees"
            )
        single = self.rollout.group_size < 2 and self.algorithm.advantage is not AdvantageKind.REINFORCE
        if self.iterations and single:
            raise ConfigError(
                f"advantage {self.algorithm.advantage.value!r} compares the episodes of a group: "
                f"rollout.group_size must be at least 2, got {self.rollout.group_size}"
            )
        if self.algorithm.stapo is not None and self.env.context is not ContextMode.WINDOW:
            raise ConfigError(
                "algorithm.stapo compares a turn's prompt with the same prompt without goal and history, which a "
                f"conversation has no one place for: set env.context='window', got {self.env.context.value!r}, or "
                "algorithm.stapo=null"
            )
        if self.evaluation.pool and self.env.pool_size is None:
            raise ConfigError("evaluation.pool=true needs env.pool_size: there is no pool to evaluate on")
        if self.rollout.max_context_tokens <= self.rollout.max_reply_tokens:
            raise ConfigError(
                f"rollout.max_context_tokens ({self.rollout.max_context_tokens}) must exceed "
                f"rollout.max_reply_tokens ({self.rollout.max_reply_tokens}): a prompt must fit too"
            )
        if self.model.lora is not None and self.model.path == TINY:
            raise ConfigError(
                f"model.lora adapts a pretrained model, but model.path is {TINY!r}, whose random weights need full "
                "training; name a model or leave model.lora out"
            )
        if self.model.dtype == "float16" and self.trains:
            raise ConfigError(
                "model.dtype='float16' cannot be trained: without a scaled loss most gradients round to 0. Set "
                "model.dtype='bfloat16', or 'float32' with model.autocast='bfloat16'"
            )
        if self.rollout.sampler is SamplerKind.HF and self.rollout.sampler_options:
            raise ConfigError(
                f"rollout.sampler='hf' has no options, got rollout.sampler_options={self.rollout.sampler_options}"
            )
        check_names(self.run.stop_on)
        self._check_environments()

    def _check_environments(self) -> None:
        env = self.env
        if env.mix and (env.options or env.stages):
            raise ConfigError(
                "env.options and env.stages are of one environment; with env.mix give them to its parts"
            )
        labels = [part.label for part in env.mix]
        if len(set(labels)) < len(labels):
            raise ConfigError(f"parts of env.mix must have different names, got {labels}; set their `name`")
        for where, options, stages in (
            ("env", env.options, env.stages),
            *((f"env.mix {part.label}", part.options, part.stages) for part in env.mix),
        ):
            for reserved in ("split", "tasks"):
                if any(reserved in found for found in (options, *(stage.options for stage in stages))):
                    raise ConfigError(
                        f"{where}: options must not hold {reserved!r}; use env.train_split and env.test_split"
                    )
            endless = [number for number, stage in enumerate(stages[:-1], 1) if not stage.ends]
            if endless:
                raise ConfigError(
                    f"{where}: stage {endless[0]} of {len(stages)} never ends; give it iterations or success"
                )
            if stages and stages[-1].ends:
                raise ConfigError(
                    f"{where}: the last stage lasts to the end; give it neither iterations nor success"
                )
            if stages and self.evaluation.pool:
                raise ConfigError(
                    "evaluation.pool=true needs one pool, but every stage of a curriculum has its own"
                )


_LEAST: dict[str, dict[str, int]] = {
    "": {"iterations": 0, "seed": 0},
    "env": {"history_length": 0, "workers": 0, "pool_size": 1},
    "cloning": {"episodes": 0},
    "rollout": {"groups": 1, "group_size": 1, "max_reply_tokens": 1, "max_parallel": 1, "importance_cap": 1},
    "optim": {
        "learning_rate": 0,
        "weight_decay": 0,
        "grad_clip": 0,
        "passes": 1,
        "minibatch_rows": 0,
        "warmup_steps": 0,
        "max_tokens_per_microbatch": 1,
    },
    "evaluation": {"every": 0, "episodes": 1, "final_episodes": 0},
    "run": {"checkpoint_every": 1, "keep_checkpoints": 1, "episodes_every": 0, "episodes_groups": 0, "threads": 0},
}
"""Section -> setting -> least value allowed."""
