"""Stopping and going on: in the end all is as in a run that nobody disturbed, bit for bit."""

import errno
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.errors import CheckpointError, NMTError
from nmt.train.checkpoints import checkpoint
from nmt.train.checkpoints.checkpoint import CheckpointManager, read_whole
from nmt.train.checkpoints.resume import load_saved_run
from nmt.train.distributed.ranks import SIGNALS
from nmt.train.run.trainer import Trainer
from tests.refusals import refused
from tests.train import fake_model
from tests.train.fake_model import TranslationModel
from tests.train.resumed import differing

Make = Callable[..., Trainer]


def log_of(trainer: Trainer) -> str:
    return (trainer.folder / "train.log").read_text()


def interrupted(make_trainer: Make, updates: int) -> Trainer:
    """A run that somebody has stopped after so many updates."""
    trainer = make_trainer(metric="loss")
    trainer._stop_after = updates
    trainer.run()
    return trainer


@pytest.fixture
def undisturbed(finished: Make) -> Path:
    """The folder of a run that nobody disturbs."""
    return finished(metric="loss").folder


CALLS = {1}, {3, 9}, {13, 14}
INTERRUPTED = [({}, calls, number) for number in SIGNALS for calls in CALLS]
INTERRUPTED += [({"ema_decay": 0.9}, calls, signal.SIGINT) for calls in CALLS]
INTERRUPTED += [({"batch_multiplier": 3, "validation_freq": 3}, {call}, signal.SIGINT) for call in (1, 5, 11)]
INTERRUPTED += [({"cooldown": 0.5}, {13}, signal.SIGINT)]


