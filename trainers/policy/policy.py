"""The policy: a Hugging Face causal language model with its tokenizer.

It answers three questions: which ids a conversation has, how likely given tokens are, and what the weights
are (save, load, checksum). Sampling is in `trainers.rollout.samplers`, building a small one in
`trainers.policy.tiny`.

The model stays in evaluation mode also while it is trained: dropout would make the trainer's
log-probabilities differ from the sampler's, and the importance ratio of an unchanged policy would not be 1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from agent_gym.support.errors import ConfigError
from trainers.policy.checks.template import read_template
from trainers.policy.checks.vocabulary import check_vocabulary, end_tokens, silent_ids
from trainers.policy.devices import resolve_device, resolve_dtype
from trainers.policy.logprobs import HeadReader, TokenStats, base_model, log_distributions, token_stats
from trainers.policy.probe import Behaviour, family_of, probe
from trainers.policy.recompute import in_training, recomputing, switch_on
from trainers.policy.storage import AdaptersOnly, Storage, WholeModel, load_model
from trainers.policy.token_rows import PaddedRows
from trainers.policy.weights import weights_checksum


class Policy:
    """A causal language model, its tokenizer and the device they run on.

    Args:
        model: A Hugging Face causal LM (peft-wrapped ones too). It is moved to `device` and put in
            evaluation mode.
        tokenizer: Its fast tokenizer.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        autocast: Compute dtype while the weights keep theirs ("bfloat16" over float32 weights, say); None
            computes in the dtype of the weights.
        chat_template_kwargs: Extra variables for the chat template (such as `enable_thinking`).
        storage: How the weights are written and read; None asks the model whether it has adapters.

    Attributes:
        eos_ids: Ids that end a reply.
        end_id: The one of them that the chat template ends a turn with, else the one that the tokenizer calls its
            end: what an expert's reply should end with.
        template: What the chat template does.
        silent_V: bool [V], ids of the model's output that stand for no text, which are not drawn; None for none.
        pad_id: Id written on padding. It may be one of `eos_ids`: masks never come from ids, so that a real
            end token keeps its weight.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        device: str = "auto",
        autocast: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        self.device = resolve_device(device)
        self.model = model.to(self.device).eval()
        self.tokenizer = tokenizer
        self.storage: Storage = storage or (AdaptersOnly() if self.has_adapters else WholeModel())
        self.autocast_dtype = None if autocast is None else resolve_dtype(autocast)
        self.chat_template_kwargs = dict(chat_template_kwargs or {})
        self.eos_ids = end_tokens(model, tokenizer)
        check_vocabulary(self.base_model, tokenizer)
        self.silent_V = silent_ids(self.base_model, tokenizer)
        usual: int = min(self.eos_ids) if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)
        self.template = read_template(tokenizer, self.chat_template_kwargs)
        own = self.template.end_id
        self.end_id: int = own if own is not None and own in self.eos_ids else usual
        self.pad_id: int = usual if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
        self._recompute: list[torch.nn.Module] = []
        self._behaviour: Behaviour | None = None
        self.renew_reader()

    @classmethod
    def load(
        cls,
        path_or_id: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        autocast: str | None = None,
        allow_downloads: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> Policy:
        """Load a model and its tokenizer from a folder, or from the local Hugging Face cache.

        Args:
            path_or_id: Folder written by `save` or `save_pretrained`, or a hub id.
            device: As for the class.
            dtype: Dtype of the weights; "auto" keeps the checkpoint's.
            autocast: As for the class.
            allow_downloads: Let the hub client fetch missing files. Only safetensors weights are read, and no
                code that comes with a model is run.
            chat_template_kwargs: As for the class.

        Raises:
            DataError: Nothing loadable is there, or a model that cannot be trained here (its family, weights,
                vocabulary; see `trainers.policy.probe` and `trainers.policy.checks`).
            ConfigError: Unknown device or dtype.
        """
        wanted = dtype if dtype == "auto" else resolve_dtype(dtype)
        model, tokenizer, storage = load_model(path_or_id, dtype=wanted, allow_downloads=allow_downloads)
        policy = cls(
            model,
            tokenizer,
            device=device,
            autocast=autocast,
            chat_template_kwargs=chat_template_kwargs,
            storage=storage,
        )
        policy.behaviour  # noqa: B018  a model that cannot be trained is refused here
        return policy

    def save(self, folder: str | Path, *, weights: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write config, safetensors weights and tokenizer; `load` and `from_pretrained` read them back.

        Of a policy with adapters only these are written, see `trainers.policy.storage`.

        Args:
            folder: Where to.
            weights: The model's whole state dict, where its own is sharded.
        """
        self.storage.save(self.model, folder, weights)
        self.tokenizer.save_pretrained(str(folder))

    def load_weights(self, folder: str | Path) -> None:
        """Replace the weights, in place, by those that `save` wrote; optimisers keep their parameters.

        Raises:
            DataError: The folder has no such model, or one of another shape.
        """
        self.storage.load(self.model, folder)

    # -- text and ids --------------------------------------------------------------------------------------

    def encode_chat(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> list[int]:
        """Return the ids of a conversation under the model's chat template.

        Args:
            messages: Dicts with "role" and "content".
            add_generation_prompt: End with the marker that opens the assistant's reply.

        Raises:
            ConfigError: The tokenizer has no chat template.
        """
        self.check_template()
        encoded = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            tokenize=True,
            return_dict=True,
            **self.template_arguments,
        )
        return [int(token) for token in encoded["input_ids"]]

    def check_template(self) -> None:
        """Raise ConfigError unless the tokenizer has a chat template."""
        if not self.tokenizer.chat_template:
            raise ConfigError("the tokenizer has no chat template; use an instruction-tuned model or set one")

    @property
    def template_arguments(self) -> dict[str, Any]:
        """What `apply_chat_template` is given: the user's variables, and the template with its clock stopped."""
        still = {} if self.template.text is None else {"chat_template": self.template.text}
        return {**still, **self.chat_template_kwargs}

    def notes(self, full_context: bool = False) -> list[str]:
        """Return a sentence for everything about the model that a user should know.

        Args:
            full_context: Whether prompts hold the whole conversation.
        """
        found = [] if self.behaviour.cached else [self.behaviour.note(family_of(self.base_model))]
        return found + self.template.notes(self.eos_ids, self.tokenizer, full_context)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, with no special token added."""
        return [int(token) for token in self.tokenizer.encode(text, add_special_tokens=False)]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids` for parsing and reading; it never goes back into training."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )
        return text

    # -- scores --------------------------------------------------------------------------------------------

    def token_stats(
        self,
        batch: PaddedRows,
        temperature: float = 1.0,
        entropy: bool = True,
        greedy: bool = False,
        *,
        entropy_gradient: bool = True,
    ) -> TokenStats:
        """Score the sampled tokens of `batch`, with gradient unless it is disabled.

        Args:
            batch: B rows of width T, on any device.
            temperature: Sampling temperature: log-probabilities and entropies are those of the distribution
                the tokens were drawn from.
            entropy: Also return entropies (nats).
            greedy: Also return whether each token is the most likely one.
            entropy_gradient: Whether entropies have a gradient, which holds two more [N, V] tensors.

        Returns:
            Position-aligned [B, T] tensors on the policy's device, exactly 0 where mask is False.

        Raises:
            ConfigError: The temperature is not positive.
        """
        with self.autocast(), self._recomputing():
            return token_stats(
                self._reader,
                batch.to(self.device),
                temperature=temperature,
                entropy=entropy,
                greedy=greedy,
                entropy_gradient=entropy_gradient,
            )

    def log_distributions(self, batch: PaddedRows, temperature: float = 1.0) -> torch.Tensor:
        """Return the whole log-distribution, [N, V] float32, at each of the N sampled tokens (row-major).

        Two prompts with the same reply give rows that can be compared one by one, for divergences that are
        exact over the vocabulary. All N x V values are held, with gradient: meant for few rows.

        Raises:
            ConfigError: The temperature is not positive.
        """
        with self.autocast(), self._recomputing():
            return log_distributions(self._reader, batch.to(self.device), temperature=temperature)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the mixed-precision context of every forward pass (a no-op without `autocast`)."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast_dtype)

    def enable_gradient_checkpointing(self) -> None:
        """Recompute activations in the backward pass: less memory, about a third more time, equal results.

        Raises:
            ConfigError: The model's family cannot.
        """
        try:
            switch_on(self.model)
        except ValueError as error:
            raise ConfigError(
                f"models of family {family_of(self.base_model)!r} cannot recompute activations ({error}); "
                "set optim.gradient_checkpointing=false"
            ) from None
        self._recompute = recomputing(self.model)

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Store activations meanwhile, also where they are to be recomputed."""
        modules, self._recompute = self._recompute, []
        try:
            yield
        finally:
            self._recompute = modules

    def _recomputing(self) -> AbstractContextManager[Any]:
        return in_training(self._recompute) if self._recompute and torch.is_grad_enabled() else nullcontext()

    # -- weights -------------------------------------------------------------------------------------------

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield the trainable parameters with their names, in a fixed order."""
        return ((name, value) for name, value in self.model.named_parameters() if value.requires_grad)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Return the trainable parameters, in the order of `named_parameters`."""
        return [value for _, value in self.named_parameters()]

    @property
    def n_parameters(self) -> int:
        """Number of weights, tied ones counted once."""
        return sum(value.numel() for value in self.model.parameters())

    def reference_copy(self) -> Policy:
        """Return a frozen copy with its own weights, for the KL term; the tokenizer is shared."""
        return self.with_model(copy.deepcopy(self.model).requires_grad_(False))

    def with_model(self, model: Any, storage: Storage | None = None) -> Policy:
        """Return a policy around another model, which shares device, tokenizer, settings and, if None, storage."""
        twin = copy.copy(self)
        twin.storage = storage or self.storage
        twin.model = model.to(self.device).eval()
        twin._recompute = recomputing(twin.model) if self._recompute else []
        twin.renew_reader()
        return twin

    @property
    def base_model(self) -> Any:
        """The Hugging Face model itself, without adapters around it."""
        return base_model(self.model)

    @property
    def behaviour(self) -> Behaviour:
        """How the model behaves under padding and with a cache; found once, while its weights are whole.

        Raises:
            DataError: It cannot be trained here, see `trainers.policy.probe`.
        """
        if self._behaviour is None:
            self._behaviour = Behaviour() if hasattr(self.model, "unshard") else probe(self)
        return self._behaviour

    @property
    def separable(self) -> bool:
        """Whether the output head can run apart from the decoder, see `trainers.policy.logprobs.HeadReader`."""
        return self._reader.separable

    def renew_reader(self, separable: bool | None = None) -> None:
        """Look at the model afresh, after it was changed in place.

        Args:
            separable: What `separable` was before; a sharded model does not show it.
        """
        self._reader = HeadReader(self.model, separable)

    @property
    def has_adapters(self) -> bool:
        """Whether the model is wrapped by peft."""
        return hasattr(self.model, "get_base_model")

    def checksum(self) -> str:
        """Return the checksum of all weights, see `trainers.policy.weights.weights_checksum`."""
        return weights_checksum(self.model.state_dict())
