"""Where the files of a model are: in a folder, or in the local Hugging Face cache. Nothing here asks the network.

Models are loaded from the folder that is found here: given a name in place of a folder, transformers and peft ask
the hub for further files, even where they are told to read local ones only.
"""

from __future__ import annotations

import json
from pathlib import Path

from agent_gym.support.errors import DataError
from trainers.settings.model import TINY, ModelSettings

ADAPTER_CONFIG = "adapter_config.json"
_CONFIG = "config.json"
_SMOLLM = "smollm2"


def find_model(
    name: str | Path, allow_downloads: bool = False, *, setting: str = "", switch: str = "allow_downloads=True"
) -> Path | None:
    """Return the folder of a model, None for a hub id whose files may be downloaded.

    Args:
        name: Folder or hub id.
        allow_downloads: Whether files that are not here may be downloaded.
        setting: How the user names the folder, for the message.
        switch: How the user allows downloads, for the message.

    Raises:
        DataError: Nothing of the model is here, and nothing may be or can be downloaded.
    """
    folder = Path(name)
    of = f" ({setting})" if setting else ""
    if folder.is_dir():
        if not any((folder / file).is_file() for file in (_CONFIG, ADAPTER_CONFIG)):
            raise DataError(f"the folder {name}{of} is not a model's: it holds no {_CONFIG}")
        return folder
    if folder.is_file():
        raise DataError(f"{name}{of} is a file; give the folder of a model")
    is_id = _is_hub_id(str(name))
    if is_id and allow_downloads:
        return None
    if is_id and (cached := _cached(str(name))):
        return cached
    remedies = ["give the folder of a model that is here"]
    if folder.name.lower() == _SMOLLM:
        remedies.insert(0, f"make it: python -m benchmarks.measure.smollm {name}")
    if is_id:
        remedies.append(f"set {switch} if it is the id of a model on the Hugging Face hub")
    raise DataError(f"no folder {name}{of}; {', or '.join(remedies)}")


def locate_model(settings: ModelSettings) -> Path | None:
    """Return the folder of the model that settings name, None for a hub id whose files may be downloaded.

    Raises:
        DataError: There is no such model.
    """
    return find_model(
        settings.path, settings.allow_downloads, setting="model.path", switch="model.allow_downloads=true"
    )


def check_model(settings: ModelSettings) -> None:
    """Check that the model that settings name, and the one that its adapters name, can be found.

    Raises:
        DataError: One of them cannot.
    """
    folder = None if settings.path == TINY else locate_model(settings)
    base = None if folder is None else base_of(folder)
    if base is not None:
        find_model(
            base,
            settings.allow_downloads,
            setting=f"which the adapters in {settings.path} name as theirs",
            switch="model.allow_downloads=true",
        )


def base_of(folder: str | Path) -> str | None:
    """Return the model that the adapters in a folder name as theirs; None for a whole model.

    Raises:
        DataError: They name none.
    """
    path = Path(folder) / ADAPTER_CONFIG
    if not path.is_file():
        return None
    try:
        base = json.loads(path.read_text("utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path} does not describe adapters: {error}") from None
    if not base:
        raise DataError(
            f"the adapters in {str(folder)!r} do not name the model they belong to; save a merged policy "
            "(trainers.policy.lora.merged) instead"
        )
    return str(base)


def _is_hub_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def _cached(name: str) -> Path | None:
    """Return the folder in the cache that holds the newest files of a hub id."""
    from huggingface_hub import try_to_load_from_cache

    for file in (_CONFIG, ADAPTER_CONFIG):
        found = try_to_load_from_cache(name, file)
        if isinstance(found, str):
            return Path(found).parent
    return None
