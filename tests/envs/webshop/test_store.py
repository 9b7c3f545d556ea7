from __future__ import annotations

import gc
import gzip
import json
import lzma
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_gym.envs.webshop.data.official import OfficialFiles, import_catalog
from agent_gym.envs.webshop.data.store import MANIFEST, Store, open_store
from agent_gym.envs.webshop.world.kinds import GoalKind
from agent_gym.support.errors import DataError
from tests.envs.webshop.test_product import RAW

RECORDS = [
    {**RAW, "asin": f"B{number:09d}", "name": f"Lamp {number}", "pricing": f"${number + 1}.00${number + 9}.50"}
    for number in range(12)
]
ATTRIBUTES = {
    record["asin"]: {
        "attributes": ["easy assembly"],
        "instruction": "Find me easy assembly floor lamps",
        "instruction_attributes": ["easy assembly"],
    }
    for record in RECORDS[:6]
}
HUMAN = {
    "B000000001": [
        {"instruction": ".i want a lamp.", "instruction_attributes": ["bright"], "instruction_options": ["red"]},
        {"instruction": "nothing asked", "instruction_attributes": [], "instruction_options": []},
        {"instruction": "another", "instruction_attributes": ["tall"], "instruction_options": []},
    ],
    "B000000005": [{"instruction": "third", "instruction_attributes": ["tall"], "instruction_options": []}],
}


def write(
    folder: Path,
    end: str = "",
    records: Any = None,
    pack: Callable[[bytes], bytes] = bytes,
    attributes: Any = ATTRIBUTES,
    human: Any = HUMAN,
) -> OfficialFiles:
    folder.mkdir(exist_ok=True)
    contents = {
        "items_shuffle.json": RECORDS if records is None else records,
        "items_ins_v2.json": attributes,
        "items_human_ins.json": human,
    }
    for name, content in contents.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / f"{name}{end}").write_bytes(pack(raw))
    return OfficialFiles.find(folder)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return import_catalog(write(tmp_path / "files"), tmp_path / "store")


def test_a_store_holds_products_prices_and_goals(store: Store) -> None:
    assert len(store) == 12
    assert store.product(3).title == "Lamp 3"
    assert 4.0 <= store.price(3) <= 12.5
    assert (store.row("B000000007"), store.row("B999999999"), store.row("é")) == (7, None, None)
    assert store.asin(7) == "B000000007"
    assert len(store.goal_tables[GoalKind.HUMAN]) == 3, "the record without attributes is no goal"
    assert len(store.goal_tables[GoalKind.SYNTHETIC]) == 12, "six products with two values each"
    texts = {store.goal(GoalKind.HUMAN, place).instruction_text.partition(", and")[0] for place in range(3)}
    assert texts == {"i want a lamp", "another", "third"}
    assert store.product(store.search("lamp 7", 5)[0]).title == "Lamp 7"


def test_the_store_says_what_it_was_made_of(store: Store) -> None:
    sources = store.manifest["sources"]["files"]
    assert set(sources) == {"items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"}
    assert all(len(entry["sha256"]) == 64 and entry["bytes"] > 0 for entry in sources.values())
    assert store.manifest["price_seed"] == 0


@pytest.mark.parametrize(("end", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_give_the_same_store(
    end: str, pack: Callable[[bytes], bytes], store: Store, tmp_path: Path
) -> None:
    packed = import_catalog(write(tmp_path / "packed", end, pack=pack), tmp_path / "store2")
    assert packed.digest == store.digest


def test_another_seed_gives_other_prices_and_another_digest(store: Store, tmp_path: Path) -> None:
    other = import_catalog(OfficialFiles.find(tmp_path / "files"), tmp_path / "store2", price_seed=1)
    assert other.digest != store.digest
    assert [other.price(row) for row in range(12)] != [store.price(row) for row in range(12)]


def _changed(source: Mapping[str, Any], key: str, **values: Any) -> dict[str, Any]:
    return {**source, key: {**source[key], **values}}


FIRST = RECORDS[0]
OTHER_RECORD = {"category": "beauty", "query": "desk lamps", "small_description": ["Bright ", "Tall", "", "Warm"]}


@pytest.mark.parametrize(
    "changes",
    [
        *({"records": [{**FIRST, key: value}, *RECORDS[1:]]} for key, value in OTHER_RECORD.items()),
        {"attributes": _changed(ATTRIBUTES, "B000000000", attributes=["easy cleaning"])},
        {"attributes": _changed(ATTRIBUTES, "B000000000", instruction="Get me easy assembly floor lamps")},
        {"human": {**HUMAN, "B000000005": [{**HUMAN["B000000005"][0], "instruction": "fourth"}]}},
        {"human": {**HUMAN, "B000000005": [{**HUMAN["B000000005"][0], "instruction_options": ["red"]}]}},
    ],
    ids=[*OTHER_RECORD, "attributes", "base instruction", "human instruction", "human options"],
)
def test_stores_that_differ_in_pages_goals_or_reward_have_another_digest(
    changes: dict[str, Any], store: Store, tmp_path: Path
) -> None:
    other = import_catalog(write(tmp_path / "others", **changes), tmp_path / "store2")
    assert other.digest != store.digest


def test_nouns_are_part_of_the_digest(store: Store, tmp_path: Path) -> None:
    files = OfficialFiles.find(tmp_path / "files")
    digests = {store.digest}
    for noun in ("lamp", "lamps"):
        digests.add(import_catalog(files, tmp_path / noun, nouns={"B000000003": [noun]}).digest)
    assert len(digests) == 3


def test_a_part_of_the_catalogue_has_the_prices_and_limits_of_the_whole(store: Store, tmp_path: Path) -> None:
    part = import_catalog(OfficialFiles.find(tmp_path / "files"), tmp_path / "part", limit=6)
    assert len(part) == 6
    assert [part.price(row) for row in range(6)] == [store.price(row) for row in range(6)]
    goals = {goal.instruction_text for goal in (part.goal(GoalKind.HUMAN, place) for place in range(3))}
    assert goals == {store.goal(GoalKind.HUMAN, place).instruction_text for place in range(3)}


def test_repeated_and_unusable_records_are_left_out(tmp_path: Path) -> None:
    records = [RECORDS[0], {**RECORDS[0], "name": "again"}, {**RECORDS[1], "asin": "nan"}, RECORDS[2]]
    store = import_catalog(write(tmp_path / "files", records=records), tmp_path / "store")
    assert [store.product(row).title for row in range(len(store))] == ["Lamp 0", "Lamp 2"]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b'[{"asin": "B1", "name": ', "no JSON"),
        (b'{"asin": "B1"}', r"expected '\['"),
        (b"[1, 2]", "list of objects"),
        ([{"asin": "B1"}], "'B1' is not in the official format"),
        ([], "at least one document"),
        (b"\xff\xfe[", "damaged"),
    ],
)
def test_a_failed_import_says_why_and_leaves_nothing(tmp_path: Path, records: Any, reason: str) -> None:
    files = write(tmp_path / "files", records=records)
    with pytest.raises(DataError, match=reason):
        import_catalog(files, tmp_path / "out" / "store")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"])
