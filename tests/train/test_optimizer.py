"""Optimizers against the formulas of their papers, in float64 loops."""

import math

import numpy as np
import pytest

from nmt.config import TrainingConfig
from nmt.rnn.arrays.flat_arrays import Group
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
            if settings.optimizer not in ("adamw", "lamb"):
                g = g + settings.weight_decay * p
            if settings.optimizer == "sgd":
                first[name] = settings.momentum * first[name] + g
                p -= RATE * first[name]
                continue
            first[name] = beta1 * first[name] + (1 - beta1) * g
            second[name] = beta2 * second[name] + (1 - beta2) * g * g
            m_hat, v_hat = first[name] / (1 - beta1**t), second[name] / (1 - beta2**t)
            if settings.optimizer == "lamb":  # algorithm 2 of You et al. 2020, phi the identity
                r = m_hat / (np.sqrt(v_hat) + settings.adam_eps) + settings.weight_decay * p
                p -= RATE * np.sqrt((p**2).sum()) / np.sqrt((r**2).sum()) * r
                continue
            decay = settings.weight_decay * p if settings.optimizer == "adamw" else 0.0
            p -= RATE * (m_hat / (np.sqrt(v_hat) + settings.adam_eps) + decay)
    return params


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "sgd-momentum", "lamb"])
def test_steps_follow_the_paper(name: str, weight_decay: float, scale: float) -> None:
    kind, _, momentum = name.partition("-")
    values = {"weight_decay": weight_decay, "momentum": 0.9 if momentum else 0.0}
    settings = TrainingConfig.model_validate({"optimizer": kind, **values})
    want = by_hand(settings, scale)
    for param_name, param in run(settings, scale).items():
        np.testing.assert_allclose(param, want[param_name], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["adam", "lamb"])
def test_threads_do_not_change_a_bit(kind: str) -> None:
    settings = TrainingConfig.model_validate({"optimizer": kind, "weight_decay": 0.1})
    one, two = run(settings), run(settings, threads=2)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_lamb_steps_from_zeros_and_stands_where_there_is_no_gradient() -> None:
    settings = TrainingConfig.model_validate({"optimizer": "lamb"})
    params = {"bias": np.zeros(3, "f4"), "still": np.ones(2, "f4")}
    optimizer = make_optimizer(settings, params)
    optimizer.step(params, {"bias": np.array([1, -2, 3], "f4"), "still": np.zeros(2, "f4")}, RATE)
    np.testing.assert_allclose(params["bias"], [-RATE, RATE, -RATE], rtol=1e-4)  # the ratio is 1
    np.testing.assert_array_equal(params["still"], 1)


def test_lamb_is_the_same_where_arrays_lie_side_by_side() -> None:
    settings = TrainingConfig.model_validate({"optimizer": "lamb", "weight_decay": 0.1})
    generator = np.random.default_rng(5)
    shapes = {"a": (6, 4), "b": (4,)}
    whole = {kind: generator.normal(size=28).astype("f4") for kind in ("params", "grads")}

    def arrays(kind: str, *, together: bool) -> Group:
        flat = whole[kind].copy()
        return Group([("a", flat[:24].reshape(6, 4)), ("b", flat[24:])], flat if together else None)

    found = []
    for together in (False, True):
        params = arrays("params", together=together)
        make_optimizer(settings, params).step(params, arrays("grads", together=together), RATE)
        found.append(params)
    for name in shapes:
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_gradient_norm_covers_all_arrays_and_keeps_nan() -> None:
    grads = {"a": np.full((2, 2), 2, "f4"), "b": np.array([3.0], "f4"), "c": np.zeros(0, "f4")}
    assert gradient_norm(grads) == pytest.approx(5.0)
    assert math.isnan(gradient_norm({**grads, "d": np.array([math.nan], "f4")}))
    assert gradient_norm({**grads, "d": np.array([-math.inf], "f4")}) == math.inf


def test_clip_scale() -> None:
    assert clip_scale(2.0, None) == 1.0
    assert clip_scale(2.0, 2.0) == 1.0
    assert clip_scale(4.0, 1.0) == 0.25


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adafactor_follows_the_paper(weight_decay: float, scale: float) -> None:
    """Algorithms 4 and 5 of Shazeer & Stern 2018 in float64."""
    generator = np.random.default_rng(3)
    shapes = {"matrix": (7, 5), "bias": (1,), "large": (40_000,)}
    params = {name: generator.normal(size=shape).astype("f4").astype("f8") for name, shape in shapes.items()}
    moments: dict[str, list[np.ndarray]] = {}
    for t in range(1, STEPS + 1):
        grads = {name: generator.normal(size=shape).astype("f4").astype("f8") for name, shape in shapes.items()}
        for name, x in params.items():
            g = scale * grads[name]
            square, beta = g * g + 1e-30, 1 - t**-0.8
            new = [square.sum(1), square.sum(0)] if x.ndim == 2 else [square]
            old = moments.get(name, [np.zeros_like(one) for one in new])
            moments[name] = [beta * a + (1 - beta) * b for a, b in zip(old, new, strict=True)]
            kept = moments[name]
            v = np.outer(kept[0], kept[1]) / kept[0].sum() if x.ndim == 2 else kept[0]
            u = g / np.sqrt(v)
            u /= max(1.0, math.sqrt((u * u).mean()))
            alpha = max(1e-3, math.sqrt((x * x).mean())) * RATE
            x -= alpha * u + RATE * weight_decay * x
    settings = TrainingConfig.model_validate({"optimizer": "adafactor", "weight_decay": weight_decay})
    for name, param in run(settings, scale).items():
        np.testing.assert_allclose(param, params[name], rtol=TOLERANCE, atol=TOLERANCE)


def test_the_state_has_the_names_of_the_paper() -> None:
    """A checkpoint is read by these names: both moments are zero at first, and would not mind."""
    grad = np.array([[2.0, -3.0]], "f4")
    for name in ("adam", "adamw", "lamb"):
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
    if name == "adafactor":
        assert sum(array.size for array in optimizer.state.values()) == 300 + 20 + 9, "it keeps little"
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
