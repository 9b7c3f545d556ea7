"""The forward passes that a reply is drawn from: with a cache, or over the whole row again for every token.

Which of the two a model gets is found by `trainers.policy.probe` when it is loaded. With a cache a token costs one
position. Without one a token costs the whole row: slow, but it holds for every causal model, also for those whose
recurrent state is no key-value cache or does not know what padding is.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

import torch

from trainers.policy.logprobs import narrowed_logits

if TYPE_CHECKING:
    from trainers.policy.policy import Policy


class Decoding(Protocol):
    """One batch of prompts and the replies so far; rows may be dropped between steps."""

    def prefill(self) -> torch.Tensor:
        """Read the prompts; returns float32 logits [B, V] of every row's first reply token."""
        ...

    def select(self, rows: torch.Tensor) -> None:
        """Keep (or repeat) the given rows, int64 [B']."""
        ...

    def step(self, tokens_B: torch.Tensor) -> torch.Tensor:
        """Append one token, int64 [B], to every row; returns float32 logits [B, V] of the next."""
        ...


def start_decoding(policy: Policy, prompts: list[tuple[int, ...]], max_new: int) -> Decoding:
    """Return the pass that fits the policy's model.

    Args:
        policy: Whose weights are read, live.
        prompts: Prompt ids, each at least one token long.
        max_new: Most tokens of a reply.
    """
    if policy.behaviour.cached:
        return CachedDecoding(policy, prompts, max_new)
    return WholeDecoding(policy, prompts)


class CachedDecoding:
    """Left-padded prompts with their cache; distinct prompts are read once.

    Args:
        policy: Whose weights are read, live.
        prompts: Prompt ids, each at least one token long.
        max_new: Most tokens of a reply.
    """

    def __init__(self, policy: Policy, prompts: list[tuple[int, ...]], max_new: int) -> None:
        from transformers import DynamicCache

        self._model = policy.model
        unique = {key: index for index, key in enumerate(dict.fromkeys(prompts))}
        self._owner = None
        if len(unique) < len(prompts):
            self._owner = torch.tensor([unique[prompt] for prompt in prompts], device=policy.device)
        width = max(map(len, unique))
        self._width = width
        pads = [width - len(prompt) for prompt in unique]
        self._input_ids = torch.tensor(
            [[policy.pad_id] * pad + list(prompt) for pad, prompt in zip(pads, unique, strict=True)],
            device=policy.device,
        )
        pad_B = torch.tensor(pads, device=policy.device)
        places = torch.arange(width + max_new, device=policy.device)
        self._attention = (places[None] >= pad_B[:, None]).long()
        self._positions = (places[None] - pad_B[:, None]).clamp_min(0)
        self._cache = DynamicCache(config=policy.model.config)
        accepted = inspect.signature(policy.base_model.forward).parameters
        # The argument was renamed within transformers 5.
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    def _run(self, input_ids: torch.Tensor, start: int, end: int) -> torch.Tensor:
        arguments: dict[str, Any] = {self._cache_name: self._cache, **self._last_only}
        out = self._model(
            input_ids=input_ids,
            attention_mask=self._attention[:, :end],
            position_ids=self._positions[:, start:end],
            use_cache=True,
            **arguments,
        )
        logits: torch.Tensor = out.logits
        return logits[:, -1].float()

    def prefill(self) -> torch.Tensor:
        """See `Decoding.prefill`."""
        logits = self._run(self._input_ids, 0, self._width)
        if self._owner is not None:
            self.select(self._owner)
            logits = logits[self._owner]
        return logits

    def select(self, rows: torch.Tensor) -> None:
        """See `Decoding.select`."""
        # Layers with a recurrent state can be reordered only, which takes any number of rows.
        self._cache.reorder_cache(rows.long())  # type: ignore[arg-type]
        self._attention = self._attention[rows]
        self._positions = self._positions[rows]

    def step(self, tokens_B: torch.Tensor) -> torch.Tensor:
        """See `Decoding.step`."""
        self._width += 1
        return self._run(tokens_B[:, None], self._width - 1, self._width)


class WholeDecoding:
    """Right-padded rows that are read anew for every token, exactly as the trainer reads them.

    Args:
        policy: Whose weights are read, live.
        prompts: Prompt ids, each at least one token long.
    """

    def __init__(self, policy: Policy, prompts: list[tuple[int, ...]]) -> None:
        self._policy = policy
        self._lengths = torch.tensor([len(prompt) for prompt in prompts], device=policy.device)
        width = max(map(len, prompts))
        self._ids = torch.tensor(
            [list(prompt) + [policy.pad_id] * (width - len(prompt)) for prompt in prompts], device=policy.device
        )

    def prefill(self) -> torch.Tensor:
        """See `Decoding.prefill`."""
        places = torch.arange(self._ids.shape[1], device=self._ids.device)
        real = places[None] < self._lengths[:, None]
        inputs = {
            "input_ids": self._ids,
            "attention_mask": real.long(),
            "position_ids": torch.where(real, places[None], 0),
            "use_cache": False,
        }
        rows = torch.arange(len(self._ids), device=self._ids.device)
        return narrowed_logits(self._policy.model, inputs, rows, self._lengths - 1).float()

    def select(self, rows: torch.Tensor) -> None:
        """See `Decoding.select`."""
        self._lengths = self._lengths[rows]
        self._ids = self._ids[rows, : int(self._lengths.max())]

    def step(self, tokens_B: torch.Tensor) -> torch.Tensor:
        """See `Decoding.step`."""
        if int(self._lengths.max()) == self._ids.shape[1]:
            room = self._ids.new_full((len(self._ids), 1), self._policy.pad_id)
            self._ids = torch.cat([self._ids, room], dim=1)
        self._ids[torch.arange(len(self._ids), device=self._ids.device), self._lengths] = tokens_B
        self._lengths = self._lengths + 1
        return self.prefill()
