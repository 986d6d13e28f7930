"""training.loss_spikes: a leap of the loss is left out, or undone with what led to it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nmt.config import TrainingConfig
from nmt.errors import NMTError
from nmt.storage.model_folder import PARAMS_PREFIX, ROLLBACK_NAME, read_checkpoint
from nmt.train.run.trainer import Trainer
from nmt.train.updates import spikes
from nmt.train.updates.spikes import LossLimit, SpikeWatch
from nmt.train.updates.state import TrainingState
from tests.train.fake_model import TranslationModel
from tests.train.test_resume import assert_same

Make = Callable[..., Trainer]


def test_a_leap_is_so_many_deviations_above_the_running_mean() -> None:
    state = TrainingState()
    watch = SpikeWatch(TrainingConfig(loss_spikes="skip", spike_deviations=4.0), state)
    losses = np.random.default_rng(1).normal(3.0, 0.1, 400)
    for n, loss in enumerate(losses):
        assert watch.is_spike(100.0) == (n >= spikes.KNOWN)
        watch.note(loss)
    weights = 0.99 ** np.arange(300)[::-1]  # of the last ones; what lies before them counts 5 %
    mean = np.average(losses[100:], weights=weights)
    deviation = np.sqrt(np.average((losses[100:] - mean) ** 2, weights=weights))
    assert state.loss_mean == pytest.approx(mean, abs=0.01)
    assert watch.limit == pytest.approx(mean + 4 * deviation, abs=0.05)
    assert watch.is_spike(watch.limit + 1e-6)
    assert not watch.is_spike(watch.limit)
    again = SpikeWatch(
        TrainingConfig(loss_spikes="skip", spike_deviations=4.0), TrainingState.from_dict(state.to_dict())
    )
    assert again.limit == watch.limit


def test_what_keeps_leaping_ends_the_run() -> None:
    watch = SpikeWatch(TrainingConfig(loss_spikes="skip"), TrainingState())
    for times in (spikes.MOST_IN_A_ROW - 1, spikes.MOST_IN_A_ROW - 1):
        for _ in range(times):
            watch.count(9.0)
        watch.note(1.0)  # one that does not leap
    for _ in range(spikes.MOST_IN_A_ROW - 1):
        watch.count(9.0)
    with pytest.raises(NMTError, match=r"training.spike_deviations: 6\), got 9 and 10 such updates in a row"):
        watch.count(9.0)


@pytest.fixture
def leaping(fake: type[TranslationModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """The updates on the batches of seeds seen 12th and 13th have ten times the loss."""
    monkeypatch.setattr(spikes, "KNOWN", 5)
    whole, seeds = fake.loss_and_gradients, []

    def leap(self: TranslationModel, *arguments: Any, seed: int, **options: Any) -> Any:
        stats, gradients = whole(self, *arguments, seed=seed, **options)
        if seed not in seeds:
            seeds.append(seed)
        if seeds.index(seed) in (11, 12):
            stats.loss, stats.nll = 10 * stats.loss, 10 * stats.nll
            for gradient in gradients.values():
                gradient *= 10
        return stats, gradients

    monkeypatch.setattr(fake, "loss_and_gradients", leap)


SETTINGS = {"updates": 20, "early_stopping_metric": "loss", "scheduling": "constant", "learning_rate": 0.02}


def table(trainer: Trainer, name: str) -> np.ndarray:
    return read_checkpoint(trainer.folder / name)[0][PARAMS_PREFIX + "table"]


@pytest.mark.usefixtures("leaping")
def test_a_leap_is_kept_or_skipped(make_trainer: Make) -> None:
    found = {}
    for kind in ("keep", "skip"):
        trainer = make_trainer({"model_dir": f"{make_trainer().folder}-{kind}"}, loss_spikes=kind, **SETTINGS)
        trainer.run()
        found[kind] = table(trainer, "last.safetensors")
        log = (trainer.folder / "train.log").read_text()
        assert log.count("skipped (training.loss_spikes)") == (2 if kind == "skip" else 0)
        assert ("update 12: loss " in log) == (kind == "skip")
        state = read_checkpoint(trainer.folder / "last.safetensors")[1]["state"]
        assert (state["update"], state["skipped"]) == (20, 2 if kind == "skip" else 0)
    assert not np.array_equal(found["keep"], found["skip"])


@pytest.mark.usefixtures("leaping")
def test_a_roll_back_returns_to_the_last_validation(make_trainer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(loss_spikes="rollback", ema_decay=0.5, **{**SETTINGS, "updates": 13})
    trainer.run()
    log = (trainer.folder / "train.log").read_text()
    assert log.count("back to the parameters of update 8, continuing with the batches after it") == 2
    # The last two updates were undone and the last validation, of update 13, is of the parameters of update 8.
    at_8 = make_trainer({"model_dir": f"{trainer.folder}-8"}, ema_decay=0.5, **{**SETTINGS, "updates": 8})
    at_8.run()
    for prefix in ("params/", "raw/", "optimizer/"):
        one = read_checkpoint(trainer.folder / "last.safetensors", prefix)[0]
        other = read_checkpoint(at_8.folder / "last.safetensors", prefix)[0]
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)
    assert read_checkpoint(trainer.folder / ROLLBACK_NAME)[1]["state"]["update"] == 13


@pytest.mark.usefixtures("leaping")
@pytest.mark.parametrize("kind", ["skip", "rollback"])
def test_runs_that_are_cut_leap_alike(make_trainer: Make, kind: str) -> None:
    folder = make_trainer().folder
    whole = make_trainer({"model_dir": f"{folder}-whole"}, loss_spikes=kind, **SETTINGS)
    whole.run()
    done = 0
    for update in (3, 11, 12, 14, 20):
        cut = make_trainer({"model_dir": f"{folder}-cut"}, loss_spikes=kind, **SETTINGS)
        cut._stop_after = update - done
        done = cut.run().update
        assert done == update
    make_trainer({"model_dir": f"{folder}-cut"}, loss_spikes=kind, **SETTINGS).run()  # the last validation
    assert_same(cut.folder, whole.folder)


def test_a_new_run_has_nothing_to_go_back_to(make_trainer: Make) -> None:
    trainer = make_trainer(updates=1, loss_spikes="rollback")
    trainer.run()
    for checkpoint in trainer.folder.glob("*.safetensors"):  # a model without `last` would not be written over
        checkpoint.unlink()
    (trainer.folder / ROLLBACK_NAME).write_text("of another run")
    make_trainer(updates=1).run()
    assert not (trainer.folder / ROLLBACK_NAME).exists()


def test_a_loss_is_broken_above_the_limit_or_if_it_is_no_number() -> None:
    limit = LossLimit(1000)
    assert limit.nats == pytest.approx(3 * np.log(1000)) and LossLimit(9).nats == 20, "three times guessing, or 20 nats"
    assert [limit.is_broken(nll) for nll in (0.0, limit.nats, np.nextafter(limit.nats, np.inf), np.inf, np.nan)] == [
        *(False, False, True, True, True)
    ]
