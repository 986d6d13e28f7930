"""Optimizers against the formulas of their papers, in float64 loops."""

import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psutil
import pytest

from nmt.config import FixedTraining, TrainingConfig
from nmt.storage.model_folder import PARAMS_PREFIX, RAW_PREFIX, read_checkpoint
from nmt.train.log.progress import format_bytes, peak_bytes, reset_peak
from nmt.train.run.loop import progress, stop_reason
from nmt.train.run.trainer import Trainer
from nmt.train.updates.optimizer import Adam, MovingAverage, clip_scale, gradient_norm, make_optimizer
from nmt.train.updates.schedule import Schedule, TrainingState, cooldown_factor
from nmt.train.updates.update import LossLimit
from tests import small_models
from tests.oracle.compare import assert_same_bits
from tests.train.fake_model import TranslationModel

RATE, STEPS = 0.01, 5
TOLERANCE = 1e-5  # float32 arithmetic over five steps


SHAPES = {"matrix": (7, 5), "bias": (1,), "large": (40_000,)}


def drawn() -> Iterator[dict[str, np.ndarray]]:
    """Parameters, and then the gradients of each step."""
    generator = np.random.default_rng(3)
    while True:
        yield {name: generator.normal(size=shape).astype("f4") for name, shape in SHAPES.items()}


def run(settings: TrainingConfig, scales: Sequence[float] = (1.0,) * STEPS, threads: int = 1) -> dict[str, np.ndarray]:
    given = drawn()
    params = next(given)
    optimizer = make_optimizer(settings, params, threads)
    for scale in scales:
        optimizer.step(params, next(given), RATE, scale)
    return params


def by_hand(settings: TrainingConfig, scales: Sequence[float]) -> dict[str, np.ndarray]:
    given = drawn()
    params = {name: array.astype("f8") for name, array in next(given).items()}
    first, second = ({name: np.zeros(shape) for name, shape in SHAPES.items()} for _ in range(2))
    beta1, beta2 = settings.adam_betas
    for t, scale in enumerate(scales, 1):
        grads = next(given)
        for name, p in params.items():
            g = grads[name].astype("f8") * scale
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


@pytest.mark.parametrize("scales", [(1.0,) * STEPS, (0.25, 1.0, 0.125, 2.0, 0.5)], ids=["unscaled", "scaled"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "sgd-momentum"])
def test_steps_follow_the_paper(name: str, weight_decay: float, scales: Sequence[float]) -> None:
    kind, _, momentum = name.partition("-")
    values = {"weight_decay": weight_decay, "momentum": 0.9 if momentum else 0.0}
    settings = TrainingConfig.model_validate({"optimizer": kind, **values})
    want = by_hand(settings, scales)
    for param_name, param in run(settings, scales).items():
        np.testing.assert_allclose(param, want[param_name], rtol=TOLERANCE, atol=TOLERANCE)


def test_threads_do_not_change_a_bit() -> None:
    settings = TrainingConfig(weight_decay=0.1)
    assert_same_bits(run(settings), run(settings, threads=2))


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
        assert arrays["w/m"] == pytest.approx((1 - beta1) * grad)
        assert arrays["w/v"] == pytest.approx((1 - beta2) * grad**2)
        assert numbers == {"steps": 1}


Make = Callable[..., Trainer]


