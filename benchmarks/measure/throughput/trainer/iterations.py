"""Measures iterations of this trainer, the whole loop of `agent-gym train` included: prompts, sampling, stepping
environments, advantages, update, metrics.

Episodes have one turn here, because what it is compared with samples one reply a prompt.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure.memory import peak_mib

ENV_ID = "agent_gym/Sokoban-v0"
ENV_OPTIONS = {"max_turns": 1}
PROMPT = "prompt"
_WHOLE_BATCH = 10**9  # tokens of one forward and backward pass: all rows at once, as the other side does


def make_job(
    folder: Path,
    *,
    groups: int,
    group_size: int,
    reply_tokens: int,
    iterations: int,
    model: Path | None = None,
) -> dict[str, Any]:
    """Return what both sides do.

    Args:
        folder: Where a small model is written when `model` is None.
        groups: Prompts of a batch.
        group_size: Replies to each.
        reply_tokens: Longest reply.
        iterations: Iterations measured; two more are run, at the start and at the end, that do not count.
        model: Folder of another model.
    """
    from agent_gym.play.driver import EnvHandle
    from trainers.policy.policy import Policy
    from trainers.policy.tiny import TinySpec, build_tiny
    from trainers.rollout.environments import prompt_builder
    from trainers.settings.env import EnvSettings

    total = iterations + 2
    handle = EnvHandle.make(ENV_ID, {**ENV_OPTIONS, "split": "train"})
    builder = prompt_builder(handle, EnvSettings(id=ENV_ID, options=ENV_OPTIONS, prompt=PROMPT, history_length=0))
    messages, texts = [], []
    for task_id in handle.env.tasks.ids[: groups * total]:
        _, info = handle.env.reset(options={"task_id": task_id})
        messages.append(builder.prompt(info).messages())
        texts.append(builder.prompt(info).text())
    if model is None:
        model = folder / "model"
        build_tiny([*texts, "<action>left</action>"], TinySpec(), device="cpu").save(model)
    policy = Policy.load(model, device="cpu", dtype="float32")
    return {
        "model": str(model),
        "parameters": policy.n_parameters,
        "groups": groups,
        "group_size": group_size,
        "reply_tokens": reply_tokens,
        "iterations": total,
        "prompts": [policy.decode(policy.encode_chat(message)) for message in messages],
    }


def run_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Train in this process and return time and tokens by iteration."""
    from trainers.learner import Learner
    from trainers.loop import Trainer
    from trainers.run.folder import RunFolder
    from trainers.run.reporter import SilentReporter
    from trainers.run.tracking import read_metrics
    from trainers.settings.reading import resolve_config

    total: list[float] = []
    update: list[float] = []

    class TimedLearner(Learner):
        def learn(self, *arguments: Any, **named: Any) -> Any:
            begin = time.process_time()
            found = super().learn(*arguments, **named)
            update.append(time.process_time() - begin)
            return found

    class Timed(Trainer):
        learner_class = TimedLearner

        def _iterate(self, *arguments: Any, **named: Any) -> Any:
            begin = time.process_time()
            found = super()._iterate(*arguments, **named)
            total.append(time.process_time() - begin)
            return found

    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", resolve_config(_settings(job)))
        trainer = Timed(run, SilentReporter())
        before = peak_mib()
        trainer.run()
        rows = read_metrics(run.path)
    replies = job["groups"] * job["group_size"]
    steps = []
    for row, whole, learning in zip(rows, total, update, strict=True):
        steps.append(
            {
                "sampling": whole - learning,
                "update": learning,
                "total": whole,
                "reply_tokens": round(row["replies/length"] * replies),
            }
        )
    return {"steps": steps, "peak_mib": peak_mib() - before}


def _settings(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the run."""
    return {
        "algorithm": {"name": "grpo", "kl_coef": 0.0},
        "iterations": job["iterations"],
        "device": "cpu",
        "env": {"id": ENV_ID, "options": ENV_OPTIONS, "prompt": PROMPT, "history_length": 0},
        "model": {"path": job["model"], "dtype": "float32"},
        "rollout": {
            "groups": job["groups"],
            "group_size": job["group_size"],
            "max_reply_tokens": job["reply_tokens"],
            "max_context_tokens": 2048,
            "max_parallel": job["groups"] * job["group_size"],
        },
        # Both sides compute every row, so that equal rows do not count as speed.
        "optim": {
            "learning_rate": 1e-6,
            "max_tokens_per_microbatch": _WHOLE_BATCH,
            "share_equal_rows": False,
        },
        "evaluation": {"episodes": 1},
        "run": {"checkpoint_every": job["iterations"], "episodes_every": 0, "threads": 1},
    }


def main() -> None:
    """Read the job, measure, print one JSON object."""
    print(json.dumps(run_job(json.load(sys.stdin))))


if __name__ == "__main__":
    main()
