"""Optimizers and the gradient's norm on a GPU, beside the processor's."""

import numpy as np
import pytest

from nmt.config.training_section import TrainingConfig
from nmt.train.updates.optimizer import gradient_norm, make_optimizer

# Both round every operation to float32, but contract other products with other sums.
CLOSE = {"rtol": 2e-6, "atol": 1e-7}

SETTINGS = {name: {"optimizer": name, "weight_decay": 0.1} for name in ("adam", "adamw", "sgd")}
SETTINGS["momentum"] = {"optimizer": "sgd", "momentum": 0.9}


def arrays(seed):
    rng = np.random.default_rng(seed)
    return {"a": rng.standard_normal((5, 60)).astype(np.float32), "b": rng.standard_normal(3).astype(np.float32)}


@pytest.mark.parametrize("kind", SETTINGS)
def test_steps_are_those_of_the_processor(device, kind):
    settings = TrainingConfig(**SETTINGS[kind])
    params = arrays(0)
    there = {name: device.upload(p) for name, p in params.items()}
    ours, theirs = make_optimizer(settings, params), make_optimizer(settings, there, device=device)
    for update in range(3):
        gradients = arrays(update + 1)
        given = {name: device.upload(g) for name, g in gradients.items()}
        ours.step(params, gradients, 0.01, 0.7)
        theirs.step(there, given, 0.01, 0.7)
    for name, param in params.items():
        np.testing.assert_allclose(device.download(there[name]), param, **CLOSE)
    state, found = ours.state_dict()[0], theirs.state_dict()[0]
    for name, array in state.items():
        assert isinstance(found[name], np.ndarray)
        np.testing.assert_allclose(found[name], array, **CLOSE)


@pytest.mark.parametrize("kind", SETTINGS)
def test_parameters_side_by_side_take_one_launch(device, kind):
    """A group's arrays change as each would alone, and what lies between them stays zero."""
    settings, given = TrainingConfig(**SETTINGS[kind]), arrays(0)
    shapes = {name: p.shape for name, p in given.items()}
    alone = {name: device.upload(p) for name, p in given.items()}
    together, gradients = (device.group(shapes, np.float32) for _ in range(2))
    ours, theirs = (make_optimizer(settings, params, device=device) for params in (alone, together))
    for name, p in given.items():
        together[name][...] = device.upload(p)
    for update in range(2):
        apart = {name: device.upload(g) for name, g in arrays(update + 1).items()}
        for name, g in apart.items():
            gradients[name][...] = g
        assert gradient_norm(gradients, device=device) == pytest.approx(gradient_norm(apart, device=device), rel=1e-14)
        ours.step(alone, apart, 0.01, 0.7)
        before = getattr(device.runtime, "launches", 0)
        theirs.step(together, gradients, 0.01, 0.7)
        launches = getattr(device.runtime, "launches", 1) - before
        assert launches <= 2  # the decay has one of its own
    for name in given:
        np.testing.assert_array_equal(device.download(together[name]), device.download(alone[name]))
    for name, array in ours.state_dict()[0].items():
        np.testing.assert_array_equal(theirs.state_dict()[0][name], array)
    whole = device.download(together.whole)
    assert np.count_nonzero(whole) == sum(np.count_nonzero(device.download(a)) for a in alone.values())
    assert whole.size > sum(p.size for p in given.values())


def test_norm_of_all_gradients(device):
    gradients = arrays(0)
    gradients["empty"] = np.zeros(0, np.float32)
    given = {name: device.upload(g) for name, g in gradients.items()}
    assert gradient_norm(given, device=device) == pytest.approx(gradient_norm(gradients), rel=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_norm_that_is_no_number_comes_through(device, bad):
    assert not np.isfinite(gradient_norm({"a": device.upload(np.array([1, bad], np.float32))}, device=device))
