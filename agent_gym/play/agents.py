"""The two agents that need no model: the environment's expert, and chance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agent_gym.core.info import StopReason
from agent_gym.core.replies import ParsedReply, ReplyGrammar
from agent_gym.play.driver import LiveEpisode
from agent_gym.play.reply import Reply
from agent_gym.play.runner import EnvRunner
from agent_gym.support.errors import AgentGymError, ConfigError, WorkerError
from agent_gym.support.seeding import generator

_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
_WORD = re.compile(r"[^\W\d_]{3,}")


class OracleAgent:
    """Plays the environment's expert.

    An episode in which the expert knows no way on (an unsolvable task, the end of its search's budget) ends as an
    error, which says nothing of the others.

    Args:
        grammar: Reply grammar of the environment.
    """

    def __init__(self, grammar: ReplyGrammar) -> None:
        self._grammar = grammar

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return the expert's next action of every episode as a well-formed reply.

        Raises:
            ConfigError: The environment has no expert with these options.
        """
        try:
            runner.oracle([episode.slot for episode in episodes])
        except AgentGymError:
            if not runner.last_errors:  # the call failed as a whole
                raise
            for error in runner.last_errors.values():
                if isinstance(error, ConfigError) or not isinstance(error, AgentGymError):
                    raise error from None
        return [self._reply(episode.slot, runner) for episode in episodes]

    def _reply(self, slot: int, runner: EnvRunner) -> Reply:
        if slot in runner.last_actions:
            return Reply(self._grammar.wrap(runner.last_actions[slot]))
        error = runner.last_errors[slot]
        name = "environment" if isinstance(error, WorkerError) else "oracle"
        return Reply("", stop=StopReason.TOOL_ERROR, error=f"{name}: {error}")

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Nothing to learn."""


class RandomAgent:
    """Chooses uniformly among the admissible actions and the templates, whose blanks are filled with a word
    of the goal.

    The choice depends on the episode's seed and turn only, so equal seeds play equally however episodes are
    batched.

    Args:
        grammar: Reply grammar of the environment.
    """

    def __init__(self, grammar: ReplyGrammar) -> None:
        self._grammar = grammar

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return a random action of every episode as a well-formed reply."""
        actions = (random_action(episode.info, episode.request.seed) for episode in episodes)
        return [Reply(self._grammar.wrap(action)) for action in actions]

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Nothing to learn."""


def random_action(info: dict[str, Any], seed: int | None) -> str:
    """Return an action drawn uniformly from the admissible ones and the templates of a state.

    Args:
        info: Info of the state.
        seed: Seed of the episode; with the task and the turn it fixes the draw.
    """
    rng = generator("random agent", seed, info["task_id"], info["turn"])
    choices = [*info["admissible_actions"], *info["action_templates"]]
    if not choices:
        return "none"
    choice = choices[int(rng.integers(len(choices)))]
    words = _WORD.findall(info["goal"]) or ["thing"]
    return _PLACEHOLDER.sub(lambda _: str(words[int(rng.integers(len(words)))]), choice)
