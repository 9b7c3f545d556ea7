"""Writes a store: from products and human instructions, in one pass, visible only when it is whole."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from agent_gym._version import __version__
from agent_gym.envs.webshop.data.goal_table import GoalTable
from agent_gym.envs.webshop.data.rows import RowWriter
from agent_gym.envs.webshop.data.store import FORMAT, INDEX, KIND, MANIFEST, Store, is_store, open_store
from agent_gym.envs.webshop.world.goals import draw_price, synthetic_count
from agent_gym.envs.webshop.world.kinds import GoalKind
from agent_gym.envs.webshop.world.product import MAX_ASIN, Product
from agent_gym.support.arithmetic import added
from agent_gym.support.errors import DataError
from agent_gym.support.files import make_folder
from agent_gym.support.seeding import stable_hash

HumanRecords = Callable[[str], Sequence[Mapping[str, Any]]]
"""Identifier -> the product's records of `items_human_ins.json`."""
NounsOf = Callable[[Product], Sequence[str] | None]
_KEPT: Final = ("instruction", "instruction_attributes", "instruction_options")


def build_store(
    target: str | Path,
    products: Iterable[Product],
    human: HumanRecords,
    *,
    price_seed: int = 0,
    nouns: NounsOf | None = None,
    sources: Callable[[], Mapping[str, Any]] = dict,
    replace: bool = False,
) -> Store:
    """Write a store and open it.

    Work goes on in a folder beside the target, which takes its name at the end; an interruption leaves nothing.

    Args:
        target: Folder of the store.
        products: The products, in order; identifiers must differ.
        human: The human records of each product.
        price_seed: Seed of the price table and of the price limits.
        nouns: Nouns of a product's title, None where they are not known.
        sources: Called at the end for what the manifest says about the sources.
        replace: Whether a store that is there may be replaced.

    Raises:
        DataError: The target exists, two products share an identifier, or there is no product.
    """
    target = Path(target).absolute()
    check_target(target, replace=replace)
    with _folder_beside(target) as folder:
        written = _Writer(folder, human, price_seed, nouns)
        written.write(products)
        manifest = {
            "kind": KIND,
            "format": FORMAT,
            "version": __version__,
            "price_seed": price_seed,
            "nouns": nouns is not None,
            **written.summary(),
            "sources": dict(sources()),
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
        if replace and target.exists():
            shutil.rmtree(target)
        folder.rename(target)  # fails where another process was faster
    return open_store(target)


def check_target(target: Path, *, replace: bool) -> None:
    """Raise DataError where a store cannot be written: something is there that may not be replaced."""
    if target.exists() and not (replace and is_store(target)):
        raise DataError(f"{target} exists already; name another folder, or remove it")


@contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    """Give a new folder beside the target, and remove it unless it was renamed."""
    make_folder(target.parent)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=f".{os.getpid()}.partial", dir=target.parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Writer:
    """Writes the files of a store."""

    def __init__(self, folder: Path, human: HumanRecords, price_seed: int, nouns: NounsOf | None) -> None:
        self._folder = folder
        self._human_records = human
        self._price_seed = price_seed
        self._nouns_of = nouns
        self._asins: list[bytes] = []
        self._prices = array("d")
        self._human: tuple[list[int], list[int]] = ([], [])
        self._synthetic: tuple[list[int], list[int]] = ([], [])
        self._asked: list[tuple[str, ...]] = []
        self._contents: tuple[str, ...] = ()

    def write(self, products: Iterable[Product]) -> None:
        """Write everything but the manifest."""
        from agent_gym.retrieval.lexical.lucene import LuceneIndex

        writers = [RowWriter(self._folder, name) for name in ("products", GoalKind.HUMAN.value)]
        if self._nouns_of is not None:
            writers.append(RowWriter(self._folder, "nouns"))
        complete = False
        try:
            # The index builder draws the documents, so that one pass over the source is enough.
            index = LuceneIndex.build(self._documents(products, writers), self._folder / INDEX)
            self._contents = (index.fingerprint, *[writer.digest for writer in writers])
            complete = True
        finally:
            for writer in writers:
                writer.close(complete=complete)
        asins = np.array(self._asins, dtype=f"S{MAX_ASIN}")
        order = np.argsort(asins, kind="stable")
        ordered = asins[order]
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise DataError(f"two products have the identifier {ordered[int(twice[0])].decode()!r}")
        np.save(self._folder / "asins.npy", asins)
        np.save(self._folder / "asin_order.npy", order.astype(np.int32))
        np.save(self._folder / "prices.npy", np.frombuffer(self._prices, dtype=np.float64))
        GoalTable.make(GoalKind.HUMAN, *self._human).save(self._folder)
        GoalTable.make(GoalKind.SYNTHETIC, *self._synthetic).save(self._folder)
        np.save(self._folder / "synthetic_weights.npy", self._weights())

    def _documents(self, products: Iterable[Product], writers: Sequence[RowWriter]) -> Iterator[tuple[str, str]]:
        items, human, *nouns = writers
        for row, product in enumerate(products):
            items.add(product.to_row())
            if self._nouns_of is not None:
                found = self._nouns_of(product)
                nouns[0].add(None if found is None else list(found))
            self._asins.append(product.asin.encode("ascii"))
            self._prices.append(draw_price(product.prices, product.asin, self._price_seed))
            records = [record for record in self._human_records(product.asin) if record["instruction_attributes"]]
            for record in records:
                human.add({key: record[key] for key in _KEPT})
            if records:
                self._human[0].append(row)
                self._human[1].append(len(records))
            count = synthetic_count(product) if product.instruction_attributes else 0
            if count:
                self._synthetic[0].append(row)
                self._synthetic[1].append(count)
                self._asked.append(product.instruction_attributes)
            yield product.asin, product.index_text()

    def _weights(self) -> np.ndarray:
        """Return the weight of each product's synthetic goals: how rare their attributes are among all goals."""
        goals = Counter[str]()
        for asked, count in zip(self._asked, self._synthetic[1], strict=True):
            for attribute in asked:
                goals[attribute] += count
        rare = (added(1 / goals[attribute] for attribute in asked) / len(asked) for asked in self._asked)
        return np.array(list(rare), dtype=np.float64)

    def summary(self) -> dict[str, Any]:
        """Return counts and digest for the manifest."""
        prices = stable_hash(self._prices.tobytes(), size=16)
        counts = {
            "products": len(self._asins),
            "human_goals": sum(self._human[1]),
            "human_products": len(self._human[0]),
            "synthetic_goals": sum(self._synthetic[1]),
            "synthetic_products": len(self._synthetic[0]),
        }
        digest = stable_hash(self._contents, prices, tuple(counts.values()), self._price_seed, size=16)
        return {**counts, "digest": digest}
