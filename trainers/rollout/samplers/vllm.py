"""Sampling with vLLM (extra `[vllm]`), whose weights follow the trainer's after every update.

The engine holds a copy of the weights, so two things can go wrong that cannot in the trainer's own process: the
copy falls behind, and the engine computes otherwise than the trainer. Against the first, `sync` hands the weights
over in a file, every worker digests what it read before it loads it, and a digest that differs from the policy's
is an error. That a model takes what it is handed is seen once, at the start: the engine begins with random weights,
and after the first `sync` what it says of a short reply must be near what the policy says (`check_engine`). Against
the second, the metric `policy/sampler_gap` compares both sides' log-probabilities in every
iteration, and `rollout.importance_correction` weighs tokens by their ratio.

Of a policy with adapters only the adapters are handed over; the engine then keeps the base it started with.

Left out: sharing one GPU's memory with the trainer in turns (sleep modes), and engines on other machines.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agent_gym.core.info import FinishReason
from agent_gym.play.reply import Sample
from agent_gym.support.errors import ConfigError, DataError, WorkerError
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.policy.weights import weights_checksum, write_weights
from trainers.settings.sampling import SamplingSettings

if TYPE_CHECKING:
    from trainers.rollout.samplers.base import Draws, Sampler

_WEIGHTS = "weights.safetensors"
_PROBE = "0 1 2 3 4 5 6 7"
_PROBE_TOKENS = 16
_GROSS_GAP = 0.5  # nats a token: 16-bit engines are off by hundredths, other weights by several
MISSING = (
    "rollout.sampler='vllm' needs vLLM, which is not installed: pip install 'agent-gym[vllm]' in an environment of "
    "its own (it pins torch and transformers), or use rollout.sampler='hf'"
)
"""What a user reads where vLLM is missing."""


class WeightReceiver:
    """What each worker of the engine can do besides its own work; vLLM mixes it into its worker class."""

    model_runner: Any

    def receive_weights(self, path: str) -> str:
        """Load the weights in a file; returns their checksum as this worker read them."""
        from safetensors.torch import load_file

        tensors = load_file(path)
        found = weights_checksum(tensors)
        self.model_runner.model.load_weights(iter(tensors.items()))
        return found


class VLLMSampler:
    """Draws replies from a policy's weights with an engine of vLLM in this machine.

    Recorded log-probabilities are those of the distribution drawn from: at the sampling temperature and, in
    evaluation, after truncation. A reply depends on its seed and, by rounding, on its batch.

    Args:
        policy: Whose weights are drawn from.
        max_batch: Most replies decoded at once.
        max_tokens: Longest prompt and reply together.
        options: Further arguments of `vllm.LLM`; `gpu_memory_utilization` is 0.4 unless given, which leaves room
            for the trainer on the same GPU.

    Raises:
        ConfigError: vLLM is not installed, or an option clashes with what the trainer sets.
        WorkerError: The engine did not take the policy's weights.
    """

    def __init__(self, policy: Policy, *, max_batch: int, max_tokens: int, **options: Any) -> None:
        try:
            import vllm
        except ImportError as error:
            raise ConfigError(f"{MISSING} ({error})") from error
        self._vllm = vllm
        self._folder = Path(tempfile.mkdtemp(prefix="agent-gym-vllm-"))
        self._version = 0
        self._lora: Any = None
        self._checksum = ""
        self._policy = policy
        try:
            self._engine = self._start(policy, max_batch, max_tokens, options)
            self.sync(policy)
            check_engine(self, policy)
        except BaseException:
            self.close()
            raise

    def _start(self, policy: Policy, max_batch: int, max_tokens: int, options: dict[str, Any]) -> Any:
        """Return an engine; without adapters its weights are random until the first `sync`."""
        given: dict[str, Any] = {
            "model": self._base(policy),
            "tokenizer": None,
            "max_num_seqs": max_batch,
            "max_model_len": max_tokens,
            "logprobs_mode": "processed_logprobs",
            "seed": 0,
            "worker_extension_cls": f"{WeightReceiver.__module__}.{WeightReceiver.__qualname__}",
            "disable_log_stats": True,
        }
        if policy.has_adapters:
            rank = max(config.r for config in policy.model.peft_config.values())
            given |= {"enable_lora": True, "max_lora_rank": max(8, rank), "max_loras": 1}
        else:
            given["load_format"] = "dummy"
        clash = sorted(set(given) & set(options))
        if clash:
            raise ConfigError(f"rollout.sampler_options must not hold {clash[0]!r}, which the trainer sets itself")
        given["tokenizer"] = str(self._folder / "tokenizer")
        policy.tokenizer.save_pretrained(given["tokenizer"])
        return self._vllm.LLM(**{"gpu_memory_utilization": 0.4, **given, **options})

    def _base(self, policy: Policy) -> str:
        """Return the folder that the engine starts from."""
        if policy.has_adapters:
            name = policy.model.get_base_model().name_or_path
            if not name:
                raise ConfigError("the policy's base model must have been loaded by a path, it names none")
            return str(name)
        folder = self._folder / "base"
        policy.save(folder)
        return str(folder)

    def sync(self, policy: Policy) -> None:
        """Hand over the current weights of `policy`.

        Raises:
            WorkerError: A worker read other weights than were written.
        """
        self._policy = policy
        if policy.has_adapters:
            self._sync_adapters(policy)
        else:
            path = self._folder / _WEIGHTS
            expected = write_weights(policy.model, path)
            for worker, found in enumerate(self._engine.collective_rpc("receive_weights", args=(str(path),))):
                if found != expected:
                    raise WorkerError(
                        f"worker {worker} of vLLM holds weights of checksum {found}, the policy's is {expected}"
                    )
            path.unlink()
            self._checksum = expected
        # Cached prefixes were computed with the weights before.
        self._engine.reset_prefix_cache()

    def _sync_adapters(self, policy: Policy) -> None:
        from safetensors.torch import load_file
        from vllm.lora.request import LoRARequest

        self._version += 1
        folder = self._folder / f"adapters-{self._version}"
        policy.save(folder)
        shutil.rmtree(self._folder / f"adapters-{self._version - 1}", ignore_errors=True)
        self._lora = LoRARequest(f"policy-{self._version}", self._version, str(folder))
        if not self._engine.llm_engine.add_lora(self._lora):
            raise WorkerError(f"vLLM did not take adapter version {self._version}")
        self._checksum = weights_checksum(load_file(str(folder / "adapter_model.safetensors")))

    def checksum(self) -> str:
        """Return the checksum of the weights that were handed over last: all of them, or the adapters."""
        return self._checksum

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
            generator: A CPU `torch.Generator`, or one a prompt; each reply's seed is drawn from it.

        Raises:
            ConfigError: No generator, or entropies are asked for, which the engine does not report.
            DataError: An empty prompt.
        """
        if not prompts:
            return []
        if settings.record_entropy:
            raise ConfigError("vLLM reports no entropies; use rollout.sampler='hf' to record them")
        if any(not len(prompt) for prompt in prompts):
            raise DataError("prompts must hold at least one token")
        parameters = [self._parameters(settings, seed) for seed in _seeds(len(prompts), settings, generator)]
        outputs = self._engine.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts],
            sampling_params=parameters,
            lora_request=self._lora,
            use_tqdm=False,
        )
        return [self._sample(output.outputs[0]) for output in outputs]

    def _parameters(self, settings: SamplingSettings, seed: int | None) -> Any:
        return self._vllm.SamplingParams(
            n=1,
            temperature=0.0 if settings.greedy else settings.temperature,
            top_p=1.0 if settings.greedy else settings.top_p,
            top_k=0 if settings.greedy else settings.top_k,
            max_tokens=settings.max_reply_tokens,
            stop_token_ids=sorted(self._policy.eos_ids),
            logprobs=0,
            seed=seed,
            detokenize=False,
        )

    def _sample(self, output: Any) -> Sample:
        ids = tuple(int(token) for token in output.token_ids)
        stopped = bool(ids) and ids[-1] in self._policy.eos_ids
        logprobs = tuple(float(at[token].logprob) for token, at in zip(ids, output.logprobs, strict=True))
        return Sample(ids, logprobs, FinishReason.STOP if stopped else FinishReason.MAX_TOKENS)

    def close(self) -> None:
        """Remove the files that weights were handed over in."""
        shutil.rmtree(self._folder, ignore_errors=True)


