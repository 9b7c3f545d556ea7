"""The recorded episodes of the original text environment replay without a difference."""

from __future__ import annotations

import pytest

from agent_gym.envs.webshop.goals import Goal
from agent_gym.envs.webshop.kinds import Compat
from agent_gym.envs.webshop.nouns import NounOrigin, Nouns, heuristic_nouns, table_of
from agent_gym.envs.webshop.shop import Session, Shop
from agent_gym.envs.webshop.text import plain_text, rich_text
from tests.envs.webshop.recorded import KINDS, MemoryCatalog, RecordedEngine, products, recording, title_nouns


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
