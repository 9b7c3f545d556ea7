"""The enumerations of the shop: what pages, buttons and modes there are."""

from __future__ import annotations

from enum import StrEnum


class Compat(StrEnum):
    """Whether the original's faults are kept."""

    UPSTREAM = "upstream"
    """As the original: option values with brackets cannot be clicked, a search works on every page, and
    `text_rich` does not mark selected values that JSON escapes."""
    FIXED = "fixed"
    """Every shown value can be clicked and is marked when selected; a search needs the search box."""


class Observation(StrEnum):
    """What an observation shows."""

    TEXT = "text"
    """The page's texts joined by " [SEP] "."""
    TEXT_RICH = "text_rich"
    """One text a line, with markers around what can be clicked and what was."""
    URL = "url"
    """The page's address."""
    HTML = "html"
    """The page's markup."""


class PageKind(StrEnum):
    """Kinds of pages."""

    INDEX = "index"
    """The start page with the search box."""
    RESULTS = "results"
    """Ten of the products that a search found."""
    ITEM = "item"
    """One product with its options."""
    SUB_PAGE = "sub_page"
    """The description, features, reviews or attributes of a product."""
    DONE = "done"
    """The receipt; the episode is over."""


class SubPage(StrEnum):
    """Pages below a product's page, as their buttons are called."""

    DESCRIPTION = "Description"
    FEATURES = "Features"
    REVIEWS = "Reviews"
    ATTRIBUTES = "Attributes"


class Button(StrEnum):
    """The other buttons."""

    SEARCH = "Search"
    BACK = "Back to Search"
    PREVIOUS = "< Prev"
    NEXT = "Next >"
    BUY = "Buy Now"


class GoalKind(StrEnum):
    """Who wrote an instruction."""

    HUMAN = "human"
    """A person, for one product; options are a list of values."""
    SYNTHETIC = "synthetic"
    """A template, for one product and one combination of its options."""


class RewardKind(StrEnum):
    """How a purchase is judged."""

    WEBSHOP = "webshop"
    """The original's formula: options match by word sets and by a colour found in them."""
    STRICT = "strict"
    """The same formula with options that must be equal, on their own axis where the goal names it."""


class RewardScale(StrEnum):
    """What a step returns as reward."""

    SCORE = "score"
    """The purchase's score, in [0, 1]."""
    SUCCESS = "success"
    """10 for a score of 1, else 0."""
