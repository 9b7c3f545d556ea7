"""AEM: the factor's numbers on any estimator, and that without it nothing changes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError
from tests.trainers.turn_tables import REFERENCE, table_of, tables
from trainers.settings.algorithm import ALGORITHMS, EntropyScope
from trainers.update.advantages import compute_advantages
from trainers.update.estimators.entropy import modulation
from trainers.update.turn_table import RowTable, finite_episodes

AEM = ALGORITHMS["aem"]
UNSURE = replace(REFERENCE, entropy=np.array([1.0, 2.0, 3.0, 1.0, 2.0]))
BATCH = [1.396281, 0.846887, 0.513663, 1.396281, 0.846887]
EPISODE = [1.462117, 0.537883, 0.558971, 1.519441, 0.921588]


@pytest.mark.parametrize(
    ("scope", "factor", "total"),
    [
        ("batch", BATCH, [1.529507, 0.927693, -0.372001, -1.036609, -0.613325]),
        ("group", BATCH, [1.529507, 0.927693, -0.372001, -1.036609, -0.613325]),
        ("episode", EPISODE, [1.601625, 0.589205, -0.404813, -1.128044, -0.667424]),
    ],
)
def test_reference_numbers(scope: str, factor: list[float], total: list[float]) -> None:
    config = replace(AEM, entropy_weight_scope=scope)
    np.testing.assert_allclose(modulation(UNSURE, config), factor, atol=1e-5)
    np.testing.assert_allclose(compute_advantages(UNSURE, config).total, total, atol=1e-5)


def test_empg_without_its_bonus_is_another_method() -> None:
    empg = compute_advantages(UNSURE, replace(ALGORITHMS["empg"], empg_zeta=0.0)).total
    assert empg[0] == pytest.approx(1.442454, abs=1e-5)
    assert compute_advantages(UNSURE, AEM).total[0] == pytest.approx(1.529507, abs=1e-5)


def test_sets_of_several_task_groups_are_scaled_apart() -> None:
    table = table_of([(0, [0.0]), (0, [1.0]), (1, [0.0]), (1, [1.0])], entropy=[1.0, 2.0, 3.0, 3.0])
    fall = math.exp(-1.0)
    pair = [2 / (1 + fall), 2 * fall / (1 + fall)]
    np.testing.assert_allclose(modulation(table, AEM), [*pair, 1, 1])
    half = math.exp(-0.5)
    whole = np.array([1, half, fall, fall])
    np.testing.assert_allclose(modulation(table, replace(AEM, entropy_weight_scope="batch")), whole / whole.mean())


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "aem"])
def test_the_factor_acts_on_the_whole_advantage_of_every_row(name: str) -> None:
    base = ALGORITHMS[name]
    weighted = compute_advantages(UNSURE, replace(base, entropy_weight=1.0, statistics="turn")).total
    plain = compute_advantages(UNSURE, replace(base, statistics="turn")).total
    np.testing.assert_allclose(weighted, BATCH * plain, atol=1e-5)


def test_the_factor_comes_before_whitening_and_leaves_the_penalty_of_episode_statistics() -> None:
    white = compute_advantages(UNSURE, replace(AEM, whiten=True)).total
    assert white.mean() == pytest.approx(0, abs=1e-12)
    failed = replace(UNSURE, reward=np.zeros(5))
    fined = compute_advantages(failed, replace(AEM, statistics="episode")).total
    assert fined.tolist() == [0, 0, 0, -0.1, 0]


@settings(deadline=None, max_examples=60)
@given(tables(), st.sampled_from(list(ALGORITHMS)), st.sampled_from(list(EntropyScope)))
def test_a_rate_of_zero_leaves_every_bit(table: RowTable, name: str, scope: EntropyScope) -> None:
    base = replace(ALGORITHMS[name], entropy_weight=0.0)
    off = compute_advantages(table, replace(base, entropy_weight_scope=scope))
    assert off.total.tobytes() == compute_advantages(table, base).total.tobytes()
    if name != "empg":
        blind = compute_advantages(replace(table, entropy=None), base)
        assert off.total.tobytes() == blind.total.tobytes()


@settings(deadline=None, max_examples=100)
@given(tables(), st.sampled_from(list(EntropyScope)), st.floats(0.1, 20.0))
def test_factors_have_the_mean_1_in_every_set_and_unknown_entropies_get_1(
    table: RowTable, scope: EntropyScope, rate: float
) -> None:
    table = table.take(finite_episodes(table))
    factor = modulation(table, replace(AEM, entropy_weight=rate, entropy_weight_scope=scope))
    assert table.entropy is not None
    known = np.isfinite(table.entropy)
    assert (factor[~known] == 1.0).all()
    owner = {"batch": np.zeros(len(table)), "group": table.group, "episode": table.episode}[scope.value]
    for number in np.unique(owner[known]):
        assert factor[known & (owner == number)].mean() == pytest.approx(1.0)


def test_equal_entropies_change_nothing_whatever_rounding_adds() -> None:
    equal = compute_advantages(REFERENCE, AEM).total
    assert equal.tobytes() == compute_advantages(REFERENCE, ALGORITHMS["grpo"]).total.tobytes()
    rounded = replace(REFERENCE, entropy=0.5 + np.array([0.0, 9e-5, 1e-6, 3e-5, 0.0]))
    assert compute_advantages(rounded, AEM).total.tobytes() == equal.tobytes()


def test_a_table_without_entropies_is_refused_by_the_setting_s_name() -> None:
    with pytest.raises(ConfigError, match=r"entropy_weight=1 needs the entropy of each turn.*turn_entropies"):
        compute_advantages(replace(REFERENCE, entropy=None), AEM)