@torch.no_grad()
def check_engine(sampler: Sampler, policy: Policy) -> None:
    """Check that an engine has the weights of a policy, by what both say of one short reply of the engine.

    Raises:
        WorkerError: They differ by more than rounding does.
    """
    prompt = policy.encode(_PROBE)
    settings = SamplingSettings(max_reply_tokens=_PROBE_TOKENS)
    (said,) = sampler.generate([prompt], settings, torch.Generator().manual_seed(0))
    row = TokenRow.from_reply(prompt, said.ids)
    scored = policy.token_stats(pad_rows([row], policy.pad_id, device=policy.device), entropy=False).logp
    gap = scored[0, len(prompt) :].cpu() - torch.tensor(said.logprobs)
    found = float(gap.abs().mean())
    if not found <= _GROSS_GAP:
        raise WorkerError(
            f"the engine's log-probabilities are {found:.2f} nats a token off the policy's, expected at most "
            f"{_GROSS_GAP}: it did not take the weights it was handed, or computes another model; use "
            "rollout.sampler='hf'"
        )


def _seeds(count: int, settings: SamplingSettings, generator: Draws | None) -> list[int | None]:
    if settings.greedy:
        return [None] * count
    if generator is None:
        raise ConfigError("sampling needs a torch.Generator (pass generator=...), unless greedy=True")
    if isinstance(generator, torch.Generator):
        return [int(seed) for seed in torch.randint(2**31, (count,), generator=generator)]
    if len(generator) != count:
        raise ConfigError(f"expected one generator or {count}, one a prompt; got {len(generator)}")
    return [int(torch.randint(2**31, (), generator=one)) for one in generator]
