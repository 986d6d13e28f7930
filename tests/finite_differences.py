"""Gradients against central differences of the loss, in random directions."""

import numpy as np
import pytest

from tests.oracle.gradients import along, inner


def check_gradients(model, batch, options, *, smallest, names=None):
    """The gradients of some parameters (None: of all) are those of the loss of a token, within 1e-5 of each slope, or
    `smallest` where it is next to zero: returned with the sums of the batch. The error of a central difference grows
    with the square of the step."""
    stats, gradients = model.loss_and_gradients(batch, **options)
    gradients, rng = {name: np.array(value) for name, value in gradients.items()}, np.random.default_rng(1)

    def loss():
        model.changed()
        return model.loss_and_gradients(batch, **options)[0].loss / stats.tokens

    for name in names or model.params:
        direction = {name: rng.normal(size=model.params[name].shape)}
        slope = along(loss, model.params, direction)
        assert inner(gradients, direction) == pytest.approx(slope, rel=1e-5, abs=smallest), name
    model.changed()
    return stats, gradients
