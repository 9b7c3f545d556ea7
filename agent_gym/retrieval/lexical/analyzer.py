"""From text to index terms, as the English analysis of Lucene and Anserini does it.

The steps are: words by the Unicode word-boundary rules (UAX #29), possessive 's removed, lower case, Lucene's
33 English stop words removed, Porter stems. Emoji are words of their own, ideographs and hiragana are words of
one character each, runs of katakana and of South-East Asian scripts are one word.

Left out: quotation marks inside Hebrew words, and keycap sequences of # and *, which product and encyclopaedia
texts do not hold.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from typing import Protocol

from agent_gym.retrieval.lexical.porter import stem

_STOP_TEXT = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
    "this to was will with"
)
STOP_WORDS = frozenset(_STOP_TEXT.split())
LONGEST = 255
"""Characters in a word; longer ones are cut into pieces of this length."""

_ASCII_UNIT = r"(?:[A-Za-z]++(?:[.':][A-Za-z]++)*+|[0-9]++(?:[.,;'][0-9]++)*+)++"
_ASCII_WORD = re.compile(rf"_*+{_ASCII_UNIT}(?:_++{_ASCII_UNIT})*+_*+")

# The same grammar over one class letter per character: L letter, N digit, K katakana, U connector, m : between
# letters, n , ; between digits, b . ' between either, E mark or format character, Z joiner, I ideograph or
# hiragana, S South-East Asian, P pictograph, R regional indicator.
_LETTERS = "(?:L[EZ]*+(?:[mb][EZ]*+L[EZ]*+|L[EZ]*+)*+)"
_DIGITS = "(?:N[EZ]*+(?:[nb][EZ]*+N[EZ]*+|N[EZ]*+)*+)"
_UNIT = f"(?:(?:{_LETTERS}|{_DIGITS})++|(?:K[EZ]*+)++)"
_LINK = "(?:U[EZ]*+)"
_CLASS_WORD = re.compile(
    rf"{_LINK}*+{_UNIT}(?:{_LINK}++{_UNIT})*+{_LINK}*+"
    r"|(?:S[EZ]*+)++|I[EZ]*+|(?:R[EZ]*+){2}|P[EZ]*+(?:(?<=Z)P[EZ]*+)*+"
)

_MIDDLES = {
    **dict.fromkeys(":··״‧︓﹕：", "m"),
    **dict.fromkeys(",;\u037e\u0589،؍٬߸⁄︐︔﹐﹔，；", "n"),
    **dict.fromkeys(".'‘’․﹒＇．", "b"),
    "\u202f": "U",
    "\u200d": "Z",
}
# Extended_Pictographic of Unicode 12.1, first and last code points in turn.
_PICTOGRAPH_TEXT = (
    "A9 A9 AE AE 203C 203C 2049 2049 2122 2122 2139 2139 2194 2199 21A9 21AA 231A 231B 2328 2328 2388 2388 "
    "23CF 23CF 23E9 23F3 23F8 23FA 24C2 24C2 25AA 25AB 25B6 25B6 25C0 25C0 25FB 25FE 2600 2605 2607 2612 "
    "2614 2685 2690 2705 2708 2712 2714 2714 2716 2716 271D 271D 2721 2721 2728 2728 2733 2734 2744 2744 "
    "2747 2747 274C 274C 274E 274E 2753 2755 2757 2757 2763 2767 2795 2797 27A1 27A1 27B0 27B0 27BF 27BF "
    "2934 2935 2B05 2B07 2B1B 2B1C 2B50 2B50 2B55 2B55 3030 3030 303D 303D 3297 3297 3299 3299 1F000 1F0FF "
    "1F10D 1F10F 1F12F 1F12F 1F16C 1F171 1F17E 1F17F 1F18E 1F18E 1F191 1F19A 1F1AD 1F1E5 1F201 1F20F "
    "1F21A 1F21A 1F22F 1F22F 1F232 1F23A 1F23C 1F23F 1F249 1F3FA 1F400 1F53D 1F546 1F64F 1F680 1F6FF "
    "1F774 1F77F 1F7D5 1F7FF 1F80C 1F80F 1F848 1F84F 1F85A 1F85F 1F888 1F88F 1F8AE 1F8FF 1F90C 1F93A "
    "1F93C 1F945 1F947 1FFFD"
)
_PICTOGRAPHS = tuple(int(code, 16) for code in _PICTOGRAPH_TEXT.split())
_OTHER = "."


class Analyzer(Protocol):
    """Turns text into index terms."""

    name: str
    """Names the rules; an index is only searched with the analyzer that built it."""

    def words(self, text: str) -> list[str]:
        """Return the words of a text, before `term`."""
        ...

    def term(self, word: str) -> str | None:
        """Return the index term of a word, None when it is not indexed. Depends on nothing but the word."""
        ...

    def terms(self, text: str) -> list[str]:
        """Return the index terms of a text in order, with repetitions."""
        ...


class EnglishAnalyzer:
    """The default English analysis of Anserini (Lucene 9): see the module's description."""

    name = "lucene-english"

    def words(self, text: str) -> list[str]:
        """Return the words of a text by the Unicode rules."""
        if text.isascii():
            words = _ASCII_WORD.findall(text)
        else:
            classes = "".join(map(_CLASSES.__getitem__, text))
            words = [text[match.start() : match.end()] for match in _CLASS_WORD.finditer(classes)]
        if len(text) > LONGEST and max(map(len, words), default=0) > LONGEST:
            return [word[at : at + LONGEST] for word in words for at in range(0, len(word), LONGEST)]
        return words

    def term(self, word: str) -> str | None:
        """Return the stem of a word in lower case without possessive 's, None for a stop word."""
        if len(word) > 1 and word[-1] in "sS" and word[-2] in "'’＇":
            word = word[:-2]
        word = word.lower()
        return None if word in STOP_WORDS else stem(word)

    def terms(self, text: str) -> list[str]:
        """Return the index terms of a text in order, with repetitions."""
        return [term for term in map(self.term, self.words(text)) if term is not None]