@pytest.fixture
def signalling(fake: type[TranslationModel], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that lets batches of these numbers send a signal."""

    def let(number: int, calls: Container[int]) -> None:
        whole, total = fake.loss_and_gradients, itertools.count(1)

        def interrupted(self: TranslationModel, *args: Any, **options: Any) -> Any:
            if next(total) in calls:
                signal.raise_signal(number)
            return whole(self, *args, **options)

        monkeypatch.setattr(fake, "loss_and_gradients", interrupted)

    return let


@pytest.mark.parametrize(("settings", "calls", "number"), INTERRUPTED)
def test_signals_save_and_the_next_run_goes_on(make_trainer, finished, signalling, settings, calls, number):
    undisturbed = finished(metric="loss", **settings).folder
    signalling(number, calls)
    former = signal.getsignal(number)
    for call in sorted(calls):
        result = make_trainer(metric="loss", **settings).run()
        assert result.signal == number
        assert result.update == call or settings.get("batch_multiplier"), "the update under way is finished"
    assert signal.getsignal(number) is former
    trainer = make_trainer(metric="loss", **settings)
    assert trainer.run().signal is None
    assert not differing(trainer.folder, undisturbed)


def test_an_interrupted_validation_is_repeated(make_trainer, undisturbed, monkeypatch):
    decode = sys.modules["nmt.decode"]
    calls = 0

    def search(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            signal.raise_signal(signal.SIGINT)
        return fake_model.search(*args, **options)

    monkeypatch.setattr(decode, "search", search)
    assert make_trainer(metric="loss").run().update == 16
    trainer = make_trainer(metric="loss")
    trainer.run()
    assert not differing(trainer.folder, undisturbed)


def test_killed_at_any_moment(tmp_path: Path, undisturbed: Path) -> None:
    last = tmp_path / "model" / "last.safetensors"
    for delay in (0.0, 0.11, 0.23, 0.37):
        saved = last.stat().st_mtime_ns if last.exists() else 0
        process = start(tmp_path, seconds=0.01)
        while process.poll() is None and (not last.exists() or last.stat().st_mtime_ns == saved):
            time.sleep(0.005)
        time.sleep(delay)
        process.kill()
        process.communicate()
        assert read_whole(last)
    process = start(tmp_path, seconds=0)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert "resuming from" in errors
    assert not differing(tmp_path / "model", undisturbed)
    assert not list((tmp_path / "model").glob(".*.nmt-tmp")), "leftovers are removed"


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    settings = fake_model.write_setup(folder, metric="loss")
    settings["training"]["logging_freq"] = 1
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    return fake_model.begin([sys.executable, fake_model.__file__, "nmt-train", str(folder / "config.yaml")], seconds)


def test_a_finished_run_stays_finished(make_trainer: Make) -> None:
    first = make_trainer(epochs=1).run()
    again = make_trainer(epochs=1).run()
    assert (again.update, again.reason, again.best_scores) == (first.update, first.reason, first.best_scores)
    longer = make_trainer(epochs=2)
    assert longer.run().update > first.update
    assert "changed since the checkpoint: training.epochs: 1 -> 2" in log_of(longer)
    assert "epochs: 2" in (longer.folder / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("top", "training", "key"),
    [
        ({"model": {"encoder": {"num_layers": 3}}}, {}, "model.encoder.num_layers must stay 1"),
        ({}, {"optimizer": "sgd"}, "training.optimizer must stay adam"),
        ({}, {"freeze": ["bias"]}, r"training.freeze must stay \[\]"),
        ({"data": {"src": {"lang": "xx", "lowercase": True}}}, {}, r"data.src.lowercase must stay false"),
    ],
)
def test_settings_that_do_not_fit_the_checkpoint_are_refused(make_trainer, top, training, key):
    make_trainer(epochs=1).run()
    trainer = make_trainer(top, epochs=2, **training)
    saved = (trainer.folder / "last.safetensors").read_bytes()
    assert "set it back, or choose another model_dir" in refused(CheckpointError, key, trainer.run)
    assert (trainer.folder / "last.safetensors").read_bytes() == saved


@pytest.mark.parametrize(
    ("top", "training", "lines"),
    [
        ({}, {"scheduling": "constant"}, ["training.scheduling: plateau -> constant"]),
        ({"seed": 7}, {}, ["warning: changed since the checkpoint: seed: 42 -> 7"]),
        ({"data": {"filter": {"duplicates": True}}}, {}, ["the training batches have changed: epoch 1 starts again"]),
        (
            {"model": {"encoder": {"dropout": 0.5}}},
            {"batch_size": 32},
            ["training.batch_size: 64 -> 32", "model.encoder.dropout: 0.0 -> 0.5", "epoch 1 starts again"],
        ),
    ],
)
def test_what_has_changed_is_told(make_trainer: Make, top: Any, training: Any, lines: list[str]) -> None:
    make_trainer(updates=3).run()
    trainer = make_trainer(top, updates=5, **training)
    trainer.run()
    assert all(line in log_of(trainer) for line in lines)


def test_a_damaged_checkpoint_is_named_and_kept(make_trainer: Make) -> None:
    trainer = make_trainer(epochs=1)
    trainer.run()
    path = trainer.folder / "last.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    path.with_name("former.safetensors").unlink()
    refused(CheckpointError, r"last\.safetensors: must be a whole checkpoint", make_trainer(epochs=2).run)
    assert path.stat().st_size == 100


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(make_trainer, undisturbed, keep):
    trainer = interrupted(make_trainer, 19)
    last, former = trainer.folder / "last.safetensors", trainer.folder / "former.safetensors"
    last.write_bytes(last.read_bytes()[:keep])
    assert read_whole(former).metadata["state"]["update"] == 16, "the last validation"
    log = log_of(interrupted(make_trainer, 1))
    assert re.search(r"last\.safetensors: must be .*; going on from the one before it\n", log)
    assert f"resuming from {former}: epoch" in log
    assert read_whole(former).metadata["state"]["update"] == 16, "the damaged one has not taken its place"
    make_trainer(metric="loss").run()
    assert not differing(trainer.folder, undisturbed)


def test_a_clock_that_is_set_back_changes_nothing(make_trainer, undisturbed, monkeypatch):
    now = itertools.count(2e9, -1000)
    monkeypatch.setattr(time, "time", lambda: next(now))
    trainer = interrupted(make_trainer, 9)
    for path in trainer.folder.iterdir():
        os.utime(path, (1e9, 1e9))
    make_trainer(metric="loss").run()
    assert not differing(trainer.folder, undisturbed)


def test_a_full_disk_ends_a_run_that_goes_on_later(make_trainer, undisturbed, monkeypatch):
    written = []

    def full(path: Path, *arguments: Any) -> None:
        written.append(path)
        if len(written) == 3:  # the best of the second validation
            raise OSError(errno.ENOSPC, "No space left on device")
        write_tensors(path, *arguments)

    write_tensors = checkpoint.write_tensors
    monkeypatch.setattr(checkpoint, "write_tensors", full)
    line = "got no space left on device; the previous checkpoint is intact"
    refused(CheckpointError, line, make_trainer(metric="loss").run)
    trainer = make_trainer(metric="loss")
    trainer.run()
    assert not differing(trainer.folder, undisturbed)


def test_other_subwords_are_refused(make_trainer: Make) -> None:
    trainer = make_trainer(epochs=1)
    trainer.run()
    other = make_trainer({"model_dir": f"{trainer.folder}-char", "data": {"subwords": {"type": "char"}}}, epochs=1)
    other.run()
    spm = trainer.folder / "joint.spm"
    spm.write_bytes((other.folder / "joint.spm").read_bytes())
    refused(CheckpointError, "got others", make_trainer(epochs=2).run)
    spm.unlink()
    refused(CheckpointError, r"joint\.spm: no such file, the subwords of the model", make_trainer(epochs=2).run)


def test_subwords_are_trained_again_only_if_their_settings_changed(make_trainer, fake, monkeypatch):
    def fail(self: TranslationModel, seed: int, tgt_counts: object) -> None:
        raise NMTError("before the first checkpoint")

    monkeypatch.setattr(fake, "initialize", fail)

    def attempt(**subwords: Any) -> bytes:
        trainer = make_trainer({"data": {"subwords": {"type": "word", **subwords}}})
        refused(NMTError, "before the first", trainer.run)
        return (trainer.folder / "joint.spm").read_bytes()

    first = attempt(vocab_size=60)
    log = make_trainer().folder / "train.log"
    assert log.read_text().count("subwords: reading") == 1
    assert attempt(vocab_size=60) == first
    assert log.read_text().count("subwords: reading") == 1
    assert attempt(vocab_size=20) != first


@pytest.mark.parametrize("kept", ["best.safetensors", "best-6.safetensors", "last-6.safetensors"])
def test_a_model_without_a_run_to_go_on_with_is_not_trained_over(make_trainer: Make, kept: str) -> None:
    """As nmt-quantize and nmt-average write one, or who removes the large files of a run that has ended."""
    trainer = make_trainer()
    trainer.run()
    folder = trainer.folder
    (folder / "best.safetensors").rename(folder / kept)
    for name in ("last.safetensors", "former.safetensors"):
        (folder / name).unlink(missing_ok=True)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    refused(CheckpointError, "must contain last.safetensors to resume its run, got", make_trainer().run)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_run_that_lost_its_last_checkpoint_goes_on_from_the_former(make_trainer: Make, undisturbed: Path) -> None:
    trainer = interrupted(make_trainer, 9)
    assert (trainer.folder / "former.safetensors").exists()
    (trainer.folder / "last.safetensors").unlink()
    make_trainer(metric="loss").run()
    assert not differing(trainer.folder, undisturbed)
    assert "former.safetensors" in log_of(trainer)


def test_a_run_killed_before_its_first_last_checkpoint_begins_again(make_trainer, undisturbed, monkeypatch):
    trainer = make_trainer(metric="loss")
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointManager, "save_last", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trainer.run()
    assert (trainer.folder / "best.safetensors").exists() and not (trainer.folder / "last.safetensors").exists()
    make_trainer(metric="loss").run()
    assert not differing(trainer.folder, undisturbed)


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_that_are_ignored_from_the_start_stay_so(make_trainer, signalling, number):
    """As a script's jobs in the background ignore Ctrl-C."""
    signalling(number, range(1, 1000))
    former = signal.signal(number, signal.SIG_IGN)
    try:
        assert make_trainer().run().signal is None
    finally:
        signal.signal(number, former)


def test_a_resumed_run_validates_the_same_pairs(make_trainer: Make) -> None:
    """Scores of different pairs could not be compared: the best checkpoint would be one of two measures."""
    make_trainer(updates=2, validation_freq=1, validation_pairs=3).run()
    trainer = make_trainer(updates=4, validation_freq=1, validation_pairs=5)
    trainer.run()
    (line,) = [line for line in log_of(trainer).splitlines() if "(training.validation_pairs)" in line]
    assert "validation: 3 of " in line
    assert load_saved_run(trainer.folder, trainer.config).state.validation_pairs == 3  # type: ignore[union-attr]


def test_a_run_does_not_go_on_with_another_text(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer({"data": {"train": [{"path": str(tmp_path / "train")}]}}, epochs=1)
    folder = trainer.folder
    trainer.run()
    fake_model.write_corpus(tmp_path, "other", 200, seed=9)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "train.log"}
    message = refused(CheckpointError, "", make_trainer({"data": {"train": str(tmp_path / "other")}}, epochs=2).run)
    assert message.startswith(f"{folder}: must go on with the text that it was trained on, {tmp_path / 'train'}, got")
    assert f"{tmp_path / 'other'}" in message
    assert "choose another model_dir" in message
    assert f"training.load_model={folder}" in message
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "train.log"} == before
    both = [{"path": str(tmp_path / "train")}, {"path": str(tmp_path / "test"), "weight": 2}]  # named by its paths
    line = f"trained on, {tmp_path / 'train'}, got {tmp_path / 'train'}, {tmp_path / 'test'};"
    assert line in refused(CheckpointError, "", make_trainer({"data": {"train": both}}, epochs=2).run)


