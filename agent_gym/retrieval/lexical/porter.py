"""The Porter stemmer in the form that Lucene applies to English.

M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980, with the three departures of the author's
own later code, which Lucene shares: words of one or two letters stay as they are, step 2 has `bli -> ble` in
place of `abli -> able`, and it has `logi -> log`. Every character other than a, e, i, o, u and y is a
consonant, so words with digits, accents or joiners pass through the same rules.
"""

from __future__ import annotations

from itertools import pairwise

SHORTEST = 3
"""Words with fewer letters are not stemmed."""

# Step 2 and 3 replacements and step 4 removals by the letter that decides in which list to look: the last but
# one of the word in steps 2 and 4, the last one in step 3. The first suffix that fits ends the search.
_STEP_2 = {
    "a": (("ational", "ate"), ("tional", "tion")),
    "c": (("enci", "ence"), ("anci", "ance")),
    "e": (("izer", "ize"),),
    "l": (("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    "o": (("ization", "ize"), ("ation", "ate"), ("ator", "ate")),
    "s": (("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    "t": (("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    "g": (("logi", "log"),),
}
_STEP_3 = {
    "e": (("icate", "ic"), ("ative", ""), ("alize", "al")),
    "i": (("iciti", "ic"),),
    "l": (("ical", "ic"), ("ful", "")),
    "s": (("ness", ""),),
}
_STEP_4 = {
    "a": ("al",),
    "c": ("ance", "ence"),
    "e": ("er",),
    "i": ("ic",),
    "l": ("able", "ible"),
    "n": ("ant", "ement", "ment", "ent"),
    "o": ("ion", "ou"),
    "s": ("ism",),
    "t": ("ate", "iti"),
    "u": ("ous",),
    "v": ("ive",),
    "z": ("ize",),
}


def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if len(word) < SHORTEST:
        return word
    word = _plural_and_past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    if len(word) > 1:
        word = _replace(word, _STEP_2.get(word[-2], ()))
    word = _replace(word, _STEP_3.get(word[-1], ()))
    if len(word) > 1:
        word = _strip(word, _STEP_4.get(word[-2], ()))
    return _final(word)


def _plural_and_past(word: str) -> str:
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            trunk = word[: -len(suffix)]
            return _restored(trunk) if _has_vowel(trunk) else word
    return word


def _restored(word: str) -> str:
    """Return a word that lost `ed` or `ing` with the e that belongs to it, or without a doubled consonant."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _double_consonant(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _short_end(word) else word


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, replacement in rules:
        if word.endswith(suffix):
            trunk = word[: -len(suffix)]
            return trunk + replacement if _measure(trunk) > 0 else word
    return word


def _strip(word: str, suffixes: tuple[str, ...]) -> str:
    for suffix in suffixes:
        if word.endswith(suffix):
            trunk = word[: -len(suffix)]
            if suffix == "ion" and not trunk.endswith(("s", "t")):
                continue
            return trunk if _measure(trunk) > 1 else word
    return word


def _final(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word)  # the e itself adds nothing, it follows the last consonants
        trunk = word[:-1]
        if measure > 1 or (measure == 1 and not _short_end(trunk)):
            word = trunk
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


def _vowels(word: str) -> list[bool]:
    """Return for each letter whether it is a vowel: aeiou, and y after a consonant."""
    flags: list[bool] = []
    for letter in word:
        flags.append(letter in "aeiou" or (letter == "y" and bool(flags) and not flags[-1]))
    return flags


def _measure(word: str) -> int:
    """Return how often a consonant follows a vowel: m of the form [C](VC)^m[V]."""
    flags = _vowels(word)
    return sum(before and not after for before, after in pairwise(flags))


def _has_vowel(word: str) -> bool:
    return any(_vowels(word))


def _double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and not _vowels(word)[-1]


def _short_end(word: str) -> bool:
    """Tell whether the word ends consonant, vowel, consonant, the last one neither w, x nor y."""
    if len(word) < 3:
        return False
    return _vowels(word)[-3:] == [False, True, False] and word[-1] not in "wxy"
