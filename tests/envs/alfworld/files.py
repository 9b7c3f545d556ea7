"""Generated households as files in the benchmark's layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_gym.envs.alfworld.data.export import with_stock_texts
from agent_gym.envs.alfworld.data.index import GAME_FILE, TRAJECTORY_FILE
from agent_gym.support.files import make_folder

INITIAL_STATE_FILE = "initial_state.pddl"


def write_game_files(record: Mapping[str, Any], folder: Path, domain: str, grammar: str) -> Path:
    """Write a generated household as files in the benchmark's layout.

    Args:
        record: A record of `household_from_seed`.
        folder: The folder of the split folders, as `json_2.1.1` is.
        domain: Domain text, see `stock_texts`.
        grammar: Grammar text, see `stock_texts`.

    Returns:
        The game file; `traj_data.json` and `initial_state.pddl` lie beside it.

    Raises:
        DataError: The record is no game, or the grammar has no task rule.
    """
    content = with_stock_texts(record, domain, grammar)
    split, task, trial = str(record["task_id"]).split("/")
    target = folder / split / task / trial
    make_folder(target)
    trajectory = {
        "task_id": trial,
        "task_type": record["task_type"],
        "pddl_params": record["pddl_params"],
        "scene": {"floor_plan": record["scene"]},
        "turk_annotations": {"anns": [{"task_desc": record["task"]}]},
    }
    (target / GAME_FILE).write_text(json.dumps(content), encoding="utf-8")
    (target / TRAJECTORY_FILE).write_text(json.dumps(trajectory), encoding="utf-8")
    (target / INITIAL_STATE_FILE).write_text(record["pddl_problem"], encoding="utf-8")
    return target / GAME_FILE
