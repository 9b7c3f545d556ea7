from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.turn_tables import REFERENCE, Episode, table_of, tables
from trainers.run.metrics import METRICS
from trainers.settings.algorithm import (
    ALGORITHMS,
    AdvantageKind,
    AlgorithmConfig,
    EntropyScope,
    HgpoBase,
    Normalisation,
    Statistics,
)
from trainers.update.advantages import ESTIMATORS, Advantages, compute_advantages, whiten
from trainers.update.estimators.statistics import EPS
from trainers.update.turn_table import RowTable, episode_returns, step_returns

GIGPO = ALGORITHMS["gigpo"]
HGPO_ADDED = replace(ALGORITHMS["hgpo"], hgpo_base="added")


def one_turn(values: list[float], kind: str, **overrides: object) -> Advantages:
    config = replace(AlgorithmConfig(), advantage=kind, **overrides)  # type: ignore[arg-type]
    return compute_advantages(table_of([(0, [value]) for value in values]), config)


def test_reference_step_returns() -> None:
    assert (step_returns(REFERENCE, 0.95) - REFERENCE.penalty).tolist() == pytest.approx([9.5, 10, 0, -0.1, 0])
    assert episode_returns(REFERENCE).tolist() == [10, 10, 0, 0, 0]


@pytest.mark.parametrize(
    ("normalisation", "episode", "step", "total"),
    [
        (
            Normalisation.MEAN,
            [6.02, 6.02, -3.98, -4.08, -3.98],
            [6.3333, 0, -3.1667, 0, -3.1667],
            [12.3533, 6.02, -7.1467, -4.08, -7.1467],
        ),
        (
            Normalisation.MEAN_STD,
            [1.0954, 1.0954, -0.7242, -0.7424, -0.7242],
            [1.1547, 0, -0.5774, 0, -0.5774],
            [2.2501, 1.0954, -1.3016, -0.7424, -1.3016],
        ),
    ],
)
def test_gigpo_reference_numbers(
    normalisation: Normalisation, episode: list[float], step: list[float], total: list[float]
) -> None:
    result = compute_advantages(REFERENCE, replace(GIGPO, normalisation=normalisation))
    np.testing.assert_allclose(result.episode, episode, atol=1e-4)
    np.testing.assert_allclose(result.step, step, atol=1e-4)
    np.testing.assert_allclose(result.total, total, atol=1e-4)


def test_omega_scales_the_step_part_only() -> None:
    half = compute_advantages(REFERENCE, replace(GIGPO, omega=0.5))
    np.testing.assert_allclose(half.total, half.episode + 0.5 * half.step)
    none = compute_advantages(REFERENCE, replace(GIGPO, omega=0.0))
    np.testing.assert_array_equal(none.total, compute_advantages(REFERENCE, ALGORITHMS["grpo"]).total)


def test_estimators_on_one_small_group() -> None:
    values = [1.0, 2.0, 6.0]
    assert one_turn(values, "reinforce").total.tolist() == values
    np.testing.assert_allclose(one_turn(values, "dr_grpo").total, [-2, -1, 3])
    np.testing.assert_allclose(one_turn(values, "grpo").total, np.array([-2, -1, 3]) / math.sqrt(7), atol=1e-6)
    np.testing.assert_allclose(one_turn(values, "rloo").total, [1 - 4, 2 - 3.5, 6 - 1.5])
    whitened = one_turn(values, "reinforce_pp_baseline").total
    std = math.sqrt(4 * 14 / 11)  # 12 tokens, each row counted 4 times
    np.testing.assert_allclose(whitened, np.array([-2, -1, 3]) / std, atol=1e-6)


def test_whitening_weighs_rows_by_their_tokens() -> None:
    values, weights = np.array([0.0, 1.0, 5.0]), np.array([1, 3, 0])
    tokens = np.array([0.0, 1.0, 1.0, 1.0])
    expected = (values - tokens.mean()) / (tokens.std(ddof=1) + EPS)
    np.testing.assert_allclose(whiten(values, weights), expected)
    assert whiten(np.array([2.0, 2.0]), np.array([5, 5])).tolist() == [0, 0]


def test_whitening_is_a_setting_of_every_estimator() -> None:
    plain = compute_advantages(REFERENCE, replace(GIGPO, whiten=True)).total
    assert plain.mean() == pytest.approx(0, abs=1e-12)
    assert plain.std(ddof=1) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", [kind for kind in AdvantageKind if kind is not AdvantageKind.REINFORCE])
