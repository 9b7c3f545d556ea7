"""All settings of a run, and the checks that concern several sections."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agent_gym.core.prompts import ContextMode
from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import AdvantageKind, AlgorithmConfig, get_algorithm
from trainers.settings.cloning import ColdStartSettings
from trainers.settings.env import EnvSettings
from trainers.settings.evaluation import EvaluationSettings
from trainers.settings.model import TINY, ModelSettings
from trainers.settings.optim import OptimSettings
from trainers.settings.rollout import RolloutSettings, SamplerKind
from trainers.settings.sampling import SamplingSettings
from trainers.settings.strict import STRICT
from trainers.settings.warnings import check_names


@dataclass(frozen=True)
class RunSettings:
    """What is kept in the run folder."""

    __pydantic_config__ = STRICT

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

    __pydantic_config__ = STRICT

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
    def evaluation_sampling(self) -> SamplingSettings:
        """How replies are drawn in evaluations."""
        return self.evaluation.sampling(self.rollout.max_reply_tokens)

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
