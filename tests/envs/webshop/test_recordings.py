"""The recorded episodes of the original text environment replay without a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gym.core.env import TextEnv
from agent_gym.envs.webshop.data.store import Store
from agent_gym.envs.webshop.env import WebShopEnv
from agent_gym.envs.webshop.text import rich_text
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import Compat, GoalKind
from agent_gym.envs.webshop.world.nouns import NounOrigin, Nouns, heuristic_nouns, table_of
from agent_gym.envs.webshop.world.shop import Session, Shop
from tests.data import read_json
from tests.envs.webshop.recorded import (
    FOLDER,
    KINDS,
    MemoryCatalog,
    RecordedEngine,
    plain_text,
    products,
    recording,
    title_nouns,
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_machine_replays_every_recorded_step(kind: str) -> None:
    header, episodes = recording(kind)
    catalog = MemoryCatalog(products(), header["product_prices"])
    titles = {product.asin: product.title for product in products()}
    nouns = Nouns(table_of(title_nouns(), titles.get), heuristic_nouns, NounOrigin.HEURISTIC)
    shop = Shop(catalog, RecordedEngine(catalog, episodes), nouns)
    steps = 0
    for episode in episodes:
        session = Session(shop, Goal.from_record(episode["goal"]))
        shown = {"action": "", "reward": 0.0, "done": False, **episode["start"]}
        for step in (shown, *episode["steps"]):
            before = session.page()
            accepted = session.act(step["action"])
            page = session.page()
            assert accepted or page == before
            assert plain_text(page) == step["text"], step["action"]
            assert session.done == step["done"]
            steps += 1
            if step["done"]:
                assert session.reward is not None
                assert session.reward.score == pytest.approx(step["reward"], abs=1e-9)
                assert session.reward.verbose() == pytest.approx(step["verbose"], abs=1e-9)
                assert session.product is not None
                assert session.product.asin == step["bought"]["asin"]
                assert session.selected == step["bought"]["options"]
                assert session.clickables() == ()
            else:
                assert step["reward"] == 0
                assert rich_text(page, Compat.UPSTREAM) == step["text_rich"], step["action"]
                assert list(session.clickables()) == step["clickables"]
                assert session.has_search_box == step["search"]
    assert len(episodes) == 60
    assert steps > 500


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["text", "text_rich"])
def test_the_environment_replays_every_recorded_step_with_its_own_search(
    kind: str, mode: str, recorded_store: Store, recorded_prices: dict[str, Path]
) -> None:
    env = WebShopEnv(
        catalog=recorded_store.folder, goals=kind, prices=recorded_prices[kind], observation=mode, max_turns=1000
    )
    for episode in recording(kind)[1]:
        observation, info = env.reset(options={"task": episode["goal"]})
        assert observation == episode["start"][mode]
        for step in episode["steps"]:
            observation, reward, terminated, truncated, info = env.step(step["action"])
            if mode in step:
                assert observation == step[mode], step["action"]
            assert (terminated, truncated) == (step["done"], False)
            assert reward == pytest.approx(step["reward"], abs=1e-9)
            if step["done"]:
                for name, value in step["verbose"].items():
                    assert info[f"webshop/{name}"] == pytest.approx(value, abs=1e-9), name
                assert info["success"] == (step["reward"] == 1.0)
            else:
                _check_actions(env, info, step)


def _check_actions(env: TextEnv, info: dict[str, Any], step: dict[str, Any]) -> None:
    clicks = [name for name in step["clickables"] if name != "search"]
    assert list(info["admissible_actions"]) == [f"click[{name}]" for name in clicks]
    assert bool(info["action_templates"]) == step["search"]


@pytest.mark.parametrize("kind", KINDS)
def test_goals_stand_in_the_recorded_order_with_the_recorded_texts_and_weights(
    kind: str, recorded_store: Store
) -> None:
    header, episodes = recording(kind)
    table = recorded_store.goal_tables[GoalKind(kind)]
    assert len(table) == header["n_goals"]
    for place, (asin, _, text) in enumerate(header["goal_order"]):
        goal = recorded_store.goal(GoalKind(kind), place)
        assert goal.asin == asin
        assert goal.index == place
        assert _without_limit(goal.instruction_text) == _without_limit(text)
    for episode in episodes:
        found = recorded_store.goal(GoalKind(kind), episode["goal_index"]).to_record()
        for key in (
            "asin",
            "category",
            "query",
            "name",
            "product_category",
            "attributes",
            "goal_options",
            "weight",
        ):
            assert found[key] == episode["goal"][key], key


def _without_limit(text: str) -> str:
    return text.partition(", and price lower than")[0]


def test_searches_find_what_lucene_found(recorded_store: Store) -> None:
    rankings = read_json(f"{FOLDER}/lucene_rankings.json.xz")
    equal = sum(
        [recorded_store.asin(row) for row in recorded_store.search(ranking["query"].lower(), 50)][:10]
        == ranking["asins"][:10]
        for ranking in rankings
    )
    assert equal >= 99
    assert len(rankings) == 100
