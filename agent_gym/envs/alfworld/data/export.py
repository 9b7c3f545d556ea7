"""Writing game files that the stock engine plays too.

The domain and the text grammar belong to the alfworld package. They are read from there by whoever has it
installed and are passed in as text; this project stores neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent_gym.envs.alfworld.data.index import GAME_FILE, TRAJECTORY_FILE
from agent_gym.envs.alfworld.world.gamefile import TASK_RULE, GameRecord
from agent_gym.support.errors import DataError
from agent_gym.support.files import make_folder

INITIAL_STATE_FILE: Final = "initial_state.pddl"


def stock_texts() -> tuple[str, str]:
    """Return the domain and the grammar of the installed alfworld package.

    Returns:
        The texts of its `alfred.pddl` and `alfred.twl2`.

    Raises:
        DataError: The package is not installed.
    """
    from importlib.util import find_spec

    spec = find_spec("alfworld")  # located, not imported: importing makes folders in the home directory
    if spec is None or not spec.submodule_search_locations:
        raise DataError('the alfworld package is not installed; install it with pip install "agent-gym[alfworld]"')
    folder = Path(spec.submodule_search_locations[0]) / "data"
    try:
        return (
            (folder / "alfred.pddl").read_text(encoding="utf-8"),
            (folder / "alfred.twl2").read_text(encoding="utf-8"),
        )
    except OSError as error:
        raise DataError(f"{folder} lacks alfred.pddl or alfred.twl2: {error.strerror}") from error


def with_stock_texts(content: Mapping[str, Any], domain: str, grammar: str) -> dict[str, Any]:
    """Return a game's content with another domain and grammar, keeping its problem and its sentence.

    This completes a generated record, and brings a file of an old text format to the grammar's format.

    Args:
        content: A generated record, or the content of a game file.
        domain: Domain text.
        grammar: Grammar text with a task rule.

    Returns:
        Content of a `game.tw-pddl` file.

    Raises:
        DataError: The content is no game, or the grammar has no task rule.
    """
    sentence = GameRecord.from_mapping(content).task
    match = TASK_RULE.search(grammar)
    if match is None:
        raise DataError('the grammar has no "task" rule to put the goal sentence in')
    completed = grammar[: match.start(1)] + json.dumps(sentence) + grammar[match.end(1) :]
    made = {
        "pddl_domain": domain,
        "grammar": completed,
        "pddl_problem": content["pddl_problem"],
        "solvable": content.get("solvable"),
        "walkthrough": content.get("walkthrough"),
    }
    GameRecord.from_mapping(made)
    return made


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
