"""From played episodes to the two tables that training reads: turn rows and token rows.

The turn table holds what advantages are computed from; token rows hold ids. A token's segment is the index of
its turn in the turn table, so an advantage finds its tokens in either context mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent_gym.core.prompts import ContextMode
from agent_gym.play.episode import Episode, Turn
from agent_gym.support.errors import DataError
from trainers.policy.token_rows import NO_SEGMENT, TokenRow
from trainers.update.turn_table import Bools, Floats, RowTable


@dataclass(frozen=True)
class Batch:
    """A batch of episodes as tables.

    Attributes:
        groups: The episodes, by group.
        table: One row a turn, R rows.
        rows: Token rows: one a turn in window context, one an episode in full context. Their segments are
            indices into `table`.
    """

    groups: tuple[tuple[Episode, ...], ...]
    table: RowTable
    rows: tuple[TokenRow, ...]

    @property
    def episodes(self) -> list[Episode]:
        """All episodes, in order."""
        return [episode for group in self.groups for episode in group]

    def with_entropy(self, entropy_R: Floats) -> Batch:
        """Return the batch with the mean token entropy of each turn, NaN where unknown, in its table."""
        return replace(self, table=replace(self.table, entropy=entropy_R))

    def without(self, dropped_R: Bools) -> Batch:
        """Return the batch without the token rows of dropped turns; `table` stays, so segments still fit."""
        gone = {int(segment) for segment in dropped_R.nonzero()[0]}
        kept = tuple(row for row in self.rows if gone.isdisjoint(row.segments or ()))
        return replace(self, rows=kept)


def build_batch(groups: Sequence[Sequence[Episode]], context: ContextMode, format_penalty: float) -> Batch:
    """Return the tables of a batch.

    Args:
        groups: Episodes that share a task, by group. Their turns carry token ids.
        context: Context in which they were sampled.
        format_penalty: Penalty of a turn whose reply or action was invalid.

    Raises:
        DataError: A turn carries no token ids, or a prompt in full context does not continue the last one.
    """
    columns: dict[str, list[float]] = {
        name: [] for name in ("group", "episode", "turn", "reward", "penalty", "n_tokens")
    }
    anchors: list[str] = []
    rows: list[TokenRow] = []
    episode_id = 0
    for group_id, group in enumerate(groups):
        for episode in group:
            first = len(anchors)
            for number, turn in enumerate(episode.turns):
                invalid = not (turn.valid_format and turn.valid_action)
                values = (group_id, episode_id, number, turn.reward, format_penalty * invalid, _length(turn))
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
                anchors.append(turn.anchor)
            if episode.turns and context is ContextMode.FULL:
                rows.append(_conversation_row(episode, first, episode_id))
            elif context is ContextMode.WINDOW:
                rows += [_turn_row(turn, first + n, episode_id) for n, turn in enumerate(episode.turns)]
            episode_id += 1
    table = RowTable(
        group=np.array(columns["group"], dtype=np.int64),
        episode=np.array(columns["episode"], dtype=np.int64),
        turn=np.array(columns["turn"], dtype=np.int64),
        reward=np.array(columns["reward"], dtype=np.float64),
        penalty=np.array(columns["penalty"], dtype=np.float64),
        anchor=tuple(anchors),
        n_tokens=np.array(columns["n_tokens"], dtype=np.int64),
    )
    return Batch(tuple(tuple(group) for group in groups), table, tuple(rows))


def _length(turn: Turn) -> int:
    if turn.prompt_ids is None or turn.reply_ids is None:
        raise DataError("a turn to train on must carry prompt_ids and reply_ids, as a rollout records them")
    return len(turn.reply_ids)


def _turn_row(turn: Turn, segment: int, episode_id: int) -> TokenRow:
    assert turn.prompt_ids is not None and turn.reply_ids is not None
    return TokenRow.from_reply(
        turn.prompt_ids, turn.reply_ids, segment=segment, episode=episode_id, logprobs=turn.logprobs
    )


def _conversation_row(episode: Episode, first_segment: int, episode_id: int) -> TokenRow:
    """Return one row of a whole conversation; mask 1 exactly on sampled ids."""
    ids: list[int] = []
    mask: list[bool] = []
    segments: list[int] = []
    logprobs: list[float] = []
    for number, turn in enumerate(episode.turns):
        assert turn.prompt_ids is not None and turn.reply_ids is not None
        if list(turn.prompt_ids[: len(ids)]) != ids:
            raise DataError(
                f"episode of task {episode.task_id!r}, turn {number}: the prompt does not start with the "
                "tokens so far, so the row would not hold what was sampled"
            )
        glue = turn.prompt_ids[len(ids) :]
        reply = turn.reply_ids
        ids += [*glue, *reply]
        mask += [False] * len(glue) + [True] * len(reply)
        segments += [NO_SEGMENT] * len(glue) + [first_segment + number] * len(reply)
        logprobs += [0.0] * len(glue) + list(turn.logprobs or [0.0] * len(reply))
    known = all(turn.logprobs is not None for turn in episode.turns)
    return TokenRow(
        tuple(ids), tuple(mask), tuple(segments), episode_id, logprobs=tuple(logprobs) if known else None
    )
