"""How a policy's weights are written and read: a whole model, or adapters beside a model that stays where it is.

A `Policy` is handed one of the two and asks it; nothing here knows policies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from agent_gym.support.errors import AgentGymError, DataError
from trainers.policy.checks.families import Kept, as_it_came, check_family, make_plain
from trainers.policy.files import ADAPTER_CONFIG, base_of, find_model
from trainers.run.shards import place_like

_SHOWN = 600  # characters of an error of the readers
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_GENERIC_TOKENIZERS = frozenset({"PreTrainedTokenizerFast", "TokenizersBackend"})


class Storage(Protocol):
    """Writes and reads the weights of one kind of model."""

    def save(self, model: Any, folder: str | Path, weights: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write config and weights; `weights` is the model's whole state dict, where its own is sharded."""
        ...

    def load(self, model: Any, folder: str | Path) -> None:
        """Replace the weights, in place, by those that `save` wrote.

        Raises:
            DataError: The folder holds no weights for this model.
        """
        ...


class WholeModel:
    """Every weight of the model.

    Args:
        kept: Settings of its configuration that are other ones while it is in use.
    """

    def __init__(self, kept: Kept | None = None) -> None:
        self._kept = kept or {}

    def save(self, model: Any, folder: str | Path, weights: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write config and weights as `from_pretrained` reads them."""
        with no_progress_bars(), as_it_came(model.config, self._kept):
            model.save_pretrained(str(folder), state_dict=weights)

    def load(self, model: Any, folder: str | Path) -> None:
        """Replace all weights; sharded ones take their part."""
        from transformers import AutoModelForCausalLM

        try:
            with no_progress_bars():
                fresh = AutoModelForCausalLM.from_pretrained(
                    str(folder), dtype=model.dtype, local_files_only=True, use_safetensors=True
                )
            own = model.state_dict()
            whole = fresh.state_dict()
            model.load_state_dict(
                {name: place_like(value, own[name]) if name in own else value for name, value in whole.items()}
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{str(folder)!r} does not hold weights for this model: {error}") from error


class AdaptersOnly:
    """The adapters of a peft model; loading them anew needs the base model where it was."""

    def save(self, model: Any, folder: str | Path, weights: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write the adapters."""
        # Deciding whether embeddings belong to an adapter would ask the hub for the base model's config.
        with no_progress_bars():
            model.save_pretrained(str(folder), save_embedding_layers=False, state_dict=weights)

    def load(self, model: Any, folder: str | Path) -> None:
        """Replace the adapters' weights.

        Raises:
            DataError: The folder holds no adapters, or others.
        """
        from peft import get_peft_model_state_dict, set_peft_model_state_dict
        from safetensors.torch import load_file

        file = Path(folder) / _ADAPTER_WEIGHTS
        if not file.is_file():
            raise DataError(f"{str(folder)!r} holds no adapters: {_ADAPTER_WEIGHTS} is missing")
        saved = load_file(str(file))
        own = get_peft_model_state_dict(model)
        expected = {key: value.shape for key, value in own.items()}
        if {key: value.shape for key, value in saved.items()} != expected:
            raise DataError(
                f"{str(file)!r} holds {len(saved)} adapter tensors that do not fit, expected {len(expected)} of "
                "the model's rank and targets"
            )
        set_peft_model_state_dict(model, {name: place_like(value, own[name]) for name, value in saved.items()})


def load_model(
    path_or_id: str | Path, *, dtype: torch.dtype | str = "auto", allow_downloads: bool = False
) -> tuple[Any, Any, Storage]:
    """Load a causal language model and its tokenizer from a folder, or from the local Hugging Face cache.

    Args:
        path_or_id: Folder of a model, or of adapters that name theirs; or a hub id.
        dtype: Dtype of the weights; "auto" keeps the checkpoint's.
        allow_downloads: Let the hub client fetch missing files. Only safetensors weights are read, and no code
            that comes with a model is run.

    Returns:
        The model, its tokenizer, and how its weights are stored.

    Raises:
        DataError: Nothing loadable is there.
    """
    source = find_model(path_or_id, allow_downloads) or path_or_id
    local = not allow_downloads
    try:
        with no_progress_bars():
            if (Path(source) / ADAPTER_CONFIG).is_file():
                from peft import PeftModel

                base = base_of(source)
                assert base is not None
                model, _ = _whole(base, dtype, local)
                storage: Storage = AdaptersOnly()
                model = PeftModel.from_pretrained(model, str(source), is_trainable=True)
            else:
                model, kept = _whole(str(path_or_id), dtype, local)
                storage = WholeModel(kept)
        return model, _load_tokenizer(source, local), storage
    except (AgentGymError, MemoryError):
        raise
    # Readers of damaged files raise whatever they stumble over, a bare Exception included.
    except Exception as error:
        what = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
        raise DataError(
            f"no causal LM with safetensors weights and a tokenizer at {str(path_or_id)!r}; check what is there. "
            f"({what})"
        ) from error


def _whole(name: str, dtype: torch.dtype | str, local: bool) -> tuple[Any, Kept]:
    """Load a whole model by the name that a user or an adapter gives it, and what its configuration was."""
    from transformers import AutoConfig, AutoModelForCausalLM

    place = find_model(name, not local) or name
    # Adapters name their base by the place it was loaded from, wherever they are loaded again.
    source = str(place.resolve()) if isinstance(place, Path) else place
    config = AutoConfig.from_pretrained(source, local_files_only=local)
    check_family(config)
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        source,
        config=config,
        dtype=dtype,
        local_files_only=local,
        use_safetensors=True,
        output_loading_info=True,
    )
    model, report = loaded
    _check_whole(name, report)
    if not Path(name).is_dir():
        model.name_or_path = name  # rather than a place in the cache
    return model, make_plain(model.config)


def _check_whole(name: str, report: Mapping[str, Any]) -> None:
    """Refuse weights of which some are missing: they would be random numbers.

    Raises:
        DataError: Some are.
    """
    missing = sorted(report["missing_keys"])
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"the weights at {name!r} are not whole: the model needs {missing[0]!r}{more}, which no file there "
            "holds; copy the folder again, or take one whose config.json is of the same kind of model"
        )


def _load_tokenizer(path_or_id: str | Path, local: bool) -> Any:
    """Load a tokenizer as the class it was saved as.

    Auto classes map a model type to that family's tokenizer, whose pre-tokenisation would replace the one of
    a tokenizer trained by `trainers.policy.tiny` and saved beside such a model.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    config = Path(path_or_id) / "tokenizer_config.json"
    try:
        saved_as = json.loads(config.read_text("utf-8")).get("tokenizer_class") if config.is_file() else None
        chosen = PreTrainedTokenizerFast if saved_as in _GENERIC_TOKENIZERS else AutoTokenizer
        return chosen.from_pretrained(str(path_or_id), local_files_only=local)
    except Exception as error:
        what = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
        raise DataError(
            f"no tokenizer can be read at {str(path_or_id)!r}; expected tokenizer.json (or the files that "
            f"transformers makes one of) beside the weights. Copy it from the model's origin. ({what})"
        ) from error


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep the bars that saving and loading draw off the terminal; the user's setting is put back."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
