"""Settings: round trips, errors that name the setting, algorithm rows with overrides, files and presets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.prompts import ContextMode
from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import ALGORITHMS, ImportanceLevel
from trainers.settings.reading import (
    merge,
    parse_override,
    preset_names,
    read_preset,
    read_settings,
    resolve_config,
    to_values,
)
from trainers.settings.run import TrainConfig
from trainers.settings.stapo import MaskKind, StapoSettings


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_survives_being_written_and_read(name: str) -> None:
    context = ContextMode.FULL if ALGORITHMS[name].stapo is None else ContextMode.WINDOW
    config = resolve_config({"algorithm": {"name": name, "gamma": 0.5}, "env": {"context": context.value}})
    assert resolve_config(json.loads(json.dumps(to_values(config)))) == config
    assert config.algorithm_name == name
    assert config.env.context is context


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_resolves_and_survives_being_written_and_read(name: str) -> None:
    config = resolve_config(read_preset(name))
    assert resolve_config(json.loads(json.dumps(to_values(config)))) == config


def test_defaults_are_what_an_empty_file_gives() -> None:
    assert resolve_config({}) == TrainConfig()
    assert to_values(resolve_config({}))["algorithm_name"] == "sampo"


def test_toml_and_json_files_give_the_same_settings(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'iterations = 3\nalgorithm = { name = "grpo", eps_low = 0.1 }\n[env]\noptions = { size = [6, 6] }\n'
    )
    values = {"iterations": 3, "algorithm": {"name": "grpo", "eps_low": 0.1}, "env": {"options": {"size": [6, 6]}}}
    (tmp_path / "a.json").write_text(json.dumps(values))
    one, other = (resolve_config(read_settings(tmp_path / name)) for name in ("a.toml", "a.json"))
    assert one == other
    assert (one.iterations, one.algorithm.eps_low, one.algorithm.dual_clip) == (3, 0.1, 3.0)


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"iteratons": 3}, ["'iteratons'", "Did you mean 'iterations'"]),
        ({"rollout": {"group": 3}}, ["'rollout.group'", "'groups'"]),
        ({"cloning": {"episode": 3}}, ["'cloning.episode'", "'episodes'"]),
        ({"algorithm": {"eps_lo": 0.1}}, ["'eps_lo'", "'eps_low'"]),
        ({"algorithm": {"name": "stapo", "stapo": {"nope": 1}}}, ["'algorithm.stapo.nope'. Known here: alpha"]),
        ({"algorithm": "samp"}, ["'samp'", "'sampo'"]),
        ({"algorithm": {"name": "grpo", "clip": "pp"}}, ["clip", "ppo"]),
        ({"algorithm": 3}, ["algorithm must be the name", "3"]),
        ({"algorithm": ["grpo"]}, ["algorithm must be the name"]),
        ({"env": 5}, ["env"]),
        ({"iterations": "many"}, ["iterations", "'many'"]),
        ({"iterations": -1}, ["iterations", "-1"]),
        ({"optim": {"learning_rate": -1.0}}, ["optim.learning_rate", "-1.0"]),
        ({"optim": {"learning_rate": float("nan")}}, ["optim.learning_rate", "nan"]),
        ({"optim": {"passes": 0}}, ["optim.passes", "0"]),
        ({"cloning": {"epochs": 0}}, ["cloning.epochs", "0"]),
        ({"rollout": {"temperature": 0}}, ["rollout.temperature must be a positive number, got 0"]),
        ({"evaluation": {"temperature": -1}}, ["evaluation.temperature", "-1.0", "greedy=true"]),
        ({"evaluation": {"top_p": 0}}, ["evaluation.top_p must be in (0, 1], got 0"]),
        ({"evaluation": {"top_k": -1}}, ["evaluation.top_k", "-1"]),
        ({"optim": {"beta1": 1.5}}, ["optim.beta1 must be at least 0 and below 1, got 1.5"]),
        ({"optim": {"beta2": 1.0}}, ["optim.beta2", "1.0"]),
        ({"optim": {"grad_clip": -1}}, ["optim.grad_clip", "-1"]),
        ({"model": {"heads": 3}}, ["model.hidden", "hidden=64, heads=3"]),
        ({"model": {"heads": 0}}, ["model.heads must be at least 1, got 0"]),
        ({"model": {"layers": 0}}, ["model.layers must be at least 1, got 0"]),
        ({"model": {"vocab_size": 9}}, ["model.vocab_size", "got 9"]),
        ({"model": {"path": "some/model", "dtype": "float16"}}, ["model.dtype='float16'", "bfloat16"]),
        ({"model": {"path": "some/model", "autocast": "float16"}}, ["model.autocast", "'bfloat16'", "'float16'"]),
        ({"algorithm": {"name": "sampo", "kl_kind": "k1"}}, ["algorithm.kl_kind='k1'"]),
        ({"run": {"checkpoint_every": 0}}, ["run.checkpoint_every", "0"]),
        ({"run": {"keep_checkpoints": 0}}, ["run.keep_checkpoints"]),
        ({"env": {"context": "fulll"}}, ["env.context", "'full'"]),
        ({"env": {"test_split": "train"}}, ["train_split", "test_split"]),
        ({"env": {"options": {"split": "test"}}}, ["'split'", "env.train_split"]),
        ({"env": {"pool_size": 0}}, ["env.pool_size"]),
        ({"evaluation": {"pool": True}}, ["env.pool_size"]),
        ({"rollout": {"max_context_tokens": 512}}, ["max_context_tokens", "512"]),
        ({"rollout": {"group_size": 1}}, ["rollout.group_size", "at least 2"]),
        ({"algorithm": "stapo", "env": {"context": "full"}}, ["algorithm.stapo", "env.context='window'", "'full'"]),
        ({"algorithm": {"name": "stapo", "stapo": {"alfa": 1}}}, ["'algorithm.stapo.alfa'", "'alpha'"]),
        ({"algorithm": {"name": "stapo", "stapo": {"mask": "gaol"}}}, ["stapo.mask", "'goal'"]),
    ],
)
def test_what_cannot_work_is_named(values: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_config(values)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_problem_is_listed() -> None:
    with pytest.raises(ConfigError, match=r"rollout\.group.*iteratons"):
        resolve_config({"iteratons": 3, "rollout": {"group": 3}})


def test_sizes_of_the_tiny_model_are_no_matter_to_another_one_and_float16_may_be_evaluated() -> None:
    assert resolve_config({"model": {"path": "some/model", "heads": 3}}).model.heads == 3
    evaluated = {"model": {"path": "some/model", "dtype": "float16"}, "iterations": 0}
    assert resolve_config(evaluated).model.dtype == "float16"


def test_groups_of_one_may_train_without_a_baseline() -> None:
    assert resolve_config({"algorithm": "reinforce", "rollout": {"group_size": 1}}).rollout.group_size == 1
    assert resolve_config({"iterations": 0, "rollout": {"group_size": 1}}).iterations == 0


@given(
    st.text("abcxyz_.", min_size=1, max_size=12),
    st.one_of(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), st.text("abc /-", max_size=6)),
)
def test_overrides_read_back_what_json_writes(name: str, value: Any) -> None:
    path, parsed = parse_override(f"{name}={json.dumps(value)}")
    assert path == name.split(".")
    assert parsed == value


def test_overrides_reach_any_depth_and_leave_the_base_alone() -> None:
    base = {"env": {"options": {"size": [6, 6]}}, "algorithm": "sampo"}
    merged = merge(
        base, ["env.options.boxes=2", "algorithm.eps_low=0.1", "env.prompt=compact", "run.deterministic=False"]
    )
    config = resolve_config(merged)
    assert config.env.options == {"size": [6, 6], "boxes": 2}
    assert config.algorithm.importance_level is ImportanceLevel.TURN
    assert (config.algorithm.eps_low, config.env.prompt, config.run.deterministic) == (0.1, "compact", False)
    assert base == {"env": {"options": {"size": [6, 6]}}, "algorithm": "sampo"}


def test_a_group_of_settings_keeps_what_an_override_does_not_name() -> None:
    config = resolve_config(merge({"algorithm": {"name": "stapo", "stapo": {"alpha": 0.01}}}, []))
    assert config.algorithm.stapo == StapoSettings(alpha=0.01)
    more = merge({"algorithm": "stapo"}, ["algorithm.stapo.mask=goal", "algorithm.stapo.beta=0"])
    assert resolve_config(more).algorithm.stapo == StapoSettings(mask=MaskKind.GOAL, beta=0.0)
    on = resolve_config(merge({"algorithm": "sampo"}, ["algorithm.stapo.alpha=0.01"]))
    assert on.algorithm == replace(ALGORITHMS["sampo"], stapo=StapoSettings(alpha=0.01))
    off = resolve_config(merge({"algorithm": "stapo"}, ["algorithm.stapo=null"]))
    assert off.algorithm == ALGORITHMS["gigpo"]


def test_another_row_drops_the_overrides_of_the_first() -> None:
    base = {"algorithm": {"name": "sampo", "eps_low": 0.15}}
    assert resolve_config(merge(base, ["algorithm=grpo"])).algorithm == ALGORITHMS["grpo"]
    resolved = to_values(resolve_config(base))
    assert resolve_config(merge(resolved, ["algorithm=grpo"])).algorithm == ALGORITHMS["grpo"]
    assert resolve_config(merge(base, ["algorithm.gamma=0.5"])).algorithm.eps_low == 0.15


@pytest.mark.parametrize("text", ["iterations", "=3", ""])
def test_an_override_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"section\.field=value"):
        merge({}, [text])


def test_a_value_is_no_section() -> None:
    with pytest.raises(ConfigError, match="'iterations' is a value"):
        merge({"iterations": 3}, ["iterations.more=1"])


def test_missing_and_malformed_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder; give a file of settings"):
        read_settings(tmp_path)
    with pytest.raises(ConfigError, match="no settings file"):
        read_settings(tmp_path / "none.toml")
    for name, text in (("a.toml", "x = "), ("b.json", "{"), ("c.json", "[1]")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=name):
            read_settings(tmp_path / name)
    with pytest.raises(ConfigError, match="quickstart"):
        read_preset("quickstrat")
    with pytest.raises(ConfigError, match="no preset"):
        read_preset("../config")
