"""The design space of policy-gradient training as independent settings, and its named rows.

An algorithm is a row of choices (`ALGORITHMS`), never a branch in the training loop: every function of the
trainer reads single settings of an `AlgorithmConfig`, so that any two rows can be mixed with
`dataclasses.replace`. The decomposition (loss aggregation, importance-sampling clipping, trajectory
filtering, advantage design) is that of ARLArena, arXiv 2602.21534.

Settings that the chosen rule does not read are ignored: `sapo_tau_positive` matters to `clip="sapo"` only.
The band `eps_low`/`eps_high` is the exception: the diagnostics measure it under every rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from agent_gym.support.checks import check_choice, check_number, check_whole
from agent_gym.support.errors import ConfigError, suggest
from trainers.settings.stapo import StapoSettings


class AdvantageKind(StrEnum):
    """How the value of a turn is estimated from the returns of its group."""

    REINFORCE = "reinforce"
    """The episode return itself, no baseline (Williams 1992)."""
    GRPO = "grpo"
    """Return against the group mean, divided by the group std (arXiv 2402.03300)."""
    DR_GRPO = "dr_grpo"
    """Return against the group mean, not divided (arXiv 2503.20783)."""
    RLOO = "rloo"
    """Return against the mean of the other members of the group (arXiv 2402.14740)."""
    REINFORCE_PP_BASELINE = "reinforce_pp_baseline"
    """Return against the group mean, whitened over all sampled tokens (arXiv 2501.03262)."""
    GIGPO = "gigpo"
    """Episode advantage plus a step advantage inside groups of equal states (arXiv 2505.10978)."""
    EMPG = "empg"
    """`grpo` weighted by confidence, plus a bonus for a confident next turn (arXiv 2509.09265)."""
    HGPO = "hgpo"
    """Step groups nested by how much of the history is shared (arXiv 2602.22817)."""
    G2PO = "g2po"
    """`grpo` plus the values of states and of moves in the graph of the group's turns (arXiv 2606.22995)."""


UNIFORM_FLOOR = 1e-6
"""A set of values whose spread (max - min) is below this carries no signal."""

UNIFORM_ENTROPY = 1e-4
"""Mean entropies of replies within this many nats of each other are equal: they differ by float32 rounding, which
division by their spread or deviation would blow up."""


class HgpoBase(StrEnum):
    """What `hgpo` makes of the advantage of the episode."""

    NONE = "none"
    """Nothing: the nested step groups are the whole advantage, as in the released code."""
    GROUPED = "grouped"
    """One more item of the weighted mean, of weight 1: the release's `base_group`, off in all its scripts."""
    ADDED = "added"
    """Added as in `gigpo`, to step groups with weights and deviations of their own: a form of this package."""


class EntropyScope(StrEnum):
    """Over which turns entropies are scaled, and weights have the mean 1."""

    BATCH = "batch"
    """All turns of the batch."""
    GROUP = "group"
    """The turns of a task group."""
    EPISODE = "episode"
    """The turns of an episode."""


class Statistics(StrEnum):
    """Who votes in the mean and the std of a group."""

    EPISODE = "episode"
    """One vote per episode: long episodes do not dominate the baseline."""
    TURN = "turn"
    """One vote per turn row, as the public reference code does."""


class Normalisation(StrEnum):
    """What centred values are divided by."""

    MEAN = "mean"
    """Nothing: the mean is subtracted only."""
    MEAN_STD = "mean_std"
    """The standard deviation of the group, plus 1e-6: unbiased, but biased in the step groups of the released
    `hgpo`."""


class ImportanceLevel(StrEnum):
    """Over which span the log-ratio of new and old policy is averaged."""

    TOKEN = "token"
    """No averaging: one ratio per sampled token."""
    TURN = "turn"
    """Mean over one turn's reply (GSPO-token, arXiv 2507.18071)."""
    TRAJECTORY = "trajectory"
    """Mean over all sampled tokens of all turns of the episode."""


class ClipRule(StrEnum):
    """How the ratio enters the policy loss."""

    PPO = "ppo"
    """Pessimistic clip to the band, optionally with a dual clip for negative advantages."""
    CISPO = "cispo"
    """Clipped ratio as a constant weight on the log-probability (arXiv 2506.13585)."""
    SAPO = "sapo"
    """Smooth sigmoid gate around ratio 1 (arXiv 2511.20347)."""
    NONE = "none"
    """Plain policy gradient, no ratio."""


