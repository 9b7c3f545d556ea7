"""Log-probabilities and entropies of given tokens, without materialising all logits.

The vocabulary is the largest dimension of a language model, so the output head runs only at positions that
predict a sampled token, in chunks that are recomputed in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch.utils.checkpoint import checkpoint

from agent_gym.support.errors import ConfigError
from trainers.policy.token_rows import PaddedRows

_LOGITS_PER_CHUNK = 2**25
"""Logits held at once: 128 MiB in float32."""
_MARK = 200.0
"""Size of the logits that show whether a model changes what its head returns."""


Reduce: TypeAlias = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""From logits [n, V], float32, and token ids [n] to values of n tokens each."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenStats:
    """What the policy says about the tokens of a batch; position t describes input token t.

    Attributes:
        logp: float32 [B, T], log-probability of token t given the tokens before it; 0 where mask is False.
        entropy: float32 [B, T], entropy in nats of the distribution token t was drawn from; 0 where mask is
            False. None when it was not asked for.
        greedy: bool [B, T], whether token t is the most likely one; False where mask is False. None when it
            was not asked for.
    """

    logp: torch.Tensor
    entropy: torch.Tensor | None = None
    greedy: torch.Tensor | None = None


class Scorer(Protocol):
    """Scores given tokens; a `Policy` does, and so does a reference that shares one's weights."""

    def token_stats(
        self,
        batch: PaddedRows,
        temperature: float = 1.0,
        entropy: bool = True,
        greedy: bool = False,
        *,
        entropy_gradient: bool = True,
    ) -> TokenStats:
        """Score the sampled tokens of `batch`; see `Policy.token_stats`."""
        ...


def check_temperature(temperature: float) -> None:
    """Raise ConfigError unless `temperature` is positive and finite."""
    if not 0.0 < temperature < float("inf"):
        raise ConfigError(
            f"temperature must be a positive number, got {temperature}; use greedy=True for the likeliest token"
        )


def entropy_of(logp_NV: torch.Tensor) -> torch.Tensor:
    """Return the entropy in nats, [N], of normalised log-probabilities [N, V]; -inf entries count as zero."""
    finite = logp_NV.clamp_min(torch.finfo(logp_NV.dtype).min)
    return -(logp_NV.exp() * finite).sum(-1)


def sampled_positions(batch: PaddedRows) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (row, column), each int64 [N], of the sampled tokens in row-major order; column >= 1."""
    rows, columns = batch.mask[:, 1:].nonzero(as_tuple=True)
    return rows, columns + 1


class HeadReader:
    """Runs a causal LM up to the logits of chosen positions.

    The decoder and the output head are called apart where that gives the model's own logits, so that the
    head can run in chunks. Of sharded models, whose parameters are whole only inside their own forward, the
    head is exchanged meanwhile for one that runs in chunks and gives what was asked for in place of logits.
    Models whose forward transforms the logits afterwards (soft caps, scales) run through their forward, with
    the hidden states narrowed to the chosen positions at the entrance of the head.

    Args:
        model: A Hugging Face causal LM, or one wrapped by peft.
        separable: Whether head(decoder(x)) equals the model's own logits, where it is known.
    """

    def __init__(self, model: Any, separable: bool | None = None) -> None:
        self.model = model
        self._separable = separable

    @property
    def _base(self) -> Any:
        return base_model(self.model)

    @property
    def separable(self) -> bool:
        """Whether head(decoder(x)) equals the model's own logits; found once with a four-token input."""
        if self._separable is None:
            self._separable = not self._sharded and self._probe()
        return self._separable

    @property
    def _sharded(self) -> bool:
        return hasattr(self.model, "unshard")

    def _probe(self) -> bool:
        base = self._base
        head = base.get_output_embeddings()
        if head is None or base.get_decoder() is base:
            return False
        ids = torch.arange(4, device=head.weight.device)[None] % base.config.get_text_config().vocab_size
        # Large logits in place of the head's own: a cap would hardly show on the small ones of a new model.
        marks = torch.linspace(-_MARK, _MARK, 4 * head.weight.shape[0], device=head.weight.device)
        seen: list[torch.Tensor] = []

        def mark(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...], out: torch.Tensor) -> torch.Tensor:
            seen.append(arguments[0])
            return marks.view(1, 4, -1).to(out.dtype) if out.numel() == marks.numel() else out

        handle = head.register_forward_hook(mark)
        try:
            with torch.no_grad():
                out = self.model(input_ids=ids, use_cache=False).logits
                hidden = base.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        finally:
            handle.remove()
        if len(seen) != 1 or seen[0].shape != hidden.shape or out.numel() != marks.numel():
            return False
        close = torch.allclose(seen[0].float(), hidden.float(), atol=1e-4, rtol=1e-3)
        return close and torch.allclose(out.reshape(-1).float(), marks.to(out.dtype).float(), atol=1e-4, rtol=1e-3)

    def map_logits(
        self,
        batch: PaddedRows,
        reduce: Reduce,
    ) -> tuple[torch.Tensor, ...]:
        """Apply `reduce(logits [n, V] float32, token ids [n])` to chunks of the sampled positions.

        Returns:
            The outputs of `reduce`, concatenated over the N sampled positions in row-major order.
        """
        rows, columns = sampled_positions(batch)
        targets = batch.input_ids[rows, columns]
        inputs = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
            "position_ids": batch.position_ids,
            "use_cache": False,
        }
        if not self.separable:
            return reduce(narrowed_logits(self.model, inputs, rows, columns - 1).float(), targets)
        head = self._base.get_output_embeddings()
        if self._sharded:
            return self._inside(inputs, (rows, columns - 1), targets, reduce)
        hidden_NH = self._base.get_decoder()(**inputs).last_hidden_state[rows, columns - 1]
        return _in_chunks(head, hidden_NH, targets, reduce, head.weight.shape[0])

    def _inside(
        self,
        inputs: dict[str, Any],
        where: tuple[torch.Tensor, torch.Tensor],
        targets: torch.Tensor,
        reduce: Reduce,
    ) -> tuple[torch.Tensor, ...]:
        """Run the whole model with a head that returns what `reduce` makes of its logits.

        The values leave through the model's own output, since hooks there start the sharded backward pass.
        """
        head = self._base.get_output_embeddings()
        forward, given = head.forward, vars(head).get("forward")
        found: list[torch.Tensor] = []

        def reducing(hidden_BTH: torch.Tensor) -> torch.Tensor:
            found.extend(_in_chunks(forward, hidden_BTH[where], targets, reduce, head.weight.shape[0]))
            columns_NK = [value.float()[:, None] if value.dim() == 1 else value.float() for value in found]
            return torch.cat(columns_NK, dim=-1)[None]

        head.forward = reducing
        try:
            out_NK = self.model(**inputs).logits[0]
        finally:
            del head.forward
            if given is not None:
                head.forward = given
        widths = [1 if value.dim() == 1 else value.shape[1] for value in found]
        parts = zip(found, torch.split(out_NK, widths, dim=-1), strict=True)
        return tuple(part.reshape(value.shape).to(value.dtype) for value, part in parts)


