"""A run from start to end: what it learns, writes, says, and when it stops."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.inference.translator import Translator
from nmt.storage.model_folder import read_checkpoint
from nmt.train.checkpoints.checkpoint import best_checkpoints
from nmt.train.log.progress import Stopwatch
from nmt.train.run.trainer import Trainer
from tests.refusals import refused
from tests.train.fake_model import TranslationModel, write_corpus
from tests.train.resumed import events

WORSE = {"learning_rate": 10.0, "learning_rate_min": 9.0, "scheduling": "constant", "lower_after": 1, "metric": "loss"}
"""With these every validation after the first is worse."""

Make = Callable[..., Trainer]


LOGGED = {"logging_freq": 1, "metric": "loss", "print_valid_sents": (1,)}


def test_events_tell_losses_rates_and_scores(finished: Make) -> None:
    trainer = finished(**LOGGED)
    train = events(trainer.folder, "train")
    assert [event["update"] for event in train] == list(range(1, len(train) + 1))
    assert train[-1]["loss"] < train[0]["loss"]
    assert train[-1]["ppl"] == pytest.approx(math.exp(train[-1]["nll"]), rel=1e-4)
    assert all(event["src_tokens_per_second"] > 0 for event in train[1:])
    # 200 pairs of w.. z.. and an end of sentence each, 4 epochs: real tokens, no padding
    lines = (trainer.folder.parent / "train.yy").read_text().splitlines()
    assert train[-1]["tgt_tokens"] == 4 * sum(len(line.split()) + 1 for line in lines)
    scored = events(trainer.folder, "validation")
    due = {*range(8, len(train) + 1, 8), len(train)}
    assert [event["update"] for event in scored] == sorted(due), "the last update is validated too"
    assert {"loss", "ppl", "bleu", "chrf", "best", "seconds"} <= scored[0].keys()


def test_the_log_marks_a_new_best_and_shows_samples(finished: Make) -> None:
    trainer = finished(**LOGGED)
    log = (trainer.folder / "train.log").read_text()
    best = [event["best"] for event in events(trainer.folder, "validation")]
    lines = [line for line in log.splitlines() if "  validation  " in line]
    assert [line.endswith("  *") for line in lines] == best
    assert True in best
    assert log.count("  hypothesis  ") == len(best)
    assert "bleu signature nrefs:1|case:mixed" in log
    assert "best checkpoint" in log


def test_the_best_checkpoint_is_the_one_that_scored_best(make_trainer: Make) -> None:
    trainer = make_trainer(**WORSE)
    result = trainer.run()
    scored = events(trainer.folder, "validation")
    best = min(scored, key=lambda event: event["loss"])
    assert result.best_update == best["update"]
    assert result.best_scores["loss"] == pytest.approx(best["loss"], abs=1e-5)
    assert best["update"] != scored[-1]["update"], "it has to get worse again"
    _, metadata = read_checkpoint(trainer.folder / "best.safetensors")
    assert metadata["state"]["update"] == best["update"]


@pytest.mark.parametrize(
    ("limits", "reason", "update"),
    [
        ({"updates": 5}, "5 updates", 5),
        ({"epochs": 1}, "1 epochs", None),
        ({**WORSE, "stop_after": 2}, "no better loss in 2 validations", 24),
        ({**WORSE, "scheduling": "plateau"}, "learning rate below 9", 16),
    ],
)
def test_limits(make_trainer: Make, limits: dict[str, Any], reason: str, update: int | None) -> None:
    result = make_trainer(**limits).run()
    assert reason in result.reason
    assert update is None or result.update == update


def test_a_time_that_is_over_before_the_first_update_is_an_error(make_trainer: Make) -> None:
    """Nothing was learned, and there is no model."""
    line = r"^training.max_minutes: must be enough for one update, got 0s .*texts were read; give more"
    refused(ConfigError, line, make_trainer(max_minutes=1e-6).run)


@pytest.mark.parametrize("limits", [{"updates": 20}, {"epochs": 2}])
def test_a_cooldown_falls_to_zero_over_the_last_updates(make_trainer: Make, limits: dict[str, int]) -> None:
    trainer = make_trainer(logging_freq=1, scheduling="constant", cooldown=0.5, **limits)
    total = trainer.run().update
    rates = [event["learning_rate"] for event in events(trainer.folder, "train")]
    expected = [0.3 * min(1, 2 * (1 - update / total)) for update in range(total)]
    assert rates == pytest.approx(expected, abs=0.3 * 2 / total)  # epochs may differ by a batch
    assert rates[0] == 0.3
    assert 0 < rates[-1] < 0.3 * 3 / total
    assert np.all(np.diff(rates) <= 0)
    assert (trainer.folder / "train.log").read_text().count("cooldown: from update ") == 1


def test_a_cooldown_by_the_clock_reaches_the_end_of_the_run(make_trainer, monkeypatch):
    clock = 0.0

    def tick(*args: Any, **options: Any) -> Any:
        nonlocal clock
        clock += 1
        return update(*args, **options)

    update = TranslationModel.loss_and_gradients
    monkeypatch.setattr(TranslationModel, "loss_and_gradients", tick)
    monkeypatch.setattr(Stopwatch, "total", property(lambda self: clock))
    options = {"scheduling": "constant", "validation_freq": 1000, "metric": "loss"}
    trainer = make_trainer(logging_freq=1, cooldown=0.25, max_minutes=20 / 60, **options)
    assert trainer.run().update == 20
    rates = [event["learning_rate"] for event in events(trainer.folder, "train")]
    assert rates == pytest.approx([0.3] * 16 + [0.24, 0.18, 0.12, 0.06])


def test_a_broken_update_is_left_out(make_trainer: Make, fake: type[TranslationModel]) -> None:
    fake.broken_calls = {3, 5}
    trainer = make_trainer(logging_freq=1, epochs=1)
    result = trainer.run()
    updates = [event["update"] for event in events(trainer.folder, "train")]
    assert updates == [n for n in range(1, result.update + 1) if n not in (3, 5)]
    assert "update 3 skipped: loss nan" in (trainer.folder / "train.log").read_text()


def test_a_run_that_stays_broken_gives_up(make_trainer: Make, fake: type[TranslationModel]) -> None:
    fake.broken_calls = set(range(5, 100))
    trainer = make_trainer(validation_freq=4)
    message = refused(NMTError, r"must be finite .*got loss nan.*10 such updates", trainer.run)
    assert message in (trainer.folder / "train.log").read_text()
    assert Translator.load(trainer.folder, checkpoint="last").translate(["w1"])


@pytest.mark.parametrize("ends", [{"updates": 2}, {"validation_freq": 3}, {"validation_freq": 1000}])
def test_a_loss_out_of_hand_ends_the_run_and_is_never_the_best(make_trainer: Make, ends: dict[str, Any]) -> None:
    trainer = make_trainer(learning_rate=1000.0, clip_grad_norm=None, **ends)
    refused(NMTError, r"the loss must be finite and below 20\.0 nats a token", trainer.run)
    assert not (trainer.folder / "best.safetensors").exists()
    assert not (trainer.folder / "last.safetensors").exists()


def test_what_was_good_before_stays(make_trainer: Make) -> None:
    good = make_trainer(updates=8).run()
    assert good.best_path is not None
    before = good.best_path.read_bytes()
    with pytest.raises(NMTError, match="the loss must be finite"):
        make_trainer(updates=40, learning_rate=1000.0, clip_grad_norm=None).run()
    assert good.best_path.read_bytes() == before
    assert make_trainer(updates=10).run().update == 10


@pytest.mark.parametrize(("metric", "is_higher_better"), [("loss", False), ("bleu", True)])
def test_numbered_best_checkpoints(make_trainer: Make, metric: str, is_higher_better: bool) -> None:
    """With steps so small that each validation has another score."""
    steps = {"updates": 12, "validation_freq": 3, "learning_rate": 0.02}
    trainer = make_trainer(metric=metric, keep_best_ckpts=2, **steps)
    trainer.run()
    best = sorted(events(trainer.folder, "validation"), key=lambda event: event[metric], reverse=is_higher_better)[:2]
    kept = best_checkpoints(trainer.folder, 2)
    assert [path.stem for path in kept] == [f"best-{event['update']}" for event in best]
    assert set(kept) == {*trainer.folder.glob("best-*")}


def test_missing_files_are_found_before_subwords_are_trained(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer()
    (tmp_path / "dev.yy").unlink()
    refused(NMTError, r"dev\.yy", trainer.run)
    assert not (trainer.folder / "joint.spm").exists()
    write_corpus(tmp_path, "dev", 5, 2)
    assert trainer.run().best_path


def test_checkpoints_of_unknown_origin_and_files_are_not_overwritten(make_trainer: Make) -> None:
    trainer = make_trainer()
    trainer.folder.mkdir()
    (trainer.folder / "best.safetensors").write_text("mine")
    refused(CheckpointError, r"got one with best\.safetensors and no config\.yaml", trainer.run)
    assert (trainer.folder / "best.safetensors").read_text() == "mine"
    trainer.folder.rename(trainer.folder.with_name("former"))
    trainer.folder.write_text("")
    refused(CheckpointError, "model_dir must be a folder", trainer.run)


def test_two_runs_do_not_share_a_folder(make_trainer, fake, monkeypatch):
    pytest.importorskip("fcntl", reason="this system has no file locks")
    outer, inner = make_trainer(epochs=1), make_trainer(epochs=1)
    seen = []

    def initialize(self: TranslationModel, seed: int, tgt_counts: object) -> None:
        with pytest.raises(CheckpointError, match="another nmt-train") as caught:
            inner.run()
        seen.append(caught.value)

    monkeypatch.setattr(fake, "initialize", initialize)
    outer.run()
    assert len(seen) == 1
