"""A catalogue on disk: mapped into memory, shared by all environments and processes, opened in milliseconds.

    store.json                    version, counts, seed of the price table, hashes of the sources
    products.rows, .offsets.npy   the products, compressed one by one
    nouns.rows, .offsets.npy      nouns of the titles, where they are known
    asins.npy, asin_order.npy     identifiers in catalogue order, and the rows in the order of identifiers
    prices.npy                    one price per product
    human.rows, human_*.npy       human instructions and where their goals stand
    synthetic_*.npy               where the synthetic goals stand, and their weights
    index/                        the search index

`agent_gym.envs.webshop.data.building` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from agent_gym.envs.webshop.data.goal_table import GoalTable
from agent_gym.envs.webshop.data.rows import RowFile, mapped
from agent_gym.envs.webshop.world.goals import Goal, draw_limit, human_goal, synthetic_goal
from agent_gym.envs.webshop.world.kinds import GoalKind
from agent_gym.envs.webshop.world.product import Product
from agent_gym.support.errors import DataError

if TYPE_CHECKING:
    from agent_gym.retrieval.lexical.lucene import LuceneIndex

MANIFEST: Final = "store.json"
KIND: Final = "agent-gym webshop catalogue"
FORMAT: Final = 2
INDEX: Final = "index"
_CACHED_PRODUCTS: Final = 4096
_CACHED_ROWS: Final = 16_384
_REMEDY: Final = "Import the catalogue again: agent-gym data import-webshop FOLDER STORE"


class Store:
    """A catalogue, opened.

    Copies share it; pickling sends the folder's name.

    Args:
        folder: The store's folder.

    Raises:
        DataError: The folder holds no store of this version, or a damaged one.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        try:
            self._asins = mapped(self.folder / "asins.npy")
            self._asin_order = mapped(self.folder / "asin_order.npy")
            self.prices = mapped(self.folder / "prices.npy")
            self._weights = mapped(self.folder / "synthetic_weights.npy")
            self.goal_tables = {kind: GoalTable.open(self.folder, kind) for kind in GoalKind}
        except (OSError, ValueError) as error:
            raise DataError(f"the store at {self.folder} is damaged: {error}. {_REMEDY}") from error
        self._products = RowFile(self.folder, "products")
        self._human = RowFile(self.folder, GoalKind.HUMAN.value)
        self._nouns = RowFile(self.folder, "nouns") if self.manifest["nouns"] else None
        self._index = self._open_index()
        self._check_sizes()
        # Functions of the files, not of the store: a cycle would keep its many open files until a collection.
        self.product = lru_cache(maxsize=_CACHED_PRODUCTS)(partial(_product, self._products))
        self.row = lru_cache(maxsize=_CACHED_ROWS)(partial(_row, self._asins, self._asin_order))

    def _open_index(self) -> LuceneIndex:
        from agent_gym.retrieval.lexical.lucene import LuceneIndex

        try:
            return LuceneIndex.open(self.folder / INDEX)
        except DataError as error:
            raise DataError(f"the store at {self.folder} is damaged: {error} {_REMEDY}") from error

    def _check_sizes(self) -> None:
        """Raise DataError unless all files are about the same products and goals."""
        tables, rows = self.goal_tables, len(self)
        sizes = {
            MANIFEST: (self.manifest["products"], rows),
            "asin_order.npy": (len(self._asin_order), rows),
            "prices.npy": (len(self.prices), rows),
            "products.rows": (len(self._products), rows),
            "nouns.rows": (rows if self._nouns is None else len(self._nouns), rows),
            INDEX: (self._index.size, rows),
            "human.rows": (len(self._human), len(tables[GoalKind.HUMAN])),
            "synthetic_weights.npy": (len(self._weights), len(tables[GoalKind.SYNTHETIC].rows)),
        }
        for name, (found, expected) in sizes.items():
            if found != expected:
                raise DataError(
                    f"the store at {self.folder} is damaged: {name} has {found} entries, expected {expected:,}. "
                    f"{_REMEDY}"
                )

    @property
    def digest(self) -> str:
        """Hash of products, price table, goals and nouns: of all that decides pages and rewards."""
        return str(self.manifest["digest"])

    @property
    def price_seed(self) -> int:
        """Seed of the price table and the price limits."""
        return int(self.manifest["price_seed"])

    def __len__(self) -> int:
        return len(self._asins)

    def asin(self, row: int) -> str:
        """Return the identifier of a row."""
        found: bytes = self._asins[row]
        return found.decode("ascii")

    def price(self, row: int) -> float:
        """Return the price, in dollars, that goals and reward use."""
        return float(self.prices[row])

    def nouns(self, asin: str) -> tuple[str, tuple[str, ...]] | None:
        """Return title and nouns of a product, None where they are not known."""
        row = self.row(asin)
        if self._nouns is None or row is None:
            return None
        found = self._nouns[row]
        return None if found is None else (self.product(row).title, tuple(found))

    @property
    def has_nouns(self) -> bool:
        """Whether the store has nouns of titles."""
        return self._nouns is not None

    def goal(self, kind: GoalKind, place: int, prices: Sequence[float] | None = None) -> Goal:
        """Return the goal at a place of the canonical order.

        Args:
            kind: Human or synthetic.
            place: The place.
            prices: Another price table, by row.
        """
        owner, row, number = self.goal_tables[kind].at(place)
        product = self.product(row)
        price = float((self.prices if prices is None else prices)[row])
        if kind is GoalKind.SYNTHETIC:
            limit = draw_limit(price, product.asin, self.price_seed)
            return synthetic_goal(product, number, limit, float(self._weights[owner]), place)
        record = self._human[int(self.goal_tables[kind].order[place])]
        limit = draw_limit(price, product.asin, self.price_seed, number)
        return human_goal(product, record, limit, place)

    def synthetic_weights(self) -> np.ndarray:
        """Return the weights of the synthetic goals in canonical order, float64 [G]."""
        table = self.goal_tables[GoalKind.SYNTHETIC]
        by_number: np.ndarray = np.repeat(np.asarray(self._weights, dtype=np.float64), np.diff(table.starts))
        found: np.ndarray = by_number[np.asarray(table.order)]
        return found

    def search(self, query: str, count: int) -> Sequence[int]:
        """Return the rows that a query finds, best first."""
        rows, _ = self._index.rank(query, count)
        found: list[int] = rows.tolist()
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_store, (self.folder,)


