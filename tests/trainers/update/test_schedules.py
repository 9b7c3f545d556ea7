"""Learning rates: a warm-up over steps times a curriculum over iterations."""

from __future__ import annotations

import pytest
import torch

from trainers.settings.schedule import Schedule
from trainers.update.schedules import LearningRate


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=9.0)


@pytest.mark.parametrize(
    ("schedule", "halfway"), [(Schedule.CONSTANT, 1.0), (Schedule.LINEAR, 0.5), (Schedule.COSINE, 0.5)]
)
def test_courses_start_at_the_peak_and_meet_at_their_middle(schedule: Schedule, halfway: float) -> None:
    assert schedule.factor(0.0) == 1.0
    assert schedule.factor(0.5) == pytest.approx(halfway)
    assert schedule.factor(1.0) == pytest.approx(1.0 if schedule is Schedule.CONSTANT else 0.0)


def test_the_warm_up_counts_steps_and_the_course_counts_iterations() -> None:
    steps = optimizer()
    rate = LearningRate(steps, 1.0, warmup_steps=3, schedule=Schedule.LINEAR, iterations=4)
    seen = []
    for iteration in range(4):
        rate.start(iteration)
        for _ in range(2):
            seen.append(steps.param_groups[0]["lr"])
            rate.step()
    assert seen == pytest.approx([0.25, 0.5, 0.75 * 0.75, 0.75, 0.5, 0.5, 0.25, 0.25])


def test_a_restored_rate_goes_on_where_it_was() -> None:
    first = LearningRate(optimizer(), 1.0, warmup_steps=5)
    for _ in range(3):
        first.step()
    second = LearningRate(optimizer(), 1.0, warmup_steps=5)
    second.load_state_dict(first.state_dict())
    assert second.rate == first.rate == pytest.approx(4 / 6)