@pytest.mark.parametrize("statistics", list(Statistics))
def test_group_of_one_and_uniform_groups_get_zero(kind: AdvantageKind, statistics: Statistics) -> None:
    assert one_turn([1.0], kind, statistics=statistics).total.tolist() == [0]
    assert one_turn([1.0] * 4, kind, statistics=statistics).total.tolist() == [0] * 4
    noise = [0.1 + 0.2, 0.3, 0.3 + 9e-7]
    assert one_turn(noise, kind, statistics=statistics).total.tolist() == [0] * 3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", list(AdvantageKind))
def test_episode_with_a_non_finite_reward_is_dropped_and_counted(bad: float, kind: AdvantageKind) -> None:
    config = replace(GIGPO, advantage=kind)
    spoilt = compute_advantages(table_of([(0, [0.0, bad]), (0, [1.0]), (0, [0.0])]), config)
    clean = compute_advantages(table_of([(0, [1.0]), (0, [0.0])]), config)
    assert spoilt.keep.tolist() == [False, False, True, True]
    assert spoilt.total[:2].tolist() == [0, 0]
    assert spoilt.total[2:].tolist() == clean.total.tolist()
    assert spoilt.stats["groups/dropped_episodes"] == 1


def test_group_in_which_every_episode_is_dropped() -> None:
    result = compute_advantages(table_of([(0, [math.nan]), (0, [math.nan])]), GIGPO)
    assert not result.keep.any()
    assert result.total.tolist() == [0, 0]
    assert result.stats["groups/dropped_episodes"] == 2


def test_long_episodes_do_not_dominate_the_episode_baseline() -> None:
    table = table_of([(0, [0.0, 1.0]), (0, [0.0] * 8)])
    config = AlgorithmConfig(advantage=AdvantageKind.DR_GRPO, statistics=Statistics.EPISODE)
    np.testing.assert_allclose(compute_advantages(table, config).total, [0.5] * 2 + [-0.5] * 8)
    per_turn = compute_advantages(table, replace(config, statistics=Statistics.TURN)).total
    np.testing.assert_allclose(per_turn, [0.8] * 2 + [-0.2] * 8)


def test_format_penalty_acts_in_uniform_groups_under_episode_statistics() -> None:
    table = table_of([(0, [0.0, 0.0]), (0, [0.0])], penalty=[0.0, 0.1, 0.0])
    for kind in ("grpo", "rloo", "gigpo", "reinforce"):
        config = replace(GIGPO, advantage=kind, statistics=Statistics.EPISODE)
        np.testing.assert_allclose(compute_advantages(table, config).total, [0, -0.1, 0])


def test_format_penalty_leaves_the_other_rows_alone_under_episode_statistics() -> None:
    episodes: list[Episode] = [(0, [0.0, 1.0]), (0, [0.0, 0.0]), (0, [0.0])]
    config = replace(GIGPO, statistics=Statistics.EPISODE)
    clean = compute_advantages(table_of(episodes), config).total
    fined = compute_advantages(table_of(episodes, penalty=[0, 0, 0.1, 0, 0]), config).total
    np.testing.assert_allclose(clean - fined, [0, 0, 0.1, 0, 0])


def test_repeat_visits_each_count_unless_told_otherwise() -> None:
    # One losing episode returns to its start; with a step cost its later visit looks better.
    table = table_of([(0, [-1.0, -1.0]), (0, [-1.0, -1.0])], anchor=["s", "s", "s", "t"])
    every = compute_advantages(table, replace(GIGPO, normalisation="mean"))
    np.testing.assert_allclose(every.step, [-1.95 + 4.9 / 3, -1 + 4.9 / 3, -1.95 + 4.9 / 3, 0])
    first = compute_advantages(table, replace(GIGPO, normalisation="mean", unique_visits=True))
    assert first.step.tolist() == [0, 0, 0, 0]


def test_a_repeat_gives_a_step_advantage_even_when_every_episode_fails() -> None:
    table = table_of([(0, [0.0, 0.0]), (0, [0.0])], penalty=[0.1, 0, 0], anchor=["s", "s", "s"])
    assert compute_advantages(table, GIGPO).step[0] < 0


def test_free_text_anchors_are_grouped_by_similarity() -> None:
    episodes: list[Episode] = [(0, [1.0]), (0, [0.0])]
    table = table_of(episodes, anchor=["results for red chair, page 1", "results for red chair, page 2"])
    assert compute_advantages(table, GIGPO).step.tolist() == [0, 0]
    near = compute_advantages(table, replace(GIGPO, anchor_similarity=0.9)).step
    np.testing.assert_allclose(near, [0.7071, -0.7071], atol=1e-4)


