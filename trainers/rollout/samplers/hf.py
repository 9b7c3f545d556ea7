"""Sampling in the trainer's own process, with a cache where the model has one that holds.

The sampler reads the very parameters the optimiser updates, so it cannot fall behind them. Rows that have
finished leave the batch at once, copies of one prompt share its prefill, and each row has its own stream of
random numbers: a reply does not depend on the prompts it was batched with (up to rounding of the logits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from agent_gym.core.info import FinishReason
from agent_gym.play.reply import Sample
from agent_gym.support.errors import ConfigError, DataError
from trainers.policy.decoding import start_decoding
from trainers.policy.logprobs import entropy_of
from trainers.policy.policy import Policy
from trainers.settings.sampling import SamplingSettings

if TYPE_CHECKING:
    from trainers.rollout.samplers.base import Draws


@dataclass(slots=True)
class _Reply:
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    stopped: bool = False

    def sample(self, settings: SamplingSettings) -> Sample:
        return Sample(
            ids=tuple(self.ids),
            logprobs=tuple(self.logprobs),
            finish_reason=FinishReason.STOP if self.stopped else FinishReason.MAX_TOKENS,
            entropies=tuple(self.entropies) if settings.record_entropy else None,
        )


class HFSampler:
    """Draws replies from a `Policy` with its Hugging Face model.

    Args:
        policy: Whose weights are read, live.
        max_batch: Most rows decoded together; bounds the memory of the cache. Prompts are taken in order of
            length, so that rows of one batch carry little padding.
    """

    def __init__(self, policy: Policy, max_batch: int = 512) -> None:
        if max_batch < 1:
            raise ConfigError(f"max_batch must be at least 1, got {max_batch}")
        self.max_batch = max_batch
        self.sync(policy)

    def sync(self, policy: Policy) -> None:
        """Draw from `policy` from now on; weights are shared, nothing is copied."""
        self._policy = policy

    def close(self) -> None:
        """Nothing outlives the sampler."""

    def checksum(self) -> str:
        """Return the checksum of the weights the next reply is drawn from."""
        return self._policy.checksum()

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        settings: SamplingSettings,
        generator: Draws | None = None,
    ) -> list[Sample]:
        """Draw one reply per prompt, in the order of `prompts`.

        The generator advances by len(prompts) x max_reply_tokens numbers whatever the replies are.

        Args:
            prompts: Prompt ids, each at least one token long.
            settings: How to draw.
            generator: A CPU `torch.Generator`, or one a prompt; needed unless greedy.

        Raises:
            ConfigError: No generator, or prompt and reply limit together exceed the model's context.
            DataError: An empty prompt.
        """
        if not prompts:
            return []
        self._check(prompts, settings, generator)
        uniform_RL = torch.zeros(0, 0)
        if not settings.greedy:
            uniform_RL = _uniform(len(prompts), settings.max_reply_tokens, generator)
        keys = [tuple(prompt) for prompt in prompts]
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        order = sorted(range(len(keys)), key=lambda index: (len(keys[index]), first[keys[index]], index))
        replies = [_Reply() for _ in keys]
        model = self._policy.model
        # Sharded parameters are gathered in place by their own hooks, which inference tensors do not allow; and in
        # inference mode autocast keeps no copies of the weights, but casts them for every token.
        plain = hasattr(model, "unshard") or self._policy.autocast_dtype is not None
        guard = torch.no_grad() if plain else torch.inference_mode()
        with guard, self._policy.autocast():
            for start in range(0, len(order), self.max_batch):
                rows = order[start : start + self.max_batch]
                self._decode(
                    [keys[row] for row in rows],
                    [replies[row] for row in rows],
                    settings,
                    None if settings.greedy else uniform_RL[rows],
                )
        return [reply.sample(settings) for reply in replies]

    def _check(self, prompts: Sequence[Sequence[int]], settings: SamplingSettings, generator: Draws | None) -> None:
        if generator is None and not settings.greedy:
            raise ConfigError("sampling needs a torch.Generator (pass generator=...), unless greedy=True")
        generators = [generator] if isinstance(generator, torch.Generator) else generator or []
        for one in generators:
            if one.device.type != "cpu":
                raise ConfigError(f"the generator must be on the CPU, got one on {one.device}")
        single = generator is None or isinstance(generator, torch.Generator)
        if not single and len(generators) != len(prompts):
            raise ConfigError(f"expected one generator or {len(prompts)}, one a prompt; got {len(generators)}")
        empty = [index for index, prompt in enumerate(prompts) if not len(prompt)]
        if empty:
            raise DataError(f"prompts must hold at least one token; prompt {empty[0]} holds none")
        config = self._policy.model.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None)
        longest = max(len(prompt) for prompt in prompts)
        if limit is not None and longest + settings.max_reply_tokens > limit:
            raise ConfigError(
                f"a prompt of {longest} tokens and max_reply_tokens={settings.max_reply_tokens} exceed the "
                f"model's context of {limit} tokens; lower max_reply_tokens or the prompt limit"
            )

    def _decode(
        self,
        prompts: list[tuple[int, ...]],
        replies: list[_Reply],
        settings: SamplingSettings,
        uniform_BL: torch.Tensor | None,
    ) -> None:
        """Decode one batch to its end, appending to `replies`."""
        forward = start_decoding(self._policy, prompts, settings.max_reply_tokens)
        logits_BV = forward.prefill()
        live = list(range(len(prompts)))
        silent_V = self._policy.silent_V
        if silent_V is not None:
            silent_V = silent_V.to(logits_BV.device)
        for step in range(settings.max_reply_tokens):
            uniform_B = None if uniform_BL is None else uniform_BL[live, step]
            tokens_B, logp_B, entropy_B = choose(logits_BV, settings, uniform_B, silent_V=silent_V)
            ids = tokens_B.tolist()
            columns = zip(live, ids, logp_B.tolist(), strict=True)
            for row, token, logp in columns:
                reply = replies[row]
                reply.ids.append(token)
                reply.logprobs.append(logp)
                reply.stopped = token in self._policy.eos_ids
            if entropy_B is not None:
                for row, entropy in zip(live, entropy_B.tolist(), strict=True):
                    replies[row].entropies.append(entropy)
            kept = [index for index, row in enumerate(live) if not replies[row].stopped]
            if not kept or step + 1 == settings.max_reply_tokens:
                return
            if len(kept) < len(live):
                live = [live[index] for index in kept]
                where = torch.tensor(kept, device=tokens_B.device)
                forward.select(where)
                tokens_B = tokens_B[where]
            logits_BV = forward.step(tokens_B)


def _uniform(rows: int, length: int, generator: Draws | None) -> torch.Tensor:
    """Return float64 numbers in [0, 1), [rows, length], from one generator or from one a row."""
    if isinstance(generator, torch.Generator):
        return torch.rand((rows, length), generator=generator, dtype=torch.float64)
    assert generator is not None
    return torch.stack([torch.rand(length, generator=one, dtype=torch.float64) for one in generator])


def choose(
    logits_BV: torch.Tensor,
    settings: SamplingSettings,
    uniform_B: torch.Tensor | None,
    *,
    silent_V: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Choose one token per row from logits.

    A token is found by inverting the cumulative distribution at a uniform number, summed in float64 where the
    device has it, so that a token of probability 0 is never drawn.

    Args:
        logits_BV: Raw float32 logits.
        settings: Temperature, truncation, greedy.
        uniform_B: float64 numbers in [0, 1), one per row; None when greedy.
        silent_V: bool, ids that are never chosen; None for none.

    Returns:
        Ids [B]; log-probabilities [B] at the temperature, before truncation; entropies [B] or None.
    """
    logp_BV = torch.log_softmax(logits_BV / settings.temperature, dim=-1)
    if uniform_B is None:
        spoken_BV = logits_BV if silent_V is None else logits_BV.masked_fill(silent_V, float("-inf"))
        tokens_B = spoken_BV.argmax(-1)
    else:
        exact = torch.float32 if logits_BV.device.type == "mps" else torch.float64
        prob_BV = logp_BV.exp() if silent_V is None else logp_BV.exp().masked_fill(silent_V, 0.0)
        mass_BV = _truncate(prob_BV, settings).to(exact).cumsum(-1)
        below_one = uniform_B.clamp_max(1.0 - 1e-6 if exact is torch.float32 else 1.0 - 1e-12)
        target_B1 = below_one.to(exact).to(mass_BV.device)[:, None] * mass_BV[:, -1:]
        tokens_B = torch.searchsorted(mass_BV, target_B1, right=True)[:, 0]
    chosen_B = logp_BV.gather(-1, tokens_B[:, None])[:, 0]
    return tokens_B, chosen_B, entropy_of(logp_BV) if settings.record_entropy else None


def _truncate(prob_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """Zero the tokens that top-k, then top-p of what is left, leave out."""
    if 0 < settings.top_k < prob_BV.shape[-1]:
        best = prob_BV.topk(settings.top_k, dim=-1)
        prob_BV = torch.zeros_like(prob_BV).scatter(-1, best.indices, best.values)
    if settings.top_p < 1.0:
        ordered, index = prob_BV.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        # A token stays while the mass before it is short of top_p; the likeliest always stays.
        ordered = ordered * (before < settings.top_p * ordered.sum(-1, keepdim=True))
        prob_BV = torch.zeros_like(prob_BV).scatter(-1, index, ordered)
    return prob_BV
