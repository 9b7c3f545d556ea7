"""Results and episodes with given outcomes, without having played them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_gym.core.info import StopReason
from agent_gym.play.episode import Episode, Turn
from benchmarks.evaluation.results import EpisodeRow, EvaluationResult

HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>\u2028\u2029&lt;"
)


@dataclass(frozen=True)
class Played:
    """What an agent made of a list of tasks: 1 solved, 0 not, None an error; and what its result says of itself."""

    outcomes: Sequence[float | None]
    agent: str = "oracle"
    env_id: str = "agent_gym/Sokoban-v0"
    split: str = "test"
    digest: str = "0123456789abcdef0123456789abcdef"
    world: str = ""
    max_turns: int = 15
    seeds: tuple[int, ...] = (0,)
    options: tuple[tuple[str, Any], ...] = ()
    identity: tuple[tuple[str, Any], ...] = ()
    kinds: Sequence[str] = ("6x6-1",)
    scores: Sequence[float] | None = None

    def result(self, **changes: Any) -> EvaluationResult:
        """Return the result; `changes` replace fields."""
        played = replace(self, **changes)
        rows = [
            EpisodeRow(
                task_id=f"gen/{number}",
                seed=seed,
                episode_seed=number,
                task_type=played.kinds[number % len(played.kinds)],
                success=bool(outcome),
                score=float(outcome or 0.0) if played.scores is None else played.scores[number],
                turns=5,
                invalid_action=number % 2,
                stop_reason="success" if outcome else "max_turns",
                error="the tool broke" if outcome is None else "",
            )
            for seed in played.seeds
            for number, outcome in enumerate(played.outcomes)
        ]
        header = {
            "env_id": played.env_id,
            "env_kwargs": {"split": played.split, **dict(played.options)},
            "split": played.split,
            "tasks": {"count": len(played.outcomes), "digest": played.digest, "world": played.world},
            "seeds": list(played.seeds),
            "max_turns": played.max_turns,
            "agent": {"spec": played.agent, "reply_mode": "lenient", **dict(played.identity)},
        }
        return EvaluationResult(header, rows, len(rows), {"wall_seconds": 1.0})


BOARDS = ("######\n#P_O_#\n#_X__#\n######", "######\n#_S__#\n#_X__#\n######", "######\n#__√P#\n######")


def episodes(count: int) -> Iterator[Episode]:
    """Yield episodes of several worlds; every seventh says and sees hostile text, every fourth has token values."""
    for number in range(count):
        hostile, world = number % 7 == 3, number % 3
        seen = {
            0: BOARDS[number % len(BOARDS)],
            1: "You are in a room. You see a desk 1.",
            2: "Results [SEP] red shoe [SEP] Buy Now",
        }
        text = HOSTILE if hostile else f"<think>step {number}</think><action>up</action>"
        turns = tuple(
            Turn(
                observation=HOSTILE if hostile and turn else seen[world],
                reply=text,
                thought="" if hostile else f"step {number}",
                action=None if hostile else "up",
                reward=-0.1 * turn,
                valid_format=not hostile,
                reason="the reply holds no action" if hostile else "",
                valid_action=not hostile,
                prompt_ids=(1, 2, 3) if number % 4 == 0 else None,
                reply_ids=(4, 5) if number % 4 == 0 else None,
                logprobs=(-0.25, -2.5) if number % 4 == 0 else None,
                entropies=(0.5, 1.5) if number % 4 == 0 else None,
            )
            for turn in range(1 + number % 4)
        )
        yield Episode(
            env_id=("agent_gym/Sokoban-v0", "agent_gym/ALFWorld-v0", "agent_gym/WebShop-v0")[world],
            env_kwargs={"split": "test"},
            seed=number,
            task_id=f"gen/{number}" + (HOSTILE if hostile else ""),
            task_type=("6x6-1", "pick_and_place_simple", HOSTILE)[world],
            goal=f"needle {number}" if number % 10 == 9 else "Push every box onto a goal.",
            turns=turns,
            final_observation=seen[world],
            success=number % 2 == 0,
            score=float(number % 2 == 0),
            stop_reason=StopReason.SUCCESS if number % 2 == 0 else StopReason.MAX_TURNS,
            reward=float(number % 5),
            split="test",
        )
