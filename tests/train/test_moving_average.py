"""training.ema_decay: what is validated, saved and translated with is a running mean of the parameters."""

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nmt.storage.model_folder import PARAMS_PREFIX, RAW_PREFIX, read_checkpoint
from nmt.train.run.trainer import Trainer
from nmt.train.updates.optimizer import Adam, MovingAverage
from tests import small_models
from tests.train.fake_model import TranslationModel
from tests.train.test_resume import assert_same

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


@pytest.mark.parametrize("calls", [{1}, {3, 9}, {13, 14}])
def test_an_interrupted_run_comes_to_the_same_average(make_trainer, fake, monkeypatch, calls):
    settings = {"ema_decay": 0.9, "metric": "loss"}
    trainer = make_trainer(**settings)
    trainer.run()
    undisturbed = trainer.folder.rename(trainer.folder.with_name("undisturbed"))
    whole, total = fake.loss_and_gradients, 0

    def interrupted(self: TranslationModel, *arguments: Any, **options: Any) -> Any:
        nonlocal total
        total += 1
        if total in calls:
            os.kill(os.getpid(), signal.SIGINT)
        return whole(self, *arguments, **options)

    monkeypatch.setattr(fake, "loss_and_gradients", interrupted)
    for _ in range(len(calls) + 1):
        make_trainer(**settings).run()
    assert_same(trainer.folder, undisturbed)
    one, other = (read_checkpoint(f / "last.safetensors", RAW_PREFIX)[0] for f in (trainer.folder, undisturbed))
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])


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
        decay = min(0.5, (1 + number) / (10 + number))
        for name, param in model.params.items():
            np.testing.assert_array_equal(param, now[name])
            mean[name] = decay * mean[name] + (1 - decay) * param
            np.testing.assert_allclose(average.arrays[name], mean[name], rtol=1e-6, atol=1e-6)  # float32
