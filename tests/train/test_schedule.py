"""Learning rates at the updates where they turn."""

import math
from typing import Any

import numpy as np
import pytest

from nmt.config import FixedTraining, TrainingConfig
from nmt.train.run.loop import progress, stop_reason
from nmt.train.updates.schedule import cooldown_factor, make_schedule
from nmt.train.updates.state import TrainingState


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
    settings = {"learning_rate": 0.8, "lower_after": 2, "decrease_factor": 0.5, "learning_rate_min": 0.3}
    schedule = make_schedule(TrainingConfig(**settings))
    rates = []
    for improved in (True, False, True, False, False, False, False):
        schedule.validated(improved=improved)
        rates.append(schedule.learning_rate(1))
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2])
    assert schedule.finished


def test_a_warm_up_below_the_minimum_does_not_end_the_run() -> None:
    schedule = make_schedule(TrainingConfig(learning_rate=0.8, learning_rate_min=0.1, learning_rate_warmup=100))
    assert schedule.learning_rate(1) < 0.1
    assert schedule.learning_rate(50) == pytest.approx(0.4)
    assert not schedule.finished


def test_plateau_goes_on_from_its_state() -> None:
    settings = TrainingConfig(learning_rate=0.8, lower_after=2)
    schedule = make_schedule(settings)
    for _ in range(3):
        schedule.validated(improved=False)
    again = make_schedule(settings)
    again.load_state_dict(schedule.state_dict())
    again.validated(improved=False)
    assert again.learning_rate(1) == pytest.approx(0.2)
    again.load_state_dict({})  # of a run with another schedule
    again.validated(improved=False)
    assert again.learning_rate(1) == pytest.approx(0.8) and again.waited == 1


def test_linear_rises_then_falls_in_a_straight_line_to_zero():
    settings = TrainingConfig(scheduling="linear", learning_rate=0.4, learning_rate_warmup=4, updates=103)
    schedule = make_schedule(settings)
    rates = [schedule.learning_rate(update) for update in range(1, 105)]
    assert rates[:4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    steps = np.diff(rates[3:])
    assert steps == pytest.approx(np.full(len(steps), -0.004))
    assert rates[-1] == 0


def test_a_cooldown_of_the_last_share_ends_at_zero() -> None:
    settings = TrainingConfig(cooldown=0.25)
    factors = [cooldown_factor(settings, progress) for progress in (0, 0.5, 0.75, 0.8, 0.95, 1)]
    assert factors == pytest.approx([1, 1, 1, 0.8, 0.2, 0])


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ({"epochs": 4}, 0.375),  # 1 of 4 epochs and 5 of the 10 batches of the second are over
        ({"epochs": 4, "updates": 20}, 0.75),
        ({"epochs": 4, "updates": 1000}, 0.375),
        ({"epochs": 4, "max_minutes": 2}, 0.5),
        ({"epochs": 4, "updates": 20, "max_minutes": 2}, 0.75),
        ({"epochs": 4, "updates": 10}, 1.0),
    ],
)
def test_progress_is_measured_by_the_limit_that_comes_first(limits: dict[str, Any], share: float) -> None:
    state = TrainingState(update=16, epoch=2, position=6)
    settings = TrainingConfig(**limits)
    assert progress(state, settings, num_batches=10, elapsed=60, validation_seconds=0) == pytest.approx(share)


def test_progress_leaves_time_for_the_last_validation() -> None:
    settings = TrainingConfig(max_minutes=2)
    state = TrainingState(update=1, position=1)
    shares = [progress(state, settings, num_batches=10, elapsed=60, validation_seconds=s) for s in (20, 10_000)]
    assert shares == pytest.approx([0.6, 1.0]), "half of the time at most"


def test_a_run_ends_where_there_is_no_time_for_another_validation() -> None:
    """Also right after one: an update more would need one more."""
    settings = fixed(max_minutes=2, learning_rate_min=0)
    schedule = make_schedule(settings)

    def reason(elapsed: float) -> str | None:
        state = TrainingState(update=360, validated_update=360)
        return stop_reason(state, settings, schedule, elapsed=elapsed, validation_seconds=10)

    assert reason(109) is None
    assert reason(111) == "2m00s are over (training.max_minutes)"


def rates(count: int, **settings: Any) -> list[float]:
    schedule = make_schedule(fixed(**settings))
    return [schedule.learning_rate(update) for update in range(1, count + 1)]


def fixed(**settings: Any) -> FixedTraining:
    known = {"learning_rate_warmup": 0, "updates": None, "validation_freq": 1, "learning_rate_min": 0.01}
    return FixedTraining.model_validate(known | settings)


def test_cosine_rises_then_falls_to_zero() -> None:
    found = rates(24, scheduling="cosine", learning_rate=1.0, learning_rate_warmup=4, updates=23)
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert found[13] == pytest.approx(0.5)  # half way: update 14 of 5 to 23, and then 24
    assert found[22:] == pytest.approx([0.5 * (1 + math.cos(math.pi * 19 / 20)), 0.0])