def test_the_average_is_of_the_parameters_after_every_update(make_trainer, monkeypatch):
    seen: list[np.ndarray] = []
    step = Adam.step

    def watched(self: Adam, params: Any, *arguments: Any) -> None:
        if not seen:
            seen.append(params["table"].astype("f8"))
        step(self, params, *arguments)
        seen.append(params["table"].astype("f8"))

    monkeypatch.setattr(Adam, "step", watched)
    trainer = make_trainer(ema_decay=0.6, epochs=2)
    trainer.run()
    mean = seen[0]
    for n, params in enumerate(seen[1:], 1):
        decay = min(0.6, (1 + n) / (10 + n))
        mean = decay * mean + (1 - decay) * params
    tensors, content = read_checkpoint(trainer.folder / "last.safetensors")
    assert content["average"] == {"steps": len(seen) - 1}
    np.testing.assert_allclose(tensors[PARAMS_PREFIX + "table"], mean, rtol=1e-6, atol=1e-6)  # float32, some 20 updates
    np.testing.assert_array_equal(tensors[RAW_PREFIX + "table"], seen[-1].astype("f4"))
    best, _ = read_checkpoint(trainer.folder / "best.safetensors")
    assert not any(name.startswith(RAW_PREFIX) for name in best)


def test_it_is_what_is_validated(make_trainer, fake, monkeypatch):
    seen: list[np.ndarray] = []
    whole = fake.loss

    def watched(self: TranslationModel, batch: Any, threads: int) -> Any:
        seen.append(self.params["table"].copy())
        return whole(self, batch, threads)

    monkeypatch.setattr(fake, "loss", watched)
    trainer = make_trainer(ema_decay=0.9, updates=8)
    trainer.run()
    tensors, _ = read_checkpoint(trainer.folder / "last.safetensors")
    np.testing.assert_array_equal(seen[-1], tensors[PARAMS_PREFIX + "table"])
    assert not np.array_equal(seen[-1], tensors[RAW_PREFIX + "table"])


def test_a_run_may_begin_and_end_to_average(make_trainer: Make) -> None:
    make_trainer(updates=4).run()
    trainer = make_trainer(updates=6, ema_decay=0.5)
    trainer.run()
    tensors, content = read_checkpoint(trainer.folder / "last.safetensors")
    assert content["average"]["steps"] == 2
    raw = tensors[RAW_PREFIX + "table"]
    make_trainer(updates=6).run()  # nothing is left to do
    trainer = make_trainer(updates=7, learning_rate=1e-5)
    trainer.run()
    tensors, _ = read_checkpoint(trainer.folder / "last.safetensors")
    assert not any(name.startswith(RAW_PREFIX) for name in tensors)
    np.testing.assert_allclose(tensors[PARAMS_PREFIX + "table"], raw, rtol=0, atol=1e-4)  # a step of the rate


@pytest.mark.parametrize("apart", [False, True])
def test_parameters_that_are_one_array_are_averaged_and_stay_what_they_are(apart: bool) -> None:
    """A model's parameters lie in one array unless they come from a file, those of the other tests do not."""
    model = small_models.build(9)
    if apart:
        model.adopt({name: param.copy() for name, param in model.params.items()})
    average = MovingAverage(model, 0.5)
    mean = {name: param.astype("f8") for name, param in model.params.items()}
    for number in (1, 2, 3):
        for param in model.params.values():
            param += np.float32(number)
        now = {name: param.copy() for name, param in model.params.items()}
        average.update()
        assert_same_bits(model.params, now)
        decay = min(0.5, (1 + number) / (10 + number))
        for name, param in model.params.items():
            mean[name] = decay * mean[name] + (1 - decay) * param
            np.testing.assert_allclose(average.arrays[name], mean[name], rtol=1e-6, atol=1e-6)  # float32


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"scheduling": "constant", "learning_rate_warmup": 4}, {1: 0.25, 2: 0.5, 4: 1, 5: 1, 1000: 1}),
        ({"scheduling": "inverse_square_root", "learning_rate_warmup": 100}, {50: 0.5, 100: 1, 400: 0.5, 10_000: 0.1}),
        (
            {"scheduling": "linear", "learning_rate_warmup": 4, "updates": 103},
            {1: 0.25, 2: 0.5, 3: 0.75, **{4 + n: 1 - n / 100 for n in range(100)}, 104: 0},
        ),
        (
            {"scheduling": "cosine", "learning_rate_warmup": 4, "updates": 23},
            # half way, update 14 of 5 to 23, and then 24
            {1: 0.25, 2: 0.5, 3: 0.75, 4: 1, 14: 0.5, 23: 0.5 * (1 + math.cos(math.pi * 19 / 20)), 24: 0},
        ),
    ],
)
def test_rates_rise_linearly_and_then_follow_their_schedule(settings: Any, expected: dict[int, float]) -> None:
    schedule = Schedule(fixed(learning_rate=0.4, **settings))
    found = {update: schedule.learning_rate(update) for update in expected}
    assert found == pytest.approx({update: 0.4 * share for update, share in expected.items()})
    assert found.get(104, 0) == 0 and not schedule.finished


