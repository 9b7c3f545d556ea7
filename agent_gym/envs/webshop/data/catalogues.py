"""Where a catalogue comes from, and the shop on it, made once a process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from agent_gym.envs.webshop.data.building import build_store
from agent_gym.envs.webshop.data.generator import CatalogGenerator, ShopSpec
from agent_gym.envs.webshop.data.official import OfficialFiles, import_catalog, read_json_file
from agent_gym.envs.webshop.data.store import FORMAT, Store, is_store, open_store
from agent_gym.envs.webshop.world.kinds import Compat, RewardKind
from agent_gym.envs.webshop.world.nouns import (
    NounOrigin,
    Nouns,
    default_tagger,
    heuristic_nouns,
    spacy_tagger,
    table_of,
)
from agent_gym.envs.webshop.world.product import Product
from agent_gym.envs.webshop.world.shop import HITS, Catalog, Shop
from agent_gym.support.data import cache_folder, resolve_data
from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.seeding import generator, stable_hash

GENERATED: Final = "generated"
_LARGE: Final = 200_000_000
_EXPECTED: Final = "a catalogue: a store, or a folder with the official files"
_NOUN_TABLE: Final = "a noun table (JSON), 'auto', 'spacy' or 'heuristic'"
_BUILDING: Final = threading.RLock()


class NounChoice(StrEnum):
    """Where the reward takes nouns from; a path names a table."""

    AUTO = "auto"
    """The catalogue's table, else spaCy where it is installed, else the rule of thumb."""
    SPACY = "spacy"
    HEURISTIC = "heuristic"


def noun_choice(nouns: str | Path) -> str:
    """Return where nouns are taken from: a member of `NounChoice`, or the path of a table that is there.

    Raises:
        DataError: It is neither.
    """
    if nouns in list(NounChoice):
        return str(nouns)
    return str(resolve_data(nouns, _NOUN_TABLE).absolute())


@dataclass(frozen=True)
class ShopWorld:
    """A catalogue and a price table, by name; opened when they are needed.

    Attributes:
        spec: The generated catalogue, None for one on disk.
        folder: A store or a folder with the official files, None for a generated one.
        prices: A recorded price table (JSON object identifier -> dollars), None for the store's own.
    """

    spec: ShopSpec | None = None
    folder: str | None = None
    prices: str | None = None

    @classmethod
    def find(cls, catalog: str | Path, spec: ShopSpec, prices: str | Path | None) -> ShopWorld:
        """Return the world that the arguments name.

        Raises:
            DataError: Nothing is there.
        """
        table = None if prices is None else str(resolve_data(prices, "a price table (JSON)").absolute())
        if catalog == GENERATED:
            return cls(spec, None, table)
        return cls(None, str(resolve_data(catalog, _EXPECTED).absolute()), table)

    def store(self) -> Store:
        """Return the opened store; a generated catalogue is written to the user's cache once."""
        with _BUILDING:  # a second thread waits for the store instead of writing it too
            return _store(self.spec, self.folder)

    def price_table(self) -> Sequence[float] | None:
        """Return the recorded prices by row, None for the store's own."""
        return None if self.prices is None else _price_table(self)

    def digest(self) -> str:
        """Return a hash of products, goals and prices."""
        prices = self.price_table()
        table = "" if prices is None else np.asarray(prices, dtype="<f8").tobytes().hex()
        return stable_hash(self.store().digest, table, size=16)

    def catalog(self) -> Catalog:
        """Return the products with their prices."""
        store, prices = self.store(), self.price_table()
        return store if prices is None else _Repriced(store, prices)

    def shop(
        self,
        *,
        compat: Compat = Compat.UPSTREAM,
        reward: RewardKind = RewardKind.WEBSHOP,
        nouns: str = NounChoice.AUTO,
        show_attributes: bool = False,
        magic: bool = False,
    ) -> Shop:
        """Return the shop with these rules; all environments of a process share it."""
        return _shared_shop(self, ShopRules(compat, reward, nouns, show_attributes, magic))


class ShopRules(NamedTuple):
    """What a shop does with a catalogue; see the arguments of `WebShopEnv`."""

    compat: Compat
    reward: RewardKind
    nouns: str
    show_attributes: bool
    magic: bool


class _Repriced:
    """A store with another price table."""

    def __init__(self, store: Store, prices: Sequence[float]) -> None:
        self._prices = prices
        self.product = store.product
        self.row = store.row
        self._size = len(store)

    def __len__(self) -> int:
        return self._size

    def price(self, row: int) -> float:
        return float(self._prices[row])


@lru_cache(maxsize=8)
def _store(spec: ShopSpec | None, folder: str | None) -> Store:
    if spec is not None:
        return _cached(f"generated-{spec.digest()}-{FORMAT}", lambda target: generate_store(spec, target))
    assert folder is not None
    path = Path(folder)
    if is_store(path):
        return open_store(path)
    if not path.is_dir():
        raise DataError(f"{path} is no catalogue: expected {_EXPECTED}")
    files = OfficialFiles.find(path)
    named = [file for file in (files.products, files.attributes, files.human, files.nouns) if file is not None]
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in named]
    if sum(size for _, size, _ in states) > _LARGE:
        raise DataError(
            f"{path} holds a large catalogue, which takes minutes to import. Import it once: "
            f"agent-gym data import-webshop {path} STORE, then give catalog=STORE"
        )
    name = f"imported-{stable_hash(str(path), *states)}-{FORMAT}"
    return _cached(name, lambda target: import_catalog(files, target))


