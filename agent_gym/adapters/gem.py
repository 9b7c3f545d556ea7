"""GEM: the ids for `gem.make` and `gem.make_vec`.

    import agent_gym.adapters.gem, gem
    env = gem.make("agent_gym/Sokoban-v0", split="train")
    message, info = env.reset(seed=7)
    message, reward, terminated, truncated, info = env.step("<action>up</action>")

Importing the module registers every id with GEM. Observations are the messages of a growing conversation, so GEM's
`concat_chat` wrapper, which shows the model the whole of it, is the one to use.
"""

from __future__ import annotations

import copy
from typing import Any, Self

from agent_gym.adapters.episodes import ChatEpisode, missing
from agent_gym.core.make import known_ids
from agent_gym.core.replies import ReplyMode
from agent_gym.play.agents import random_action

try:
    import gem
    from gem.envs.registration import ENV_REGISTRY
except ImportError as error:
    raise missing("gem", error) from error


class AgentGymEnv(gem.Env):
    """One environment.

    Args:
        agent_gym_id: Full or short id; set by the registration.
        seed: Seed of the first reset that names none (`gem.make_vec` gives each environment its own).
        task_id: Task of every reset that names none, or None to let the seed choose.
        reply_mode: "lenient" or "strict".
        template: Name of one of the environment's prompts, or a path to a Jinja file.
        thoughts: Whether the prompt asks for a thought.
        options: Arguments of the environment.

    Raises:
        ConfigError: The id or an argument is unknown.
    """

    def __init__(
        self,
        agent_gym_id: str,
        *,
        seed: int | None = None,
        task_id: str | None = None,
        reply_mode: str = ReplyMode.LENIENT,
        template: str = "prompt",
        thoughts: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self._settings = {
            "agent_gym_id": agent_gym_id,
            "seed": seed,
            "task_id": task_id,
            "reply_mode": reply_mode,
            "template": template,
            "thoughts": thoughts,
            **options,
        }
        self._seed, self._task_id = seed, task_id
        self._episode = ChatEpisode(
            agent_gym_id, options, reply_mode=reply_mode, template=template, thoughts=thoughts
        )

    def reset(self, seed: int | None = None, *, task_id: str | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; no global generator is touched, unlike in GEM's own environments.

        Returns:
            The first user message and the info of the environment.
        """
        if seed is None:
            seed, self._seed = self._seed, None
        message = self._episode.start(seed=seed, task_id=self._task_id if task_id is None else task_id)
        return message, dict(self._episode.info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn with a model's whole reply; returns what `TextEnv.step` does, with the message."""
        episode = self._episode
        message = episode.answer(action)
        return message, episode.reward, episode.terminated, episode.truncated, dict(episode.info)

    def sample_random_action(self) -> str:
        """Return a well-formed reply with a random action; the task and the turn fix the draw."""
        episode = self._episode
        return episode.grammar.wrap(random_action(episode.info, None))

    def spawn(self, same_state: bool = False, **kwargs: Any) -> Self:
        """Return another environment: a copy in mid-episode, or a new one with some arguments changed.

        Raises:
            ValueError: Both a copy and changed arguments are asked for.
        """
        if same_state and kwargs:
            raise ValueError(f"a copy in the same state takes no other arguments, got {sorted(kwargs)}")
        return copy.deepcopy(self) if same_state else type(self)(**{**self._settings, **kwargs})

    def close(self) -> None:
        """Close the environment."""
        self._episode.close()


def register_all() -> None:
    """Register every id with GEM; importing the module does it, and again does no harm."""
    for env_id in known_ids():
        if env_id not in ENV_REGISTRY:
            gem.register(env_id, f"{__name__}:AgentGymEnv", agent_gym_id=env_id)


register_all()