def base_model(model: Any) -> Any:
    """Return the Hugging Face model inside a peft wrapper; any other model is returned itself."""
    inner = getattr(model, "get_base_model", None)
    return model if inner is None else inner()


def narrowed_logits(model: Any, inputs: dict[str, Any], rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return the model's own logits at chosen positions, [N, V], without those at the others.

    Args:
        model: A Hugging Face causal LM, or one wrapped by peft.
        inputs: Arguments of its forward pass.
        rows: int64 [N].
        columns: int64 [N].
    """
    head = base_model(model).get_output_embeddings()
    if head is None:
        whole: torch.Tensor = model(**inputs).logits
        return whole[rows, columns]

    def narrow(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (arguments[0][rows, columns][None], *arguments[1:])

    handle = head.register_forward_pre_hook(narrow)
    try:
        logits: torch.Tensor = model(**inputs).logits
        return logits[0]
    finally:
        handle.remove()


def _in_chunks(
    head: Callable[[torch.Tensor], torch.Tensor],
    hidden_NH: torch.Tensor,
    targets: torch.Tensor,
    reduce: Reduce,
    vocabulary: int,
) -> tuple[torch.Tensor, ...]:
    """Return what `reduce` makes of the logits of N positions, of which a chunk is there at a time."""
    size = max(1, _LOGITS_PER_CHUNK // vocabulary)

    def part(hidden_nH: torch.Tensor, targets_n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return reduce(head(hidden_nH).float(), targets_n)

    if len(targets) <= size:
        return part(hidden_NH, targets)
    parts = []
    for hidden_nH, targets_n in zip(torch.split(hidden_NH, size), torch.split(targets, size), strict=True):
        if torch.is_grad_enabled():
            # Nothing in the head is random, so no generator state needs to be kept for the recomputation.
            done = checkpoint(part, hidden_nH, targets_n, use_reentrant=False, preserve_rng_state=False)
        else:
            done = part(hidden_nH, targets_n)
        parts.append(done)
    return tuple(torch.cat(columns_of) for columns_of in zip(*parts, strict=True))


def token_stats(
    reader: HeadReader,
    batch: PaddedRows,
    *,
    temperature: float = 1.0,
    entropy: bool = True,
    greedy: bool = False,
    entropy_gradient: bool = True,
) -> TokenStats:
    """Score the sampled tokens of `batch`; see `Policy.token_stats`."""
    check_temperature(temperature)

    def reduce(logits_nV: torch.Tensor, targets_n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logp_nV = torch.log_softmax(logits_nV / temperature, dim=-1)
        out = [logp_nV.gather(-1, targets_n[:, None])[:, 0]]
        if entropy:
            out.append(entropy_of(logp_nV if entropy_gradient else logp_nV.detach()))
        if greedy:
            out.append(logits_nV.argmax(-1) == targets_n)
        return tuple(out)

    values = list(reader.map_logits(batch, reduce))
    where = sampled_positions(batch)

    def spread(value_N: torch.Tensor) -> torch.Tensor:
        return value_N.new_zeros(batch.mask.shape).index_put(where, value_N)

    logp_BT = spread(values.pop(0))
    entropy_BT = spread(values.pop(0)) if entropy else None
    return TokenStats(logp_BT, entropy_BT, spread(values.pop(0)) if greedy else None)


def log_distributions(reader: HeadReader, batch: PaddedRows, *, temperature: float = 1.0) -> torch.Tensor:
    """Return whole log-distributions [N, V]; see `Policy.log_distributions`."""
    check_temperature(temperature)
    (logp_NV,) = reader.map_logits(batch, lambda logits, _: (torch.log_softmax(logits / temperature, dim=-1),))
    return logp_NV
