"""Whether tokenizer and model speak of the same ids."""

from __future__ import annotations

from typing import Any

import torch

from agent_gym.support.errors import ConfigError, DataError


def check_vocabulary(model: Any, tokenizer: Any) -> None:
    """Check that the model has a row of its embedding for every id of the tokenizer.

    Raises:
        DataError: It has not.
    """
    rows = _rows(model.get_input_embeddings())
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if rows is not None and largest >= rows:
        raise DataError(
            f"the tokenizer has ids up to {largest}, but the model's embedding has {rows} rows (ids up to "
            f"{rows - 1}); take the tokenizer that belongs to the model, or enlarge the model "
            "(resize_token_embeddings) and save it"
        )


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids that end a reply, by generation config and tokenizer.

    Raises:
        ConfigError: Neither names one.
    """
    found: set[int] = set()
    generation = getattr(model, "generation_config", None)
    for source in (getattr(generation, "eos_token_id", None), tokenizer.eos_token_id):
        if isinstance(source, int):
            found.add(source)
        elif source is not None:
            found.update(int(token) for token in source)
    if not found:
        raise ConfigError("neither the tokenizer nor the generation config names an end-of-text token; set one")
    return frozenset(found)


def silent_ids(model: Any, tokenizer: Any) -> torch.Tensor | None:
    """Return the ids of the model's output that stand for no text, bool [V]; None where each stands for some.

    Embeddings are often padded to a round number of rows. A sampler never draws such an id.
    """
    rows = _rows(model.get_output_embeddings())
    if rows is None:
        rows = int(model.config.get_text_config().vocab_size)
    silent_V = torch.ones(rows, dtype=torch.bool)
    written = [id_ for id_ in tokenizer.get_vocab().values() if 0 <= id_ < rows]
    silent_V[torch.tensor(written, dtype=torch.int64)] = False
    return silent_V if bool(silent_V.any()) else None


def _rows(layer: Any) -> int | None:
    weight = getattr(layer, "weight", None)
    return None if weight is None or weight.dim() != 2 else int(weight.shape[0])