def test_confidence_weighs_the_advantage_and_rewards_the_turn_before() -> None:
    table = replace(REFERENCE, entropy=np.array([1.0, 2.0, 3.0, 1.0, 2.0]))
    result = compute_advantages(table, ALGORITHMS["empg"]).total
    # Scaled entropies 0, .5, 1, 0, .5; exp(-h) 1, .6065, .3679, 1, .6065, of mean .7162; the bonus of a turn is
    # .05 times the exp(-h) of the next one: .0303, 0, .05, .0303, 0.
    grpo = [1.0954, 1.0954, -0.7242, -0.7424, -0.7242]
    weight = [1.39628, 0.84689, 0.51366, 1.39628, 0.84689]
    bonus = [0.030327, 0, 0.05, 0.030327, 0]
    raw = [g * a + b for g, a, b in zip(weight, grpo, bonus, strict=True)]
    np.testing.assert_allclose(raw, [1.55981, 0.92768, -0.32199, -1.00627, -0.61332], atol=1e-4)
    np.testing.assert_allclose(result, np.array(raw) - np.mean(raw), atol=1e-4)
    assert result.mean() == pytest.approx(0, abs=1e-12)


def test_confidence_settings_switch_its_two_parts_off() -> None:
    table = replace(REFERENCE, entropy=np.array([1.0, 2.0, 3.0, 1.0, 2.0]))
    plain = compute_advantages(REFERENCE, ALGORITHMS["grpo"]).total
    off = compute_advantages(table, replace(ALGORITHMS["empg"], empg_k=0.0, empg_zeta=0.0)).total
    np.testing.assert_allclose(off, plain - plain.mean())
    flat = compute_advantages(REFERENCE, replace(ALGORITHMS["empg"], empg_zeta=0.0)).total  # equal entropies
    np.testing.assert_allclose(flat, off)
    steep = compute_advantages(table, replace(ALGORITHMS["empg"], empg_k=0.0, empg_k_prime=50.0)).total
    np.testing.assert_allclose(steep - steep[1], off - off[1] + np.array([0, 0, 0.05, 0, 0]), atol=1e-8)


def test_a_reply_without_entropy_is_neutral() -> None:
    table = replace(REFERENCE, entropy=np.array([1.0, 2.0, 3.0, math.nan, 2.0]))
    result = compute_advantages(table, replace(ALGORITHMS["empg"], empg_zeta=0.0)).total
    base = compute_advantages(REFERENCE, ALGORITHMS["grpo"]).total
    known = np.array([1, math.exp(-0.5), math.exp(-1), math.exp(-0.5)])
    expected = np.append(known[:3], [0.0, known[3]]) / known.mean() * base
    expected[3] = base[3]
    np.testing.assert_allclose(result, expected - expected.mean())
    missing = replace(REFERENCE, entropy=None)
    with pytest.raises(ConfigError, match="needs the entropy of each turn"):
        compute_advantages(missing, ALGORITHMS["empg"])


@pytest.mark.parametrize(
    ("normalisation", "alpha", "step"),
    [
        # Depth 0: the three rows at s0. Depths 1 and 2: the first turns of both episodes, at 9.5 and 0.
        ("mean", 1.0, [(6.33333 + 5 * 4.75) / 6, 0, (-3.16667 - 5 * 4.75) / 6, 0, -3.16667]),
        ("mean", 0.0, [(6.33333 + 2 * 4.75) / 3, 0, (-3.16667 - 2 * 4.75) / 3, 0, -3.16667]),
        ("mean_std", 1.0, [(1.15470 + 5 * 0.70711) / 6, 0, (-0.57735 - 5 * 0.70711) / 6, 0, -0.57735]),
    ],
)
def test_step_groups_nested_by_history(normalisation: str, alpha: float, step: list[float]) -> None:
    config = replace(HGPO_ADDED, normalisation=normalisation, hgpo_alpha=alpha)
    result = compute_advantages(REFERENCE, config)
    np.testing.assert_allclose(result.step, step, atol=1e-4)
    gigpo = compute_advantages(REFERENCE, replace(GIGPO, normalisation=normalisation))
    np.testing.assert_array_equal(result.episode, gigpo.episode)
    assert result.stats["groups/anchor_mean_size"] == gigpo.stats["groups/anchor_mean_size"]


def test_equal_states_with_other_pasts_are_compared_at_depth_0_only() -> None:
    episodes: list[Episode] = [(0, [0.0, 1.0]), (0, [0.0, 0.0]), (0, [0.0, 3.0])]
    table = table_of(episodes, anchor=["a", "x", "b", "x", "a", "x"])
    config = replace(HGPO_ADDED, normalisation="mean", gamma=0.0, hgpo_depth=1)
    step = compute_advantages(table, config).step
    # At x: returns 1, 0, 3. After a: 1 against 3. Depth 1 weighs 2, depth 0 weighs 1; "b, x" is alone at depth 1.
    np.testing.assert_allclose(step[[1, 3, 5]], [(-1 / 3 + 2 * -1) / 3, -4 / 3, (5 / 3 + 2 * 1) / 3])