@pytest.mark.parametrize(
    "damaged",
    [gzip.compress(b"x", mtime=0)[:10] + b"\xff" * 20, b"no gzip", gzip.compress(b"[" * 99_999, mtime=0)],
    ids=["torn", "no gzip", "too deep"],
)
def test_a_damaged_packed_file_is_named(tmp_path: Path, name: str, damaged: bytes) -> None:
    write(tmp_path / "files", ".gz", pack=gzip.compress)
    (tmp_path / "files" / f"{name}.gz").write_bytes(damaged)
    with pytest.raises(DataError):
        import_catalog(OfficialFiles.find(tmp_path / "files"), tmp_path / "out" / "store")


def test_an_interrupted_import_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, size: int, products: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_catalog(write(tmp_path / "files"), tmp_path / "out" / "store", on_progress=interrupt)
    assert list((tmp_path / "out").iterdir()) == []


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    files = write(tmp_path / "files")
    import_catalog(files, tmp_path / "store", on_progress=lambda *state: seen.append(state))
    size = files.products.stat().st_size
    assert seen[-1] == (size, size, 12)


def test_a_store_is_not_overwritten_unless_asked(store: Store, tmp_path: Path) -> None:
    files = OfficialFiles.find(tmp_path / "files")
    with pytest.raises(DataError, match="exists already"):
        import_catalog(files, store.folder)
    again = import_catalog(files, store.folder, price_seed=5, replace=True)
    assert again.price_seed == 5
    with pytest.raises(DataError, match="exists already"):
        import_catalog(files, tmp_path / "files", replace=True)


def test_folders_without_a_catalogue_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"items_shuffle\.json.*found nothing"):
        OfficialFiles.find(tmp_path)
    with pytest.raises(DataError, match="no catalogue store"):
        open_store(tmp_path)


def test_a_store_of_another_version_or_with_missing_files_is_refused(store: Store, tmp_path: Path) -> None:
    manifest = dict(store.manifest)
    (store.folder / MANIFEST).write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(DataError, match="version 99"):
        open_store(store.folder)
    (store.folder / MANIFEST).write_text(json.dumps(manifest))
    (store.folder / "products.rows").write_bytes(b"")
    with pytest.raises(DataError, match="0 bytes"):
        open_store(store.folder)
    (store.folder / "prices.npy").unlink()
    with pytest.raises(DataError, match="damaged"):
        Store(store.folder)


@pytest.mark.parametrize(
    "name", ["prices", "asin_order", "synthetic_weights", "human_order", "human_starts", "index/id_ranks"]
)
def test_a_store_whose_files_do_not_fit_is_refused(name: str, store: Store) -> None:
    path = store.folder / f"{name}.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(DataError, match=r"damaged.*Import the catalogue again"):
        Store(store.folder)


def test_a_manifest_without_a_key_and_a_damaged_row_are_named(store: Store) -> None:
    rows = store.folder / "products.rows"
    rows.write_bytes(b"\xff" * rows.stat().st_size)
    with pytest.raises(DataError, match=r"row 3 of .*products\.rows is damaged"):
        Store(store.folder).product(3)
    kept = {key: value for key, value in store.manifest.items() if key != "digest"}
    (store.folder / MANIFEST).write_text(json.dumps(kept))
    with pytest.raises(DataError, match="digest"):
        Store(store.folder)


def test_a_store_is_opened_once_a_process_and_pickles_by_name(store: Store) -> None:
    assert open_store(store.folder) is open_store(str(store.folder))
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    assert pickle.loads(sent).product(3) == store.product(3)


def test_a_store_that_nobody_needs_has_no_file_open(tmp_path: Path) -> None:
    folder = import_catalog(write(tmp_path / "files"), tmp_path / "store").folder
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("there is no /proc to count open files in")
    gc.disable()  # a cycle would be collected at some time
    try:
        before = len(list(descriptors.iterdir()))
        store = Store(folder)
        store.row(store.asin(0))
        store.product(0)
        assert len(list(descriptors.iterdir())) > before
        del store
        assert len(list(descriptors.iterdir())) == before
    finally:
        gc.enable()
