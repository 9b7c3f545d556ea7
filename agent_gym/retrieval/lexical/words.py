"""Query and passage words of the lexical index.

Words are runs of letters and digits, lower-cased, without accents, reduced to English stems: the same steps for
passages and queries, so that what is indexed can be found. Queries are turned into words here and never into a
query language: no text of a model can be a syntax error or an expensive operator.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from agent_gym.retrieval.base import clean_text

ANALYZER = "english-1"
"""Names the steps; part of every index's manifest, because another analyzer needs another index."""

LONGEST_WORD = 40
MOST_CHARACTERS = 16_384
MOST_WORDS = 64
"""Of a longer query the first characters and the first distinct words count."""

_FUNCTION_WORDS = (
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is "
    "it its me my no not of on or our she so than that the their them then there these they this to was we were "
    "what when where which who whom whose why will with would you your"
)

STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words that questions are made of. They are indexed, but a query uses them only if it has no others."""

_local = threading.local()


def make_analyzer() -> Any:
    """Return a new tantivy analyzer of these steps."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple())
    for step in (
        Filter.remove_long(LONGEST_WORD),
        Filter.lowercase(),
        Filter.ascii_fold(),
        Filter.stemmer("english"),
    ):
        builder = builder.filter(step)
    return builder.build()


def query_words(query: str) -> list[tuple[str, int]]:
    """Return the index words of a query and how often each occurs, in order of first occurrence.

    Args:
        query: Any text.
    """
    words = _analyze(clean_text(query[:MOST_CHARACTERS]))
    stops = _stop_stems()
    useful = [word for word in words if word not in stops] or words
    return list(Counter(useful).items())[:MOST_WORDS]


def _analyze(text: str) -> list[str]:
    analyzer = getattr(_local, "analyzer", None)
    if analyzer is None:
        analyzer = _local.analyzer = make_analyzer()  # one per thread: analyzing changes its buffers
    words: list[str] = analyzer.analyze(text)
    return words


def _stop_stems() -> frozenset[str]:
    stems: frozenset[str] | None = getattr(_local, "stops", None)
    if stems is None:
        stems = _local.stops = frozenset(_analyze(" ".join(sorted(STOP_WORDS))))
    return stems
