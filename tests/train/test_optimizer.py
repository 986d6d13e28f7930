"""Optimizers against the formulas of their papers, in float64 loops."""

import math

import numpy as np
import pytest

from nmt.config import TrainingConfig
from nmt.rnn.profile import recording
from nmt.train.updates.optimizer import OPTIMIZERS, clip_scale, gradient_norm, make_optimizer

RATE, STEPS = 0.01, 5
TOLERANCE = 1e-5  # float32 arithmetic over five steps


def run(settings: TrainingConfig, scale: float = 1.0, threads: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    shapes = {"matrix": (7, 5), "bias": (1,), "large": (40_000,)}
    params = {name: generator.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    optimizer = make_optimizer(settings, params, threads)
    for _ in range(STEPS):
        grads = {name: generator.normal(size=s).astype("f4") for name, s in shapes.items()}
        optimizer.step(params, grads, RATE, scale)
    return params


def by_hand(settings: TrainingConfig, scale: float = 1.0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    shapes = {"matrix": (7, 5), "bias": (1,), "large": (40_000,)}
    params = {n: generator.normal(size=s).astype("f4").astype("f8") for n, s in shapes.items()}
    first = {name: np.zeros(shape) for name, shape in shapes.items()}
    second = {name: np.zeros(shape) for name, shape in shapes.items()}
    beta1, beta2 = settings.adam_betas
    for t in range(1, STEPS + 1):
        grads = {n: generator.normal(size=s).astype("f4").astype("f8") for n, s in shapes.items()}
        for name, p in params.items():
            g = grads[name] * scale
            if settings.optimizer != "adamw":
                g = g + settings.weight_decay * p
            if settings.optimizer == "sgd":
                first[name] = settings.momentum * first[name] + g
                p -= RATE * first[name]
                continue
            first[name] = beta1 * first[name] + (1 - beta1) * g
            second[name] = beta2 * second[name] + (1 - beta2) * g * g
            m_hat, v_hat = first[name] / (1 - beta1**t), second[name] / (1 - beta2**t)
            decay = settings.weight_decay * p if settings.optimizer == "adamw" else 0.0
            p -= RATE * (m_hat / (np.sqrt(v_hat) + settings.adam_eps) + decay)
    return params


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "sgd-momentum"])
def test_steps_follow_the_paper(name: str, weight_decay: float, scale: float) -> None:
    kind, _, momentum = name.partition("-")
    values = {"weight_decay": weight_decay, "momentum": 0.9 if momentum else 0.0}
    settings = TrainingConfig.model_validate({"optimizer": kind, **values})
    want = by_hand(settings, scale)
    for param_name, param in run(settings, scale).items():
        np.testing.assert_allclose(param, want[param_name], rtol=TOLERANCE, atol=TOLERANCE)


def test_threads_do_not_change_a_bit() -> None:
    settings = TrainingConfig(weight_decay=0.1)
    one, two = run(settings), run(settings, threads=2)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_gradient_norm_covers_all_arrays_and_keeps_nan() -> None:
    grads = {"a": np.full((2, 2), 2, "f4"), "b": np.array([3.0], "f4"), "c": np.zeros(0, "f4")}
    assert gradient_norm(grads) == pytest.approx(5.0)
    assert math.isnan(gradient_norm({**grads, "d": np.array([math.nan], "f4")}))
    assert gradient_norm({**grads, "d": np.array([-math.inf], "f4")}) == math.inf


def test_clip_scale() -> None:
    assert clip_scale(2.0, None) == 1.0
    assert clip_scale(2.0, 2.0) == 1.0
    assert clip_scale(4.0, 1.0) == 0.25


def test_the_state_has_the_names_of_the_paper() -> None:
    """A checkpoint is read by these names: both moments are zero at first, and would not mind."""
    grad = np.array([[2.0, -3.0]], "f4")
    for name in ("adam", "adamw"):
        optimizer = make_optimizer(TrainingConfig.model_validate({"optimizer": name}), {"w": np.ones((1, 2), "f4")})
        optimizer.step({"w": np.ones((1, 2), "f4")}, {"w": grad.copy()}, RATE)
        arrays, numbers = optimizer.state_dict()
        beta1, beta2 = optimizer.settings.adam_betas
        assert arrays["w/m"] == pytest.approx((1 - beta1) * grad) and arrays["w/v"] == pytest.approx(
            (1 - beta2) * grad**2
        )
        assert numbers == {"steps": 1}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_scale_of_each_step_is_one_of_its_gradients(name: str) -> None:
    momentum = {"momentum": 0.5} if name == "sgd" else {}
    settings = TrainingConfig.model_validate({"optimizer": name, "weight_decay": 0.1, **momentum})
    generator = np.random.default_rng(4)
    params = {"w": generator.normal(size=(5, 3)).astype("f4"), "b": generator.normal(size=4).astype("f4")}
    twin = {name: param.copy() for name, param in params.items()}
    one, other = make_optimizer(settings, params), make_optimizer(settings, twin)
    for scale in (1.0, 0.125, 2.0, 0.5):  # powers of 2 change no bit of a gradient
        grads = {name: generator.normal(size=param.shape).astype("f4") for name, param in params.items()}
        other.step(twin, {name: grad * np.float32(scale) for name, grad in grads.items()}, RATE)
        with recording() as profile:
            one.step(params, grads, RATE, scale)
        assert profile.operations.keys() == {f"optimizer: {settings.optimizer}"}
    for name, param in params.items():
        np.testing.assert_allclose(param, twin[name], rtol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_is_frozen_neither_changes_nor_has_state(name: str) -> None:
    settings = TrainingConfig.model_validate({"optimizer": name, "weight_decay": 0.1, "freeze": ["encoder.*"]})
    generator = np.random.default_rng(2)
    params = {k: generator.normal(size=(4, 3)).astype("f4") for k in ("encoder.w", "decoder.w")}
    before = {k: p.copy() for k, p in params.items()}
    optimizer = make_optimizer(settings, params)
    assert not [k for k in optimizer.state if k.startswith("encoder.")]
    optimizer.step(params, {k: np.ones_like(p) for k, p in params.items()}, RATE)
    assert (params["encoder.w"] == before["encoder.w"]).all()
    assert (params["decoder.w"] != before["decoder.w"]).all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_go_on_from_a_state(name: str) -> None:
    settings = TrainingConfig.model_validate({"optimizer": name, "momentum": 0.5 if name == "sgd" else 0.0})
    params = {"w": np.ones((300, 20), "f4"), "b": np.ones(9, "f4")}
    optimizer = make_optimizer(settings, params)
    generator = np.random.default_rng(1)
    grads = [{k: generator.normal(size=p.shape).astype("f4") for k, p in params.items()} for _ in range(4)]
    copies = [{k: g.copy() for k, g in one.items()} for one in grads]
    for one in grads[:2]:
        optimizer.step(params, one, RATE, 0.5)
    again = make_optimizer(settings, params)
    arrays, numbers = optimizer.state_dict()
    again.load_state_dict({name: array.copy() for name, array in arrays.items()}, dict(numbers))
    twin = {name: param.copy() for name, param in params.items()}
    for one, other in zip(grads[2:], copies[2:], strict=True):
        optimizer.step(params, one, RATE, 0.5)
        again.step(twin, other, RATE, 0.5)
    for name, param in params.items():
        np.testing.assert_array_equal(param, twin[name])