def generate_store(spec: ShopSpec, target: str | Path) -> Store:
    """Write the store of a generated catalogue.

    Raises:
        DataError: The target exists.
    """
    made = CatalogGenerator(spec)
    sources = {"generator": {"digest": spec.digest(), "products": spec.products, "seed": spec.seed}}
    return build_store(target, made.products(), made.human, nouns=made.nouns, sources=lambda: sources)


def _cached(name: str, build: Callable[[Path], Store]) -> Store:
    """Return the store of this name in the user's cache, written if it is not there."""
    target = cache_folder("webshop") / name
    if is_store(target):
        with suppress(DataError):  # a damaged one is written again
            return open_store(target)
        shutil.rmtree(target, ignore_errors=True)
    try:
        return build(target)
    except (DataError, OSError):
        if is_store(target):  # another process was faster
            return open_store(target)
        if _writable(target.parent):
            raise
    scratch = tempfile.mkdtemp(prefix="agent-gym-webshop-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return build(Path(scratch) / name)


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@lru_cache(maxsize=8)
def _price_table(world: ShopWorld) -> Any:
    assert world.prices is not None
    found = read_json_file(Path(world.prices))
    if isinstance(found, dict) and isinstance(found.get("product_prices"), dict):
        found = found["product_prices"]
    if not isinstance(found, dict):
        raise DataError(f"{world.prices} is no price table: expected an object identifier -> dollars")
    store = world.store()
    prices = np.array(store.prices)
    known = 0
    for asin, price in found.items():
        row = store.row(str(asin))
        if row is None:
            continue
        if isinstance(price, bool) or not isinstance(price, int | float):
            raise DataError(f"{world.prices}: the price of {asin!r} must be a number, got {price!r}")
        prices[row] = price
        known += 1
    if not known:
        raise DataError(f"{world.prices} has no price of any of the {len(store):,} products of the catalogue")
    return prices


def _shared_shop(world: ShopWorld, rules: ShopRules) -> Shop:
    with _BUILDING:
        return _shop(world, rules)


@lru_cache(maxsize=16)
def _shop(world: ShopWorld, rules: ShopRules) -> Shop:
    store = world.store()
    return Shop(
        world.catalog(),
        store.search,
        _nouns(store, rules.nouns),
        compat=rules.compat,
        reward=rules.reward,
        show_attributes=rules.show_attributes,
        magic=MagicQueries(store) if rules.magic else None,
        maker=(_shared_shop, (world, rules)),
    )


def _nouns(store: Store, choice: str) -> Nouns:
    if choice == NounChoice.AUTO:
        tagger, origin = default_tagger() if not store.has_nouns else (heuristic_nouns, NounOrigin.HEURISTIC)
        return Nouns(store.nouns if store.has_nouns else None, tagger, origin)
    if choice == NounChoice.SPACY:
        return Nouns(None, spacy_tagger(), NounOrigin.SPACY)
    if choice == NounChoice.HEURISTIC:
        return Nouns(None, heuristic_nouns, NounOrigin.HEURISTIC)
    entries = read_json_file(resolve_data(choice, _NOUN_TABLE))
    if not isinstance(entries, dict):
        raise ConfigError(f"nouns={choice!r} is no noun table: expected an object identifier -> list of nouns")

    def title(asin: str) -> str | None:
        row = store.row(asin)
        return None if row is None else store.product(row).title

    tagger, origin = default_tagger()
    return Nouns(table_of(entries, title), tagger, origin)


class MagicQueries:
    """The original's hidden queries: "<r>" (50 products at random), "<q> query", "<c> category", "<a> attribute".

    Each list is in catalogue order, and looked up by one pass over the catalogue at first use. The original draws
    "<r>" from the process's generator; here it is drawn anew for each text that follows it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, dict[str, list[int]]] | None = None

    def __call__(self, keywords: tuple[str, ...]) -> Sequence[int] | None:
        """Return the rows of a hidden query, None for an ordinary one."""
        first, rest = keywords[0], " ".join(keywords[1:])
        if first == "<r>":
            rng = generator("webshop random products", self._store.digest, rest)
            count = min(HITS, len(self._store))
            found: list[int] = rng.choice(len(self._store), size=count, replace=False).tolist()
            return found
        if first == "<c>":
            rest = keywords[1].strip() if len(keywords) > 1 else ""
        return self._tables()[first].get(rest, []) if first in ("<q>", "<c>", "<a>") else None

    def _tables(self) -> dict[str, dict[str, list[int]]]:
        if self._rows is None:
            tables: dict[str, dict[str, list[int]]] = {name: defaultdict(list) for name in ("<q>", "<c>", "<a>")}
            for row in range(len(self._store)):
                product: Product = self._store.product(row)
                tables["<q>"][product.query].append(row)
                tables["<c>"][product.category].append(row)
                for attribute in dict.fromkeys(product.attributes):
                    tables["<a>"][attribute].append(row)
            self._rows = tables
        return self._rows
