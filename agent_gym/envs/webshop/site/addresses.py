"""The site's addresses: one per page, with everything that the page shows but the goal.

    /SESSION
    /search_results/SESSION/WORDS/NUMBER
    /item_page/SESSION/ASIN/WORDS/NUMBER/OPTIONS
    /item_sub_page/SESSION/ASIN/WORDS/NUMBER/SUB_PAGE/OPTIONS
    /done/SESSION/ASIN/OPTIONS

These are the original's, except that words and options are JSON (the original has Python literals in them, which
break on quotes) and that every part is percent-encoded, so that any text can be part of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from agent_gym.envs.webshop.world.kinds import PageKind, SubPage
from agent_gym.support.errors import AgentGymError

MAX_QUERY: Final = 4_096
"""Characters of a search."""
MAX_PATH: Final = 65_536
"""Bytes of an address."""
MAX_NUMBER: Final = 1_000_000
"""Highest number of a page of results."""
SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names of sessions."""

_RESULTS: Final = "search_results"
_ITEM: Final = "item_page"
_SUB_PAGE: Final = "item_sub_page"
_DONE: Final = "done"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
RESERVED: Final = frozenset({_RESULTS, _ITEM, _SUB_PAGE, _DONE, "static", "health", "favicon"})
"""First parts of addresses that no session can have as a name."""


class BadAddressError(AgentGymError, ValueError):
    """An address that is not well-formed."""


class NoPageError(BadAddressError):
    """A well-formed address of something that does not exist."""


@dataclass(frozen=True, slots=True)
class Address:
    """What an address says.

    Attributes:
        kind: Kind of the page.
        session: Name of the session.
        keywords: Words of the search.
        number: Number of the page of results.
        asin: Product.
        selected: Axis -> chosen value.
        sub_page: Page below the product's.
    """

    kind: PageKind
    session: str
    keywords: tuple[str, ...] = ()
    number: int = 0
    asin: str = ""
    selected: Mapping[str, str] = field(default_factory=dict)
    sub_page: SubPage | None = None

    def path(self) -> str:
        """Return the address, without host."""
        words, options = _encode(list(self.keywords)), _encode(dict(self.selected))
        kind, session, asin = self.kind, self.session, _quote(self.asin)
        if kind is PageKind.INDEX:
            return f"/{session}"
        if kind is PageKind.RESULTS:
            return f"/{_RESULTS}/{session}/{words}/{self.number}"
        if kind is PageKind.ITEM:
            return f"/{_ITEM}/{session}/{asin}/{words}/{self.number}/{options}"
        if kind is PageKind.SUB_PAGE:
            assert self.sub_page is not None
            return f"/{_SUB_PAGE}/{session}/{asin}/{words}/{self.number}/{self.sub_page.value}/{options}"
        return f"/{_DONE}/{session}/{asin}/{options}"


def read_address(raw_path: bytes) -> Address:
    """Return what the path of a request says, before any decoding.

    Raises:
        BadAddressError: It stands for no page; the message says why (`NoPageError` where it is well-formed).
    """
    if len(raw_path) > MAX_PATH:
        raise BadAddressError(f"the address is longer than {MAX_PATH:,} bytes")
    parts = [_decode(part) for part in raw_path.strip(b"/").split(b"/")]
    if len(parts) == 1:
        return Address(PageKind.INDEX, _session(parts[0]))
    shape = (parts[0], len(parts))
    if shape == (_RESULTS, 4):
        return Address(PageKind.RESULTS, _session(parts[1]), _words(parts[2]), _number(parts[3]))
    if shape == (_ITEM, 6):
        kind, place = PageKind.ITEM, (_words(parts[3]), _number(parts[4]), parts[2])
        return Address(kind, _session(parts[1]), *place, _options(parts[5]))
    if shape == (_SUB_PAGE, 7):
        kind, place = PageKind.SUB_PAGE, (_words(parts[3]), _number(parts[4]), parts[2])
        return Address(kind, _session(parts[1]), *place, _options(parts[6]), _sub_page(parts[5]))
    if shape == (_DONE, 4):
        return Address(PageKind.DONE, _session(parts[1]), asin=parts[2], selected=_options(parts[3]))
    raise NoPageError("there is no such page")


def split_query(text: str) -> tuple[str, ...]:
    """Return the words of a search as the original takes them from its form: lower case, split at single spaces.

    Raises:
        BadAddressError: The text is too long.
    """
    if len(text) > MAX_QUERY:
        raise BadAddressError(f"a search has at most {MAX_QUERY} characters, this one has {len(text):,}")
    return tuple(text.lower().split(" "))


def _encode(value: Any) -> str:
    return _quote(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _quote(text: str) -> str:
    """Percent-encode a text; half of a surrogate pair, which has no UTF-8, becomes U+FFFD as in browsers."""
    return quote(_LONE_SURROGATE.sub("\ufffd", text), safe="")


def _decode(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        raise BadAddressError("the address is not UTF-8") from None


def _session(text: str) -> str:
    if not SESSION.fullmatch(text) or text in RESERVED:
        raise BadAddressError(
            "a session's name has 1 to 64 letters, digits, - and _, and begins with a letter or digit"
        )
    return text


def _json(text: str) -> Any:
    try:
        found = json.loads(text)
        # An escape can hold half of a surrogate pair, which no page can show.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise BadAddressError("the address holds no valid JSON where words or options should be") from None
    return found


def _words(text: str) -> tuple[str, ...]:
    found = _json(text)
    if not isinstance(found, list) or not found or not all(isinstance(word, str) for word in found):
        raise BadAddressError("the words of a search are a list of texts")
    if sum(map(len, found)) + len(found) - 1 > MAX_QUERY:
        raise BadAddressError(f"a search has at most {MAX_QUERY} characters")
    return tuple(found)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 7 or not 1 <= int(text) <= MAX_NUMBER:
        raise BadAddressError(f"a page of results has a number from 1 to {MAX_NUMBER:,}")
    return int(text)


def _options(text: str) -> dict[str, str]:
    found = _json(text)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BadAddressError("options are an object axis -> value")
    return found


def _sub_page(text: str) -> SubPage:
    try:
        return SubPage(text)
    except ValueError:
        raise BadAddressError(f"a product has the pages {', '.join(SubPage)}") from None
