"""Regularisers of the policy loss on sampled tokens: KL to a reference policy, and the entropy bonus."""

from __future__ import annotations

import torch
from torch import Tensor

from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import KLKind
from trainers.update.token_batch import TokenBatch

LOG_RATIO_CLAMP = 20.0
"""log ref - log pi is clamped to plus and minus this."""
KL_CLAMP = 10.0
"""The KL of one token is clamped to plus and minus this; beyond it a token pulls no more."""


def token_kl(log_ratio: Tensor, kind: KLKind) -> Tensor:
    """KL estimate of each token.

    With d = log ref - log pi: k2 = d^2 / 2, whose gradient on sampled tokens is that of KL(pi || ref);
    k3 = exp(d) - d - 1, whose gradient is that of KL(ref || pi). Both are 0 at d = 0 and positive elsewhere.

    Args:
        log_ratio: d, any shape, finite.
        kind: k2 or k3.

    Raises:
        ConfigError: For k1, which has no expected gradient as a loss.
    """
    d = log_ratio.clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP)
    if kind is KLKind.K3:
        value = torch.expm1(d) - d
    elif kind is KLKind.K2:
        value = 0.5 * d.square()
    else:
        raise ConfigError(f"kl_kind must be k2 or k3, got {str(kind)!r}: its expected gradient is zero.")
    return value.clamp(-KL_CLAMP, KL_CLAMP)


def reference_kl(tokens: TokenBatch, kind: KLKind) -> Tensor:
    """KL estimate to the reference policy, [B, T], exactly 0 where nothing was sampled.

    Raises:
        ConfigError: When the batch has no reference log-probabilities.
    """
    if tokens.logp_ref is None:
        raise ConfigError("kl_coef > 0 needs logp_ref, got None; evaluate the reference policy or set kl_coef=0.")
    d = tokens.clean(tokens.logp_ref).detach() - tokens.clean(tokens.logp_new)
    return token_kl(d, kind)


def policy_entropy(tokens: TokenBatch) -> Tensor:
    """Entropy of each sampled token in nats, [B, T], exactly 0 where nothing was sampled.

    Raises:
        ConfigError: When the batch has no entropies.
    """
    if tokens.entropy is None:
        raise ConfigError("entropy_coef > 0 needs entropy, got None; ask the policy for it or set entropy_coef=0.")
    return tokens.clean(tokens.entropy)
