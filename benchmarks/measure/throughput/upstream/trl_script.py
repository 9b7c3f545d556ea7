"""Measures iterations of TRL's GRPOTrainer; run as a script by an interpreter that has it, without this package.

Prompts, model, batch and reply limit come from standard input, so that both sides do the same work: one generation
batch, one optimiser step, no reference model, 32-bit weights, no gradient checkpointing, one thread. Time is CPU
time; sampling is TRL's own generation step with tokenising and decoding, update is everything but the rollout.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from typing import Any


def main() -> None:
    """Read the job, measure, print one JSON object."""
    job = json.load(sys.stdin)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    noise = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            warnings.simplefilter("ignore")
            report = _measure(job)
    except ImportError as error:
        report = {"missing": str(error)}
    print(json.dumps(report))


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    import torch
    import transformers
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    trl: Any = importlib.import_module("trl")
    torch.set_num_threads(1)
    steps: list[dict[str, float]] = []
    trainer_class, callback = _timed(trl.GRPOTrainer, steps)
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32, local_files_only=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(job["model"], local_files_only=True)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            model=model,
            reward_funcs=_reward,
            args=trl.GRPOConfig(output_dir=folder, **_settings(job)),
            train_dataset=Dataset.from_list([{"prompt": text} for text in job["prompts"]]),
            processing_class=tokenizer,
            callbacks=[callback],
        )
        before = _peak_mib()
        trainer.train()
    for step in steps:
        step["update"] = step["total"] - step["rollout"]
    return {
        "steps": steps,
        "peak_mib": _peak_mib() - before,
        "versions": {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__},
    }


def _timed(trainer_class: Any, steps: list[dict[str, float]]) -> tuple[Any, Any]:
    """Return a trainer class and a callback that note the times and tokens of each step in `steps`."""
    from transformers import TrainerCallback

    class Timed(trainer_class):  # type: ignore[misc]
        def _generate(self, prompts: Any, *arguments: Any, **named: Any) -> Any:
            begin = time.process_time()
            found = super()._generate(prompts, *arguments, **named)
            steps[-1]["sampling"] += time.process_time() - begin
            steps[-1]["reply_tokens"] += sum(map(len, found[1]))
            steps[-1]["prompt_tokens"] += sum(map(len, found[0]))
            return found

        def _generate_and_score_completions(self, *arguments: Any, **named: Any) -> Any:
            begin = time.process_time()
            found = super()._generate_and_score_completions(*arguments, **named)
            steps[-1]["rollout"] += time.process_time() - begin
            return found

    class Clock(TrainerCallback):
        def on_step_begin(self, *arguments: Any, **named: Any) -> None:
            names = ("sampling", "rollout", "reply_tokens", "prompt_tokens", "total")
            steps.append(dict.fromkeys(names, 0.0))
            self.begin = time.process_time()

        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            steps[-1]["total"] = time.process_time() - self.begin

    return Timed, Clock()


def _reward(completions: list[str], **_: Any) -> list[float]:
    return [text.count("e") / max(1, len(text)) for text in completions]


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the run beside its folder."""
    return {
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": job["groups"] * job["group_size"],
        "gradient_accumulation_steps": 1,
        "num_generations": job["group_size"],
        "num_iterations": 1,
        "max_completion_length": job["reply_tokens"],
        "max_steps": job["iterations"],
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "beta": 0.0,
        "loss_type": "grpo",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "shuffle_dataset": False,
        "log_completions": False,
        "seed": 0,
    }


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


if __name__ == "__main__":
    main()
