"""The shop: its state machine, without markup, prompts or Gymnasium.

A `Shop` is what all visitors share (catalogue, search engine, reward, rules); a `Session` is one visit. The
rules are the original's (`web_agent_site/envs/web_agent_text_env.py`, `SimServer` and `WebAgentTextEnv.step`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Protocol

from agent_gym.envs.webshop.world import actions
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import Button, Compat, PageKind, RewardKind, SubPage
from agent_gym.envs.webshop.world.nouns import Nouns
from agent_gym.envs.webshop.world.pages import PAGE_SIZE, Page
from agent_gym.envs.webshop.world.product import Product
from agent_gym.envs.webshop.world.reward import RewardParts, judge

HITS: Final = 50
"""Products that a search finds at most."""
_CACHED_QUERIES: Final = 4096
_SUB_PAGES: Final = {page.value.lower(): page for page in SubPage}


class Catalog(Protocol):
    """Products by row; rows are numbered from 0 in the order of the source."""

    def __len__(self) -> int:
        """Return the number of products."""
        ...

    def product(self, row: int) -> Product:
        """Return the product of a row."""
        ...

    def row(self, asin: str) -> int | None:
        """Return the row of an identifier, None where there is none."""
        ...

    def price(self, row: int) -> float:
        """Return the price, in dollars, that goals and reward use."""
        ...


Engine = Callable[[str, int], Sequence[int]]
"""Search engine: query and number of hits -> rows, best first."""


class Shop:
    """What all sessions share.

    Args:
        catalog: The products.
        engine: The search engine.
        nouns: Nouns of titles, for the reward.
        compat: Whether the original's faults are kept.
        reward: How purchases are judged.
        show_attributes: Whether item pages have a button for the product's attributes.
        magic: Further queries by their first word, such as the original's "<r>"; None has none.
        maker: Function and arguments that make this shop again, which pickling sends instead of the shop.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: Engine,
        nouns: Nouns,
        *,
        compat: Compat = Compat.UPSTREAM,
        reward: RewardKind = RewardKind.WEBSHOP,
        show_attributes: bool = False,
        magic: Callable[[tuple[str, ...]], Sequence[int] | None] | None = None,
        maker: tuple[Callable[..., Shop], tuple[Any, ...]] | None = None,
    ) -> None:
        self.catalog = catalog
        self.nouns = nouns
        self.compat = compat
        self.reward = reward
        self.show_attributes = show_attributes
        self._engine = engine
        self._magic = magic
        self._maker = maker
        self._hits = lru_cache(maxsize=_CACHED_QUERIES)(self._search)

    def hits(self, keywords: tuple[str, ...]) -> tuple[int, ...]:
        """Return the rows that a search for these words finds, best first, at most 50."""
        return self._hits(keywords)

    def _search(self, keywords: tuple[str, ...]) -> tuple[int, ...]:
        if self._magic is not None:
            found = self._magic(keywords)
            if found is not None:
                return tuple(found)
        return tuple(self._engine(" ".join(keywords), HITS))

    def product(self, asin: str) -> Product | None:
        """Return the product of an identifier, None where there is none."""
        row = self.catalog.row(asin)
        return None if row is None else self.catalog.product(row)

    def judge(self, goal: Goal, product: Product, selected: Mapping[str, str]) -> RewardParts:
        """Return the reward of buying a product with these options."""
        row = self.catalog.row(product.asin)
        assert row is not None, f"product {product.asin!r} is not of this catalogue"
        return judge(goal, product, self.catalog.price(row), selected, nouns=self.nouns, kind=self.reward)

    def __deepcopy__(self, memo: dict[int, Any]) -> Shop:
        return self  # read-only: copies of an environment share it

    def __reduce__(self) -> tuple[Any, ...]:
        if self._maker is None:
            raise TypeError("this shop was made without a maker, so it cannot be pickled")
        return self._maker


