"""One iteration's learning: which rows, with which advantages, and that success rises from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agent_gym.core.info import StopReason
from agent_gym.play.episode import Episode, Turn
from tests.toy import write_prompts
from tests.trainers.loop import LEVER
from tests.trainers.runs import metrics, train
from tests.trainers.toys import tiny_policy
from trainers.learner import Learner
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.rollout.collect import Collected
from trainers.run.folder import RunFolder
from trainers.settings.reading import resolve_config
from trainers.settings.run import TrainConfig
from trainers.update.batch import Batch
from trainers.update.schedules import LearningRate
from trainers.update.updater import Event, Updater

GIGPO = {"name": "gigpo", "normalisation": "mean", "statistics": "turn", "kl_coef": 0}
"""Estimates with reference numbers that were derived by hand: two episodes, in which B's second turn is invalid."""
A = (("s0", 0.0), ("s1", 10.0))
B = (("s0", 0.0), ("s2", 0.0), ("s0", 0.0))
ADVANTAGES = [12.3533, 6.02, -7.1467, -4.08, -7.1467]


class RecordingUpdater(Updater):
    """Takes its steps, and remembers what it was given."""

    def __init__(self, config: TrainConfig, learning_rate: float = 0.1) -> None:
        policy = tiny_policy()
        optimizer = torch.optim.SGD(policy.parameters(), lr=learning_rate)
        scheduler = LearningRate(optimizer, learning_rate)
        super().__init__(policy, optimizer, scheduler, algorithm=config.algorithm, settings=config.optim)
        self.batches: list[Batch] = []
        self.advantages: list[np.ndarray[Any, Any]] = []
        self.seeds: list[int] = []

    def update(self, batch: Batch, advantage_R: Any, shuffle_seed: int, **rest: Any) -> Iterator[Event]:
        self.batches.append(batch)
        self.advantages.append(advantage_R)
        self.seeds.append(shuffle_seed)
        yield from super().update(batch, advantage_R, shuffle_seed, **rest)


def config_of(algorithm: dict[str, Any], **settings: Any) -> TrainConfig:
    return resolve_config({"algorithm": algorithm, "device": "cpu", **settings})


def episode(number: int, turns: Sequence[tuple[str, float]], invalid: Sequence[int] = ()) -> Episode:
    """Return an episode of (anchor, reward) turns, the ids of which are its number and the turn's."""
    return Episode(
        env_id="hand-made",
        env_kwargs={},
        seed=0,
        task_id="task",
        task_type="",
        goal="",
        turns=tuple(
            Turn(
                observation="",
                reply="",
                action="go",
                reward=reward,
                anchor=anchor,
                valid_action=place not in invalid,
                prompt_ids=(3, number),
                reply_ids=(20 + place, 30 + number),
                logprobs=(-1.0, -1.0),
            )
            for place, (anchor, reward) in enumerate(turns)
        ),
        final_observation="",
        success=False,
        score=0.0,
        stop_reason=StopReason.FAILURE,
        reward=sum(reward for _, reward in turns),
    )


def learn(
    config: TrainConfig,
    groups: list[list[Episode]],
    left_out: Sequence[list[Episode]] = (),
    iteration: int = 0,
) -> tuple[RecordingUpdater, dict[str, float]]:
    updater = RecordingUpdater(config)
    sampled = [*left_out, *groups]
    collected = Collected(groups, sampled, {"filter/tries": 2.0}, (0,) * len(sampled))
    found, _ = Learner(config, Ranks(), None).learn(iteration, collected, updater)
    return updater, found


def said(rows: Sequence[TokenRow]) -> list[tuple[int, ...]]:
    return [tuple(row.ids) for row in rows]


def logp(policy: Policy, rows: Sequence[TokenRow]) -> list[float]:
    """Return the log-probability of each row's reply."""
    stats = policy.token_stats(pad_rows(rows, policy.pad_id), entropy=False)
    return [float(value) for value in stats.logp.detach().sum(-1)]


def test_turns_are_trained_on_with_the_advantages_of_the_algorithm_and_its_penalty() -> None:
    updater, _ = learn(config_of({**GIGPO, "format_penalty": 0.1}), [[episode(1, A), episode(2, B, invalid=[1])]])
    (batch,), (advantages,) = updater.batches, updater.advantages
    assert said(batch.rows) == [(3, 1, 20, 31), (3, 1, 21, 31), (3, 2, 20, 32), (3, 2, 21, 32), (3, 2, 22, 32)]
    assert advantages.tolist() == pytest.approx(ADVANTAGES, abs=1e-4)


