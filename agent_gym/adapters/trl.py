"""TRL's `GRPOTrainer`: environments whose actions are tool calls.

    trainer = GRPOTrainer(
        model,
        train_dataset=task_dataset("Sokoban-v0", count=256, seed=0),
        environment_factory=environment_factory("Sokoban-v0"),
        args=GRPOConfig(...),
    )

TRL (1.16) makes one environment a rollout, calls its `reset` with the row of the data set, offers its methods as
tools and asks `get_reward` at the end. The tools are the tags of the environment's reply grammar (`action`, or
`search` and `answer`), and what a model passes to one is parsed as the content of that tag, leniently. The reward
is the sum of the turns' rewards. A model that stops calling tools leaves the episode unfinished: it keeps the
rewards so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from agent_gym.adapters.episodes import ChatEpisode, missing, task_rows
from agent_gym.core.make import full_id


class ToolEpisode:
    """An environment as TRL plays it; `environment_factory` makes the subclass that has the tools.

    Attributes:
        episode: The episode: total reward, success (in `info`), replies.
    """

    _make: ClassVar[Callable[[], ChatEpisode]]

    def __init__(self) -> None:
        self.episode = type(self)._make()

    def reset(self, task_id: str | None = None, seed: int | None = None, **_: Any) -> str:
        """Start the episode of a row; other columns are ignored. Returns the text of the prompt."""
        return self.episode.start(seed=seed, task_id=task_id)

    def get_reward(self) -> float:
        """Return the sum of the rewards of the episode."""
        return self.episode.total_reward

    def _take(self, form: str, text: str) -> str:
        if self.episode.over:
            return self._ending()
        shown = self.episode.answer(self.episode.grammar.wrap(form.replace("{}", str(text), 1)))
        return f"{shown}\n\n{self._ending()}" if self.episode.over else shown

    def _ending(self) -> str:
        return f"The episode is over: {self.episode.info['stop_reason']}."


def environment_factory(
    env_id: str, options: Mapping[str, Any] | None = None, *, template: str = "prompt"
) -> type[ToolEpisode]:
    """Return what `GRPOTrainer(environment_factory=...)` takes; several go into a dict by name.

    Args:
        env_id: Full or short id; TRL logs the reward under it.
        options: Arguments of the environment.
        template: Name of one of the environment's prompts, or a path to a Jinja file; its block on the format of
            replies is left out, because TRL shows the tools itself.

    Raises:
        ConfigError: The id, an option or the template is unknown.
    """
    chosen = dict(options or {})

    def make() -> ChatEpisode:
        return ChatEpisode(env_id, chosen, template=template, shows_format=False)

    tags = make().grammar.tags
    tools = {tag: _tool(tag, form) for tag, form in tags.items()}
    name = full_id(env_id).rpartition("/")[2]
    return type(name, (ToolEpisode,), {"__doc__": ToolEpisode.__doc__, "_make": staticmethod(make), **tools})


def task_dataset(
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    seed: int | None = None,
    system: str | None = None,
) -> Any:
    """Return a `datasets.Dataset` with the columns prompt, task_id and seed.

    Args:
        env_id: Full or short id.
        options: Arguments of the environment, the same as those of the factory.
        count: Number of rows; the whole task set when None.
        seed: Draws the tasks; None takes them in the set's order.
        system: Text of a system message before the prompt.

    Raises:
        ConfigError: The extra [trl] is not installed.
    """
    try:
        from datasets import Dataset
    except ImportError as error:
        raise missing("trl", error) from error
    # `reset` appends the prompt's text to the last message.
    prompt = [{"role": "user", "content": ""}]
    if system is not None:
        prompt.insert(0, {"role": "system", "content": system})
    rows = task_rows(env_id, options, count=count, seed=seed)
    return Dataset.from_list([{"prompt": prompt, **row} for row in rows])


def _tool(tag: str, form: str) -> Callable[[Any, str], str]:
    """Return the method of one tag, with the hints and the docstring that TRL makes the tool's schema from."""

    def tool(self, text: str) -> str:  # type: ignore[no-untyped-def]  # a hinted self would be in the schema
        return str(self._take(form, text))

    tool.__name__ = tool.__qualname__ = tag
    tool.__doc__ = f"""Take one turn of the episode.

    Args:
        text: The {tag}, without anything around it.

    Returns:
        What is seen next.
    """
    return tool