def test_missing_turns_still_discount() -> None:
    table = table_of([(0, [1.0, 0.0, 4.0])]).take(np.array([0, 2]))
    assert step_returns(table, 0.5).tolist() == [2.0, 4.0]


def test_statistics_are_explained_metrics_of_the_batch() -> None:
    result = compute_advantages(REFERENCE, replace(GIGPO, normalisation=Normalisation.MEAN))
    assert set(result.stats) <= set(METRICS)
    assert result.stats["advantage/max"] == pytest.approx(12.3533, abs=1e-4)
    assert result.stats["groups/anchor_mean_size"] == pytest.approx(5 / 3)
    assert result.stats["groups/anchor_singleton_share"] == pytest.approx(2 / 5)
    two = compute_advantages(table_of([(0, [1.0]), (0, [0.0]), (1, [1.0]), (1, [1.0])]), GIGPO)
    assert two.stats["groups/uniform_share"] == 0.5


def test_an_empty_table_gives_empty_advantages() -> None:
    empty = compute_advantages(REFERENCE.take(np.zeros(5, dtype=bool)), GIGPO)
    assert empty.total.shape == (0,)
    assert all(math.isfinite(value) for value in empty.stats.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turn": np.array([0, 0, 0, 1, 2])}, "turn 0 of episode 0 occurs twice"),
        ({"group": np.array([0, 1, 0, 0, 0])}, "episode 0 lies in groups 0 and 1"),
        ({"penalty": np.array([0, 0, -0.1, 0, 0])}, "at least 0"),
        ({"reward": np.zeros(4)}, r"shape \(5,\)"),
        ({"episode": np.array([0.0, 0.5, 1, 1, 1])}, "must hold integers"),
        ({"n_tokens": np.array([1, -1, 1, 1, 1])}, "n_tokens must be at least 0"),
        ({"entropy": np.zeros(4)}, r"entropy must have shape \(5,\)"),
        ({"entropy": np.array([1, math.nan, -0.1, 0, 0])}, "entropies must be finite and at least 0"),
    ],
)
def test_malformed_tables_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(REFERENCE, **change)


configs = st.builds(
    AlgorithmConfig,
    advantage=st.sampled_from(list(AdvantageKind)),
    statistics=st.sampled_from(list(Statistics)),
    normalisation=st.sampled_from(list(Normalisation)),
    whiten=st.booleans(),
    unique_visits=st.booleans(),
    hgpo_depth=st.integers(0, 3),
    hgpo_base=st.sampled_from(list(HgpoBase)),
    g2po_terminal=st.sampled_from([None, 10.0]),
    entropy_weight=st.sampled_from([0.0, 1.0]),
    entropy_weight_scope=st.sampled_from(list(EntropyScope)),
    anchor_similarity=st.sampled_from([1.0, 0.6]),
)


@settings(deadline=None, max_examples=150)
@given(tables(), configs, st.randoms(use_true_random=False))
def test_interleaved_rows_give_the_same_bits_as_sorted_ones(table: RowTable, config: AlgorithmConfig, rng) -> None:
    order = list(range(len(table)))
    rng.shuffle(order)
    shuffled = compute_advantages(table.take(np.array(order)), config)
    plain = compute_advantages(table, config)
    np.testing.assert_array_equal(shuffled.total, plain.total[order])
    np.testing.assert_array_equal(shuffled.keep, plain.keep[order])
    assert shuffled.stats == plain.stats


@settings(deadline=None, max_examples=100)
@given(tables(), configs)
def test_advantages_are_always_finite_and_zero_where_dropped(table: RowTable, config: AlgorithmConfig) -> None:
    result = compute_advantages(table, config)
    assert np.isfinite(result.total).all()
    assert not result.total[~result.keep].any()


@settings(deadline=None, max_examples=100)
@given(tables())
def test_votes_of_a_group_sum_to_zero(table: RowTable) -> None:
    result = compute_advantages(table, GIGPO)
    for group in np.unique(table.group):
        assert result.episode[table.group == group].sum() == pytest.approx(0, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(tables(), st.booleans())
def test_history_of_depth_0_is_gigpo(table: RowTable, unique: bool) -> None:
    flat = compute_advantages(table, replace(HGPO_ADDED, hgpo_depth=0, unique_visits=unique))
    gigpo = compute_advantages(table, replace(GIGPO, unique_visits=unique))
    np.testing.assert_allclose(flat.total, gigpo.total, atol=1e-12)


def test_every_kind_has_an_estimator() -> None:
    assert set(ESTIMATORS) == set(AdvantageKind)
