"""Learning rates at the updates where they turn."""

import numpy as np
import pytest

from nmt.config import TrainingConfig
from nmt.train.schedule import make_schedule


def test_constant_rises_linearly_then_stays() -> None:
    schedule = make_schedule(TrainingConfig(scheduling="constant", learning_rate=0.4, learning_rate_warmup=4))
    rates = [schedule.learning_rate(update) for update in (1, 2, 4, 5, 1000)]
    assert rates == pytest.approx([0.1, 0.2, 0.4, 0.4, 0.4])
    assert not schedule.finished


def test_inverse_square_root_peaks_at_the_end_of_the_warm_up() -> None:
    schedule = make_schedule(
        TrainingConfig(scheduling="inverse_square_root", learning_rate=0.5, learning_rate_warmup=100)
    )
    rates = [schedule.learning_rate(update) for update in (50, 100, 400, 10_000)]
    assert rates == pytest.approx([0.25, 0.5, 0.25, 0.05])


def test_plateau_waits_for_patience_in_a_row() -> None:
    schedule = make_schedule(TrainingConfig(learning_rate=0.8, patience=2, decrease_factor=0.5, learning_rate_min=0.3))
    rates = []
    for improved in (True, False, True, False, False, False, False):
        schedule.validated(improved=improved)
        rates.append(schedule.learning_rate(1))
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2])
    assert schedule.finished


def test_a_warm_up_below_the_minimum_does_not_end_the_run() -> None:
    schedule = make_schedule(TrainingConfig(learning_rate=0.8, learning_rate_min=0.1, learning_rate_warmup=100))
    assert schedule.learning_rate(1) < 0.1
    assert not schedule.finished


def test_plateau_goes_on_from_its_state() -> None:
    settings = TrainingConfig(learning_rate=0.8, patience=2)
    schedule = make_schedule(settings)
    for _ in range(3):
        schedule.validated(improved=False)
    again = make_schedule(settings)
    again.load_state_dict(schedule.state_dict())
    again.validated(improved=False)
    assert again.learning_rate(1) == pytest.approx(0.2)


def test_linear_rises_then_falls_in_a_straight_line_to_zero():
    settings = TrainingConfig(scheduling="linear", learning_rate=0.4, learning_rate_warmup=4, updates=103)
    schedule = make_schedule(settings)
    rates = [schedule.learning_rate(update) for update in range(1, 105)]
    assert rates[:4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    steps = np.diff(rates[3:])
    assert steps == pytest.approx(np.full(len(steps), -0.004))
    assert rates[-1] == 0
