"""What a digest of tasks covers: equal ids over other records, or in another world, are other tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_gym.core.env import TextEnv
from agent_gym.core.tasks import Task
from agent_gym.envs.alfworld.env import ALFWorldEnv
from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.envs.sokoban.env import SokobanEnv
from agent_gym.envs.webshop.env import WebShopEnv
from agent_gym.retrieval.base import Passage
from agent_gym.retrieval.lexical.bm25 import MemoryBm25
from agent_gym.retrieval.service.remote import RemoteRetriever
from tests.envs.searchqa.conftest import PASSAGES, ROW

ROOM = "######\n#@ $.#\n######"
OTHER_ROOM = "######\n#@$ .#\n######"


def digest(env: TextEnv) -> str:
    return env.tasks_digest(env.tasks.ids)


def test_levels_of_one_name_and_other_content_differ(tmp_path: Path) -> None:
    found = []
    for number, room in enumerate((ROOM, OTHER_ROOM, ROOM)):
        path = tmp_path / str(number) / "levels.txt"
        path.parent.mkdir()
        path.write_text(room)
        found.append(digest(SokobanEnv(levels=path)))
    assert found[0] == found[2] != found[1]
    assert digest(SokobanEnv(levels=[ROOM])) != digest(SokobanEnv(levels=[OTHER_ROOM]))


def test_the_digest_of_a_part_is_about_that_part() -> None:
    ids = ("list#0", "list#2")
    first, other_last, other_between = (
        SokobanEnv(levels=levels).tasks_digest(ids)
        for levels in ([ROOM, ROOM, ROOM], [ROOM, ROOM, OTHER_ROOM], [ROOM, OTHER_ROOM, ROOM])
    )
    assert first == other_between != other_last


def test_generated_tasks_are_known_by_their_ids() -> None:
    env = SokobanEnv(split="test")
    ids = env.tasks.ids[:40]
    assert env.tasks_digest(ids) == env.tasks.subset(ids).digest() == digest(SokobanEnv(tasks=env.tasks[:40]))


def test_games_are_known_by_their_content_and_not_by_their_place(tmp_path: Path) -> None:
    records = [ALFWorldEnv(split="test").tasks[number].record for number in (0, 1)]

    def game(folder: str, record: Any) -> str:
        path = tmp_path / folder / "game.tw-pddl"
        path.parent.mkdir()
        path.write_text(json.dumps(record))
        return digest(ALFWorldEnv(tasks=[Task("valid/game", "pick", "valid", {"game_file": str(path)})]))

    assert game("a", records[0]) == game("b", records[0]) != game("c", records[1])


def test_questions_and_passages_are_part_of_it(tmp_path: Path) -> None:
    other_row = {**ROW, "golden_answers": ["Yes"]}
    other_passages = [*PASSAGES[:-1], Passage("10", "Paris", "Paris is a hero of Troy.")]

    def env(name: str, row: Any = ROW, passages: Any = PASSAGES) -> SearchQAEnv:
        path = tmp_path / name / "test.jsonl"
        path.parent.mkdir()
        path.write_text(json.dumps(row))
        return SearchQAEnv(questions={"mine": path}, retriever=MemoryBm25(passages))

    first = digest(env("a"))
    assert digest(env("b")) == first
    assert len({first, digest(env("c", row=other_row)), digest(env("d", passages=other_passages))}) == 3


def test_servers_that_tell_no_fingerprint_differ_by_address() -> None:
    pytest.importorskip("httpx")
    retrievers = [RemoteRetriever(f"http://127.0.0.1:{port}/retrieve") for port in (9, 10)]
    worlds = [SearchQAEnv(retriever=retriever).world_digest() for retriever in retrievers]
    assert all(worlds)
    assert len(set(worlds)) == 2


def test_prices_and_catalogue_are_part_of_it(tmp_path: Path) -> None:
    options: dict[str, Any] = {"products": 6, "catalog_seed": 17}
    own = WebShopEnv(split="all", **options)
    store = own.world.store()
    prices = {store.asin(row): 10.0 + row for row in range(len(store))}
    found = {"own": digest(own)}
    for name, table in {"a": prices, "b": prices, "c": dict.fromkeys(prices, 99.0)}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
        found[name] = digest(WebShopEnv(split="all", prices=tmp_path / f"{name}.json", **options))
    assert found["a"] == found["b"]
    assert len(set(found.values())) == 3
    goals = own.tasks[:4]  # the same goals in two catalogues
    assert digest(WebShopEnv(tasks=goals, **options)) != digest(WebShopEnv(tasks=goals, products=7))
