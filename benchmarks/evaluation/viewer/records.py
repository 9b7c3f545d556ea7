"""From episode files to what the page holds: an index of all episodes, and blocks of whole episodes.

The page reads the index at once and unpacks a block only when one of its episodes is looked at or searched, so that
thousands of episodes stay quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_gym.core.info import FinishReason
from agent_gym.play.episode import Episode, Turn, read_episodes
from agent_gym.support.errors import AgentGymError, ConfigError
from benchmarks.evaluation.plan import EPISODES_SUFFIX
from benchmarks.evaluation.viewer.prompts import PromptRebuilder, Segments
from benchmarks.evaluation.viewer.recipes import Provenance, Recipe, provenance
from benchmarks.evaluation.viewer.tokens import TokenTexts

DEFAULT_LIMIT = 5_000
BLOCK = 25
MOST_TEXT = 20_000
"""Characters of one text that the page shows."""
_SHORT_GOAL = 160


@dataclass(frozen=True)
class ViewOptions:
    """What a page shows.

    Raises:
        ConfigError: A number is out of range.
    """

    limit: int = DEFAULT_LIMIT
    """Episodes taken, the first ones."""
    prompts: bool = True
    """Render the prompts again where it is known how they were made."""
    recipe: Recipe | None = None
    """How prompts were made, for files that do not say."""
    tokenizer: Path | None = None
    """Tokenizer of the agent, for files that do not say; without one, tokens are shown as coloured marks."""

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ConfigError(f"limit must be at least 1, got {self.limit}")


@dataclass(frozen=True)
class ViewData:
    """What a page holds.

    Attributes:
        index: One short row an episode, see `_row`.
        blocks: Whole episodes, `BLOCK` to a block.
        total: Episodes in the files.
        files: Names of the files.
        repeated: Lines left out because their file holds the same episode of an evaluation before.
    """

    index: list[dict[str, Any]]
    blocks: list[list[dict[str, Any]]]
    total: int
    files: list[str]
    repeated: int = 0


def read_view(
    paths: Sequence[str | Path], options: ViewOptions | None = None, on_episode: Callable[[int], None] | None = None
) -> ViewData:
    """Read episode files for a page.

    Args:
        paths: Episode files (JSON lines), or folders of them.
        options: What the page shows.
        on_episode: Called with the number of episodes read so far.

    Raises:
        DataError: A file is missing or holds something else.
        ConfigError: There is no episode.
    """
    options = options or ViewOptions()
    files = list(_files(paths))
    names = _short_names(files)
    index: list[dict[str, Any]] = []
    episodes: list[dict[str, Any]] = []
    total = repeated = 0
    with PromptRebuilder() as rebuilder:
        for number, file in enumerate(files):
            played_by = provenance(file)
            texts = _token_texts(options, played_by)
            seen: set[tuple[str, str, int | None]] = set()
            for episode in read_episodes(file):
                if file.name.endswith(EPISODES_SUFFIX):  # an evaluation plays a task once with each seed
                    key = (episode.env_id, episode.task_id, episode.seed)
                    if key in seen:
                        repeated += 1
                        continue
                    seen.add(key)
                total += 1
                if len(index) >= options.limit:
                    continue
                recipe = options.recipe or played_by.recipe_for(episode.env_id)
                index.append(_row(episode, number))
                episodes.append(_record(episode, recipe if options.prompts else None, rebuilder, texts))
                if on_episode is not None:
                    on_episode(total)
    if not index:
        raise ConfigError(f"no episode in {', '.join(map(str, paths))}")
    blocks = [episodes[start : start + BLOCK] for start in range(0, len(episodes), BLOCK)]
    return ViewData(index, blocks, total, names, repeated)


def _files(paths: Sequence[str | Path]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            found = sorted(path.rglob("*.jsonl"))
            yield from [
                file for file in found if file.name.endswith(EPISODES_SUFFIX) or file.parent.name == "episodes"
            ]
        elif path.suffix == ".json" and (beside := path.with_suffix(EPISODES_SUFFIX)).is_file():
            yield beside  # a result, whose episodes lie beside it
        else:
            yield path


def _short_names(files: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell the files apart."""
    parts = [file.resolve().parts for file in files]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [file.name for file in files]


