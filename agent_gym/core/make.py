"""Making environments from an id and options, with errors that name ids and options.

Only Gymnasium's registry is asked, so whatever an id stands for, players need not know who registered it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import Error as GymnasiumError

from agent_gym.core.env import TextEnv
from agent_gym.support.arguments import check_arguments
from agent_gym.support.errors import AgentGymError, ConfigError, suggest
from agent_gym.support.faults import told

NAMESPACE = "agent_gym"
"""What the package's ids begin with."""


def known_ids() -> list[str]:
    """Return the registered ids of the package, sorted."""
    return sorted(id_ for id_ in gym.registry if id_.startswith(f"{NAMESPACE}/"))


def full_id(env_id: str) -> str:
    """Complete a short id: `Sokoban-v0`, `sokoban` -> `agent_gym/Sokoban-v0`.

    An id with a module in front (`package.module:space/Name-v0`, as `gymnasium.make` takes it) is returned as it
    is, so that other processes know what to import; the module is imported here.

    Raises:
        ConfigError: There is no such id; the message names near ones. Or the module cannot be found or does not
            register the id.
    """
    if env_id in gym.registry:
        return env_id
    module, colon, name = env_id.rpartition(":")
    if colon:
        return _import_id(env_id, module, name)
    ids = known_ids()
    for candidate in (f"{NAMESPACE}/{env_id}", f"{NAMESPACE}/{env_id}-v0"):
        for known in ids:
            if known.lower() == candidate.lower():
                return known
    short = [known.partition("/")[2] for known in ids]
    spelled = {name.lower(): name for name in short}
    near = [spelled[name] for name in difflib.get_close_matches(env_id.lower(), spelled, n=3, cutoff=0.4)]
    hint = f" Did you mean {', '.join(near)}?" if near else ""  # the likeliest first
    raise ConfigError(
        f"no environment {env_id!r}.{hint} `agent-gym list` shows all ids; others are named with the module "
        "that registers them, module:namespace/Name-v0"
    )


def _import_id(env_id: str, module: str, name: str) -> str:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            # the module is there; something that it needs is not
            raise ConfigError(f"{env_id}: module {module!r} cannot be imported: {told(error)}") from error
        raise ConfigError(
            f"{env_id}: no module {module!r}. Install the package that registers {name!r}, or put the folder that "
            "holds it on PYTHONPATH"
        ) from None
    except AgentGymError:
        raise
    except Exception as error:
        raise ConfigError(f"{env_id}: module {module!r} cannot be imported: {told(error)}") from error
    if name not in gym.registry:
        space, _, last = name.rpartition("/")
        there = sorted(id_ for id_ in gym.registry if id_.endswith(f"/{last}") or id_.startswith(f"{space}/"))
        raise ConfigError(
            f"{env_id}: importing {module!r} registers no {name!r}; "
            f"ids like it: {', '.join(f'{module}:{id_}' for id_ in there) or 'none'}"
        )
    return env_id


def find_spec(env_id: str) -> EnvSpec:
    """Return the registry's entry of a full or short id, with or without a module in front.

    Raises:
        ConfigError: There is no such id.
    """
    return gym.spec(full_id(env_id).rpartition(":")[2])


def make_env(env_id: str, options: Mapping[str, Any] | None = None) -> gym.Env[str, str]:
    """Make an environment as `gymnasium.make` does, with errors that name the options.

    Args:
        env_id: Full or short id.
        options: Keyword arguments of the environment.

    Raises:
        ConfigError: The id or an option is unknown, an option's value does not fit, or it is no text environment.
    """
    env_id = full_id(env_id)
    options = dict(options or {})
    entry_point = find_spec(env_id).entry_point
    creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    if isinstance(creator, type) and not issubclass(creator, TextEnv):
        raise ConfigError(
            f"{env_id} is a {creator.__name__}, without texts; agents play environments that extend "
            "agent_gym.core.TextEnv"
        )
    known = inspect.signature(creator).parameters if creator is not None else {}
    if known and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
        for option in options:
            if option not in known and option not in ("max_episode_steps", "disable_env_checker"):
                raise ConfigError(
                    f"{env_id} has no option {option!r}; it has {sorted(known)}.{suggest(option, known)}"
                )
    if creator is not None:
        options = check_arguments(env_id, creator, options)
    try:
        return gym.make(env_id, **options)
    except (AgentGymError, GymnasiumError, ImportError, OSError):
        raise
    except Exception as error:
        # of a TypeError Gymnasium makes another one, which has no place in the environment's code
        own = error.__cause__ if isinstance(error.__cause__, TypeError) else error
        raise ConfigError(f"{env_id} cannot be made: {told(own)}") from error
