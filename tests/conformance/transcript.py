"""Prints the transcripts of all ids; run in processes with different hash seeds by `test_determinism`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from agent_gym.core.replies import RejectedReply
from tests.conformance.subjects import ALL_IDS, REQUIREMENTS, SLOW, inner, make

SEEDS = (0, 1, 2**40)


def transcript(env_id: str, seeds: tuple[int, ...] = SEEDS, turns: int = 6) -> Iterator[str]:
    """Yield what a few seeded episodes show: some oracle turns, a rejected reply, an unknown action."""
    env = make(env_id)
    for seed in (*seeds, None):  # None goes on with the environment's own generator
        yield f"{env_id} {seed} {env.reset(seed=seed)!r}"
        for turn in range(turns):
            if turn == 1:
                action: str = RejectedReply("hm", "Write an action.")
            elif turn == 2:
                action = "é √ 你 no such action"
            else:
                action = inner(env).oracle_action()
            result = env.step(action)
            yield f"{action!r} {result!r}"
            if result[2] or result[3]:
                break
    env.close()


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    for name in ALL_IDS:
        if name not in SLOW and not REQUIREMENTS.get(name, lambda: "")():
            for line in transcript(name):
                print(line)
