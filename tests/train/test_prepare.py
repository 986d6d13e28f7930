"""What a run would meet after minutes or hours is looked at before its first update."""

from pathlib import Path
from typing import Any

import pytest

import nmt
from nmt.config import Config, config_from_dict, dump_config
from nmt.config.yaml_text import format_yaml
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError, ConfigError
from nmt.train.tasks.plain_texts import Texts, settings_of
from nmt.train.tasks.prepare import sides_of_dry_run, sides_of_sample
from tests.settings import settings_with
from tests.train import fake_model


@pytest.mark.parametrize("weight", [0.001, 0.02, 1.0])
def test_weights_leave_something_in_every_epoch(make_trainer: Any, tmp_path: Any, weight: float) -> None:
    fake_model.write_setup(tmp_path)
    trainer = make_trainer({"data": {"train": [{"path": str(tmp_path / "train"), "weight": weight}]}}, updates=3)
    if weight == 0.001:
        with pytest.raises(ConfigError, match="weights must leave at least one pair of a corpus in every epoch, got 0"):
            trainer.run()
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
        with pytest.raises(CheckpointError, match=line):
            nmt.train(**given, progress=False)
        assert names(folder) == before


FOREIGN = {
    "a log of another toolkit": {"train.log": "2026-11-28 10:00:00,123 - INFO - root - Hello!\n", "1000.ckpt": "x"},
    "logs of that name": {"train.log": "epoch 1\n", "metrics.jsonl": '{"loss": 1}\n', "notes.txt": "mine"},
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_folder_is_one_of_a_run_by_what_a_run_alone_writes(tmp_path: Path, case: str) -> None:
    values, folder = fake_model.write_setup(tmp_path), tmp_path / "model"
    folder.mkdir()
    for name, text in FOREIGN[case].items():
        (folder / name).write_text(text)
    before = names(folder)
    texts = {"src": tmp_path / "train.xx", "tgt": tmp_path / "train.yy", "output": folder}
    for given in ({"config": values}, texts):
        with pytest.raises(CheckpointError, match=r"model_dir must be new or written by nmt-train, got one with \w"):
            nmt.train(**given, progress=False)
        assert names(folder) == before


def test_what_cannot_be_looked_at_does_not_make_a_folder_one_of_a_run(tmp_path: Path) -> None:
    values, folder = fake_model.write_setup(tmp_path), tmp_path / "model"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "loop").symlink_to("loop")
    with pytest.raises(CheckpointError, match="got one with loop and no run"):
        nmt.train(values, progress=False)
    assert sorted(one.name for one in folder.iterdir()) == ["loop", "notes.txt"]


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
