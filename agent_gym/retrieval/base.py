"""What every search backend is: an ordered list of passages behind `search`.

Environments depend on this module alone. Backends differ in how they rank and in where passages live; they agree
on that a passage has an id, a title and a text, that hits come best first, and on the errors they raise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_gym.support.errors import AgentGymError, ConfigError

UNKNOWN_DOC = -1
"""Document number of a hit from a server, which tells ids only."""


class RetrieverError(AgentGymError):
    """Base class: a search that could not be carried out. Environments end the episode as `tool_error`."""


class RetrieverUnavailableError(RetrieverError):
    """A server that did not answer, or answered with errors, in spite of retries."""


class RetrieverResponseError(RetrieverError):
    """A server's answer that does not have the documented form, or that refuses the request."""


class UnknownPassageError(RetrieverError, LookupError):
    """A passage id that the corpus does not hold."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable text.

    Attributes:
        id: Unique in its corpus.
        title: Title of the article or entity; may be empty.
        text: The passage without its title.
    """

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        """The published corpus form: the quoted title, a line break, the text."""
        return f'"{self.title}"\n{self.text}'

    @classmethod
    def from_contents(cls, id: str, contents: str) -> Passage:
        """Return the passage of a corpus row `"Title"\\ntext`; a row of one line has no title."""
        first, newline, rest = contents.partition("\n")
        if not newline:
            return cls(id, "", contents)
        if len(first) >= 2 and first[0] == first[-1] == '"':
            first = first[1:-1]
        return cls(id, first, rest)


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result.

    Attributes:
        doc: Position of the passage in its corpus, from 0; `UNKNOWN_DOC` when a server found it.
        id: Id of the passage.
        score: The backend's score, higher is better; comparable within one backend only.
        passage: The passage itself where the backend had it at hand (a server sends it along), else None:
            `Retriever.passages` gives it in either case.
    """

    doc: int
    id: str
    score: float
    passage: Passage | None = field(default=None, compare=False, repr=False)


class Retriever(ABC):
    """A searchable corpus.

    Searching is thread-safe and works in forked processes. Copies (`copy.copy`, `copy.deepcopy`) are the same
    object and pickling sends where the data lies, not the data, except for corpora that exist in memory only.
    Any text is a valid query; one without a searchable word finds nothing.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of passages; -1 when a server does not tell."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Text that is equal for equal corpora and ranking rules, on every machine."""

    @abstractmethod
    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best `k` hits of every query, best first; fewer when fewer passages match.

        Raises:
            ConfigError: `k` is below 1.
            RetrieverError: The search could not be carried out.
        """

    @abstractmethod
    def passage(self, id: str) -> Passage:
        """Return a passage.

        Raises:
            UnknownPassageError: No passage has this id.
        """

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` hits, best first; raises as `search_many` does."""
        return self.search_many([query], k)[0]

    def passages(self, hits: Sequence[Hit]) -> list[Passage]:
        """Return the passages of hits, in their order."""
        return [self.passage(hit.id) if hit.passage is None else hit.passage for hit in hits]

    def __copy__(self) -> Retriever:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Retriever:
        return self


def check_k(k: int) -> None:
    """Raise ConfigError unless `k` is a positive whole number."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"k, the number of passages to find, is a whole number of at least 1, got {k!r}")


def clean_text(text: str) -> str:
    """Return text that UTF-8 can hold: lone surrogates, which JSON can smuggle in, become question marks."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text
