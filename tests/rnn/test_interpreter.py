"""The interpreter on its own: against finite differences of itself."""

import numpy as np
import pytest

from nmt.rnn import interpreter
from tests.oracle import gradients
from tests.rnn import scan_cases as cases


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", ["stack", "lstm_bahdanau_feed", "gru_general_feed_dropout"])
def test_gradients_are_finite_differences(name, reverse):
    case = cases.draw(cases.CELLS[name](), "float64", cases.LENGTHS["zeros"])
    rng = np.random.default_rng(0)
    masks = {
        m.name: rng.integers(0, 2, (*((cases.T,) * (not m.variational)), cases.B, m.width)) / 0.5
        for m in cases.masks_of(case.cell)
    }

    def run():
        return interpreter.forward(
            case.cell, case.params, case.x, case.initial, **case.options,
            reverse=reverse, masks=masks,
        )  # fmt: skip

    def loss():
        result = run()
        final = (np.sum(a * case.d_final[k]) for k, a in result.final.items())
        return np.sum(result.y * case.d_y) + sum(final)

    found = interpreter.backward(run(), case.d_y, case.d_final)
    leaves = {
        "x": (case.x, found.x),
        **{f"initial {k}": (a, found.initial[k]) for k, a in case.initial.items()},
        **{f"captured {k}": (a, found.captured[k]) for k, a in case.captured.items()},
        **{k: (a, found.params[k]) for k, a in case.params.items()},
    }
    for key, (array, gradient) in leaves.items():
        direction = gradients.random_direction({key: array}, rng)
        expected = gradients.along(loss, {key: array}, direction)
        got = gradients.inner({key: gradient}, direction)
        # Central differences of step 1e-5 are good to about 1e-10 times the loss.
        assert abs(got - expected) <= 1e-7 * max(1.0, abs(expected)), key