class Aggregation(StrEnum):
    """How token losses become one number. A sequence is one turn's reply in every context mode."""

    TOKEN_MEAN = "token_mean"
    """Sum over tokens divided by the number of sampled tokens of the minibatch."""
    SEQ_MEAN_TOKEN_MEAN = "seq_mean_token_mean"
    """Mean over sequences of the mean over tokens."""
    SEQ_MEAN_TOKEN_SUM = "seq_mean_token_sum"
    """Mean over sequences of the sum over tokens."""
    SEQ_MEAN_TOKEN_SUM_NORM = "seq_mean_token_sum_norm"
    """Mean over sequences of the sum over tokens divided by the constant `norm_length`."""


class GroupFilter(StrEnum):
    """What happens to groups that carry no learning signal."""

    NONE = "none"
    """They stay in the batch."""
    DYNAMIC = "dynamic"
    """They are replaced by groups on new tasks (DAPO, arXiv 2503.14476)."""


class FilterOn(StrEnum):
    """Which value must differ inside a group for the filter to keep it."""

    RETURN = "return"
    """The raw episode return."""
    SUCCESS = "success"
    """The success flag: with step costs, returns of all-win groups differ by length only."""


class KLKind(StrEnum):
    """Estimator of the divergence from the reference policy, as a loss on sampled tokens."""

    K1 = "k1"
    """log pi - log ref. Refused with the reason: its expected gradient is zero."""
    K2 = "k2"
    """Half the squared log-ratio: its gradient is that of KL(pi || ref)."""
    K3 = "k3"
    """exp(d) - d - 1 with d = log ref - log pi: its gradient is that of KL(ref || pi)."""


