"""Game files that the stock engine plays too.

The domain and the text grammar belong to the alfworld package. They are read from there by whoever has it
installed and are passed in as text; this project stores neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_gym.envs.alfworld.world.gamefile import TASK_RULE, GameRecord
from agent_gym.support.errors import DataError


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
