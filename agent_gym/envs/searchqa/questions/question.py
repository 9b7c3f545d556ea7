"""One question with its accepted answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_gym.envs.searchqa.questions.answers import read_golds
from agent_gym.support.errors import DataError


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        source: Data set it belongs to.
        id: Id, unique within the source.
        question: Text.
        golds: Accepted answers; at least one.
        metadata: What else is known, as JSON values: `type`, `hops`, `supporting_titles`, and for generated
            questions `chain`, `plan` and `world`.
    """

    source: str
    id: str
    question: str
    golds: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Return the question as a FlashRAG row with its source."""
        return {
            "source": self.source,
            "id": self.id,
            "question": self.question,
            "golden_answers": list(self.golds),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_record(cls, record: Any) -> Question:
        """Return the question of a row `{"question", "golden_answers", "id", "source", "metadata"}`.

        All but the first two may be left out.

        Raises:
            DataError: The record is no question; the message says how.
        """
        if not isinstance(record, Mapping):
            raise DataError(
                f"a SearchQA task record is a dict with question and golden_answers, got {type(record).__name__}"
            )
        question, golds = record.get("question"), record.get("golden_answers")
        metadata = record.get("metadata") or {}
        if not isinstance(question, str) or not question.strip():
            raise DataError(f"expected 'question' to be a text, got {question!r:.80}")
        if not isinstance(metadata, Mapping):
            raise DataError(f"expected 'metadata' to be an object, got {type(metadata).__name__}")
        return cls(
            str(record.get("source", "custom")), str(record.get("id", "")), question, read_golds(golds), metadata
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Question:
        return self  # read-only: copies of an environment share it

    @property
    def hops(self) -> int | None:
        """Passages needed, where the source tells."""
        hops = self.metadata.get("hops")
        return hops if isinstance(hops, int) else None

    @property
    def supporting_titles(self) -> tuple[str, ...]:
        """Titles of the passages needed, where the source tells."""
        titles = self.metadata.get("supporting_titles") or ()
        return tuple(dict.fromkeys(str(title) for title in titles))