def test_plateau_waits_for_patience_in_a_row() -> None:
    settings = {"learning_rate": 0.8, "lower_after": 2, "decrease_factor": 0.5, "learning_rate_min": 0.3}
    schedule = Schedule(TrainingConfig(**settings))
    rates = []
    for improved in (True, False, True, False, False, False, False):
        schedule.validated(improved=improved)
        rates.append(schedule.learning_rate(1))
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2])
    assert schedule.finished


def test_a_warm_up_below_the_minimum_does_not_end_the_run() -> None:
    schedule = Schedule(TrainingConfig(learning_rate=0.8, learning_rate_min=0.1, learning_rate_warmup=100))
    assert schedule.learning_rate(1) < 0.1
    assert schedule.learning_rate(50) == pytest.approx(0.4)
    assert not schedule.finished


def test_plateau_goes_on_from_its_state() -> None:
    settings = TrainingConfig(learning_rate=0.8, lower_after=2)
    schedule = Schedule(settings)
    for _ in range(3):
        schedule.validated(improved=False)
    again = Schedule(settings)
    again.load_state_dict(schedule.state_dict())
    again.validated(improved=False)
    assert again.learning_rate(1) == pytest.approx(0.2)
    again.load_state_dict({})  # of a run with another schedule
    again.validated(improved=False)
    assert again.learning_rate(1) == pytest.approx(0.8) and again.waited == 1


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
    schedule = Schedule(settings)

    def reason(elapsed: float) -> str | None:
        state = TrainingState(update=360, validated_update=360)
        return stop_reason(state, settings, schedule, elapsed=elapsed, validation_seconds=10)

    assert reason(109) is None
    assert reason(111) == "2m00s are over (training.max_minutes)"


def fixed(**settings: Any) -> FixedTraining:
    known = {"learning_rate_warmup": 0, "updates": None, "validation_freq": 1, "learning_rate_min": 0.01}
    return FixedTraining.model_validate(known | settings)


def test_a_loss_is_broken_above_the_limit_or_if_it_is_no_number() -> None:
    limit = LossLimit(1000)
    assert limit.nats == pytest.approx(3 * np.log(1000)) and LossLimit(9).nats == 20, "three times guessing, or 20 nats"
    assert [limit.is_broken(nll) for nll in (0.0, limit.nats, np.nextafter(limit.nats, np.inf), np.inf, np.nan)] == [
        *(False, False, True, True, True)
    ]


def test_what_is_taken_is_seen() -> None:
    can_reset = reset_peak()
    before = psutil.Process().memory_info().rss
    # Pages of its own: an array might lie where the process has freed something before.
    with mmap.mmap(-1, 1 << 26) as taken:
        for start in range(0, len(taken), 4096):
            taken[start] = 1
        assert psutil.Process().memory_info().rss - before > 0.9 * (1 << 26)
    assert peak_bytes() - before > 0.9 * (1 << 26)
    if can_reset:
        reset_peak()
        assert peak_bytes() - before < 0.5 * (1 << 26)


@pytest.mark.parametrize(
    ("size", "text"), [(3 << 29, "1.50 GiB"), (75 << 19, "37.5 MiB"), (12 << 10, "12 KiB"), (0, "0 KiB")]
)
def test_bytes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text
