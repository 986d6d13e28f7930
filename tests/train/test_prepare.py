"""What a run would meet after minutes or hours is looked at before its first update."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nmt
from nmt.config import Config, config_from_dict, dump_config
from nmt.config.yaml_text import format_yaml
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.storage.model_folder import read_checkpoint
from nmt.storage.saved_model import load_saved_model, save_bundle
from nmt.train.run.trainer import Trainer
from nmt.train.tasks.plain_texts import Texts, settings_of
from nmt.train.tasks.prepare import sides_of_dry_run, sides_of_sample
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused
from tests.settings import settings_with
from tests.train import fake_model
from tests.train.resumed import events


@pytest.mark.parametrize("weight", [0.001, 0.02, 1.0])
def test_weights_leave_something_in_every_epoch(make_trainer: Any, tmp_path: Any, weight: float) -> None:
    fake_model.write_setup(tmp_path)
    trainer = make_trainer({"data": {"train": [{"path": str(tmp_path / "train"), "weight": weight}]}}, updates=3)
    if weight == 0.001:
        refused(ConfigError, "weights must leave at least one pair of a corpus in every epoch, got 0", trainer.run)
    else:
        assert trainer.run().update == 3


def test_texts_are_checked_with_a_list_of_words_that_the_settings_name(tmp_path: Any) -> None:
    (tmp_path / "words.spm").write_bytes(Vocabulary(["one", "two"]).model_bytes)
    config = settings_with({"subwords": {"joint": True, "model_file": str(tmp_path / "words.spm")}})
    src, tgt = sides_of_sample(config, [["one three"], ["two"]], lambda text: None)
    assert src.subwords is tgt.subwords and src.subwords.encode(["one three two"]) == [[4, 1, 5]]


def names(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("other", ["train.xx", "photos/one.png"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_of_somebody_else_is_refused_before_anything_is_written(tmp_path, other, begun):
    values, folder = fake_model.write_setup(tmp_path), tmp_path / "model"
    (folder / other).parent.mkdir(parents=True)
    (folder / other).write_text("mine")
    if begun:  # settings of something else have this name, too
        (folder / "config.yaml").write_text("theme: dark\n")
    before = names(folder)
    texts = {"src": tmp_path / "train.xx", "tgt": tmp_path / "train.yy", "output": folder}
    for given in ({"config": values}, texts):
        first = other.partition("/")[0]
        line = rf"\A{folder}: model_dir must be new or written by nmt-train, got one with {first} and no run; [^\n]*\Z"
        refused(CheckpointError, line, nmt.train, **given, progress=False)
        assert names(folder) == before


FOREIGN = {
    "a log of another toolkit": {"train.log": "2026-11-28 10:00:00,123 - INFO - root - Hello!\n", "1000.ckpt": "x"},
    "logs of that name": {"train.log": "epoch 1\n", "metrics.jsonl": '{"loss": 1}\n', "notes.txt": "mine"},
    "what cannot be looked at": {"notes.txt": "mine", "loop": None},
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_folder_is_one_of_a_run_by_what_a_run_alone_writes(tmp_path: Path, case: str) -> None:
    values, folder = fake_model.write_setup(tmp_path), tmp_path / "model"
    folder.mkdir()
    for name, text in FOREIGN[case].items():
        (folder / name).symlink_to(name) if text is None else (folder / name).write_text(text)
    before, has = names(folder), f"got one with {min(FOREIGN[case])}"
    texts = {"src": tmp_path / "train.xx", "tgt": tmp_path / "train.yy", "output": folder}
    for given in ({"config": values}, texts):
        line = f"model_dir must be new or written by nmt-train, {has}.* and no run"
        refused(CheckpointError, line, nmt.train, **given, progress=False)
        assert names(folder) == before and {one.name for one in folder.iterdir()} == {*FOREIGN[case]}


def test_settings_with_comments_in_the_folder_of_the_run_stay_as_they_are(tmp_path: Path) -> None:
    values, folder = fake_model.write_setup(tmp_path, updates=3), tmp_path / "model"
    folder.mkdir()
    file = folder / "config.yaml"
    file.write_text(text := "# why\n" + format_yaml(values))
    assert nmt.train(file, progress=False).update == 3
    assert file.read_text() == text
    with pytest.raises(CheckpointError, match="must be as nmt-train writes it.* got a file of your own"):
        nmt.train(file, changes={"training.updates": 5}, progress=False)
    assert file.read_text() == text
    file.write_text(text.replace("updates: 3", "updates: 5"))
    assert nmt.train(file, progress=False).update == 5
    file.write_text(dump_config(Config.load(file)))  # as a run writes it
    assert nmt.train(file, changes={"training.updates": 6}, progress=False).update == 6
    assert "updates: 6" in file.read_text()


def test_folders_that_a_run_may_begin_in(tmp_path: Path) -> None:
    """Empty ones, those of a run that was ended early, and those in which only a shell and a system left something."""
    values, folder = fake_model.write_setup(tmp_path, updates=3), tmp_path / "model"
    (folder / "logs").mkdir(parents=True)
    for name, text in {"out.txt": "", ".DS_Store": "x", "slurm-17.out": "a node", "joint.spm.part": ""}.items():
        (folder / name).write_text(text)
    assert nmt.train(values, progress=False).update == 3
    (folder / "essay.txt").write_text("a note on this run")
    assert nmt.train(values, changes={"training.updates": 5}, progress=False).update == 5
    for name in ("last", "best", "former"):
        (folder / f"{name}.safetensors").unlink(missing_ok=True)
    assert nmt.train(values, progress=False).update == 3  # begun, but never saved
    files = str(tmp_path / "train.xx"), str(tmp_path / "train.yy")
    begun = settings_of(Texts(files), None, tmp_path / "texts", "low-resource")
    begun.write()
    sides_of_dry_run(config_from_dict(begun.values), print, keep=True)  # as --budget does before its run
    there = names(tmp_path / "texts")
    assert {"dev.xx", "config.yaml"} <= there.keys() and "train.log" not in there
    changes = {"training.updates": 2}
    assert nmt.train(src=files[0], tgt=files[1], output=tmp_path / "texts", changes=changes, progress=False).update == 2


@pytest.fixture
def base(finished: Callable[..., Trainer]) -> Trainer:
    """A trained model."""
    return finished()


Run = tuple[Trainer, io.StringIO]


def tuned(base: Trainer, tmp_path: Path, data: dict[str, Any] | None = None, **training: Any) -> Run:
    """A run into another folder, on another text, that starts from the model."""
    fake_model.write_corpus(tmp_path, "other", 80, seed=9)
    settings = base.config.to_dict()
    settings["model_dir"] = str(tmp_path / "tuned")
    settings["data"] |= {"train": str(tmp_path / "other"), **(data or {})}
    settings["training"] |= {"load_model": str(base.folder), "learning_rate": 1e-9, "learning_rate_min": 1e-12}
    settings["training"] |= {"updates": 1, **training}
    terminal = io.StringIO()
    return Trainer(config_from_dict(settings), terminal=terminal), terminal


def params(path: Path) -> dict[str, np.ndarray]:
    return read_checkpoint(path, prefix="params/")[0]


def test_a_run_starts_where_the_model_was(base: Trainer, tmp_path: Path) -> None:
    trainer, said = tuned(base, tmp_path)
    trainer.run()
    want, got = params(base.folder / "best.safetensors"), params(trainer.folder / "last.safetensors")
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, atol=1e-6)
    assert (trainer.folder / "joint.spm").read_bytes() == (base.folder / "joint.spm").read_bytes()
    assert f"starting from {base.folder / 'best.safetensors'}, with a fresh optimizer" in said.getvalue()
    scratch, _ = tuned(base, tmp_path, load_model=None)
    scratch.folder = tmp_path / "scratch"
    scratch.run()
    assert abs(params(tmp_path / "scratch" / "last.safetensors")["params/bias"] - want["params/bias"]).max() > 0.01


def test_a_run_that_goes_on_has_its_own_parameters(base: Trainer, tmp_path: Path) -> None:
    tuned(base, tmp_path, learning_rate=0.5)[0].run()
    before = params(tmp_path / "tuned" / "last.safetensors")
    again, said = tuned(base, tmp_path, updates=2)
    again.run()
    assert "starting from" not in said.getvalue() and "resuming from" in said.getvalue()
    after = params(tmp_path / "tuned" / "last.safetensors")
    np.testing.assert_allclose(after["params/bias"], before["params/bias"], atol=1e-6)


def test_the_optimizer_is_kept_where_that_is_asked_for(base: Trainer, tmp_path: Path) -> None:
    trainer, said = tuned(base, tmp_path, reset_optimizer=False)
    trainer.run()
    assert f"starting from {base.folder / 'last.safetensors'}, with its optimizer" in said.getvalue()
    steps = [read_checkpoint(folder / "last.safetensors")[1]["optimizer"] for folder in (base.folder, trainer.folder)]
    assert steps[1] != steps[0]
    fresh, _ = tuned(base, tmp_path)
    fresh.folder = tmp_path / "fresh"
    fresh.run()
    files = [folder / "last.safetensors" for folder in (trainer.folder, fresh.folder)]
    moments = [read_checkpoint(path, prefix="optimizer/")[0] for path in files]
    assert any(not np.allclose(moments[0][name], moments[1][name]) for name in moments[1])


MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "nothing there": ({}, {"load_model": "nowhere"}, "nowhere: no such folder"),
    "other vocabulary": (
        {"subwords": {"type": "word", "joint": False}},
        {},
        "joint must be true, which .*best.safetensors was trained with, got false",
    ),
    "a file too": ({"subwords": {"model_file": "x.spm"}}, {}, "model_file: must be null with training.load_model"),
    "other optimizer": ({}, {"optimizer": "sgd", "reset_optimizer": False}, "must be adam, as in"),
    "lower-cased from now on": (
        {"src": {"lang": "xx", "lowercase": True}},
        {"extend_vocabulary": 9},
        "data.src.lowercase must be false",
    ),
    "other cleaning": ({"src": {"lang": "xx", "lowercase": True}}, {}, "data.src.lowercase must be false"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_what_does_not_fit_is_one_line(case: str, base: Trainer, tmp_path: Path) -> None:
    data, training, message = MISTAKES[case]
    refused(NMTError, message, lambda: tuned(base, tmp_path, data, **training)[0].run())


def test_all_that_differs_is_told_at_once_and_before_a_text_is_read(base: Trainer, tmp_path: Path) -> None:
    sides = {"src": {"lang": "xx", "lowercase": True}, "tgt": {"lang": "yy", "normalize": "nfkc"}}
    trainer, said = tuned(base, tmp_path, sides)
    (tmp_path / "other.xx").unlink()  # of the training text
    line = refused(NMTError, "", trainer.run)
    assert "data.src.lowercase must be false, which" in line and "and data.tgt.normalize nfc, got nfkc" in line
    assert line.endswith("; set them back, or train a new model with them")


def test_what_the_settings_leave_out_is_as_in_the_model(base: Trainer, tmp_path: Path) -> None:
    fake_model.write_corpus(tmp_path, "other", 80, seed=9)
    settings = fake_model.write_setup(tmp_path, load_model=str(base.folder), updates=1)
    values = {**settings, "model_dir": str(tmp_path / "tuned"), "data": {**settings["data"], "src": {"lang": "xx"}}}
    values.pop("model", None)
    trained = base.config.to_dict()
    trained["model"]["encoder"]["hidden_size"] = 8
    theirs = Trainer(config_from_dict({**trained, "model_dir": str(tmp_path / "theirs")}))
    theirs.run()
    values["training"]["load_model"] = str(theirs.folder)
    given = config_from_dict(values)
    tuning = Trainer(given)
    assert given.model.encoder.hidden_size != 8 == tuning.config.model.encoder.hidden_size
    tuning.run()
    values["training"]["updates"] = 2
    values["training"]["load_model"] = str(tmp_path / "gone")
    assert Trainer(config_from_dict(values)).run().update == 2  # goes on, with the model that it began with
    values |= {"model_dir": str(tmp_path / "other run"), "model": {"encoder": {"hidden_size": 16}}}
    values["training"]["load_model"] = str(theirs.folder)
    line = "model.encoder.hidden_size must be 8, which .* was trained with, got 16; set it"
    refused(NMTError, line, lambda: Trainer(config_from_dict(values)).run())


def test_a_bundle_is_a_model_to_start_from(base: Trainer, tmp_path: Path) -> None:
    bundle = tmp_path / "model.nmt"
    save_bundle(bundle, load_saved_model(base.folder))
    with pytest.raises(NMTError, match="must be a model folder with training.reset_optimizer: false, got a file"):
        tuned(base, tmp_path, load_model=str(bundle), reset_optimizer=False)
    trainer, said = tuned(base, tmp_path, load_model=str(bundle))
    trainer.run()
    want, got = params(base.folder / "best.safetensors"), params(trainer.folder / "last.safetensors")
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, atol=1e-6)
    assert f"starting from {bundle}, with a fresh optimizer" in said.getvalue()


def test_what_is_frozen_stays_and_has_no_state(base: Trainer, tmp_path: Path) -> None:
    trainer, _ = tuned(base, tmp_path, freeze=["ta*"], learning_rate=0.1, updates=12, validation_freq=4)
    trainer.run()
    path = trainer.folder / "last.safetensors"
    want, got = params(base.folder / "best.safetensors"), params(path)
    assert np.array_equal(got["params/table"], want["params/table"])
    assert abs(got["params/bias"] - want["params/bias"]).max() > 0.01
    state = read_checkpoint(path, prefix="optimizer/")[0]
    assert state and all("bias" in name for name in state)
    # Cut in the middle and resumed: the same bits.
    cut, _ = tuned(base, tmp_path, freeze=["ta*"], learning_rate=0.1, updates=5, validation_freq=4)
    for one in (cut, trainer):
        one.folder = tmp_path / "again"
    cut.run()
    assert not np.array_equal(params(tmp_path / "again" / "last.safetensors")["params/bias"], got["params/bias"])
    trainer.run()
    assert_same_bits(params(tmp_path / "again" / "last.safetensors"), got)


@pytest.mark.parametrize(
    ("freeze", "words"),
    [
        (["encoder.*"], "training.freeze: must match parameters, got encoder.*, which matches none of table, bias"),
        (["*"], "training.freeze: must leave something to learn"),
    ],
)
def test_patterns_that_freeze_nothing_or_all(base: Trainer, tmp_path: Path, freeze: list[str], words: str) -> None:
    refused(NMTError, words.replace("*", r"\*").replace(".", r"\."), tuned(base, tmp_path, freeze=freeze)[0].run)


def test_a_frozen_gradient_has_no_part_in_the_norm(base: Trainer, tmp_path: Path) -> None:
    norms: list[float] = []
    for freeze in ([], ["table"], ["bias"]):
        trainer, _ = tuned(base, tmp_path, freeze=freeze, logging_freq=1)
        trainer.folder = tmp_path / f"frozen-{len(norms)}"
        trainer.run()
        norms.append(next(event["gradient_norm"] for event in events(trainer.folder) if "gradient_norm" in event))
    assert norms[0] == pytest.approx(np.hypot(norms[1], norms[2]), rel=1e-5)
