"""Which kinds of models can be trained here, by what their configuration says, and what is set in it.

Kinds that cannot work are refused before their weights are read. What a configuration asks for beyond the logits
(router losses, attention maps, tuples in place of named outputs, weights rescaled in place) is switched off while
the model is in use, since it changes the forward pass that sampler and trainer rely on; a saved model has it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from agent_gym.support.errors import DataError

PLAIN: Mapping[str, Any] = {
    "output_router_logits": False,
    "output_attentions": False,
    "output_hidden_states": False,
    "return_dict": True,
    "rescale_every": 0,
}
"""Settings of a configuration and the values that leave nothing but logits."""

_NO_DECODERS = {
    "ForMaskedLM": "fills gaps in a text (a masked language model)",
    "ForPreTraining": "fills gaps in a text (a masked language model)",
    "ForSequenceClassification": "classifies texts (a reward model is one such)",
    "ForTokenClassification": "classifies words",
    "ForQuestionAnswering": "marks answers in a text",
    "ForMultipleChoice": "chooses among answers",
    "ForImageClassification": "classifies images (a vision model)",
    "ForObjectDetection": "finds objects in images (a vision model)",
}

Kept = dict[tuple[bool, str], Any]
"""Values that `make_plain` replaced, by (whether of the text part, name)."""


def check_family(config: Any) -> None:
    """Refuse a model that writes no text from left to right.

    Args:
        config: Its `transformers` configuration.

    Raises:
        DataError: It is an encoder and a decoder, a masked or a vision model, a classifier, or of a family that has
            no causal language model in the installed transformers.
    """
    family = str(config.model_type)
    if why := _unfit(family, config):
        raise DataError(
            f"the model is of family {family!r}, which {why}; expected a causal language model (a decoder), see "
            "docs/models.md"
        )


def _unfit(family: str, config: Any) -> str | None:
    from transformers.models.auto import modeling_auto as known

    if getattr(config, "is_encoder_decoder", False):
        return "reads with an encoder and writes with a decoder"
    for name in getattr(config, "architectures", None) or ():
        for ending, what in _NO_DECODERS.items():
            if name.endswith(ending) and not (ending == "ForPreTraining" and family not in _masked()):
                return f"as {name} {what}"
    if family in _masked() and getattr(config, "is_decoder", None) is False:
        return "fills gaps in a text (a masked language model)"
    if family not in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        if family in _masked():
            return "fills gaps in a text (a masked language model)"
        if hasattr(config, "image_size") and not hasattr(config, "text_config"):
            return "sees images only (a vision model)"
        return "has no causal language model in the installed transformers"
    return None


def _masked() -> frozenset[str]:
    from transformers.models.auto import modeling_auto as known

    return frozenset(known.MODEL_FOR_MASKED_LM_MAPPING_NAMES)


def make_plain(config: Any) -> Kept:
    """Set `PLAIN` in a configuration and that of its text part, and return what was there."""
    kept: Kept = {}
    for inner, part in ((False, config), (True, config.get_text_config())):
        if inner and part is config:
            continue
        for name, value in PLAIN.items():
            before = getattr(part, name, value)
            if before is not None and before != value:
                kept[inner, name] = before
                setattr(part, name, value)
    return kept


@contextmanager
def as_it_came(config: Any, kept: Kept) -> Iterator[None]:
    """Put back what `make_plain` returned, for as long as a model is saved."""

    def put(values: Mapping[tuple[bool, str], Any]) -> None:
        for (inner, name), value in values.items():
            # Attention maps cannot be asked for again where the layers in use give none.
            with suppress(ValueError):
                setattr(config.get_text_config() if inner else config, name, value)

    put(kept)
    try:
        yield
    finally:
        put({key: PLAIN[key[1]] for key in kept})
