from __future__ import annotations

import math
from dataclasses import fields, replace
from enum import StrEnum

import pytest

from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import ALGORITHMS, AlgorithmConfig, get_algorithm
from trainers.settings.stapo import MaskKind, StapoSettings

COLUMNS = "advantage statistics importance_level clip eps_low eps_high dual_clip aggregation group_filter kl_coef"

TABLE = """
reinforce         reinforce  episode  token       none   -     -     -  token_mean               none     0
grpo              grpo       turn     token       ppo    .2    .2    3  token_mean               none     .01
grpo_st           grpo       turn     token       ppo    .2    .2    3  seq_mean_token_mean      none     .01
dr_grpo           dr_grpo    turn     token       ppo    .2    .2    3  seq_mean_token_sum_norm  none     0
rloo              rloo       turn     token       ppo    .2    .2    3  token_mean               none     .01
dapo              grpo       turn     token       ppo    .2    .28   -  token_mean               dynamic  0
dapo_arlarena     grpo       turn     token       ppo    .2    .2    3  token_mean               dynamic  .01
gspo              grpo       turn     turn        ppo    3e-3  4e-3  -  seq_mean_token_mean      none     .01
cispo             grpo       turn     token       cispo  1     .2    -  token_mean               none     .01
sapo              grpo       turn     token       sapo   -     -     -  token_mean               none     .01
gigpo             gigpo      turn     token       ppo    .2    .2    3  token_mean               none     .01
empg              empg       turn     token       ppo    .2    .2    3  token_mean               none     .01
hgpo              hgpo       turn     token       ppo    .2    .2    3  token_mean               none     .01
g2po              g2po       turn     token       ppo    .2    .2    3  token_mean               none     .01
aem               grpo       turn     token       ppo    .2    .2    3  token_mean               none     .01
sampo             gigpo      turn     turn        ppo    3e-3  4e-3  -  seq_mean_token_mean      dynamic  .01
sampo_trajectory  gigpo      turn     trajectory  ppo    3e-3  4e-3  -  seq_mean_token_mean      dynamic  .01
stapo             gigpo      turn     token       ppo    .2    .2    3  token_mean               none     .01
stapo_sampo       gigpo      turn     turn        ppo    3e-3  4e-3  -  seq_mean_token_mean      dynamic  .01
"""
ROWS = [line.split() for line in TABLE.split("\n") if line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_named_rows_are_those_of_the_published_table(row: list[str]) -> None:
    config = ALGORITHMS[row[0]]
    for column, expected in zip(COLUMNS.split(), row[1:], strict=True):
        actual = getattr(config, column)
        if isinstance(actual, StrEnum):
            assert actual == expected, column
        elif expected != "-":
            assert actual == float(expected), column
        elif column == "dual_clip":
            assert actual is None


def test_no_other_algorithm_is_named() -> None:
    assert list(ALGORITHMS) == [row[0] for row in ROWS]


def test_shared_recipe_constants() -> None:
    for config in ALGORITHMS.values():
        assert (config.gamma, config.omega, config.format_penalty) == (0.95, 1.0, 0.1)
        assert (config.kl_kind, config.normalisation, config.max_tries) == ("k3", "mean_std", 3)
        assert config.sequence_mask_delta is None
        assert config.entropy_coef == 0.0
    assert (ALGORITHMS["sapo"].sapo_tau_positive, ALGORITHMS["sapo"].sapo_tau_negative) == (1.0, 1.05)


def test_only_stapo_rows_have_its_terms_and_differ_from_their_base_by_nothing_else() -> None:
    assert [name for name, config in ALGORITHMS.items() if config.stapo is not None] == ["stapo", "stapo_sampo"]
    for name, base in (("stapo", "gigpo"), ("stapo_sampo", "sampo")):
        assert replace(ALGORITHMS[name], stapo=None) == ALGORITHMS[base]
        assert ALGORITHMS[name].stapo == StapoSettings()


def test_rows_of_new_methods_differ_from_their_base_in_one_setting() -> None:
    assert replace(ALGORITHMS["aem"], entropy_weight=0.0) == ALGORITHMS["grpo"]
    assert replace(ALGORITHMS["g2po"], advantage="grpo") == ALGORITHMS["grpo"]
    assert replace(ALGORITHMS["dapo_arlarena"], group_filter="none") == ALGORITHMS["grpo"]
    assert [name for name, config in ALGORITHMS.items() if config.reads_entropy] == ["empg", "aem"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", -0.1),
        ("beta", math.nan),
        ("gamma_s", "0.1"),
        ("kappa", -1.0),
        ("top_k", 1.5),
        ("entropy_floor", math.inf),
        ("entropy", "renyi"),
        ("mask", "observation"),
        ("penalty", "triple"),
        ("side", "lower"),
        ("iqr_lambda", -1.5),
        ("iqr_floor", 0.0),
        ("min_anchor_group", 1),
        ("selective", 1),
        ("leave_one_out", None),
    ],
)
def test_stapo_settings_outside_their_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"stapo\.{field} must be"):
        StapoSettings(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="stapo must be None or StapoSettings"):
        AlgorithmConfig(stapo={field: value})  # type: ignore[arg-type]


