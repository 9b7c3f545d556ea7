"""How a model behaves under padding and with a cache, found by a few short passes when it is loaded.

What this trainer relies on does not hold in every family: a later token must not change an earlier one, padding
must not change a row, the head read apart must give the model's own logits, and the cache must continue a padded
batch as the whole row would. A model that fails one of the first three is refused by name, since every number of
the update would be wrong without a sign of it. One that fails only the last is read without a cache.

Gaps are measured against what another context changes, so that small random models and large trained ones are
judged alike, in the dtype of the weights whatever the passes of training compute in. Left out: windows of attention
longer than the rows read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from agent_gym.support.errors import DataError
from trainers.policy.decoding import CachedDecoding
from trainers.policy.logprobs import HeadReader, log_distributions
from trainers.policy.token_rows import TokenRow, pad_rows

if TYPE_CHECKING:
    from trainers.policy.policy import Policy

_LONG, _SHORT = 17, 6
# Gaps that rounding explains, in 32 bits and in 16: in nats, and as a share of what another context changes. A gap
# of the trainer's own scores refuses the model, so more is let pass there; one of the cache costs time only.
_REFUSED = ((1e-4, 0.02), (0.1, 0.3))
_UNCACHED = ((1e-5, 3e-5), (0.02, 0.08))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What was found.

    Attributes:
        cached: Whether a key-value cache continues a padded batch as the whole rows would.
        reason: Why not; empty where it does.
    """

    cached: bool = True
    reason: str = ""

    def note(self, family: str) -> str:
        """Return the sentence for the user."""
        return (
            f"Models of family {family!r} are sampled without a cache here ({self.reason}): each token costs a "
            "pass over its whole row, which is right but slow."
        )


def family_of(model: Any) -> str:
    """Return the name of a model's family, such as "qwen3"."""
    config = getattr(model, "config", None)
    return str(getattr(config, "model_type", "") or type(model).__name__)


def probe(policy: Policy) -> Behaviour:
    """Look how the policy's model behaves.

    Raises:
        DataError: The trainer would get wrong numbers of it, or its log-probabilities are not finite.
    """
    with torch.no_grad():
        return _Probe(policy).run()


class _Probe:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        size = min(len(policy.tokenizer), int(policy.model.config.get_text_config().vocab_size))
        banned = {*policy.eos_ids, policy.pad_id}
        usual = [id_ for id_ in range(size) if id_ not in banned] or [0]
        step = max(1, len(usual) // (2 * _LONG + 1))
        ids = [usual[(5 + step * place) % len(usual)] for place in range(2 * _LONG)]
        limit = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None)
        long = min(_LONG, limit or _LONG)
        self._rows = (tuple(ids[:long]), tuple(ids[_LONG : _LONG + min(_SHORT, long)]))
        self._alone_TV = [self._alone(row) for row in self._rows]
        last = [logp_TV[min(map(len, self._rows)) - 1] for logp_TV in self._alone_TV]
        short = policy.model.dtype.itemsize < 4
        effect = _gap(*last)
        self._refused, self._uncached = (
            max(nats, share * effect) for nats, share in (_REFUSED[short], _UNCACHED[short])
        )

    def run(self) -> Behaviour:
        family = family_of(self._policy.base_model)
        if not all(bool(logp_TV.isfinite().all()) for logp_TV in self._alone_TV):
            raise DataError(
                f"the model of family {family!r} gives log-probabilities that are not finite; its weights are "
                "damaged, or overflow in this dtype (try dtype float32)"
            )
        for what, gap in (("a later token changes an earlier one", self._ahead()), self._padded()):
            if not gap <= self._refused:
                raise DataError(
                    f"models of family {family!r} cannot be trained here: {what} (log-probabilities differ by "
                    f"{gap:.2g} nats, expected at most {self._refused:.2g}); take a model of docs/models.md"
                )
        try:
            gap = self._cached()
        # Whatever a family's code raises over a cache that it does not know.
        except Exception as error:
            return Behaviour(False, f"its cache is not one of this trainer's kind: {type(error).__name__}")
        if not gap <= self._uncached:
            return Behaviour(False, f"its cache differs from a whole pass by {gap:.2g} nats in a padded batch")
        return Behaviour()

    def _alone(self, row: tuple[int, ...]) -> torch.Tensor:
        """Return the model's own log-distributions [T, V] of a row by itself."""
        ids = torch.tensor([row], device=self._policy.device)
        logits_TV: torch.Tensor = self._policy.model(input_ids=ids, use_cache=False).logits[0]
        return logits_TV.float().log_softmax(-1)

    def _ahead(self) -> float:
        """Return the gap between a row's beginning by itself and within the row."""
        row, logp_TV = self._rows[0], self._alone_TV[0]
        half = max(1, len(row) // 2)
        return _gap(self._alone(row[:half]), logp_TV[:half])

    def _padded(self) -> tuple[str, float]:
        """Return the gap between rows by themselves and scored as the trainer scores them."""
        policy = self._policy
        rows = [TokenRow.from_reply(row[:1], row[1:]) for row in self._rows]
        batch = pad_rows(rows, policy.pad_id, device=policy.device)
        scored_NV = log_distributions(HeadReader(policy.model), batch)
        alone_NV = torch.cat([logp_TV[:-1] for logp_TV in self._alone_TV])
        return "padding beside a row changes what it says of the row, or its output head cannot be read", _gap(
            scored_NV, alone_NV
        )

    def _cached(self) -> float:
        """Return the gap between whole rows and a padded batch that its cache continues, repeats and cuts."""
        (long, short), (long_TV, short_TV) = self._rows, self._alone_TV
        steps = min(3, len(short) - 1)
        if steps < 1:
            return 0.0
        decoding = CachedDecoding(self._policy, [long[:-steps], short[:-steps], long[:-steps]], steps)
        gaps = []
        kept = [0, 1, 2]
        rows, expected = (long, short, long), (long_TV, short_TV, long_TV)
        logits_BV = decoding.prefill()
        for step in range(steps, 0, -1):
            for place, row in enumerate(kept):
                gaps.append(_gap(logits_BV[place].log_softmax(-1), expected[row][len(rows[row]) - step - 1]))
            if step == steps - 1:
                decoding.select(torch.tensor([1, 2], device=logits_BV.device))
                kept = [1, 2]
            tokens_B = torch.tensor([rows[row][len(rows[row]) - step] for row in kept], device=logits_BV.device)
            logits_BV = decoding.step(tokens_B)
        for place, row in enumerate(kept):
            gaps.append(_gap(logits_BV[place].log_softmax(-1), expected[row][-1]))
        return max(gaps) if all(gap == gap for gap in gaps) else float("nan")


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest gap, over the positions, between log-distributions [..., V] (mean over the tokens)."""
    return float((one.float() - other.float()).abs().mean(-1).max())
