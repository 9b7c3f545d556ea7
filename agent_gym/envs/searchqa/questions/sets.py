"""Published sets that exact match against accepted answers would score wrongly.

Each is refused by its name, with its own rule and the way around.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent_gym.support.errors import DataError
from agent_gym.support.rows import plain_key

_LONG = "its answers are whole sentences or paragraphs, compared by"
OWN_RULES: Final[Mapping[str, str]] = {
    "curatedtrec": "its answers are regular expressions that the whole normalised answer has to match (FlashRAG, "
    "flashrag/evaluator/metrics.py)",
    "asqa": f"{_LONG} ROUGE-L and the share of short answers in them (arXiv 2204.06092)",
    "eli5": f"{_LONG} ROUGE (arXiv 1907.09190)",
    "msmarcoqa": f"{_LONG} ROUGE-L and BLEU (arXiv 1611.09268)",
    "narrativeqa": f"{_LONG} BLEU, METEOR and ROUGE-L (arXiv 1712.07040)",
    "wikiasp": f"{_LONG} ROUGE (arXiv 2011.07832)",
    "wow": f"{_LONG} word overlap (arXiv 1811.01241)",
    "fermi": "its answers are estimates, which count by their distance in orders of magnitude (arXiv 2110.14207)",
}
"""Set, as `plain_key` writes it -> why exact match is not its rule."""


def check_rule(source: str) -> None:
    """Check that a set is scored by equality with an accepted answer.

    Raises:
        DataError: It is not; the message says what its rule is and how its questions can be played all the same.
    """
    rule = OWN_RULES.get(plain_key(source))
    if rule is not None:
        raise DataError(
            f"{source} is not scored by exact match: {rule}. Leave it out, or play it by exact match under a name "
            f"of your own: questions={{'my-{plain_key(source)}': PATH}}"
        )
