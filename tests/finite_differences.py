"""Gradients against central differences of the loss, in random directions."""

import numpy as np
import pytest

_STEP = 1e-5


def check_gradients(model, batch, options, *, smallest, names=None):
    """The gradients of some parameters (None: of all) are those of the loss of a token, within 1e-5 of each slope, or
    `smallest` where it is next to zero: returned with the sums of the batch. The error of a central difference grows
    with the square of the step."""
    stats, gradients = model.loss_and_gradients(batch, **options)
    gradients, rng = {name: np.array(value) for name, value in gradients.items()}, np.random.default_rng(1)
    for name in names or model.params:
        param = model.params[name]
        direction, before, found = rng.normal(size=param.shape), param.copy(), []
        for sign in (1, -1):
            param[...] = before + sign * _STEP * direction
            model.changed()
            found.append(model.loss_and_gradients(batch, **options)[0].loss / stats.tokens)
        param[...] = before
        model.changed()
        slope = (found[0] - found[1]) / (2 * _STEP)
        assert float((gradients[name] * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=smallest), name
    return stats, gradients
