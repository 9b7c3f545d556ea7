"""The outlier turns of a run with their text, in `stapo_outliers.jsonl`: one JSON object a line.

| key | what |
|---|---|
| `iteration` | number of the iteration, from 0 |
| `task_id` | task of the episode |
| `episode` | number of the episode in its batch |
| `turn` | turn of the episode, from 0 |
| `anchor` | state in which the reply was given |
| `goal` | the instruction |
| `observation` | what the environment showed |
| `reply` | what the policy said |
| `success` | whether the episode ended well |
| `entropy` | mean entropy of the reply's tokens in nats |
| `pool` | `normalized`, `centred`: compared with the turns of its state; `shannon`: by plain entropy |
| `z` | deviation from the turns of its state, in standard deviations (`centred`: in nats); null by plain entropy |
| `limit` | the value above which a turn of its pool is an outlier |
| `group_size` | turns that were taken in its state |
| `reward` | R_TA, the divergence with and without goal and history; null where it was not computed |

Of each iteration the turns that lie furthest beyond their limit are kept, `MAX_PER_ITERATION` at most; the share of
all of them is the metric `stapo/outlier_share`. With `selective=false` every turn counts as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_gym.play.episode import Episode
from trainers.run.folder import OUTLIERS
from trainers.run.jsonl_log import JsonLog
from trainers.stapo.outliers import Outliers, Pool

MAX_PER_ITERATION = 20


class OutlierLog:
    """Appends the outliers of one iteration after the other.

    A resumed run continues at `first_iteration`: lines from there on are dropped.

    Args:
        folder: Run folder.
        first_iteration: First iteration that will be written.
    """

    def __init__(self, folder: Path, first_iteration: int = 0) -> None:
        self._log = JsonLog(folder / OUTLIERS, before=first_iteration)

    def write(self, iteration: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of one iteration, see `outlier_rows`."""
        self._log.append(*({"iteration": iteration, **row} for row in rows))


def outlier_rows(
    episodes: Sequence[Episode], outliers: Outliers, rewards: Mapping[int, float]
) -> list[dict[str, Any]]:
    """Return what is written of a batch, the furthest beyond their limit first.

    Args:
        episodes: Episodes of the batch, in the order in which its table lists their turns.
        outliers: Which turns stand out.
        rewards: R_TA by turn row.
    """
    turns = [(number, place) for number, episode in enumerate(episodes) for place in range(len(episode.turns))]
    found = []
    for row in outliers.flagged.nonzero()[0].tolist():
        pool = outliers.pool[row]
        low, high = outliers.limits[pool]
        value = float(outliers.value[row])
        found.append((max(value - high, low - value), row, pool, value, high))
    found.sort(key=lambda item: (-item[0], item[1]))
    rows = []
    for _, row, pool, value, high in found[:MAX_PER_ITERATION]:
        number, place = turns[row]
        episode = episodes[number]
        turn = episode.turns[place]
        rows.append(
            {
                "task_id": episode.task_id,
                "episode": number,
                "turn": place,
                "anchor": turn.anchor,
                "goal": episode.goal,
                "observation": turn.observation,
                "reply": turn.reply,
                "success": episode.success,
                "entropy": float(outliers.entropy[row]),
                "pool": pool.value,
                "z": None if pool is Pool.SHANNON else value,
                "limit": high,
                "group_size": int(outliers.group_size[row]),
                "reward": rewards.get(row),
            }
        )
    return rows
