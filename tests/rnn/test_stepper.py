"""Step by step is the same as all at once, rows may leave on the way, and captured rows are found by owner."""

import numpy as np
import pytest

from nmt.rnn.cells import AttentionCell, LSTMCell
from nmt.rnn.scan import Scan, Stepper
from nmt.rnn.weights import Weights, initial_params

T, B, S, E, H, M = 5, 4, 6, 7, 9, 8


def attention_scan():
    cell = AttentionCell(LSTMCell(E + H, H), M, H)
    rng = np.random.default_rng(0)
    weights = Weights({k: v + 0.1 * rng.standard_normal(v.shape) for k, v in initial_params(cell, 1, float).items()})
    memory = rng.standard_normal((S, B, M))
    return Scan(cell, dtype=np.float64, threads=2), weights, memory, rng.standard_normal((T, B, E))


def test_steps_equal_the_scan():
    scan, weights, memory, x = attention_scan()
    lengths = [6, 2, 1, 4]
    whole = scan.forward(weights, x, captured={"memory": memory}, source_lengths=lengths)
    stepper = Stepper(scan, weights, {"memory": memory}, lengths)
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    for t in range(T):
        y, new = stepper.step(x[t], states, np.arange(B))
        np.testing.assert_array_equal(y, whole.y[t])
        states = {k: v.copy() for k, v in new.items()}
    for name, final in whole.final.items():
        np.testing.assert_array_equal(states[name], final)


@pytest.mark.parametrize("division", ["rows", "units"])
def test_the_division_between_threads_never_shows_in_a_step(division):
    scan, weights, memory, x = attention_scan()
    divided = Scan(scan.cell, dtype=np.float64, threads=3, division=division)
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    steps = [
        Stepper(one, weights, {"memory": memory}, [6, 2, 1, 4]).step(x[0], states, np.arange(B))
        for one in (Scan(scan.cell, dtype=np.float64, threads=1), divided)
    ]
    np.testing.assert_array_equal(steps[1][0], steps[0][0])
    for name, state in steps[0][1].items():
        np.testing.assert_array_equal(steps[1][1][name], state)


def test_rows_share_and_leave():
    """Two rows on one sentence, one on another, then only one: each as if it were alone."""
    scan, weights, memory, x = attention_scan()
    lengths = [6, 2, 1, 4]
    stepper = Stepper(scan, weights, {"memory": memory}, lengths)
    owner = np.array([3, 3, 1])
    states = {k: np.zeros((3, n)) for k, n in scan.states.items()}
    _, new = stepper.step(x[0, :3], states, owner)
    states = {k: v[[2]].copy() for k, v in new.items()}
    y, _ = stepper.step(x[1, :1], states, owner[[2]])
    steps = np.stack([x[0, 2], x[1, 0]])[:, None]
    alone = scan.forward(weights, steps, captured={"memory": memory[:, [1]]}, source_lengths=[2])
    np.testing.assert_array_equal(y, alone.y[1])
