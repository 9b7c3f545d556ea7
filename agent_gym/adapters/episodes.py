"""One episode as other frameworks play it: a model's whole replies in, chat messages out.

The conversation grows turn by turn: the first user message is the whole prompt, later ones hold only what is new
(the full context of `agent_gym.core.prompts`). Rewards are the environment's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count as numbers
from itertools import islice
from typing import Any

from agent_gym.core.env import TextEnv
from agent_gym.core.make import make_env
from agent_gym.core.prompts import PromptBuilder, Segment, template_for
from agent_gym.core.replies import ReplyGrammar, ReplyMode
from agent_gym.support.errors import ConfigError
from agent_gym.support.seeding import generator
from agent_gym.wrappers import ReplyWrapper


def missing(framework: str, error: ImportError) -> ConfigError:
    """Return the error of a framework that is not installed; `framework` is also the name of the extra."""
    return ConfigError(
        f"the {framework} adapter needs the extra [{framework}]: pip install 'agent-gym[{framework}]' ({error})"
    )


class ChatEpisode:
    """One environment, played as a conversation; it can be started again and again.

    Args:
        env_id: Full or short id.
        options: Arguments of the environment.
        reply_mode: "lenient" or "strict".
        template: Name of one of the environment's prompts, or a path to a Jinja file.
        thoughts: Whether the prompt asks for a thought.
        shows_format: Whether the prompt says how a reply is written (not where replies are tool calls).

    Attributes:
        info: Info of the last reset or step; empty before the first.
        reward: Reward of the last reply, 0 after a start.
        total_reward: Sum of the rewards of the episode.
        terminated: Whether the world ended the episode.
        truncated: Whether the turn limit did.
        replies: Replies so far.

    Raises:
        ConfigError: The id, an option, the mode or the template is unknown.
    """

    def __init__(
        self,
        env_id: str,
        options: Mapping[str, Any] | None = None,
        *,
        reply_mode: str = ReplyMode.LENIENT,
        template: str = "prompt",
        thoughts: bool = False,
        shows_format: bool = True,
    ) -> None:
        self._env = ReplyWrapper(make_env(env_id, options), mode=reply_mode)
        self._builder = PromptBuilder(template_for(self._env, template), thoughts=thoughts)
        self._hidden = () if shows_format else (Segment.FORMAT,)
        self._clear({})

    @property
    def grammar(self) -> ReplyGrammar:
        """Reply grammar of the environment."""
        return _inner(self._env).reply_grammar

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    def start(self, *, seed: int | None = None, task_id: str | None = None) -> str:
        """Start an episode and return the first user message.

        Args:
            seed: Fixes the episode; None continues the environment's own generator.
            task_id: Task to pin, or None to let the seed choose.

        Raises:
            UnknownTaskError: The task id is not in the set.
        """
        options = None if task_id is None else {"task_id": str(task_id)}
        number = None if seed is None else int(seed)  # data sets hold NumPy's integers
        _, info = self._env.reset(seed=number, options=options)
        self._clear(info)
        return self._builder.prompt(info).masked(self._hidden).text()

    def answer(self, reply: str) -> str:
        """Take one turn with a model's reply and return the next user message.

        Raises:
            ResetNeeded: No episode is running.
        """
        _, self.reward, self.terminated, self.truncated, self.info = self._env.step(reply)
        self.total_reward += self.reward
        self.replies.append(reply)
        self._bad_formats += not self.info["valid_format"]
        self._bad_actions += not self.info["valid_action"]
        return self._builder.follow_up(self.info)["content"]

    def summary(self) -> dict[str, float]:
        """Return the numbers of the episode so far, flags as 0 or 1."""
        return {
            "success": float(self.info.get("success", False)),
            "score": float(self.info.get("score", 0.0)),
            "turns": float(len(self.replies)),
            "truncated": float(self.truncated),
            "invalid_formats": float(self._bad_formats),
            "invalid_actions": float(self._bad_actions),
        }

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _clear(self, info: dict[str, Any]) -> None:
        self.info = info
        self.reward = self.total_reward = 0.0
        self.terminated = self.truncated = False
        self.replies: list[str] = []
        self._bad_formats = self._bad_actions = 0


def task_rows(
    env_id: str, options: Mapping[str, Any] | None = None, *, count: int | None = None, seed: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield rows for a data set: `task_id` and the `seed` of its reset.

    Args:
        env_id: Full or short id.
        options: Arguments of the environment.
        count: Number of rows; the whole task set when None.
        seed: Draws the tasks, with repetition, as resets do; None takes them in the set's order.

    Raises:
        ConfigError: `count` is None or below 1 where tasks are drawn.
    """
    if count is None and seed is not None:
        raise ConfigError("drawn tasks need a count; give count=, or seed=None for the whole task set")
    tasks = _inner(make_env(env_id, options)).tasks
    rng = generator("adapter tasks", seed)
    drawn = iter(tasks.ids) if seed is None else (tasks.sample(rng).id for _ in numbers())
    for number, task_id in enumerate(islice(drawn, count)):
        yield {"task_id": task_id, "seed": (seed or 0) + number}


def _inner(env: Any) -> TextEnv:
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise ConfigError(f"the adapters need a TextEnv, got {type(inner).__name__}")
    return inner
