"""The original's colour normaliser.

The words and their order are data of WebShop (`web_agent_site/engine/normalize.py`, MIT licence): rewards depend
on both, and on the words that are no colours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

COLOUR_WORDS: Final[tuple[str, ...]] = tuple(
    """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy
    camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral
    cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass
    gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon
    mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter
    pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone
    stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow
    """.split()  # noqa: SIM905 (a list of a hundred lines reads worse)
)
_SET: Final = frozenset(COLOUR_WORDS)


@lru_cache(maxsize=16_384)
def normalise_text(text: str) -> str:
    """Return the first colour word that occurs anywhere in `text`, else the text: "layered" becomes "red"."""
    for word in COLOUR_WORDS:
        if word in text:
            return word
    return text


def normalise_pair(axis: str, value: str) -> str:
    """Return the first colour word that equals axis or value, else the pair as the original prints it.

    The original passes a synthetic goal's options as tuples, in which `in` looks for an equal element.
    """
    if axis in _SET or value in _SET:
        return min(word for word in (axis, value) if word in _SET)
    return str((axis, value))
