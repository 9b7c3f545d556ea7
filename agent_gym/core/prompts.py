"""From an observation and its info to a prompt made of named segments.

A template is a Jinja file with one block per segment (`instructions`, `goal`, `history`, `observation`,
`actions`, `format`) and optionally a block `separator`, the text between segments, and a block `order`, the
names of segments that come last. Segments are rendered one by one and joined, so a prompt can be shown again with
some of them blanked (`Prompt.masked`), which STAPO (arXiv 2607.04963) needs to see what the goal and the history
contribute.

Two contexts: in `window` every turn is a fresh prompt built from the goal, the last `history_length`
exchanges and the current observation; in `full` the episode is one growing conversation whose first user
message is the whole prompt and whose later ones hold only what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
from jinja2 import nodes

from agent_gym.support.errors import ConfigError

NO_ACTION = "(no valid action)"
"""What the history shows as the action of a turn whose reply held none."""


class Segment(StrEnum):
    """Named parts of a prompt, in the order in which they are shown."""

    INSTRUCTIONS = "instructions"
    GOAL = "goal"
    HISTORY = "history"
    OBSERVATION = "observation"
    ACTIONS = "actions"
    FORMAT = "format"


class ContextMode(StrEnum):
    """How much of the episode a prompt holds."""

    WINDOW = "window"
    FULL = "full"


Message = dict[str, str]
_SEPARATOR = "separator"  # optional block: what stands between segments
_ORDER = "order"  # optional block: segments that are shown last, in this order


@dataclass(frozen=True, slots=True)
class Exchange:
    """One earlier turn as the history shows it: what was seen and what was done."""

    observation: str
    action: str


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt.

    Attributes:
        segments: Segment -> text; empty segments are left out when joined.
        separator: Text between segments.
        order: Segments in the order in which they are shown.
    """

    segments: Mapping[Segment, str]
    separator: str = "\n\n"
    order: tuple[Segment, ...] = tuple(Segment)

    def text(self) -> str:
        """Return the prompt as one string."""
        parts = (self.segments.get(segment, "") for segment in self.order)
        return self.separator.join(part for part in parts if part)

    def messages(self) -> list[Message]:
        """Return the prompt as chat messages (one user message)."""
        return [{"role": "user", "content": self.text()}]

    def masked(self, names: Iterable[str]) -> Prompt:
        """Return the same prompt with the named segments blanked.

        Raises:
            ConfigError: A name is not a segment.
        """
        blank = set()
        for name in names:
            try:
                blank.add(Segment(name))
            except ValueError:
                allowed = [segment.value for segment in Segment]
                raise ConfigError(f"no prompt segment {name!r}; known: {allowed}") from None
        return replace(self, segments={k: "" if k in blank else v for k, v in self.segments.items()})