def test_advantages_are_weighted_by_the_entropies_of_the_policy_that_sampled() -> None:
    groups = [[episode(1, A), episode(2, B)]]
    updater, _ = learn(config_of({"name": "aem", "kl_coef": 0}, optim={"grad_clip": 0.1}), groups)
    plain, _ = learn(config_of({"name": "grpo", "kl_coef": 0}), groups)
    rows = updater.batches[0].rows
    stats = tiny_policy().token_stats(pad_rows(rows, updater.policy.pad_id), entropy=True)
    assert stats.entropy is not None
    entropy = stats.entropy.detach().sum(-1).numpy() / 2  # two sampled tokens a reply
    falling = np.exp(-(entropy - entropy.min()) / np.ptp(entropy))
    expected = falling / falling.mean() * plain.advantages[0]
    # Entropies of a policy of random weights lie so close together that scaling them shows float32 rounding.
    np.testing.assert_allclose(updater.advantages[0], expected, rtol=0.02)
    assert np.ptp(falling) > 0.5


def test_a_factor_of_rate_0_trains_the_same_weights_as_none() -> None:
    groups = [[episode(1, A), episode(2, B)]]
    off, _ = learn(config_of({"name": "aem", "entropy_weight": 0, "kl_coef": 0}), groups)
    grpo, _ = learn(config_of({"name": "grpo", "kl_coef": 0}), groups)
    graph, _ = learn(config_of({"name": "g2po", "omega": 0, "kl_coef": 0}), groups)
    assert off.policy.checksum() == grpo.policy.checksum() == graph.policy.checksum() != tiny_policy().checksum()


def test_replies_of_the_better_episode_become_likelier_and_those_of_the_worse_one_less_likely() -> None:
    config = config_of(GIGPO, optim={"grad_clip": 0.1})
    updater, found = learn(config, [[episode(1, A), episode(2, B)]])
    rows = updater.batches[0].rows
    change = np.subtract(logp(updater.policy, rows), logp(tiny_policy(), rows))
    assert [value > 0 for value in change] == [value > 0 for value in updater.advantages[0]]
    assert found["optim/steps"] == 1


def test_groups_that_the_filter_left_out_are_counted_and_not_trained_on() -> None:
    config = config_of(GIGPO)
    kept = [[episode(1, A), episode(2, B)]]
    uniform = [episode(3, A[:1]), episode(4, A[:1])]
    updater, found = learn(config, kept, [uniform])
    alone, plain = learn(config, kept)
    assert said(updater.batches[0].rows) == said(alone.batches[0].rows)
    assert updater.advantages[0].tolist() == alone.advantages[0].tolist()
    assert updater.policy.checksum() == alone.policy.checksum()
    assert (found["rollout/turns"], plain["rollout/turns"]) == (7 / 4, 5 / 2)
    assert found["filter/tries"] == 2.0


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_an_episode_with_a_broken_reward_is_left_out_and_the_others_learn_without_it(broken: float) -> None:
    config = config_of(GIGPO)
    whole = [episode(1, A), episode(2, B)]
    updater, found = learn(config, [[episode(5, (("s0", 0.0), ("s1", broken))), *whole]])
    alone, _ = learn(config, [whole])
    assert said(updater.batches[0].rows) == said(alone.batches[0].rows)
    assert updater.advantages[0][2:].tolist() == alone.advantages[0].tolist()
    assert updater.policy.checksum() == alone.policy.checksum() != tiny_policy().checksum()
    assert (found["groups/dropped_episodes"], found["optim/skipped_steps"]) == (1, 0)


def test_the_order_of_rows_depends_on_iteration_and_seed_of_the_run() -> None:
    groups = [[episode(1, A), episode(2, B)]]
    seeds = [
        learn(config_of(GIGPO, seed=seed), groups, iteration=iteration)[0].seeds[0]
        for seed, iteration in ((0, 3), (0, 3), (0, 4), (1, 3))
    ]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3


def test_success_rises_in_a_world_of_two_actions(tmp_path: Path) -> None:
    config = {
        "algorithm": {"name": "dr_grpo"},
        "device": "cpu",
        "iterations": 12,
        "env": {"id": LEVER, "prompt": str(write_prompts(tmp_path) / "compact.j2"), "history_length": 0},
        "model": {"path": "tiny", "hidden": 16, "layers": 1, "heads": 2},
        # Demonstrations of the form alone: either lever, whatever it earns.
        "cloning": {
            "episodes": 64,
            "noise": 1.0,
            "min_score": -1.0,
            "batch_size": 16,
            "learning_rate": 3e-2,
            "epochs": 15,
        },
        "rollout": {"groups": 8, "group_size": 8, "max_reply_tokens": 8, "max_context_tokens": 64},
        "optim": {"learning_rate": 1e-2},
        "evaluation": {"episodes": 2},
    }
    folder = RunFolder.create(tmp_path / "run", resolve_config(config))
    train(folder)
    success = [row["rollout/success"] for row in metrics(folder.path)]
    assert 0.3 < success[0] < 0.7
    assert np.mean(success[-3:]) > 0.8
