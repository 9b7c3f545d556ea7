"""Importance ratios of the new against the old policy, over tokens, turns and whole episodes.

Let l = log new - log old of one sampled token. The token ratio is exp(l). The turn and the trajectory ratio
are exp(mean of l), with the mean over one reply or over all replies of the episode: a mean, not a sum, so
that a small constant drift does not shrink long episodes to nothing.

A mean ratio is applied per token in the form of GSPO-token (arXiv 2507.18071): every token carries the same
value, and the gradient reaches each token's log-probability through its own factor.

The trajectory mean spans rows that may lie in several micro-batches. The caller keeps all rows of an episode
in one optimiser minibatch and either keeps them in one micro-batch, or makes one more forward pass without
gradient over the minibatch, adds up `episode_sums` and hands the means to the loss; its cost is that pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_gym.support.errors import DataError
from trainers.settings.algorithm import ImportanceLevel
from trainers.update.token_batch import Segments, TokenBatch, turns

TOKEN_CLAMP = 20.0
"""Token log-ratios are clamped to plus and minus this before exp."""
MEAN_CLAMP = 10.0
"""Mean log-ratios are clamped from above at this before exp."""


@dataclass(frozen=True, eq=False)
class EpisodeSums:
    """Sums of the log-ratio over all sampled tokens of each of E episodes."""

    episode: Tensor
    """Episode ids, ascending, int64 [E]."""
    total: Tensor
    """Sum of log new - log old, float [E]."""
    n_tokens: Tensor
    """Sampled tokens, int64 [E]."""

    def mean_for(self, episode: Tensor) -> Tensor:
        """Look up the mean log-ratio of each row's episode.

        Args:
            episode: Episode ids of rows, int [B]. Negative ids, those of padding rows, give 0.

        Returns:
            Float [B], the `episode_log_ratio` of the loss.

        Raises:
            DataError: When an episode is not among the sums.
        """
        real = episode >= 0
        place = torch.searchsorted(self.episode, episode.to(torch.int64).contiguous())
        place = place.clamp(max=max(len(self.episode) - 1, 0))
        known = self.episode[place] == episode if len(self.episode) else torch.zeros_like(real)
        if bool((real & ~known).any()):
            missing = sorted(set(episode[real & ~known].tolist()))
            raise DataError(
                f"no log-ratio sums of episodes {missing[:5]}; all rows of an episode belong in one "
                "minibatch and their sums are added up before its first backward."
            )
        if not len(self.episode):
            return torch.zeros(episode.shape, dtype=self.total.dtype, device=self.total.device)
        means = self.total / self.n_tokens.clamp(min=1)
        return torch.where(real, means[place], 0.0)


def token_log_ratio(tokens: TokenBatch) -> Tensor:
    """Return log new - log old, [B, T], unclamped, exactly 0 where nothing was sampled."""
    return tokens.clean(tokens.logp_new) - tokens.clean(tokens.logp_old).detach()


def episode_sums(tokens: TokenBatch) -> EpisodeSums:
    """Sum the log-ratio of one micro-batch over each of its episodes, without gradient.

    Episodes whose rows hold no sampled token are listed with a sum of 0.
    """
    with torch.no_grad():
        row_sum = token_log_ratio(tokens).sum(-1)
        row_count = tokens.sampled.sum(-1)
    real = tokens.episode >= 0
    return _collect(tokens.episode[real], row_sum[real], row_count[real])


def merge_episode_sums(parts: Iterable[EpisodeSums]) -> EpisodeSums:
    """Add up the sums of all micro-batches (and ranks) of an optimiser minibatch.

    Raises:
        DataError: When there are no parts.
    """
    listed = list(parts)
    if not listed:
        raise DataError("expected the episode sums of at least one micro-batch, got none.")
    return _collect(
        torch.cat([part.episode for part in listed]),
        torch.cat([part.total for part in listed]),
        torch.cat([part.n_tokens for part in listed]),
    )


def importance_ratio(tokens: TokenBatch, level: ImportanceLevel, episode_log_ratio: Tensor | None = None) -> Tensor:
    """Importance ratio of every token at the chosen level.

    Args:
        tokens: The micro-batch.
        level: Span of the mean.
        episode_log_ratio: Mean log-ratio over all sampled tokens of each row's episode, float [B]; read at
            the trajectory level only. None: the micro-batch holds whole episodes, their means are taken here.

    Returns:
        Float [B, T] with gradient to `logp_new`; exactly 0, and without gradient, where nothing was sampled.

    Raises:
        DataError: When `episode_log_ratio` has another shape than [B].
    """
    log_ratio = token_log_ratio(tokens)
    if level is ImportanceLevel.TOKEN:
        ratio = log_ratio.clamp(-TOKEN_CLAMP, TOKEN_CLAMP).exp()
    else:
        mean = _MEANS[level](tokens, log_ratio.detach(), episode_log_ratio)
        logp = tokens.clean(tokens.logp_new)
        ratio = (logp - logp.detach() + mean.to(logp.dtype)).clamp(max=MEAN_CLAMP).exp()
    return torch.where(tokens.sampled, ratio, 0.0)


def _turn_mean(tokens: TokenBatch, log_ratio: Tensor, given: Tensor | None) -> Tensor:
    groups = turns(tokens)
    return groups.spread(groups.mean(log_ratio))


def _trajectory_mean(tokens: TokenBatch, log_ratio: Tensor, given: Tensor | None) -> Tensor:
    if given is None:
        episode = tokens.episode[:, None].expand_as(tokens.segment)
        groups = Segments.of(episode, tokens.sampled)
        return groups.spread(groups.mean(log_ratio))
    if given.shape != tokens.episode.shape:
        raise DataError(
            f"episode_log_ratio must have shape {tuple(tokens.episode.shape)}, one mean per row, "
            f"got {tuple(given.shape)}; use EpisodeSums.mean_for(tokens.episode)."
        )
    return given.detach()[:, None].expand_as(log_ratio)


_MEANS = {ImportanceLevel.TURN: _turn_mean, ImportanceLevel.TRAJECTORY: _trajectory_mean}


def _collect(episode: Tensor, total: Tensor, n_tokens: Tensor) -> EpisodeSums:
    ids, inverse = torch.unique(episode.to(torch.int64), return_inverse=True)
    sums = torch.zeros(len(ids), dtype=total.dtype, device=total.device).index_add(0, inverse, total)
    counts = torch.zeros(len(ids), dtype=torch.int64, device=total.device)
    return EpisodeSums(ids, sums, counts.index_add(0, inverse, n_tokens.to(torch.int64)))