@dataclass(frozen=True)
class PromptTemplate:
    """A Jinja template with a block for each segment.

    Attributes:
        source: Text of the template.
        name: Where it came from, for messages.
    """

    source: str
    name: str = "<template>"
    _blocks: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, path: str | Path) -> PromptTemplate:
        """Read a template file.

        Raises:
            ConfigError: There is no such file; the message lists the templates beside it.
        """
        path = Path(path)
        if not path.is_file():
            beside = sorted(p.stem for p in path.parent.glob("*.j2")) if path.parent.is_dir() else []
            raise ConfigError(f"no prompt template at {path}; templates in that folder: {beside}")
        return cls(path.read_text(encoding="utf-8"), str(path))

    def render(self, context: Mapping[str, Any]) -> Prompt:
        """Render every segment.

        Raises:
            ConfigError: The template has a syntax error or uses an undefined variable.
        """
        try:
            template = self._compiled()
            values = template.new_context(dict(context))
            segments = {
                segment: "".join(template.blocks[segment.value](values)).strip("\n")
                for segment in Segment
                if segment.value in template.blocks
            }
            between = template.blocks.get(_SEPARATOR)
            separator = "\n\n" if between is None else "".join(between(values))
            order = self._order("".join(template.blocks[_ORDER](values)) if _ORDER in template.blocks else "")
        except jinja2.TemplateError as error:
            raise ConfigError(f"prompt template {self.name}: {error}") from error
        return Prompt(segments, separator, order)

    def what_it_reads(self, context: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the values of `context` that the template reads: equal ones give equal prompts.

        Returns:
            Hashable values, or None when the template may read all of `info`.
        """
        if "reads" not in self._blocks:
            self._compiled()
            self._blocks["reads"] = _reads(self.source)
        reads: tuple[tuple[str, ...], tuple[str, ...]] | None = self._blocks["reads"]
        if reads is None:
            return None
        names, keys = reads
        info = context.get("info", {})
        values = [*[context.get(name) for name in names], *[info.get(key) for key in keys]]
        return tuple([tuple(value) if isinstance(value, list) else value for value in values])

    def _order(self, names: str) -> tuple[Segment, ...]:
        """Return all segments: those not named in their usual order, then those named."""
        try:
            named = [Segment(name) for name in names.split()]
        except ValueError as error:
            raise ConfigError(f"prompt template {self.name}, block {_ORDER!r}: {error}") from None
        return (*(segment for segment in Segment if segment not in named), *named)

    def _compiled(self) -> jinja2.Template:
        template: jinja2.Template | None = self._blocks.get("template")
        if template is None:
            environment = jinja2.Environment(
                undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
            )
            template = environment.from_string(self.source)
            known = {segment.value for segment in Segment}
            unknown = set(template.blocks) - known - {_SEPARATOR, _ORDER}
            if unknown or "observation" not in template.blocks:
                raise ConfigError(
                    f"prompt template {self.name} must have a block 'observation' and no blocks but "
                    f"{sorted(known)}; it has {sorted(template.blocks)}"
                )
            self._blocks["template"] = template
        return template

    def __deepcopy__(self, memo: dict[int, Any]) -> PromptTemplate:
        return self  # read-only: copies of a wrapper share it, compiled

    def __getstate__(self) -> dict[str, Any]:  # compiled templates do not pickle
        return {"source": self.source, "name": self.name, "_blocks": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)


def _reads(source: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the variables and the keys of `info` that a template reads; None when the keys cannot be told."""
    tree = jinja2.Environment().parse(source)
    keys = set()
    found: Any = tree.find_all((nodes.Getattr, nodes.Getitem))
    for node in found:
        if isinstance(node.node, nodes.Name) and node.node.name == "info":
            key = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
            if not isinstance(key, str):
                return None
            keys.add(key)
            node.node.name = "goal"  # any variable will do: what is still called `info` then is read as a whole
    names = jinja2.meta.find_undeclared_variables(tree)
    return None if "info" in names else (tuple(sorted(names)), tuple(sorted(keys)))


def template_for(env: Any, name_or_path: str | Path = "prompt") -> PromptTemplate:
    """Return a prompt template of an environment.

    Args:
        env: The environment or a wrapper around it, or its class.
        name_or_path: A name in the environment's prompt folder ("prompt", "compact"), or a path to a file.

    Raises:
        ConfigError: There is no such template; the message lists the environment's own.
    """
    text = str(name_or_path)
    if text.endswith(".j2") or "/" in text or "\\" in text:
        return PromptTemplate.load(name_or_path)
    inner: Any = env if isinstance(env, type) else env.unwrapped
    return PromptTemplate.load(Path(inner.prompt_folder) / f"{text}.j2")


@dataclass(frozen=True)
class PromptBuilder:
    """Builds prompts from what an environment returns.

    Attributes:
        template: Template to render.
        history_length: Exchanges shown in window context.
        thoughts: Whether the format segment asks for a thought.
    """

    template: PromptTemplate
    history_length: int = 2
    thoughts: bool = False

    def __post_init__(self) -> None:
        if self.history_length < 0:
            raise ConfigError(f"history_length must be at least 0, got {self.history_length}")

    def prompt(self, info: Mapping[str, Any], history: Sequence[Exchange] = (), shown: int | None = None) -> Prompt:
        """Return the window prompt of the current turn.

        Args:
            info: Info of the last reset or step.
            history: All earlier exchanges, oldest first.
            shown: Exchanges to show, when fewer than `history_length` fit.
        """
        return self.template.render(self.values(info, history, shown))

    def values(
        self, info: Mapping[str, Any], history: Sequence[Exchange] = (), shown: int | None = None
    ) -> dict[str, Any]:
        """Return what `prompt` gives the template to read."""
        keep = self.history_length if shown is None else shown
        recent = list(history[max(0, len(history) - keep) :]) if keep else []
        return {
            "goal": info["goal"],
            "observation": info["prompt_observation"],
            "history": recent,
            "first_shown": len(history) - len(recent) + 1,
            "turn": info["turn"],
            "admissible_actions": info["admissible_actions"],
            "action_templates": info["action_templates"],
            "thoughts": self.thoughts,
            "info": info,
        }

    def opening(self, info: Mapping[str, Any]) -> list[Message]:
        """Return the first messages of a full-context conversation."""
        return self.prompt(info).messages()

    def follow_up(self, info: Mapping[str, Any]) -> Message:
        """Return the user message of a later turn in full context: the new observation and actions."""
        prompt = self.prompt(info)
        fresh = {key: prompt.segments.get(key, "") for key in (Segment.OBSERVATION, Segment.ACTIONS)}
        return {"role": "user", "content": replace(prompt, segments=fresh).text()}
