"""Prompts of recorded episodes, rendered again segment by segment.

Episode files hold what was said and seen, not the prompts, which would make up most of them. Playing the actions
again gives every state, and the template the prompt that the agent read in it. Where an agent dropped old exchanges
because they did not fit its context, the rendered history is longer than what it read.
"""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym

from agent_gym.core.prompts import NO_ACTION, ContextMode, Exchange, PromptBuilder, Segment, template_for
from agent_gym.play.episode import Episode
from agent_gym.play.host import IdMaker
from agent_gym.play.replay import replayed_states
from agent_gym.support.errors import AgentGymError
from benchmarks.evaluation.viewer.recipes import Recipe

Segments = list[tuple[str, str]]


class PromptRebuilder:
    """Renders prompts; keeps the environments it has made until it is closed."""

    def __init__(self) -> None:
        self._envs: dict[str, gym.Env[Any, Any]] = {}
        self._refused: dict[str, str] = {}

    def __enter__(self) -> PromptRebuilder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()

    def segments(self, episode: Episode, recipe: Recipe) -> list[Segments]:
        """Return the named segments of the prompt of each turn.

        Raises:
            AgentGymError: The environment or the template is not here, or the episode does not replay.
        """
        env = self._env(episode)
        builder = PromptBuilder(template_for(env, recipe.prompt), recipe.history_length, recipe.thoughts)
        history: list[Exchange] = []
        found: list[Segments] = []
        for turn, (_, info) in zip(episode.turns, replayed_states(episode, env), strict=False):
            prompt = builder.prompt(info, history)
            names = prompt.order
            if recipe.context is ContextMode.FULL and found:
                names = tuple(name for name in names if name in (Segment.OBSERVATION, Segment.ACTIONS))
            found.append([(name.value, prompt.segments[name]) for name in names if prompt.segments.get(name)])
            history.append(Exchange(info["prompt_observation"], turn.action or NO_ACTION))
        return found

    def _env(self, episode: Episode) -> gym.Env[Any, Any]:
        key = json.dumps([episode.env_id, episode.env_kwargs], sort_keys=True)
        if key in self._refused:
            raise AgentGymError(self._refused[key])
        if key not in self._envs:
            try:
                self._envs[key] = IdMaker(episode.env_id, dict(episode.env_kwargs))()
            except Exception as error:
                self._refused[key] = f"{episode.env_id} cannot be made here: {error}"
                raise AgentGymError(self._refused[key]) from error
        return self._envs[key]
