"""A small shop whose products have option values with every awkward character, and the recorded one."""

from __future__ import annotations

from functools import lru_cache
from html.parser import HTMLParser

from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import Compat, GoalKind
from agent_gym.envs.webshop.world.nouns import NounOrigin, Nouns, heuristic_nouns, table_of
from agent_gym.envs.webshop.world.product import Product
from agent_gym.envs.webshop.world.shop import Shop
from agent_gym.retrieval.lexical.lucene import LuceneIndex
from tests.envs.webshop.recorded import MemoryCatalog, products, recording, title_nouns

AWKWARD = (
    "plain",
    "size [m]",
    '5 | 8"',
    "café",
    "a & b",
    "50% off",
    "<b>",
    "]",
    "it's",
    "back\\slash",
    "a/b",
    "..",
    "?x=1#y",
    "日本 語",
    "😀",
    "%2f",
    "+",
    "two  blanks",
    "{{ 7*7 }}",
)
"""Option values."""
HOSTILE = Product(
    "B0HOSTILE1",
    "A <script>alert(1)</script> shirt & 'tie'",
    description="</p><img src=x onerror=alert(1)>",
    bullets=("<b>bold</b>", "", "plain"),
    category="fashion",
    query="shirts",
    product_category="Clothing › Shirts",
    price_tag="$20.0",
    prices=(20.0,),
    options=(("size", AWKWARD), ("<i>colour</i>", ("red", "<script>"))),
    images=("javascript:alert(1)",),
    attributes=("<u>soft</u>", "warm"),
)
PLAIN = Product(
    "B0PLAIN002",
    "Blue cotton shirt",
    category="fashion",
    query="shirts",
    price_tag="$10.0",
    prices=(10.0,),
    attributes=("warm",),
)


def goal(value: str = "café", index: int = 0) -> Goal:
    return Goal(
        asin=HOSTILE.asin,
        category=HOSTILE.category,
        query=HOSTILE.query,
        name=HOSTILE.title,
        product_category=HOSTILE.product_category,
        instruction_text=f"I need a <b>warm</b> shirt & {value}, and price lower than 30.00 dollars",
        attributes=("warm",),
        price_upper=30.0,
        options=(value,),
        kind=GoalKind.HUMAN,
        index=index,
    )


def shop_of(items: tuple[Product, ...], prices: dict[str, float], compat: Compat, nouns: Nouns) -> Shop:
    index = LuceneIndex.build([(item.asin, item.index_text()) for item in items])
    return Shop(
        MemoryCatalog(items, prices),
        lambda query, count: index.rank(query, count)[0].tolist(),
        nouns,
        compat=compat,
        show_attributes=True,
    )


@lru_cache(maxsize=2)
def awkward_shop(compat: Compat = Compat.FIXED) -> Shop:
    prices = {HOSTILE.asin: 20.0, PLAIN.asin: 10.0}
    return shop_of((HOSTILE, PLAIN), prices, compat, Nouns(None, heuristic_nouns, NounOrigin.HEURISTIC))


@lru_cache(maxsize=1)
def recorded_shop() -> Shop:
    """The 1,000-product catalogue with the recorded prices and nouns; skips where it is absent."""
    header, _ = recording("human")
    titles = {product.asin: product.title for product in products()}
    nouns = Nouns(table_of(title_nouns(), titles.get), heuristic_nouns, NounOrigin.HEURISTIC)
    shop = shop_of(products(), header["product_prices"], Compat.UPSTREAM, nouns)
    shop.show_attributes = False
    return shop


class _Texts(HTMLParser):
    """The texts of a page by the rules of the text observation."""

    _DROPPED = frozenset({"style", "script", "head", "title"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._dropped = 0
        self._replaced: list[str | None] = []
        self._void = {"br", "img", "input", "link", "meta"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._void:
            return
        self._dropped += tag in self._DROPPED
        observed = dict(attrs).get("data-observation")
        if observed:
            self.texts.append(observed)
        self._replaced.append(observed)

    def handle_endtag(self, tag: str) -> None:
        self._dropped -= tag in self._DROPPED
        self._replaced.pop()

    def handle_data(self, data: str) -> None:
        dropped = self._dropped or any(observed is not None for observed in self._replaced)
        if not dropped and not (data.isspace() and "\n" in data):
            self.texts.append(data)


def html_texts(html: str) -> list[str]:
    """Return the texts of a page's markup."""
    parser = _Texts()
    parser.feed(html)
    parser.close()
    return parser.texts
