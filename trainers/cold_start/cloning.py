"""Behaviour cloning: supervised training on the reply tokens of an expert's episodes.

The start of every recipe: roll out an expert on training tasks, keep what succeeded,
train on its reply tokens of all turns. What is left out: rolling the expert out and choosing its episodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from agent_gym.support.errors import DataError
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow, pad_rows, plan_microbatches
from trainers.run.checkpoint import Checkpoint, CheckpointStore
from trainers.settings.cloning import CloningSettings

_TAGGED = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CloningStep:
    """What one optimiser step measured, before its update.

    Attributes:
        step: 1-based.
        total: Steps of the whole run.
        loss: Weighted mean cross-entropy, nats per unit of weight.
        accuracy: Share of reply tokens that are the policy's likeliest token.
        content_accuracy: The same over tokens of weight 1 or more, which leaves markup out; nan without any.
        learning_rate: Rate of the step.
    """

    step: int
    total: int
    loss: float
    accuracy: float
    content_accuracy: float
    learning_rate: float


def reply_weights(policy: Policy, reply: Sequence[int], format_weight: float) -> tuple[float, ...]:
    """Return the loss weight of each token of one reply.

    Tokens that show any character between a pair of tags (`<action>...</action>`, `<think>...</think>`) weigh
    1; tags, what lies outside them and end tokens weigh `format_weight`. A reply without tags weighs 1 except
    for its end token. Ids are decoded to find the places only; they are never encoded again.

    Args:
        policy: Whose tokenizer wrote the ids.
        reply: Sampled ids of one reply.
        format_weight: Weight of everything that is not content.
    """
    ends = [len(policy.decode(reply[: count + 1])) for count in range(len(reply))]
    # A token that only completes a character shows nothing new: it belongs to that character.
    starts = [min(start, end - 1) for start, end in zip([0, *ends], ends, strict=False)]
    spans = [match.span(2) for match in _TAGGED.finditer(policy.decode(reply))]
    weights = []
    for token, start, end in zip(reply, starts, ends, strict=True):
        inside = not spans or any(start < last and end > first for first, last in spans)
        weights.append(1.0 if inside and token not in policy.eos_ids else format_weight)
    return tuple(weights)


def weigh(policy: Policy, rows: Iterable[TokenRow], format_weight: float) -> list[TokenRow]:
    """Return `rows` with `reply_weights` on each of their replies; rows that have weights stay as they are."""
    # An expert says few different things: each reply is looked at once.
    seen: dict[tuple[int, ...], tuple[float, ...]] = {}
    weighed = []
    for row in rows:
        if row.weights is not None:
            weighed.append(row)
            continue
        weights: list[float] = []
        for sampled, run in groupby(zip(row.ids, row.mask, strict=True), key=lambda pair: pair[1]):
            ids = tuple(token for token, _ in run)
            if sampled and ids not in seen:
                seen[ids] = reply_weights(policy, ids, format_weight)
            weights.extend(seen[ids] if sampled else (0.0,) * len(ids))
        weighed.append(replace(row, weights=tuple(weights)))
    return weighed


class Cloning:
    """Training of `policy`, in place, to give the replies of `rows`, a step at a time.

    The same policy, rows, settings and seed give the same weights (on CPU, bit for bit at one thread count),
    interrupted or not.

    Args:
        policy: Whose trainable weights change.
        rows: Prompts with an expert's replies; rows without weights get those of `reply_weights`.
        settings: How to train.
        seed: Order of the rows.

    Raises:
        DataError: No row has a reply token.
    """

    def __init__(
        self, policy: Policy, rows: Sequence[TokenRow], settings: CloningSettings, *, seed: int = 0
    ) -> None:
        self._rows = weigh(policy, (row for row in rows if row.reply_tokens), settings.format_weight)
        if not self._rows:
            raise DataError(f"cloning needs rows with reply tokens, got {len(rows)} rows without any")
        self._policy = policy
        self._settings = settings
        self._seed = seed
        self._optimizer = torch.optim.AdamW(
            policy.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._per_epoch = math.ceil(len(self._rows) / settings.batch_size)
        self.total = settings.epochs * self._per_epoch
        self.done = 0

    @property
    def tokens(self) -> int:
        """Reply tokens of all steps, each pass counted."""
        return self._settings.epochs * sum(row.reply_tokens for row in self._rows)

    def steps(self) -> Iterator[CloningStep]:
        """Take the steps that are left, and yield each when it is done."""
        size = self._settings.batch_size
        generator = torch.Generator().manual_seed(self._seed)
        for epoch in range(self._settings.epochs):
            order = torch.randperm(len(self._rows), generator=generator).tolist()
            for place in range(max(0, self.done - epoch * self._per_epoch), self._per_epoch):
                batch = [self._rows[index] for index in order[place * size : (place + 1) * size]]
                rate = self._settings.rate(self.done, self.total)
                for group in self._optimizer.param_groups:
                    group["lr"] = rate
                loss, accuracy, content = _step(self._policy, batch, self._settings, self._optimizer)
                self.done += 1
                yield CloningStep(
                    step=self.done,
                    total=self.total,
                    loss=loss,
                    accuracy=accuracy,
                    content_accuracy=content,
                    learning_rate=rate,
                )

    def save(self, store: CheckpointStore) -> None:
        """Write what is needed to go on."""
        store.save(self.done, model=self._policy, optimizer=self._optimizer, extra={"total": self.total})

    def resume(self, checkpoint: Checkpoint) -> bool:
        """Go on where the steps were that wrote a checkpoint.

        Returns:
            False, with nothing changed, when it is of a cloning of other length, on other rows.
        """
        if checkpoint.extra.get("total") != self.total:
            return False
        checkpoint.restore(model=self._policy, optimizer=self._optimizer)
        self.done = checkpoint.step
        return True


def _step(
    policy: Policy, batch: list[TokenRow], settings: CloningSettings, optimizer: torch.optim.Optimizer
) -> tuple[float, float, float]:
    """Take one optimiser step; returns loss, accuracy and content accuracy."""
    weight_sum = sum(sum(row.weights or ()) for row in batch) or 1.0
    loss_sum = right = right_content = 0.0
    n_tokens = n_content = 0
    for indices in plan_microbatches(list(map(len, batch)), settings.max_tokens_per_microbatch):
        padded = pad_rows([batch[index] for index in indices], policy.pad_id, device=policy.device)
        stats = policy.token_stats(padded, entropy=False, greedy=True)
        assert stats.greedy is not None
        # Divided by the weight of the whole batch, so that gradients add up to those of an uncut batch.
        loss = -(stats.logp * padded.weight).sum() / weight_sum
        loss.backward()  # type: ignore[no-untyped-call]
        content = padded.mask & (padded.weight >= 1.0)
        loss_sum += loss.item()
        right += float(stats.greedy.sum())
        right_content += float((stats.greedy & content).sum())
        n_tokens += padded.n_tokens
        n_content += int(content.sum())
    torch.nn.utils.clip_grad_norm_(policy.parameters(), settings.max_grad_norm or math.inf)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss_sum, right / n_tokens, right_content / n_content if n_content else math.nan
