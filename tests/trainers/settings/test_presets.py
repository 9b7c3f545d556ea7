"""Presets for language models: published values, weights that can take the steps, replies that may think."""

from __future__ import annotations

from typing import Any

import pytest

from trainers.settings.model import TINY
from trainers.settings.reading import preset_names, read_preset, resolve_config, to_values
from trainers.settings.run import TrainConfig

PUBLISHED: dict[str, dict[str, Any]] = {
    "alfworld-qwen": {
        "rollout.groups": 16,
        "rollout.group_size": 8,
        "rollout.max_reply_tokens": 512,
        "rollout.max_context_tokens": 2048 + 512,
        "env.history_length": 2,
        "optim.minibatch_rows": 256,
        "algorithm.filter_warmup": 15,
        "algorithm.kl_coef": 0.01,
    },
    "webshop-qwen": {
        "rollout.groups": 16,
        "rollout.group_size": 8,
        "rollout.max_reply_tokens": 512,
        "rollout.max_context_tokens": 4096 + 512,
        "env.history_length": 2,
        "env.options.max_turns": 15,
        "optim.minibatch_rows": 128,
        "algorithm.filter_warmup": 5,
        "algorithm.kl_coef": 0.01,
    },
    "searchqa-qwen": {
        "rollout.groups": 256,
        "rollout.group_size": 5,
        "rollout.max_reply_tokens": 500,
        "rollout.max_context_tokens": 4096 + 500,
        "env.history_length": 4,
        "env.options.max_turns": 4,
        "env.options.anchor": "observation",
        "algorithm.anchor_similarity": 0.9,
        "algorithm.kl_coef": 0.0,
    },
}
"""arXiv 2602.21534; prompt and reply limits are published apart, a context is both."""

SHARED: dict[str, Any] = {
    "algorithm_name": "sampo",
    "algorithm.eps_low": 3e-3,
    "algorithm.eps_high": 4e-3,
    "algorithm.gamma": 0.95,
    "algorithm.omega": 1.0,
    "algorithm.normalisation": "mean_std",
    "algorithm.format_penalty": 0.1,
    "algorithm.max_tries": 3,
    "optim.learning_rate": 1e-6,
    "optim.schedule": "constant",
    "optim.grad_clip": 1.0,
    "optim.passes": 1,
    "rollout.temperature": 1.0,
    "evaluation.temperature": 0.6,
    "evaluation.top_p": 0.95,
    "evaluation.top_k": 20,
    "iterations": 200,
}


def presets() -> list[tuple[str, TrainConfig]]:
    return [(name, resolve_config(read_preset(name))) for name in preset_names()]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_settings_are_those_published(name: str) -> None:
    values = to_values(resolve_config(read_preset(name)))
    for setting, expected in {**SHARED, **PUBLISHED[name]}.items():
        found: Any = values
        for part in setting.split("."):
            found = found[part]
        assert found == expected, setting


def test_no_preset_rounds_its_updates_away() -> None:
    for name, config in presets():
        if config.model.path != TINY and config.model.lora is None and config.optim.learning_rate <= 1e-5:
            assert config.model.dtype == "float32", name


def test_no_language_model_is_taught_by_experts_not_to_think() -> None:
    cloned = set()
    for name, config in presets():
        assert not (config.env.thoughts and config.cloning.episodes), name
        if config.model.path != TINY:
            assert config.cloning.format_weight == 1.0, name
            cloned |= {name} if config.cloning.episodes else set()
    assert cloned == {"smollm-alfworld", "smollm-sokoban"}
