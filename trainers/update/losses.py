"""The policy loss of one micro-batch: ratio, clip rule, sequence mask, aggregation and regularisers.

Every aggregation is a weighted sum over tokens. The weights come from totals of the whole optimiser
minibatch, so the sum of the micro-batches' losses, and of their gradients, does not depend on the cut, on
padding or on order.

To add a clip rule, write one function of the type `Clip` and list it in `CLIPS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.settings.algorithm import Aggregation, AlgorithmConfig, ClipRule, KLKind
from trainers.update.ratios import importance_ratio, token_log_ratio
from trainers.update.regularisers import policy_entropy, reference_kl
from trainers.update.token_batch import MinibatchTotals, TokenBatch, turns


@dataclass(frozen=True, eq=False)
class LossOutput:
    """Loss of one micro-batch and what the diagnostics need. All but `loss` is detached.

    Token tensors are [B, T] and exactly 0 or False where nothing was sampled.
    """

    loss: Tensor
    """Scalar with graph: policy + kl_coef * kl - entropy_coef * entropy. Micro-batches add up."""
    policy: Tensor
    """Policy term, scalar."""
    kl: Tensor
    """KL term before its coefficient, scalar; 0 when the coefficient is 0."""
    entropy: Tensor
    """Entropy before its coefficient, scalar; 0 when the coefficient is 0."""
    ratio: Tensor
    """Importance ratio at the configured level."""
    log_ratio: Tensor
    """Token log-ratio, log new - log old, unclamped."""
    above: Tensor
    """Ratio above the band, bool."""
    below: Tensor
    """Ratio below the band, bool."""
    gradient_off: Tensor
    """The policy term has no gradient at this token: clipped, sequence-masked or of advantage 0, bool."""
    sequence_masked: Tensor
    """Token of a turn that the sequence mask took out, bool."""
    band: tuple[float, float]
    """Edges of the band, 1 - eps_low and 1 + eps_high."""
    kl_reference: Tensor | None
    """k3 to the reference, whatever estimator the loss uses; None without a reference."""


@dataclass(frozen=True, eq=False)
class ClipInput:
    """What a clip rule sees; all tensors [B, T], 0 where nothing was sampled."""

    ratio: Tensor
    logp: Tensor
    advantage: Tensor
    turn_advantage: Tensor
    """Mean advantage of the token's turn."""


Clip = Callable[[ClipInput, AlgorithmConfig], tuple[Tensor, Tensor]]
"""Returns the token losses with graph, and where their gradient is exactly zero (bool)."""


@dataclass(frozen=True, eq=False)
class PolicyTerm:
    """The policy term of each token before aggregation; all [B, T], 0 or False where nothing was sampled."""

    loss: Tensor
    """Loss, with graph; 0 where the sequence mask took the token out."""
    ratio: Tensor
    """Importance ratio at the configured level, with graph."""
    gradient_off: Tensor
    """Clipped, sequence-masked or of advantage 0, bool."""
    sequence_masked: Tensor
    """Token of a turn that the sequence mask took out, bool."""


def policy_term(tokens: TokenBatch, config: AlgorithmConfig, episode_log_ratio: Tensor | None = None) -> PolicyTerm:
    """Compute the policy term of each token; arguments as for `policy_loss`."""
    advantage = tokens.clean(tokens.advantage).detach()
    groups = turns(tokens)
    turn_advantage = groups.spread(groups.mean(advantage))
    # Without a clip rule the level is not used, but the diagnostics still show how far the policy moved.
    ratio = importance_ratio(tokens, config.importance_level, episode_log_ratio)
    seen = ClipInput(ratio, tokens.clean(tokens.logp_new), advantage, turn_advantage)
    loss, off = CLIPS[config.clip](seen, config)
    masked = sequence_masked(tokens, config.sequence_mask_delta)
    return PolicyTerm(
        loss=torch.where(tokens.sampled & ~masked, loss, 0.0),
        ratio=ratio,
        gradient_off=tokens.sampled & (off | masked | (advantage == 0)),
        sequence_masked=masked,
    )