def test_a_text_that_changed_in_its_place_is_another_text(make_trainer: Make, tmp_path: Path) -> None:
    make_trainer(epochs=1).run()
    again = make_trainer(epochs=2)
    lines = (tmp_path / "train.xx").read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line != lines[0])
    lines[0], lines[first] = lines[first], lines[0]
    (tmp_path / "train.xx").write_text("".join(lines))
    refused(CheckpointError, "another text there", again.run)


def test_a_text_that_moved_is_the_same_text(make_trainer: Make, tmp_path: Path) -> None:
    make_trainer(updates=3).run()
    fake_model.write_corpus(tmp_path, "moved", 200, seed=1)
    trainer = make_trainer({"data": {"train": str(tmp_path / "moved")}}, updates=5)
    assert trainer.run().reason
    log = log_of(trainer)
    assert "warning: changed since the checkpoint: data.train" in log
    assert "starts again" not in log, "the batches are the same"
    trainer = make_trainer({"data": {"train": [{"path": str(tmp_path / "moved"), "weight": 2}]}}, updates=6)
    trainer.run()
    assert "epoch 1 starts again" in log_of(trainer)


def test_another_text_under_the_name_of_the_validation_text_is_refused(make_trainer: Make, tmp_path: Path) -> None:
    """A relative path may name another text in another folder."""
    first = make_trainer(epochs=1).run()
    best = (first.folder / "best.safetensors").read_bytes()
    trainer = make_trainer(epochs=2)
    fake_model.write_corpus(tmp_path, "dev", 20, seed=5)
    refused(CheckpointError, "must go on with the validation text that it began with, .*dev, got", trainer.run)
    assert (first.folder / "best.safetensors").read_bytes() == best