def _token_texts(options: ViewOptions, played_by: Provenance) -> TokenTexts | None:
    if options.tokenizer is not None:
        return TokenTexts(options.tokenizer)
    if played_by.tokenizer is None:
        return None
    try:
        return TokenTexts(played_by.tokenizer)
    except AgentGymError:  # asked for by nobody: the page does without
        return None


def _row(episode: Episode, file: int) -> dict[str, Any]:
    """Return what the list and its filters need of an episode."""
    turns = episode.turns
    known = [value for turn in turns for value in turn.entropies or ()]
    return {
        "env": episode.env_id,
        "split": episode.split,
        "type": episode.task_type,
        "task": episode.task_id,
        "goal": episode.goal[:_SHORT_GOAL],
        "won": episode.success,
        "stop": episode.stop_reason.value or "running",
        "score": _rounded(episode.score),
        "reward": _rounded(episode.reward),
        "turns": len(turns),
        "bad": sum(not (turn.valid_format and turn.valid_action) for turn in turns),
        "entropy": _rounded(sum(known) / len(known)) if known else None,
        "colours": [name for name in ("entropies", "logprobs") if any(getattr(turn, name) for turn in turns)],
        "file": file,
    }


def _record(
    episode: Episode, recipe: Recipe | None, rebuilder: PromptRebuilder, texts: TokenTexts | None
) -> dict[str, Any]:
    """Return a whole episode."""
    prompts: list[Segments] = []
    note = ""
    if recipe is not None:
        try:
            prompts = rebuilder.segments(episode, recipe)
        except AgentGymError as error:
            note = f"Prompts could not be rendered again: {error}"
    record: dict[str, Any] = {
        "kwargs": dict(episode.env_kwargs),
        "seed": episode.seed,
        "goal": _cut(episode.goal),
        "final": _cut(episode.final_observation),
        "group": episode.group_id,
        "policy": episode.policy_version,
        "package": episode.package_version,
        "started": episode.started_at,
        "note": note,
        "turns": [
            _turn(turn, prompts[place] if place < len(prompts) else [], texts)
            for place, turn in enumerate(episode.turns)
        ],
    }
    return {name: value for name, value in record.items() if value not in (None, "", {})}


def _turn(turn: Turn, prompt: Segments, texts: TokenTexts | None) -> dict[str, Any]:
    if not prompt and texts is not None and turn.prompt_ids:
        prompt = [("prompt as it was tokenised", texts.text(turn.prompt_ids))]
    values: dict[str, Any] = {
        "seen": _cut(turn.observation),
        "reply": _cut(turn.reply),
        "thought": _cut(turn.thought),
        "action": None if turn.action is None else _cut(turn.action),
        "reward": _rounded(turn.reward),
        "format": turn.valid_format,
        "reason": turn.reason,
        "valid": turn.valid_action,
        "seconds": _rounded(turn.seconds),
        "prompt": [(name, _cut(text)) for name, text in prompt],
        "read": len(turn.prompt_ids or ()),
        "said": len(turn.reply_ids or ()),
    }
    if turn.finish_reason is not FinishReason.STOP:
        values["finish"] = turn.finish_reason.value
    if turn.anchor != turn.observation:
        values["anchor"] = _cut(turn.anchor)
    if turn.logprobs or turn.entropies:
        for name in ("entropies", "logprobs"):
            values[name] = [_rounded(value) for value in getattr(turn, name) or ()]
        if texts is not None and turn.reply_ids:
            values["tokens"] = texts.texts(turn.reply_ids)
    usual = {
        "format": True,
        "valid": True,
        "read": 0,
        "said": 0,
        "seconds": 0,
        "reason": "",
        "thought": "",
        "anchor": "",
    }
    return {name: value for name, value in values.items() if name not in usual or value != usual[name]}


def _rounded(value: float) -> float:
    return round(value, 4)


def _cut(text: str) -> str:
    left = len(text) - MOST_TEXT
    return text if left <= 0 else f"{text[:MOST_TEXT]} ... ({left:,} more characters)"