def policy_loss(
    tokens: TokenBatch,
    config: AlgorithmConfig,
    totals: MinibatchTotals,
    episode_log_ratio: Tensor | None = None,
) -> LossOutput:
    """Compute the loss of one micro-batch.

    Args:
        tokens: The micro-batch.
        config: Reads the loss settings; the advantage settings do not matter any more.
        totals: Denominators of the whole optimiser minibatch, over all micro-batches and ranks.
        episode_log_ratio: Mean log-ratio of each row's episode, float [B], for the trajectory level; see
            `trainers.update.ratios`. None: the micro-batch holds whole episodes.

    Returns:
        The loss, to be added over micro-batches. Without a sampled token it is 0, with a zero gradient.

    Raises:
        ConfigError: When `kl_coef` or `entropy_coef` is above 0 and the tensor it needs is missing.
    """
    weight = token_weights(tokens, config.aggregation, totals, config.norm_length)
    term = policy_term(tokens, config, episode_log_ratio)
    policy = (weight * term.loss).sum()
    loss = policy
    kl = entropy = torch.zeros_like(policy.detach())
    if config.kl_coef > 0:
        kl = (weight * reference_kl(tokens, config.kl_kind)).sum()
        loss = loss + config.kl_coef * kl
    if config.entropy_coef > 0:
        entropy = (weight * policy_entropy(tokens)).sum()
        loss = loss - config.entropy_coef * entropy
    with torch.no_grad():
        plain = term.ratio.detach()
        return LossOutput(
            loss=loss,
            policy=policy.detach(),
            kl=kl.detach(),
            entropy=entropy.detach(),
            ratio=plain,
            log_ratio=token_log_ratio(tokens),
            above=tokens.sampled & (plain > 1 + config.eps_high),
            below=tokens.sampled & (plain < 1 - config.eps_low),
            band=(1 - config.eps_low, 1 + config.eps_high),
            gradient_off=term.gradient_off,
            sequence_masked=term.sequence_masked,
            kl_reference=None if tokens.logp_ref is None else reference_kl(tokens, KLKind.K3),
        )


def token_weights(
    tokens: TokenBatch, aggregation: Aggregation, totals: MinibatchTotals, norm_length: int
) -> Tensor:
    """Weight of each token in the loss, [B, T], exactly 0 where nothing was sampled.

    A denominator of `seq_mean_...` is the number of turns of the minibatch, those without a share in the loss
    included. `norm_length` is the constant L of Dr.GRPO (arXiv 2503.20783).
    """
    n_sequences = max(totals.n_sequences, 1)
    on = tokens.clean(torch.ones_like(tokens.logp_new.detach()))
    if aggregation is Aggregation.TOKEN_MEAN:
        return on / max(totals.n_tokens, 1)
    if aggregation is Aggregation.SEQ_MEAN_TOKEN_SUM:
        return on / n_sequences
    if aggregation is Aggregation.SEQ_MEAN_TOKEN_SUM_NORM:
        return on / (n_sequences * norm_length)
    groups = turns(tokens)
    return on / (groups.spread(groups.n_tokens).clamp(min=1) * n_sequences)


def sequence_masked(tokens: TokenBatch, delta: float | None) -> Tensor:
    """Tokens of turns to drop from the policy term, bool [B, T] (ARLArena, arXiv 2602.21534, section 4.1).

    A turn is dropped iff its mean advantage is negative and its mean of log old - log new exceeds delta: bad
    replies that the policy has already moved away from, whose pull is all noise. Turns of positive advantage
    and turns that became likelier are kept.
    """
    if delta is None:
        return torch.zeros_like(tokens.sampled)
    groups = turns(tokens)
    with torch.no_grad():
        falling = -groups.mean(token_log_ratio(tokens)) > delta
        negative = groups.mean(tokens.clean(tokens.advantage)) < 0
    return groups.spread(falling & negative)


def _ppo(seen: ClipInput, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
    """Pessimistic clip; with dual clip c and A < 0 the loss is at most -c A (arXiv 1912.09729)."""
    ratio, advantage = seen.ratio, seen.advantage
    low, high = 1 - config.eps_low, 1 + config.eps_high
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(low, high))
    with torch.no_grad():
        off = ((advantage > 0) & (ratio > high)) | ((advantage < 0) & (ratio < low))
    if config.dual_clip is not None:
        capped = torch.minimum(loss, -config.dual_clip * advantage)
        loss = torch.where(advantage < 0, capped, loss)
        with torch.no_grad():
            off = off | ((advantage < 0) & (ratio > config.dual_clip))
    return loss, off


def _cispo(seen: ClipInput, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
    """Clipped ratio as a constant weight (arXiv 2506.13585): no token loses its gradient by being clipped."""
    with torch.no_grad():
        weight = seen.ratio.clamp(1 - config.eps_low, 1 + config.eps_high)
    return -weight * seen.advantage * seen.logp, weight == 0


def _sapo(seen: ClipInput, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
    """Sigmoid gate around ratio 1 (arXiv 2511.20347), steeper for turns of negative mean advantage."""
    positive = torch.full_like(seen.ratio, config.sapo_tau_positive)
    tau = torch.where(seen.turn_advantage > 0, positive, config.sapo_tau_negative)
    loss = -(4 / tau) * torch.sigmoid(tau * (seen.ratio - 1)) * seen.advantage
    return loss, torch.zeros_like(loss, dtype=torch.bool)


def _none(seen: ClipInput, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
    """Plain policy gradient: -A log pi."""
    loss = -seen.advantage * seen.logp
    return loss, torch.zeros_like(loss, dtype=torch.bool)


CLIPS: dict[ClipRule, Clip] = {
    ClipRule.PPO: _ppo,
    ClipRule.CISPO: _cispo,
    ClipRule.SAPO: _sapo,
    ClipRule.NONE: _none,
}
"""The loss of each clip rule."""
