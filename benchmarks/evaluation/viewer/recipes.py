"""What stands beside an episode file and says how its agent was shown the environment.

Training keeps its settings in the run folder, an evaluation keeps the agent's identity in the result file. Both are
read as plain JSON here, so that looking at episodes needs neither torch nor the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_gym.core.prompts import ContextMode
from benchmarks.evaluation.plan import EPISODES_SUFFIX
from benchmarks.evaluation.reading import json_object

_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How prompts were made.

    Attributes:
        prompt: Name of a prompt template of the environment, or a path to one.
        history_length: Earlier exchanges shown in window context.
        context: A fresh prompt every turn, or one growing conversation.
        thoughts: Whether a thought is asked for.
    """

    prompt: str = "prompt"
    history_length: int = 2
    context: ContextMode = ContextMode.WINDOW
    thoughts: bool = False


@dataclass(frozen=True)
class Provenance:
    """What is known of the agent that played a file's episodes.

    Attributes:
        recipe: Recipe for all environments, None when prompts are unknown.
        by_env: Recipes of single environments.
        tokenizer: Its `tokenizer.json`, None when there is none.
    """

    recipe: Recipe | None = None
    by_env: Mapping[str, Recipe] | None = None
    tokenizer: Path | None = None

    def recipe_for(self, env_id: str) -> Recipe | None:
        """Return the recipe of an environment."""
        return (self.by_env or {}).get(env_id, self.recipe)


def provenance(episodes: Path) -> Provenance:
    """Return what the files around an episode file say; nothing where there are none."""
    run = episodes.resolve().parent.parent
    config = json_object(run / "config.json")
    if isinstance(config.get("env"), dict):
        return _of_run(run, config["env"])
    if episodes.name.endswith(EPISODES_SUFFIX):
        result = json_object(episodes.with_name(episodes.name.removesuffix(EPISODES_SUFFIX) + ".json"))
        if isinstance(result.get("agent"), dict):
            return _of_result(result["agent"])
    return Provenance()


def _of_run(run: Path, env: Mapping[str, Any]) -> Provenance:
    by_env = {}
    for part in env.get("mix") or ():
        own = {name: part[name] for name in ("prompt", "history_length") if part.get(name) is not None}
        by_env[str(part.get("id"))] = _recipe({**env, **own})
    return Provenance(_recipe(env), by_env, _file(run / "reference" / _TOKENIZER))


def _of_result(agent: Mapping[str, Any]) -> Provenance:
    tokenizer = None
    for folder in _folders(str(agent.get("spec", ""))):
        tokenizer = tokenizer or _file(folder / "reference" / _TOKENIZER) or _file(folder / _TOKENIZER)
    return Provenance(_recipe(agent) if "prompt" in agent else None, None, tokenizer)


def _recipe(values: Mapping[str, Any]) -> Recipe:
    usual = Recipe()
    try:
        return Recipe(
            str(values.get("prompt", usual.prompt)),
            int(values.get("history_length", usual.history_length)),
            ContextMode(values.get("context", usual.context)),
            bool(values.get("thoughts", usual.thoughts)),
        )
    except (TypeError, ValueError):
        return usual


def _folders(spec: str) -> Iterator[Path]:
    """Yield the folders that an agent's name may mean: `hf:PATH`, `run:FOLDER@which`."""
    kind, _, argument = spec.partition(":")
    if kind in ("hf", "run") and argument:
        yield Path(argument)
        if "@" in argument:
            yield Path(argument.rpartition("@")[0])


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None
