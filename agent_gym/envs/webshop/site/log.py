"""The log of visits: one file a session, one JSON object per page view, with the original's keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import PageKind
from agent_gym.envs.webshop.world.pages import PAGE_SIZE, Page
from agent_gym.envs.webshop.world.reward import RewardParts
from agent_gym.support.files import make_folder

_NAMES = {
    PageKind.INDEX: "index",
    PageKind.RESULTS: "search_results",
    PageKind.ITEM: "item_page",
    PageKind.SUB_PAGE: "item_sub_page",
    PageKind.DONE: "done",
}


class VisitLog:
    """Writes page views below a folder, which is made when it is not there.

    Args:
        folder: Gets `<session>.jsonl` files.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._folder = folder
        self._lock = threading.Lock()

    def write(self, session: str, page: Page, url: str, goal: Goal, parts: RewardParts | None) -> None:
        """Append a page view; session names hold nothing that a path could be made of."""
        row: dict[str, Any] = {"page": _NAMES[page.kind], "url": url, "goal": goal.to_record()}
        content = _content(page)
        if content:
            row["content"] = content
        if parts is not None:
            row |= {"reward": parts.score, "reward_info": parts.verbose()}
        line = json.dumps(row, ensure_ascii=False) + "\n"
        with (
            self._lock,
            (self._folder / f"{session}.jsonl").open("a", encoding="utf-8", errors="replace") as stream,
        ):
            stream.write(line)


def _content(page: Page) -> Mapping[str, Any]:
    if page.kind is PageKind.INDEX:
        return {}
    found: dict[str, Any] = {}
    if page.kind is not PageKind.DONE:
        found |= {"keywords": list(page.keywords), "page": page.number}
    if page.kind is PageKind.RESULTS:
        asins = [product.asin for product in page.products]
        return found | {"search_result_asins": asins, "page_size": PAGE_SIZE, "total": page.total}
    found |= {"asin": page.shown.asin, "options": dict(page.selected)}
    if page.sub_page is not None:
        found["sub_page"] = page.sub_page.value
    return found