@dataclass(frozen=True)
class AlgorithmConfig:
    """One point of the design space. Strings are accepted for the enums; values are checked on construction.

    Raises:
        ConfigError: For an unknown choice, a number outside its range, or a choice that cannot train.
    """

    advantage: AdvantageKind = AdvantageKind.GRPO
    """Advantage estimator."""
    statistics: Statistics = Statistics.TURN
    """Who votes in group means. With `turn` the format penalty enters the row's score before normalisation;
    with `episode` statistics come from raw returns and the final advantage of the row is lowered by it."""
    normalisation: Normalisation = Normalisation.MEAN_STD
    """Divisor of `grpo`, `empg` and all parts of `gigpo`, `hgpo` and `g2po`. The others define their own."""
    whiten: bool = False
    """Shift and scale the advantages to mean 0 and std 1 over the sampled tokens of the batch
    (`reinforce_pp_baseline` always does)."""
    gamma: float = 0.95
    """Discount of the step returns of `gigpo` and `hgpo` and of the node values of `g2po`, per turn, in [0, 1].
    Episode returns are never discounted."""
    omega: float = 1.0
    """Weight of the step advantage beside the episode advantage."""
    anchor_similarity: float = 1.0
    """1: states are grouped when their anchors are equal. Below 1: greedy clusters of free-text anchors with
    at least this sequence similarity to the cluster's first member (0.9 is usual)."""
    unique_visits: bool = False
    """Count only the first visit of an episode to an anchor; later visits get no step advantage."""
    empg_k: float = 1.0
    """`empg` only: how fast the weight of a turn falls with its entropy."""
    empg_k_prime: float = 1.0
    """`empg` only: how fast the bonus falls with the entropy of the next turn."""
    empg_zeta: float = 0.05
    """`empg` only: weight of the bonus for a confident next turn."""
    hgpo_depth: int = 2
    """`hgpo` only: earlier states that the deepest step groups share, usually `env.history_length`."""
    hgpo_alpha: float = 1.0
    """`hgpo` only: depth d weighs (d + 2) to this power, (d + 1) with `hgpo_base=added`; 0 weighs all alike."""
    hgpo_base: HgpoBase = HgpoBase.NONE
    """`hgpo` only: what becomes of the advantage of the episode."""
    g2po_terminal: float | None = None
    """`g2po` only: the success reward, above 0. The end of an episode with this return is worth it, any other end
    0. None for the episode's own return."""
    entropy_weight: float = 0.0
    """How fast the factor on a turn's advantage falls with its entropy (AEM, arXiv 2605.00425), whatever the
    estimator; 0 for no factor."""
    entropy_weight_scope: EntropyScope = EntropyScope.GROUP
    """Over which turns `entropy_weight` scales entropies and has factors of mean 1."""
    format_penalty: float = 0.1
    """Taken from the row whose reply was invalid: the amount that goes into `RowTable.penalty`."""

    importance_level: ImportanceLevel = ImportanceLevel.TOKEN
    """Span of the importance ratio."""
    clip: ClipRule = ClipRule.PPO
    """Use of the ratio in the loss."""
    eps_low: float = 0.2
    """The band's lower edge is 1 - eps_low, in [0, 1]."""
    eps_high: float = 0.2
    """The band's upper edge is 1 + eps_high."""
    dual_clip: float | None = None
    """`ppo` only: for a negative advantage the loss never exceeds this times |A|. Above 1; None for off."""
    sapo_tau_positive: float = 1.0
    """`sapo` only: steepness of the gate for rows of positive mean advantage."""
    sapo_tau_negative: float = 1.05
    """`sapo` only: steepness for the other rows; larger decays faster."""
    sequence_mask_delta: float | None = None
    """Drop rows of negative advantage whose mean log-ratio is below minus this from the policy term
    (0.223 or 3e-3 are usual). None for off."""

    aggregation: Aggregation = Aggregation.TOKEN_MEAN
    """From token losses to one number."""
    norm_length: int = 512
    """`seq_mean_token_sum_norm` only: the constant L in tokens, usually the limit on a reply."""

    kl_kind: KLKind = KLKind.K3
    """Estimator of the KL term."""
    kl_coef: float = 0.0
    """Weight of the KL to the reference policy in the loss. 0 needs no reference."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""

    stapo: StapoSettings | None = None
    """Terms on turns that neglect their trajectory (`trainers.stapo.term`); None for off. Needs window context."""

    group_filter: GroupFilter = GroupFilter.NONE
    """Treatment of groups in which every episode fared the same."""
    filter_on: FilterOn = FilterOn.RETURN
    """Value whose spread the filter looks at."""
    max_tries: int = 3
    """Rounds of sampling per iteration at most, the first one included."""
    filter_warmup: int = 0
    """Iterations at the start of training during which the filter does not act."""

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            object.__setattr__(self, name, check_choice(name, kind, getattr(self, name)))
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high)
        if self.dual_clip is not None:
            check_number("dual_clip", self.dual_clip, 1.0, math.inf, open_low=True, off="None switches it off")
        if self.sequence_mask_delta is not None:
            check_number("sequence_mask_delta", self.sequence_mask_delta, 0.0, math.inf, off="None switches it off")
        for name in ("sapo_tau_positive", "sapo_tau_negative", "anchor_similarity"):
            check_number(name, getattr(self, name), 0.0, _RANGES[name][1], open_low=True)
        for name, least in (("norm_length", 1), ("max_tries", 1), ("filter_warmup", 0), ("hgpo_depth", 0)):
            check_whole(name, getattr(self, name), least)
        if self.g2po_terminal is not None:
            off = "None takes the episode's own return"
            check_number("g2po_terminal", self.g2po_terminal, 0.0, math.inf, open_low=True, off=off)
        if self.stapo is not None and not isinstance(self.stapo, StapoSettings):
            raise ConfigError(f"stapo must be None or StapoSettings, got {self.stapo!r}.")
        if self.kl_kind is KLKind.K1:
            raise ConfigError(
                "kl_kind='k1' cannot be a loss: on tokens sampled from the policy the expected gradient of "
                "log pi - log ref is zero, so it adds noise and no pull. Use 'k3' (the default, gradient of "
                "KL(ref || pi)) or 'k2' (gradient of KL(pi || ref))."
            )
        if self.clip is ClipRule.NONE and self.importance_level is not ImportanceLevel.TOKEN:
            raise ConfigError(
                f"clip='none' uses no importance ratio, so importance_level={str(self.importance_level)!r} "
                "would have no effect. Set importance_level='token' or choose a clip rule (ppo, cispo, sapo)."
            )

    @property
    def reads_entropy(self) -> bool:
        """Whether the advantages read the entropy of each turn under the policy that produced the batch."""
        return self.advantage in _ENTROPY_ADVANTAGES or self.entropy_weight > 0


_CHOICES: dict[str, type[StrEnum]] = {
    "advantage": AdvantageKind,
    "statistics": Statistics,
    "normalisation": Normalisation,
    "hgpo_base": HgpoBase,
    "entropy_weight_scope": EntropyScope,
    "importance_level": ImportanceLevel,
    "clip": ClipRule,
    "aggregation": Aggregation,
    "kl_kind": KLKind,
    "group_filter": GroupFilter,
    "filter_on": FilterOn,
}

_ENTROPY_ADVANTAGES = frozenset({AdvantageKind.EMPG})

_RANGES: dict[str, tuple[float, float]] = {
    "gamma": (0.0, 1.0),
    "omega": (0.0, math.inf),
    "anchor_similarity": (0.0, 1.0),
    "empg_k": (0.0, math.inf),
    "empg_k_prime": (0.0, math.inf),
    "empg_zeta": (0.0, math.inf),
    "hgpo_alpha": (0.0, math.inf),
    "entropy_weight": (0.0, math.inf),
    "format_penalty": (0.0, math.inf),
    "eps_low": (0.0, 1.0),
    "eps_high": (0.0, math.inf),
    "sapo_tau_positive": (0.0, math.inf),
    "sapo_tau_negative": (0.0, math.inf),
    "kl_coef": (0.0, math.inf),
    "entropy_coef": (0.0, math.inf),
}

ALGORITHMS: dict[str, AlgorithmConfig] = {
    "reinforce": AlgorithmConfig(
        advantage=AdvantageKind.REINFORCE, statistics=Statistics.EPISODE, clip=ClipRule.NONE
    ),
    "grpo": AlgorithmConfig(dual_clip=3.0, kl_coef=0.01),
    "grpo_st": AlgorithmConfig(aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN, dual_clip=3.0, kl_coef=0.01),
    "dr_grpo": AlgorithmConfig(
        advantage=AdvantageKind.DR_GRPO, dual_clip=3.0, aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM_NORM
    ),
    "rloo": AlgorithmConfig(advantage=AdvantageKind.RLOO, dual_clip=3.0, kl_coef=0.01),
    "dapo": AlgorithmConfig(eps_high=0.28, group_filter=GroupFilter.DYNAMIC),
    "dapo_arlarena": AlgorithmConfig(dual_clip=3.0, group_filter=GroupFilter.DYNAMIC, kl_coef=0.01),
    "gspo": AlgorithmConfig(
        importance_level=ImportanceLevel.TURN,
        eps_low=3e-3,
        eps_high=4e-3,
        aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
        kl_coef=0.01,
    ),
    "cispo": AlgorithmConfig(clip=ClipRule.CISPO, eps_low=1.0, eps_high=0.2, kl_coef=0.01),
    "sapo": AlgorithmConfig(clip=ClipRule.SAPO, kl_coef=0.01),
    "gigpo": AlgorithmConfig(advantage=AdvantageKind.GIGPO, dual_clip=3.0, kl_coef=0.01),
    "empg": AlgorithmConfig(advantage=AdvantageKind.EMPG, dual_clip=3.0, kl_coef=0.01),
    "hgpo": AlgorithmConfig(advantage=AdvantageKind.HGPO, dual_clip=3.0, kl_coef=0.01),
    "g2po": AlgorithmConfig(advantage=AdvantageKind.G2PO, dual_clip=3.0, kl_coef=0.01),
    "aem": AlgorithmConfig(dual_clip=3.0, kl_coef=0.01, entropy_weight=1.0),
    "sampo": AlgorithmConfig(
        advantage=AdvantageKind.GIGPO,
        importance_level=ImportanceLevel.TURN,
        eps_low=3e-3,
        eps_high=4e-3,
        aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
        group_filter=GroupFilter.DYNAMIC,
        kl_coef=0.01,
    ),
    "sampo_trajectory": AlgorithmConfig(
        advantage=AdvantageKind.GIGPO,
        importance_level=ImportanceLevel.TRAJECTORY,
        eps_low=3e-3,
        eps_high=4e-3,
        aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
        group_filter=GroupFilter.DYNAMIC,
        kl_coef=0.01,
    ),
    "stapo": AlgorithmConfig(advantage=AdvantageKind.GIGPO, dual_clip=3.0, kl_coef=0.01, stapo=StapoSettings()),
    "stapo_sampo": AlgorithmConfig(
        advantage=AdvantageKind.GIGPO,
        importance_level=ImportanceLevel.TURN,
        eps_low=3e-3,
        eps_high=4e-3,
        aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN,
        group_filter=GroupFilter.DYNAMIC,
        kl_coef=0.01,
        stapo=StapoSettings(),
    ),
}
"""The named algorithms. `sampo` clips the turn ratio as the authors' code does (one row per turn),
`sampo_trajectory` the ratio of the whole episode; the rest of the two rows is the same. Budgets,
`filter_warmup` and wider bands for small policies belong to presets."""


def get_algorithm(name: str) -> AlgorithmConfig:
    """Return a named row of the table.

    Raises:
        ConfigError: When no algorithm has that name.
    """
    if name not in ALGORITHMS:
        raise ConfigError(f"Unknown algorithm {name!r}; known: {', '.join(ALGORITHMS)}.{suggest(name, ALGORITHMS)}")
    return ALGORITHMS[name]
