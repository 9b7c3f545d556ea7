"""The ids that `gymnasium.make` knows, and making environments from an id and options."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, WrapperSpec, load_env_creator
from gymnasium.error import Error as GymnasiumError
from gymnasium.wrappers import TimeLimit

from agent_gym.core.env import TextEnv
from agent_gym.support.arguments import check_arguments
from agent_gym.support.errors import AgentGymError, ConfigError, suggest
from agent_gym.support.faults import told

NAMESPACE = "agent_gym"

_ALFWORLD = "agent_gym.envs.alfworld.env:ALFWorldEnv"
_SEARCHQA = "agent_gym.envs.searchqa.env:SearchQAEnv"
_SOKOBAN = "agent_gym.envs.sokoban.env:SokobanEnv"
_WEBSHOP = "agent_gym.envs.webshop.env:WebShopEnv"
_WEBSHOP_BROWSER = "agent_gym.envs.webshop.browser.env:WebShopBrowserEnv"


IDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Sokoban-v0": (_SOKOBAN, {}),
    "Sokoban-6x6-1-v0": (_SOKOBAN, {"difficulty": "6x6-1"}),
    "Sokoban-6x6-2-v0": (_SOKOBAN, {"difficulty": "6x6-2"}),
    "Sokoban-7x7-2-v0": (_SOKOBAN, {"difficulty": "7x7-2"}),
    "Sokoban-8x8-3-v0": (_SOKOBAN, {"difficulty": "8x8-3"}),
    "Sokoban-10x10-4-v0": (_SOKOBAN, {"difficulty": "10x10-4"}),
    "ALFWorld-v0": (_ALFWORLD, {}),
    "ALFWorld-Small-v0": (_ALFWORLD, {"difficulty": "small"}),
    "ALFWorld-Large-v0": (_ALFWORLD, {"difficulty": "large"}),
    "WebShop-v0": (_WEBSHOP, {}),
    "WebShopBrowser-v0": (_WEBSHOP_BROWSER, {}),
    "SearchQA-v0": (_SEARCHQA, {}),
    "Boxoban-v0": ("agent_gym.envs.sokoban.env:BoxobanEnv", {}),
}
"""Id without namespace -> entry point and options."""


def absorb_time_limit(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """Turn `gym.make(id, max_episode_steps=n)` into `max_turns=n`.

    Gymnasium's `TimeLimit` would mark a win on the last turn as truncated, so it is taken out and the
    environment's own limit set. Registered as an additional wrapper, which `gym.make` applies last.
    """
    if isinstance(env, TimeLimit):
        limit = env._max_episode_steps
        env = env.env
        inner = env.unwrapped
        assert isinstance(inner, TextEnv)
        inner.max_turns = limit
        if inner.spec is not None:
            inner.spec.kwargs["max_turns"] = limit
    return env


def register_env(env_id: str, entry_point: str, **options: Any) -> None:
    """Register a `TextEnv` with Gymnasium, so that `gymnasium.make(env_id)` and every command know it.

    Args:
        env_id: `namespace/Name-v0`.
        entry_point: `module:Class`.
        options: Default keyword arguments of the class.
    """
    gym.register(
        id=env_id,
        entry_point=entry_point,
        kwargs=dict(options),
        # Gymnasium's passive checker fails after a reset that raised (an unknown task id), and costs time at every
        # step; the conformance suite runs its full checker on every id.
        disable_env_checker=True,
        additional_wrappers=(WrapperSpec("absorb_time_limit", "agent_gym.registration:absorb_time_limit", {}),),
    )


def register_all() -> None:
    """Register every id with Gymnasium; importing the package does it."""
    for name, (entry_point, options) in IDS.items():
        register_env(f"{NAMESPACE}/{name}", entry_point, **options)


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
    near = difflib.get_close_matches(env_id.lower(), [name.lower() for name in short], n=3, cutoff=0.4)
    hint = f" Did you mean {', '.join(n for n in short if n.lower() in near)}?" if near else ""
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
