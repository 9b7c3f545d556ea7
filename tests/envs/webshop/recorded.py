"""The recorded catalogue and episodes of the original environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from agent_gym.envs.webshop.text import text_without_goal, with_goal
from agent_gym.envs.webshop.world.pages import Page
from agent_gym.envs.webshop.world.product import Product, clean
from tests.data import read_json, read_jsonl

FOLDER = "webshop/catalog_1k"
KINDS = ("human", "synthetic")


@lru_cache(maxsize=1)
def products() -> tuple[Product, ...]:
    attributes = read_json(f"{FOLDER}/items_ins_v2.json.xz")
    return tuple(
        clean(record, attributes.get(record["asin"])) for record in read_json(f"{FOLDER}/items_shuffle.json.xz")
    )


@lru_cache(maxsize=2)
def recording(kind: str) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """Header and episodes of one file."""
    rows = read_jsonl(f"{FOLDER}/transcripts_{kind}.jsonl.xz")
    return rows[0], tuple(rows[1:])


@lru_cache(maxsize=1)
def title_nouns() -> dict[str, list[str]]:
    return dict(read_json(f"{FOLDER}/title_nouns.json.xz"))


def plain_text(page: Page) -> str:
    """The texts of a page as the observation mode `text` has them."""
    return with_goal(page, text_without_goal(page))


class MemoryCatalog:
    """A catalogue of products in memory."""

    def __init__(self, items: Sequence[Product], prices: Mapping[str, float]) -> None:
        self._items = items
        self._prices = [prices[item.asin] for item in items]
        self._rows = {item.asin: row for row, item in enumerate(items)}

    def __len__(self) -> int:
        return len(self._items)

    def product(self, row: int) -> Product:
        return self._items[row]

    def row(self, asin: str) -> int | None:
        return self._rows.get(asin)

    def price(self, row: int) -> float:
        return self._prices[row]


class RecordedEngine:
    """Finds what the recorded pages list; places on pages that no episode visited hold the first product."""

    def __init__(self, catalog: MemoryCatalog, episodes: Sequence[Mapping[str, Any]]) -> None:
        self._found: dict[str, list[int]] = {}
        for episode in episodes:
            query = ""
            for step in episode["steps"]:
                parts = step["text"].split(" [SEP] ")
                if step["action"].startswith("search[") and len(parts) > 3 and parts[3].startswith("Page 1 "):
                    query = step["action"][len("search[") : -1].lower()
                if len(parts) > 3 and parts[3].startswith("Page "):
                    number, total = (int("".join(filter(str.isdigit, text))) for text in parts[3].split(" (")[:2])
                    found = self._found.setdefault(query, [0] * total)
                    listed = [name.upper() for name in step["clickables"] if name.upper() in set(parts)]
                    for place, asin in enumerate(listed, (number - 1) * 10):
                        row = catalog.row(asin)
                        assert row is not None
                        found[place] = row

    def __call__(self, query: str, count: int) -> list[int]:
        return self._found[query]
