"""What every metric of an iteration means, in one sentence each.

The same sentences appear in the documentation, on the console and in TensorBoard.
"""

from __future__ import annotations

from trainers.settings.warnings import WarningName

QUANTILES = (1, 10, 50, 90, 99)
"""Percent points at which the ratio is reported."""

_SIGN = {"pos": "A > 0", "neg": "A < 0"}
_SIDE = {"up": "ratio at or above 1", "down": "ratio below 1"}
_LEVEL = {"high": "entropy above the median", "low": "entropy at or below the median"}

LOW_RATIO = 0.223
"""A turn whose mean of log old - log new exceeds this has a low ratio: the published delta of the sequence mask."""

KL_BUCKETS: dict[str, str] = {
    f"{sign}_{side}_{level}": f"{_SIGN[sign]}, {_SIDE[side]}, {_LEVEL[level]}"
    for sign in _SIGN
    for side in _SIDE
    for level in _LEVEL
}
"""The eight buckets of `kl_share/...`, in the order of the bits (sign, side, level)."""

METRICS: dict[str, str] = {
    "loss/total": "Minibatch loss that was minimised, averaged over the optimiser steps.",
    "loss/policy": "Policy term of the loss; near 0 at ratio 1 whatever the policy.",
    "loss/kl": "KL term of the loss before its coefficient, aggregated as the policy term is.",
    "loss/entropy": "Entropy aggregated as the policy term is, before the coefficient of the bonus.",
    "loss/stapo": "STAPO term of the loss, its coefficients included; part of the total.",
    "optim/grad_norm": "Gradient norm before clipping, averaged over the optimiser steps.",
    "optim/grad_norm_max": "Largest gradient norm before clipping of the iteration.",
    "optim/steps": "Optimiser steps of the iteration.",
    "optim/skipped_steps": "Optimiser steps left out because the gradient was not finite.",
    "optim/learning_rate": "Learning rate after the iteration.",
    "policy/drift": "Mean over sampled tokens of log old - log new: how far the updates moved the policy.",
    "policy/kl_reference": "Mean over sampled tokens of the k3 estimate of the KL to the reference policy.",
    "policy/entropy": "Mean entropy of the policy at sampled tokens, in nats.",
    "policy/sampler_gap": "Mean over tokens of |log-probability by the sampler - by the trainer|.",
    "policy/sampler_gap_max": "Largest |log-probability by the sampler - by the trainer| of a token.",
    "clip/tokens_above": "Tokens with A > 0 and a ratio above the band, as a share of all sampled tokens.",
    "clip/tokens_below": "Tokens with A < 0 and a ratio below the band, as a share of all sampled tokens.",
    "clip/rows_above": "Turn rows with A > 0 and a mean ratio above the band, as a share of all turn rows.",
    "clip/rows_below": "Turn rows with A < 0 and a mean ratio below the band, as a share of all turn rows.",
    "clip/grad_zero_rows_positive": "Turn rows with A > 0 and no policy gradient, as a share of all turn rows.",
    "clip/grad_zero_rows_negative": "Turn rows with A < 0 and no policy gradient, as a share of all turn rows.",
    "clip/sequence_masked_rows": "Share of turn rows that the sequence mask took out of the policy term.",
    **{
        f"ratio/{side}_p{quantile:02d}": f"{quantile} % quantile of the ratio of tokens with {side} advantage."
        for side in ("positive", "negative")
        for quantile in QUANTILES
    },
    "ratio/negative_rows_low": "Turn rows with A < 0 and a mean ratio below 0.8 (log -0.223), as a share of all.",
    **{
        f"kl_share/{name}": f"Share of the k3 KL (to the reference; without one, to the old policy) on {text}."
        for name, text in KL_BUCKETS.items()
    },
    "advantage/mean": "Mean advantage over turn rows.",
    "advantage/min": "Smallest advantage of a turn row.",
    "advantage/max": "Largest advantage of a turn row.",
    "groups/uniform_share": "Share of the batch's task groups whose episode returns are all equal.",
    "groups/anchor_mean_size": "Turn rows per step group (same task, same anchor state).",
    "groups/anchor_singleton_share": "Share of turn rows that are alone in their step group.",
    "groups/dropped_episodes": "Episodes left out of the update because a reward was not finite.",
    "stapo/outlier_share": "Share of turn rows that stand out by their entropy.",
    "stapo/eligible_share": "Share of turn rows that are compared with the other turns of their state.",
    "stapo/outlier_share_normalized_pool": "Outliers among the turns that are compared with those of their state.",
    "stapo/outlier_share_shannon_pool": "Outliers among the turns that are compared by plain entropy.",
    "stapo/entropy_normalized_pool": "Mean entropy of turns that are compared with those of their state, in nats.",
    "stapo/entropy_shannon_pool": "Mean entropy of turns that are compared by plain entropy, in nats.",
    "stapo/entropy_outliers": "Mean entropy of outlier turns under the policy that sampled them, in nats.",
    "stapo/reward": "R_TA of outlier turns: capped divergence of replies with and without goal and history, nats.",
    "stapo/entropy_full": "P_TI of outlier turns: mean entropy of replies under the full prompt, in nats.",
    "stapo/entropy_masked": "P_TI of outlier turns: mean entropy of replies under the masked prompt, in nats.",
    "stapo/capped_share": "Share of outlier turns' tokens whose divergence is above the cap.",
    "stapo/unmasked_share": "Share of outlier turns whose prompt held neither goal nor history to mask.",
    "replies/length": "Sampled tokens per reply.",
    "replies/cut_share": "Share of replies that were cut at the token limit.",
    "replies/valid_format": "Share of replies that follow the reply grammar.",
    "replies/valid_action": "Share of replies whose action the environment accepted.",
    "replies/repeated_action": "Share of turns that repeat an action tried earlier from that state.",
    "rollout/success": "Success rate over all sampled episodes, before filtering.",
    "rollout/return": "Mean finite episode return over all sampled episodes, before filtering.",
    "rollout/episodes": "Episodes sampled, before filtering.",
    "rollout/turns": "Mean turns of the sampled episodes, before filtering.",
    "rollout/env_errors": "Episodes lost because the environment failed; they count for nothing.",
    "rollout/context_overflow": "Share of sampled episodes that ended because a prompt did not fit.",
    "filter/kept_share": "Share of sampled groups whose episodes differ, which is what the filter keeps.",
    "filter/tries": "Rounds of sampling this iteration took.",
    "filter/filled_groups": "Uniform groups that filled the batch because mixed ones ran short.",
    "filter/active": "1 when the group filter acted this iteration, 0 during its warm-up or without one.",
    "curriculum/stage": "Stage of the curriculum that was played, counted from 1.",
    **{f"warning/{name}": f"1 while the detector's warning {name} holds." for name in WarningName},
}
"""Metric name -> one sentence."""

ENV_METRICS: dict[str, str] = {
    "groups": "Groups sampled in the environment, before filtering.",
    "success": "Success rate over its sampled episodes.",
    "return": "Mean finite episode return.",
    "turns": "Mean turns of an episode.",
    "length": "Sampled tokens per reply.",
    "valid_format": "Share of replies that follow the reply grammar.",
    "valid_action": "Share of replies whose action the environment accepted.",
    "mixed_share": "Share of its groups whose episodes differ.",
    "stage": "Stage of its curriculum that was played, counted from 1.",
}
"""What `env/NAME/...` holds for every environment of a mix."""

EVALUATION_METRICS: dict[str, str] = {
    "success": "Share of solved episodes.",
    "score": "Mean task score.",
    "reward": "Mean episode return.",
    "turns": "Mean turns of an episode.",
    "valid_format": "Share of replies that follow the reply grammar.",
    "valid_action": "Share of replies whose action the environment accepted.",
}
"""What `test/...` and `pool/...` hold when an evaluation was made, and `test/NAME/...` for a part of a mix."""
