"""nmt-train --budget: settings fitted to a time, measured by a clock that the test turns."""

import io
import itertools
import shutil
from types import SimpleNamespace

import pytest

from nmt.errors import ConfigError
from nmt.storage.model_folder import LAST_NAME, read_checkpoint
from nmt.train.log import progress
from nmt.train.planning.budget import COOLDOWN, Pace, fit_to_budget, seconds_of
from nmt.train.run import loop
from nmt.train.run.loop import is_early_validation
from nmt.train.run.trainer import Trainer
from nmt.train.updates.update import Updater
from tests.refusals import refused
from tests.train.resumed import events


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("45min", 2700), ("600s", 600), ("1.5 h", 5400), ("1d", 86_400)],
)
def test_times_as_people_write_them(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2 hours", "2h x", "-2h", "10s", "1w"])
def test_what_is_no_time(text):
    refused(ConfigError, r"^budget: must be", seconds_of, text)


def never(config, seconds):
    raise AssertionError("nothing is to be measured")


def test_the_settings_follow_the_pace(make_trainer):
    autos = {"learning_rate_warmup": "auto", "validation_freq": "auto"}
    config = make_trainer(scheduling="linear", updates=7, epochs=2, **autos).config
    asked, said = [], []

    def measure(settings, seconds):
        asked.append(seconds)
        assert settings.training.updates is None
        assert "auto" not in (settings.training.learning_rate_warmup, settings.training.validation_freq)
        return Pace(0.5, 20.0, 40)

    fitted = fit_to_budget(config, "10m", measure, said.append).training
    assert asked == [8.0] and "about 1,044 updates" in said[0]
    assert (fitted.updates, fitted.scheduling, fitted.cooldown) == (None, "constant", COOLDOWN)
    assert fitted.max_minutes == 10
    assert (fitted.validation_freq, fitted.learning_rate_warmup) == (130, 74)
    assert fitted.stop_after is None and fitted.batch_size == config.training.batch_size


@pytest.mark.parametrize(
    ("settings", "a_pass", "warning"),
    [
        ({"auto_epochs": 12.5}, 80, None),  # 1,044 updates of 1,000
        ({"auto_epochs": 25.0}, 80, None),  # of 2,000
        ({"auto_epochs": 40.0}, 80, "allows about 13 epochs of this text; 40 are usual, which take about 29m38s here"),
        (
            {"auto_epochs": 12.5},
            2000,
            "allows about 0.52 epochs of this text; 12.5 are usual, which take about 3h51m here",
        ),
        ({"updates": 800, "auto_epochs": 40.0}, 80, None),  # a number of one's own is what is usual
        ({"updates": 2400}, 80, "allows about 13 epochs of this text; 30 are usual, which take about 22m13s here"),
    ],
)
def test_a_short_time_is_said_at_the_start(make_trainer, settings, a_pass, warning):
    config, said = make_trainer(**{"updates": "auto"} | settings).config, []
    fit_to_budget(config, "10m", lambda *_: Pace(0.5, 20.0, a_pass), said.append)
    end = "; give more time, or use a smaller model"
    expected = [] if warning is None else [f"warning: a budget of 10m {warning}{end}"]
    assert said[1:] == expected


@pytest.mark.parametrize(("seconds", "updates", "between"), [(2.0, 36, 36), (1.0, 72, 25), (0.1, 720, 90)])
def test_a_short_run_is_validated_at_its_end(make_trainer, seconds, updates, between):
    said = []
    fitted = fit_to_budget(make_trainer().config, "2m", lambda *_: Pace(seconds, 40.0, 40), said.append)
    assert fitted.training.validation_freq == between
    assert said[0].startswith(f"budget: 2m, 1m20s of it left after reading and timing; an update takes {seconds:.3g} s")
    assert f"about {updates} updates" in said[0]


def test_a_time_that_allows_nothing(make_trainer):
    config = make_trainer().config
    line = "must allow at least 16 updates, got 1m: here an update takes 4.0 s and the .* at least 2m"
    refused(ConfigError, line, fit_to_budget, config, "1m", lambda *_: Pace(4.0, 2.0, 40), lambda text: None)


def test_a_run_ends_with_its_time_and_its_rate_at_zero(make_trainer, monkeypatch):
    """A clock by which all takes a twentieth of a second a look; the pace that was measured is wrong by half."""
    now = itertools.count(0, 0.05)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    fitted = fit_to_budget(make_trainer().config, "60s", lambda *_: Pace(0.25, 0.5, 40), lambda text: None)
    result = Trainer(fitted, spent=0.5).run()
    assert "are over (training.max_minutes)" in result.reason
    told = events(result.folder)
    rates = [event["learning_rate"] for event in told if "learning_rate" in event]
    assert max(event["elapsed"] for event in told if "elapsed" in event) == pytest.approx(59, rel=0.05)
    assert rates[-1] < 0.05 * max(rates)


def test_a_run_that_is_over_is_not_trained_on(make_trainer, monkeypatch):
    now = itertools.count(0, 0.05)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    config = make_trainer().config
    fitted = fit_to_budget(config, "60s", lambda *_: Pace(0.25, 0.5, 40), lambda text: None)
    ended = Trainer(fitted, spent=0.5).run()
    for _ in range(2):
        said = io.StringIO()
        again = Trainer(fit_to_budget(config, "60s", never, lambda text: None), terminal=said).run()
        assert (again.update, again.reason, again.best_update) == (ended.update, ended.reason, ended.best_update)
        assert "this run was finished before" in said.getvalue() and "cooldown" not in said.getvalue()
    assert fit_to_budget(config, "30m", never, lambda text: None).training.max_minutes == 30  # a longer one goes on
    assert fit_to_budget(config, "70s", never, lambda text: None).training.max_minutes == 70 / 60  # one little longer


def test_a_run_that_goes_on_measures_nothing(make_trainer):
    config = make_trainer().config
    fitted = fit_to_budget(config, "10m", lambda *_: Pace(1.0, 20.0, 40), lambda text: None)
    Trainer(fitted.with_changes({"training.updates": 2})).run()  # as if it had been killed there
    assert fit_to_budget(config, "10m", never, lambda text: None).to_dict() == fitted.to_dict()
    said = []
    longer = fit_to_budget(config, "30m", never, said.append).training
    before, times = fitted.training, 30 / fitted.training.max_minutes
    assert longer.max_minutes == 30 and longer.validation_freq == round(times * before.validation_freq)
    assert longer.learning_rate_warmup == before.learning_rate_warmup  # it may be over
    shorter = fit_to_budget(config, "1m", never, said.append).training
    assert shorter.learning_rate_warmup == round(before.learning_rate_warmup / before.max_minutes) > 0
    assert shorter.validation_freq == round(before.validation_freq / before.max_minutes)
    assert [line.partition(",")[0] for line in said] == ["budget: 30m", "budget: 1m"]


def test_a_short_run_has_a_curve(make_trainer):
    """At least twenty lines of progress, and no fewer than the settings ask for; a resumed run keeps their distance."""
    config = make_trainer(logging_freq=50).config
    pace = SimpleNamespace(seconds=0.5, spent=3.0, a_pass=10)
    short, long = (fit_to_budget(config, time, lambda *_: pace, lambda text: None) for time in ("1m", "2h"))
    assert (short.training.logging_freq, long.training.logging_freq) == (5, 50)
    short = short.with_changes({"training.updates": 2})
    Trainer(short).run()
    assert fit_to_budget(config, "1m", lambda *_: pace, lambda text: None).training.logging_freq == 5


def test_a_run_shows_soon_what_it_learns_and_learns_the_same(make_trainer, monkeypatch):
    """A clock of updates alone, by which an eighth of the time is two minutes; nothing is counted but work: a
    night's sleep in the midst of an update is none."""
    now, update = [0.0], Updater.update

    def slowly(self, batches, number, rate):
        now[0] += 36_000 if number == 50 else 5
        return update(self, batches, number, rate)

    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Updater, "update", slowly)
    found = []
    for early in (is_early_validation, lambda *_: False):
        monkeypatch.setattr(loop, "is_early_validation", early)
        fitted = fit_to_budget(make_trainer().config, "10m", lambda *_: Pace(5.0, 20.0, 40), lambda text: None)
        trainer = Trainer(fitted)
        trainer.run()
        arrays = read_checkpoint(trainer.folder / LAST_NAME)[0]
        at = [event["elapsed"] for event in events(trainer.folder, "validation")]
        found.append((at, {name: array.tobytes() for name, array in arrays.items()}))
        shutil.rmtree(trainer.folder)
    assert [round(seconds) for seconds in found[0][0]] == [20, 40, 80, 125, 250, 375, 500, 600]
    assert found[0][0][3:] == found[1][0] and found[0][1] == found[1][1]
