"""The published data sets that environments read: where they come from, and whether a copy is whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_gym.core.make import make_env
from agent_gym.support.data import DATA_VARIABLE, resolve_data
from agent_gym.support.errors import ConfigError, DataError, suggest


@dataclass(frozen=True, slots=True)
class Part:
    """A split or file of a copy.

    Attributes:
        name: What it is called.
        found: How many tasks (or passages) it holds.
        digest: Hash of the task ids in order, "" where ids are not read.
    """

    name: str
    found: int
    digest: str = ""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A published data set.

    Attributes:
        name: Short name.
        env_id: Environment that reads it, without namespace.
        argument: The environment's argument that takes the path.
        folder: Usual name of file or folder, looked up in the working directory and below `AGENT_GYM_DATA`.
        source: Where its authors give it.
        licence: Its terms.
        published: Part -> number of tasks that was published.
        parts: Reads the parts of a copy.
        digests: Part -> hash of the published task ids, where known.
    """

    name: str
    env_id: str
    argument: str
    folder: str
    source: str
    licence: str
    published: Mapping[str, int]
    parts: Callable[[Path], Iterator[Part]]
    digests: Mapping[str, str] = field(default_factory=dict)

    def find(self) -> Path | None:
        """Return the copy at its usual place, None when there is none."""
        places = [Path(self.folder)]
        if os.environ.get(DATA_VARIABLE):
            places.append(Path(os.environ[DATA_VARIABLE]).expanduser() / self.folder)
        return next((place for place in places if place.exists()), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of a check.

    Attributes:
        part: Name of the part.
        published: Tasks published, None where nothing was.
        found: Tasks found; 0 when the part is missing.
        agrees: Whether the copy has what was published.
        digest: Hash of the ids found.
    """

    part: str
    published: int | None
    found: int
    agrees: bool
    digest: str = ""


def check(data: DataSet, path: str | Path | None = None) -> list[Verdict]:
    """Compare a copy with what was published, part by part.

    Args:
        data: The data set.
        path: The copy; None looks at the usual place.

    Raises:
        DataError: There is no copy, or it cannot be read.
    """
    copy = resolve_data(path if path is not None else data.folder, f"{data.name}, from {data.source}")
    found = {part.name: part for part in data.parts(copy)}
    verdicts = []
    for name in (*data.published, *(name for name in found if name not in data.published)):
        part = found.get(name, Part(name, 0))
        published = data.published.get(name)
        agrees = (published in (None, part.found)) and data.digests.get(name, part.digest) == part.digest
        verdicts.append(Verdict(name, published, part.found, agrees, part.digest))
    return verdicts


def find_dataset(name: str) -> DataSet:
    """Return a data set by name.

    Raises:
        ConfigError: There is no such set; the message lists all.
    """
    for data in DATASETS:
        if data.name == name:
            return data
    names = [data.name for data in DATASETS]
    raise ConfigError(f"no data set {name!r}.{suggest(name, names)} Data sets: {', '.join(names)}")


def _alfworld(path: Path) -> Iterator[Part]:
    root = path / "json_2.1.1" if (path / "json_2.1.1").is_dir() else path
    for split in ("train", "valid_seen", "valid_unseen"):
        if (root / split).is_dir():
            tasks = make_env("ALFWorld-v0", {"data": path, "split": split}).unwrapped.tasks  # type: ignore[attr-defined]
            yield Part(split, len(tasks), tasks.digest())


def _boxoban(path: Path) -> Iterator[Part]:
    from agent_gym.envs.sokoban.data.levels import LevelFiles

    files = LevelFiles(path)
    for collection, split in sorted({(file.collection, file.split) for file in files.files}):
        name = "/".join(word for word in (collection, split) if word) or "other files"
        yield Part(name, len(files.select(collection=collection, split=split)))


def _webshop(path: Path) -> Iterator[Part]:
    from agent_gym.envs.webshop.data.official import OfficialFiles
    from agent_gym.envs.webshop.data.store import is_store, open_store
    from agent_gym.envs.webshop.world.kinds import GoalKind

    if not is_store(path):
        files = OfficialFiles.find(path)  # raises, naming what is missing
        raise DataError(
            f"{path} holds the official files ({files.products.name}), which are checked as a store: agent-gym "
            f"data import-webshop {path} STORE, then give --path STORE"
        )
    store = open_store(path)
    yield Part("products", len(store))
    for split, places in store.goal_tables[GoalKind.HUMAN].splits.items():
        yield Part(f"human goals, {split}", len(places))


def _questions(path: Path) -> Iterator[Part]:
    from agent_gym.envs.searchqa.questions.files import find_files
    from agent_gym.envs.searchqa.questions.formats import read_questions

    for file in find_files(path):
        count = sum(1 for _ in read_questions(file.path, file.source))
        yield Part(f"{file.source} {file.split}".strip(), count)


def _passages(path: Path) -> Iterator[Part]:
    from agent_gym.retrieval.corpus import CorpusReader
    from agent_gym.retrieval.manifest import read_manifest

    if path.is_dir():
        yield Part("passages", read_manifest(path).size)
    else:
        yield Part("passages", sum(1 for _ in CorpusReader(path)))


DATASETS: tuple[DataSet, ...] = (
    DataSet(
        "alfworld",
        env_id="ALFWorld-v0",
        argument="data",
        folder="json_2.1.1",
        source="pip install alfworld; alfworld-download (github.com/alfworld/alfworld)",
        licence="MIT",
        published={"train": 3_553, "valid_seen": 140, "valid_unseen": 134},
        parts=_alfworld,
    ),
    DataSet(
        "boxoban",
        env_id="Boxoban-v0",
        argument="levels",
        folder="boxoban-levels",
        source="github.com/google-deepmind/boxoban-levels",
        licence="Apache-2.0",
        published={
            "unfiltered/train": 900_000,
            "unfiltered/valid": 100_000,
            "unfiltered/test": 1_000,
            "medium/train": 450_000,
            "medium/valid": 50_000,
            "hard": 3_332,
        },
        parts=_boxoban,
    ),
    DataSet(
        "webshop",
        env_id="WebShop-v0",
        argument="catalog",
        folder="webshop",
        source="setup.sh -d all of github.com/princeton-nlp/WebShop; then agent-gym data import-webshop",
        licence="MIT",
        published={"human goals, test": 500, "human goals, valid": 1_000, "human goals, train": 10_587},
        parts=_webshop,
    ),
    DataSet(
        "searchqa",
        env_id="SearchQA-v0",
        argument="questions",
        folder="searchqa",
        source="huggingface.co: RUC-NLPIR/FlashRAG_datasets",
        licence="per source, CC BY-SA and others",
        published={
            "nq test": 3_610,
            "triviaqa test": 11_313,
            "popqa test": 14_267,
            "hotpotqa valid": 7_405,
            "2wikimultihopqa valid": 12_576,
            "musique valid": 2_417,
            "bamboogle test": 125,
        },
        parts=_questions,
    ),
    DataSet(
        "wiki-18",
        env_id="SearchQA-v0",
        argument="corpus",
        folder="wiki-18.jsonl.gz",
        source="huggingface.co: PeterJinGo/wiki-18-corpus",
        licence="CC BY-SA",
        published={"passages": 21_015_324},
        parts=_passages,
    ),
)
"""Every data set that the documentation names."""
