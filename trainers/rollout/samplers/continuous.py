"""Sampling with transformers' continuous batching: paged cache, and finished replies make room for waiting ones.

For CUDA, where the engine keeps the device busy over replies of very different lengths; on a CPU the sampler in
`trainers.rollout.samplers.hf` is faster. The engine reads the very parameters the optimiser updates. It has one
stream of random numbers for a whole call, so that here a reply depends on what it is batched with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from agent_gym.core.info import FinishReason
from agent_gym.play.reply import Sample
from agent_gym.support.errors import ConfigError, DataError, WorkerError
from trainers.policy.policy import Policy
from trainers.settings.sampling import SamplingSettings

if TYPE_CHECKING:
    from trainers.rollout.samplers.base import Draws


_GPU_SHARE = 0.5  # of the free memory: the trainer works on the same device
_PAGE = 16


class ContinuousSampler:
    """Draws replies from a `Policy` with `generate_batch` of its Hugging Face model.

    Recorded log-probabilities are those of the distribution drawn from: at the sampling temperature and, in
    evaluation, after truncation.

    Args:
        policy: Whose weights are read, live.
        max_batch: Most replies decoded together.
        max_tokens: Longest prompt and reply together.
        options: Further fields of transformers' `ContinuousBatchingConfig`.

    Raises:
        ConfigError: The installed transformers has no such engine, or an option clashes with what is set here.
    """

    def __init__(self, policy: Policy, *, max_batch: int = 256, max_tokens: int = 2048, **options: Any) -> None:
        try:
            from transformers import ContinuousBatchingConfig
        except ImportError as error:
            raise ConfigError(
                f"rollout.sampler='continuous' needs a transformers with continuous batching; use 'hf' ({error})"
            ) from error
        set_here = {"return_logprobs": True, "max_requests_per_batch": max_batch}
        clash = sorted({"seed", *set_here} & set(options))
        if clash:
            raise ConfigError(f"rollout.sampler_options must not hold {clash[0]!r}, which the trainer sets itself")
        if not policy.behaviour.cached:
            raise ConfigError(
                f"rollout.sampler='continuous' needs a model whose cache holds, but of this one "
                f"{policy.behaviour.reason}; use rollout.sampler='hf'"
            )
        on_gpu = policy.device.type == "cuda"
        room = {"max_memory_percent": _GPU_SHARE} if on_gpu else _cpu_room(max_batch, max_tokens)
        self._config: Any = ContinuousBatchingConfig
        self._fields: dict[str, Any] = {**room, **set_here, **options}
        self.sync(policy)

    def sync(self, policy: Policy) -> None:
        """Draw from `policy` from now on; weights are shared, nothing is copied."""
        self._policy = policy

    def close(self) -> None:
        """Nothing outlives the sampler: the engine is there during a call only."""

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

        Args:
            prompts: Prompt ids, each at least one token long.
            settings: How to draw.
            generator: A CPU `torch.Generator`, or one a prompt; the seed of the call is drawn from the first.

        Raises:
            ConfigError: No generator, or entropies are asked for, which the engine does not report.
            DataError: An empty prompt.
            WorkerError: The engine lost a request.
        """
        if not prompts:
            return []
        if settings.record_entropy:
            raise ConfigError("continuous batching reports no entropies; use rollout.sampler='hf' to record them")
        if any(not len(prompt) for prompt in prompts):
            raise DataError("prompts must hold at least one token")
        model = self._policy.model
        base: Any = model.get_base_model() if self._policy.has_adapters else model
        seed = _seed(settings, generator)
        with _own_randomness(self._policy.device), self._policy.autocast(), _attention_kept(base):
            found = base.generate_batch(
                [list(prompt) for prompt in prompts],
                generation_config=self._generation(settings),
                continuous_batching_config=self._config(**self._fields, seed=seed),
                progress_bar=False,
            )
        outputs = list(found.values())
        lost = [output.error for output in outputs if output.error is not None]
        if len(outputs) != len(prompts) or lost:
            raise WorkerError(
                f"continuous batching returned {len(outputs) - len(lost)} of {len(prompts)} replies: {lost[:1]}"
            )
        return [self._sample(output) for output in outputs]

    def _generation(self, settings: SamplingSettings) -> Any:
        import transformers

        make: Any = transformers.GenerationConfig
        drawn = not settings.greedy
        return make(
            do_sample=drawn,
            temperature=settings.temperature if drawn else 1.0,
            top_p=settings.top_p if drawn else 1.0,
            top_k=settings.top_k if drawn else 0,
            max_new_tokens=settings.max_reply_tokens,
            eos_token_id=sorted(self._policy.eos_ids),
            pad_token_id=self._policy.pad_id,
        )

    def _sample(self, output: Any) -> Sample:
        ids = tuple(int(token) for token in output.generated_tokens)
        stopped = bool(ids) and ids[-1] in self._policy.eos_ids
        reason = FinishReason.STOP if stopped else FinishReason.MAX_TOKENS
        return Sample(ids, tuple(map(float, output.logprobs)), reason)


def _cpu_room(max_batch: int, max_tokens: int) -> dict[str, int]:
    """Return a cache for so many replies; left to itself the engine fills the machine's memory."""
    pages = -(-max_tokens // _PAGE) + 1
    return {"page_size": _PAGE, "num_blocks": pages * max_batch, "max_batch_tokens": max(max_tokens, max_batch)}


def _seed(settings: SamplingSettings, generator: Draws | None) -> int:
    if settings.greedy:
        return 0
    if generator is None:
        raise ConfigError("sampling needs a torch.Generator (pass generator=...), unless greedy=True")
    first = generator if isinstance(generator, torch.Generator) else generator[0]
    return int(torch.randint(2**31, (), generator=first))


@contextlib.contextmanager
def _own_randomness(device: torch.device) -> Iterator[None]:
    """Put the global generators back, which the engine seeds and draws from."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextlib.contextmanager
def _attention_kept(model: Any) -> Iterator[None]:
    """Put the attention kernel back, which the engine may exchange."""
    before = model.config._attn_implementation
    try:
        yield
    finally:
        if model.config._attn_implementation != before:
            model.set_attn_implementation(before)