class Session:
    """One visit to the shop: where the visitor is and what was chosen.

    Args:
        shop: The shop.
        goal: What the visitor is asked to buy.
        name: Name of the session, which its addresses hold.
    """

    def __init__(self, shop: Shop, goal: Goal, name: str = "0") -> None:
        self.shop = shop
        self.goal = goal
        self.name = name
        self.reward: RewardParts | None = None
        self._to_start()

    def _to_start(self) -> None:
        """Go to the start page, which forgets everything but the goal."""
        self.kind = PageKind.INDEX
        self.keywords: tuple[str, ...] = ()
        self.number = 0
        self.product: Product | None = None
        self.sub_page: SubPage | None = None
        self.visited: set[str] = set()
        self.selected: dict[str, str] = {}
        self.counters: Counter[str] = Counter()
        self._page: Page | None = None

    @property
    def done(self) -> bool:
        """Whether something was bought."""
        return self.kind is PageKind.DONE

    def page(self) -> Page:
        """Return the current page."""
        if self._page is None:
            self._page = self._make_page()
        return self._page

    def _make_page(self) -> Page:
        kind, text = self.kind, self.goal.instruction_text
        if kind is PageKind.INDEX:
            return Page(kind, text)
        if kind is PageKind.RESULTS:
            rows, first = self.shop.hits(self.keywords), (self.number - 1) * PAGE_SIZE
            products = tuple(map(self.shop.catalog.product, rows[first : first + PAGE_SIZE]))
            return Page(
                kind,
                text,
                keywords=self.keywords,
                number=self.number,
                total=len(rows),
                products=products,
                visited=frozenset(self.visited),
            )
        return Page(
            kind,
            text,
            self.keywords,
            self.number,
            product=self.product,
            selected=dict(self.selected),
            sub_page=self.sub_page,
            show_attributes=self.shop.show_attributes,
            reward=0.0 if self.reward is None else self.reward.score,
        )

    def clickables(self) -> tuple[str, ...]:
        """Return what can be clicked according to the page, in lower case; on the start page "search"."""
        return self.page().clickables()

    def admissible(self) -> tuple[str, ...]:
        """Return the clicks that are accepted now and do something."""
        page, compat = self.page(), self.shop.compat
        if page.kind is PageKind.INDEX:
            return ()
        if page.kind is PageKind.ITEM:
            key = (_clicks, compat, page.show_attributes)
            found: tuple[str, ...] | None = page.shown.notes.get(key)
            if found is None:
                found = page.shown.notes[key] = _clicks(page.clickables(), compat)
            return found
        buttons = _button_clicks(page.buttons(), compat)
        if page.kind is PageKind.RESULTS:
            return (*buttons, *[click for product in page.products for click in _product_clicks(product, compat)])
        return buttons

    @property
    def has_search_box(self) -> bool:
        """Whether the page has the search box."""
        return self.kind is PageKind.INDEX

    def act(self, text: str) -> bool:
        """Carry out an action; returns whether it was accepted (else nothing has changed)."""
        action = actions.parse_action(text, self.shop.compat)
        if action is None:
            return False
        if action.name == actions.SEARCH:
            if self.shop.compat is Compat.FIXED and not self.has_search_box:
                return False
            self.search(action.argument)
            return True
        return self.click(action.argument)

    def search(self, query: str) -> None:
        """Show the first page of what a query finds; words are separated by single spaces."""
        self._show_results(tuple(query.split(" ")), 1)

    def click(self, name: str) -> bool:
        """Click what has this name in lower case; returns whether the page has it."""
        kind = self.kind
        if kind is PageKind.RESULTS:
            return self._click_on_results(name)
        if kind is PageKind.ITEM:
            return self._click_on_item(name)
        if kind is PageKind.SUB_PAGE:
            if name == _BACK:
                self._to_start()
            elif name == _PREVIOUS:
                self._show(PageKind.ITEM)
            else:
                return False
            return True
        return False

    def _click_on_results(self, name: str) -> bool:
        if name == _BACK:
            self._to_start()
        elif name == _NEXT:
            self._show_results(self.keywords, self.number + 1)
        elif name == _PREVIOUS and self.number > 1:
            self._show_results(self.keywords, self.number - 1)
        else:
            for product in self.page().products:
                if product.asin.lower() == name:
                    return self._open(product)
            return False
        return True

    def _click_on_item(self, name: str) -> bool:
        assert self.product is not None
        axis = self.product.axis_of.get(name)
        if axis is not None and name:  # a value with a button's name takes its place, as in the original
            self.selected[axis] = name
            self.counters["options"] += 1
            self._show(PageKind.ITEM)
        elif name == _BACK:
            self._to_start()
        elif name == _PREVIOUS:
            self._show_results(self.keywords, self.number)
        elif name == _BUY:
            self._buy()
        else:
            sub_page = _SUB_PAGES.get(name)
            if sub_page is None or (sub_page is SubPage.ATTRIBUTES and not self.shop.show_attributes):
                return False
            self.open_sub_page(sub_page)
        return True

    def _show(self, kind: PageKind, sub_page: SubPage | None = None) -> None:
        self.kind, self.sub_page, self._page = kind, sub_page, None

    def _show_results(self, keywords: tuple[str, ...], number: int) -> None:
        self.keywords, self.number = keywords, number
        self.product, self.selected = None, {}
        self.counters["search"] += 1
        self._show(PageKind.RESULTS)

    def _open(self, product: Product) -> bool:
        self.product = product
        self.visited.add(product.asin)
        self.counters["asin"] += 1
        self._show(PageKind.ITEM)
        return True

    def open_sub_page(self, sub_page: SubPage) -> None:
        """Show a page below the product's; the product stays chosen."""
        self.counters[sub_page.value] += 1
        self._show(PageKind.SUB_PAGE, sub_page)

    def _buy(self) -> None:
        assert self.product is not None
        self.counters["purchase"] += 1
        self.reward = self.shop.judge(self.goal, self.product, self.selected)
        self._show(PageKind.DONE)


def _clicks(names: Sequence[str], compat: Compat) -> tuple[str, ...]:
    return tuple([actions.click(name) for name in names if actions.clickable(name, compat)])


@cache
def _button_clicks(buttons: tuple[str, ...], compat: Compat) -> tuple[str, ...]:
    return _clicks([name.lower() for name in buttons], compat)


def _product_clicks(product: Product, compat: Compat) -> tuple[str, ...]:
    """Return the click on a listed product."""
    key = (_product_clicks, compat)
    found: tuple[str, ...] | None = product.notes.get(key)
    if found is None:
        found = product.notes[key] = _clicks((product.asin.lower(),), compat)
    return found


_BACK: Final = Button.BACK.value.lower()
_NEXT: Final = Button.NEXT.value.lower()
_PREVIOUS: Final = Button.PREVIOUS.value.lower()
_BUY: Final = Button.BUY.value.lower()
