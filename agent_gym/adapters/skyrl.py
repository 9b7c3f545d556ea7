"""SkyRL-gym: the ids as `BaseTextEnv`.

    import agent_gym.adapters.skyrl, skyrl_gym
    env = skyrl_gym.make("agent_gym/Sokoban-v0", env_config={}, extras={"task_id": "...", "seed": 7})
    messages, info = env.init([])

Importing the module registers every id with `skyrl_gym` (in each process that makes environments). `env_config`
holds the environment's arguments, `extras` the row of the data set: `task_id` and `seed`, at its top or under
`extra_info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_gym.adapters.episodes import ChatEpisode, missing, task_rows
from agent_gym.core.make import full_id, known_ids
from agent_gym.core.replies import ReplyMode

try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
except ImportError as error:
    raise missing("skyrl", error) from error

Messages = list[dict[str, str]]


class AgentGymTextEnv(BaseTextEnv):
    """One episode of an environment.

    Args:
        env_id: Full or short id; set by the registration.
        env_config: Arguments of the environment (a mapping or an OmegaConf config).
        extras: Row of the data set; `task_id`, `seed`, `reply_mode`, `template` and `thoughts` are read.

    Raises:
        ConfigError: The id or an argument is unknown.
    """

    def __init__(self, env_id: str, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        row = {**((extras or {}).get("extra_info") or {}), **(extras or {})}
        options = {str(key): value for key, value in dict(env_config or {}).items()}
        self.episode = ChatEpisode(
            env_id,
            options,
            reply_mode=row.get("reply_mode", ReplyMode.LENIENT),
            template=row.get("template", "prompt"),
            thoughts=bool(row.get("thoughts", False)),
        )
        self._task_id, self._seed = row.get("task_id"), row.get("seed")

    def init(self, prompt: Messages) -> tuple[Messages, dict[str, Any]]:
        """Start the episode.

        Args:
            prompt: Messages of the data set that come first, such as a system message; empty ones are dropped.

        Returns:
            The conversation so far and the info of the environment.
        """
        opening = self.episode.start(seed=self._seed, task_id=self._task_id)
        self.turns = 0
        given = [dict(message) for message in prompt if message["content"]]
        return [*given, {"role": "user", "content": opening}], dict(self.episode.info)

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Take one turn with a model's whole reply; the reward is the turn's.

        `metadata` is the environment's info with `terminated` and `truncated`, which SkyRL's `done` joins.
        """
        episode = self.episode
        shown = episode.answer(action)
        self.turns += 1
        return BaseTextEnvStepOutput(
            observations=[] if episode.over else [{"role": "user", "content": shown}],
            reward=episode.reward,
            done=episode.over,
            metadata={**episode.info, "terminated": episode.terminated, "truncated": episode.truncated},
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return the numbers of the episode."""
        return self.episode.summary()

    def close(self) -> None:
        """Close the environment."""
        self.episode.close()


def dataset_rows(
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    seed: int | None = None,
    prompt: Messages | None = None,
) -> list[dict[str, Any]]:
    """Return rows of a SkyRL data set: prompt, env_class, task_id and seed; see `task_rows`."""
    first = prompt or [{"role": "user", "content": ""}]
    rows = task_rows(env_id, options, count=count, seed=seed)
    return [{"prompt": first, "env_class": full_id(env_id), **row} for row in rows]


def register_all() -> None:
    """Register every id with `skyrl_gym`; importing the module does it, and again does no harm."""
    for env_id in known_ids():
        if env_id not in skyrl_gym.registry:
            skyrl_gym.register(env_id, f"{__name__}:AgentGymTextEnv", {"env_id": env_id})


register_all()
