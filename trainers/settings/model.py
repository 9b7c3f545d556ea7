"""The policy of a run: a pretrained model, or the sizes of the embedded one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainers.settings.lora import LoraSettings
from trainers.settings.strict import STRICT
from trainers.settings.tiny import TinySpec

TINY = "tiny"
"""The path that stands for the embedded policy."""


class Precision(StrEnum):
    """Dtype of mixed-precision computation. float16 is none: its gradients vanish without a scaled loss."""

    BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class ModelSettings:
    """The policy."""

    __pydantic_config__ = STRICT

    path: str = TINY
    """"tiny" builds a small decoder on the spot; otherwise a folder or hub id of a causal language model."""
    dtype: str = "auto"
    """Weights' dtype: auto (the checkpoint's), float32, bfloat16. Full training at small learning rates needs
    float32: 16 bits round most updates away. float16 is refused: most of its gradients would be 0."""
    autocast: Precision | None = None
    """Compute in this dtype while the weights keep theirs; None computes in the weights' dtype."""
    lora: LoraSettings | None = None
    """Train low-rank adapters of this size instead of the weights (`model.lora.rank=16`); None trains all."""
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    """Extra variables of the chat template (`{"enable_thinking": false}`)."""
    allow_downloads: bool = False
    """Let Hugging Face download missing files."""
    hidden: int = 64
    """Width of the tiny model."""
    layers: int = 2
    """Layers of the tiny model."""
    heads: int = 4
    """Attention heads of the tiny model."""
    vocab_size: int = 512
    """Most tokens of the tiny model's tokenizer."""

    def __post_init__(self) -> None:
        if self.path == TINY:
            self.tiny_spec()

    def tiny_spec(self) -> TinySpec:
        """Return the sizes of the tiny model.

        Raises:
            ConfigError: They do not fit each other.
        """
        return TinySpec(hidden=self.hidden, layers=self.layers, heads=self.heads, vocab_size=self.vocab_size)