def is_store(folder: Path) -> bool:
    """Tell whether a folder is a complete store."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Mapping[str, Any]:
    """Return what a store says about itself.

    Raises:
        DataError: The folder holds no store of this version.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"no catalogue store at {folder}: it has no {MANIFEST}. {_REMEDY}")
    try:
        found = json.loads(path.read_text("utf-8"))
        kind, version = found["kind"], found["format"]
        _ = found["digest"], found["price_seed"], found["products"], found["nouns"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no manifest of a catalogue store: {error!r}. {_REMEDY}") from error
    if (kind, version) != (KIND, FORMAT):
        raise DataError(
            f"{path} is of kind {kind!r}, version {version!r}; expected {KIND!r}, version {FORMAT}. {_REMEDY}"
        )
    manifest: dict[str, Any] = found
    return manifest


def open_store(folder: str | Path) -> Store:
    """Return the store of a folder; opened once a process, and again when it was written anew.

    Raises:
        DataError: The folder holds no store of this version, or a damaged one.
    """
    path = Path(folder).absolute()
    read_manifest(path)
    return _opened(path, (path / MANIFEST).stat().st_mtime_ns)


def _product(products: RowFile, row: int) -> Product:
    return Product.from_row(products[row])


def _row(asins: NDArray[Any], order: NDArray[Any], asin: str) -> int | None:
    try:
        key = asin.encode("ascii")
    except UnicodeEncodeError:
        return None
    place = int(asins.searchsorted(key, sorter=order))
    if place == len(asins):
        return None
    row = int(order[place])
    return row if asins[row] == key else None


@lru_cache(maxsize=8)
def _opened(folder: Path, changed: int) -> Store:
    return Store(folder)
