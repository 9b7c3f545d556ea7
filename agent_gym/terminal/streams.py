"""What a terminal is sent in place of characters that its encoding does not have."""

from __future__ import annotations

import codecs
from typing import Final

PLAIN: Final = "agent_gym.plain"
"""Handler of encoding errors: signs that carry meaning get their ASCII form, all others a question mark."""

_SIGNS: Final = {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "\N{EM DASH}": "-", "\N{HORIZONTAL ELLIPSIS}": "..."}


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SIGNS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(PLAIN, _plain)