class _CharacterClasses(dict[str, str]):
    """Class letters by character, worked out when a character is first met."""

    def __missing__(self, character: str) -> str:
        found = self[character] = _character_class(character)
        return found


def _character_class(character: str) -> str:
    known = _MIDDLES.get(character)
    if known is not None:
        return known
    code = ord(character)
    if 0x1F3FB <= code <= 0x1F3FF:  # skin tones modify the pictograph before them
        return "E"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "R"
    at = bisect_right(_PICTOGRAPHS, code)
    if at % 2 or (at and _PICTOGRAPHS[at - 1] == code):
        return "P"
    if 0xFF9E <= code <= 0xFF9F:  # half-width sound marks extend the kana before them
        return "E"
    category = unicodedata.category(character)
    if category == "Nd":
        return "N"
    if category in ("Mn", "Mc", "Me") or (category == "Cf" and code != 0x200B):
        return "E"
    if category == "Pc":
        return "U"
    if 0x24B6 <= code <= 0x24E9:  # circled letters
        return "L"
    if category[0] != "L" and category != "Nl":
        return _OTHER
    return _script_class(code)


def _script_class(code: int) -> str:
    """Return the class letter of a letter."""
    if 0x30A1 <= code <= 0x30FA or 0x30FC <= code <= 0x30FF or 0x31F0 <= code <= 0x31FF or 0xFF66 <= code <= 0xFF9D:
        return "K"
    if 0x3041 <= code <= 0x309F or 0x1B001 <= code <= 0x1B11F:
        return "I"
    ideographs = ((0x3005, 0x3007), (0x3021, 0x3029), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
    if any(first <= code <= last for first, last in ideographs):
        return "I"
    south_east = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF))
    if any(first <= code <= last for first, last in south_east):
        return "S"
    return "L"


_CLASSES = _CharacterClasses()
