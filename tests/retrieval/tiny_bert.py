"""A BERT with random weights in the sentence-transformers form, small enough for tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
CONFIG = {
    "model_type": "bert",
    "vocab_size": 4 + 2 * len(LETTERS),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}


def write_tiny_bert(folder: Path, seed: int = 0) -> Path:
    """Write config, tokenizer and weights into a folder."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 48}))
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
        return random.normal(0, 0.3, shape).astype(np.float32)

    dim, inner = 32, 64
    weights = {
        "embeddings.word_embeddings.weight": draw(len(words), dim),
        "embeddings.position_embeddings.weight": draw(64, dim),
        "embeddings.token_type_embeddings.weight": draw(2, dim),
    }
    shapes = {
        "attention.self.query": (dim, dim),
        "attention.self.key": (dim, dim),
        "attention.self.value": (dim, dim),
    }
    shapes |= {
        "attention.output.dense": (dim, dim),
        "intermediate.dense": (inner, dim),
        "output.dense": (dim, inner),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(2):
        for name, shape in shapes.items():
            weights[f"encoder.layer.{layer}.{name}.weight"] = draw(*shape)
            weights[f"encoder.layer.{layer}.{name}.bias"] = draw(shape[0])
        norms += [f"encoder.layer.{layer}.{part}.LayerNorm" for part in ("attention.output", "output")]
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + draw(dim), draw(dim)
    save_file(weights, folder / "model.safetensors")
    return folder