def test_penalties_and_weights_say_what_the_loss_reads() -> None:
    assert StapoSettings().weights == (0.005, 0.005, 0.005)
    assert StapoSettings(penalty="single").weights == (0.005, 0.005, 0.0)  # type: ignore[arg-type]
    assert StapoSettings(penalty="none").weights == (0.005, 0.0, 0.0)  # type: ignore[arg-type]
    assert StapoSettings(alpha=0, gamma_s=0).masks is False
    assert StapoSettings(alpha=0, penalty="none").acts is False  # type: ignore[arg-type]
    assert [kind.segments for kind in MaskKind] == [("goal", "history"), ("goal",), ("history",), ()]


def test_strings_become_the_enum_members() -> None:
    config = replace(ALGORITHMS["sampo"], clip="cispo", aggregation="token_mean")
    for field in fields(config):
        if isinstance(getattr(config, field.name), str):
            assert isinstance(getattr(config, field.name), StrEnum)


def test_a_mistyped_choice_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"got 'rlo'\. Did you mean 'rloo'"):
        AlgorithmConfig(advantage="rlo")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Did you mean 'sampo'"):
        get_algorithm("samp0")
    assert get_algorithm("grpo") is ALGORITHMS["grpo"]


def test_k1_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"expected gradient.*zero.*'k3'"):
        replace(ALGORITHMS["grpo"], kl_kind="k1")


def test_a_ratio_level_without_a_ratio_is_refused() -> None:
    with pytest.raises(ConfigError, match="importance_level='token'"):
        replace(ALGORITHMS["gspo"], clip="none")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("eps_low", -0.1),
        ("eps_low", 1.5),
        ("eps_high", -1e-9),
        ("eps_high", math.nan),
        ("dual_clip", 1.0),
        ("dual_clip", math.inf),
        ("sapo_tau_positive", 0.0),
        ("sapo_tau_negative", -1.0),
        ("sequence_mask_delta", -0.1),
        ("norm_length", 0),
        ("norm_length", 1.5),
        ("max_tries", 0),
        ("filter_warmup", -1),
        ("gamma", 1.01),
        ("omega", -1.0),
        ("anchor_similarity", 0.0),
        ("anchor_similarity", 1.1),
        ("format_penalty", -0.1),
        ("kl_coef", -0.01),
        ("entropy_coef", math.inf),
        ("empg_k", -1.0),
        ("empg_k_prime", math.inf),
        ("empg_zeta", -0.05),
        ("hgpo_depth", -1),
        ("hgpo_depth", 0.5),
        ("hgpo_alpha", -1.0),
        ("hgpo_base", "both"),
        ("g2po_terminal", 0.0),
        ("g2po_terminal", math.inf),
        ("entropy_weight", -1.0),
        ("entropy_weight", math.nan),
        ("entropy_weight_scope", "turn"),
        ("gamma", "0.9"),
        ("kl_coef", True),
    ],
)
def test_numbers_outside_their_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be"):
        AlgorithmConfig(**{field: value})  # type: ignore[arg-type]