def test_the_best_score_is_of_the_present_validation_text(make_trainer: Make, tmp_path: Path) -> None:
    first = make_trainer(epochs=4, metric="bleu").run()
    trainer = make_trainer({"data": {"dev": str(tmp_path / "hard")}}, epochs=5, metric="bleu")
    fake_model.write_corpus(tmp_path, "hard", 20, seed=5)
    hard = tmp_path / "hard.yy"
    hard.write_text("".join(f"z1 {line}" for line in hard.read_text().splitlines(keepends=True)))
    second = trainer.run()
    assert second.best_scores["bleu"] < first.best_scores["bleu"]
    assert second.best_update > first.update
    assert "warning: the validation text has changed" in log_of(trainer)


@pytest.mark.parametrize("limit", [{"epochs": 2}, {"stop_after": 1, "metric": "bleu"}])
def test_a_finished_run_refuses_another_validation_text(make_trainer, tmp_path, limit):
    """Its best checkpoint was chosen by the text that it had, and stays."""
    first = make_trainer(**limit).run()
    assert first.best_path is not None
    before = {path.name: path.read_bytes() for path in first.folder.iterdir() if path.name != "train.log"}
    fake_model.write_corpus(tmp_path, "other", 20, seed=5)
    trainer = make_trainer({"data": {"dev": str(tmp_path / "other")}}, **limit)
    message = refused(CheckpointError, "", trainer.run)
    words = f"{first.folder}: is finished ("
    assert message.startswith(words) and f"{tmp_path}/dev, got {tmp_path}/other; " in message
    trainer = make_trainer(**limit)
    fake_model.write_corpus(tmp_path, "dev", 20, seed=5)
    refused(CheckpointError, "got another text there; give the same one", trainer.run)
    assert {path.name: path.read_bytes() for path in first.folder.iterdir() if path.name != "train.log"} == before


def test_a_moved_validation_text_keeps_the_best(make_trainer: Make, tmp_path: Path) -> None:
    first = make_trainer(epochs=1).run()
    fake_model.write_corpus(tmp_path, "moved", 20, seed=2)
    second = make_trainer({"data": {"dev": str(tmp_path / "moved")}}, epochs=1).run()
    assert (second.best_update, second.best_scores) == (first.best_update, first.best_scores)
