"""Checkpoints: what was saved comes back; what is not whole is refused, and costs nothing."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.inference.translator import Translator
from nmt.storage.model_folder import numbered_checkpoints, read_checkpoint
from nmt.system.files import remove_temporaries, write_bytes
from nmt.train.checkpoints import checkpoint
from nmt.train.checkpoints.checkpoint import average_checkpoints, newest_checkpoints, save_checkpoint
from tests.refusals import refused
from tests.train.resumed import events

PARAMS = {"b": np.arange(6, dtype="f4").reshape(2, 3), "a": np.ones(1, "f4"), "e": np.ones((0, 2))}


def save(path: Path, scale: float = 1.0) -> None:
    params = {name: array * np.float32(scale) for name, array in PARAMS.items()}
    save_checkpoint(path, params=params, optimizer={"b/m": params["b"]}, metadata={"state": {"é": 1}})


def test_nothing_lies_beside_it_and_others_may_read_it(tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == ["x.safetensors"]
    (tmp_path / "usual").touch()
    mode = (tmp_path / "x.safetensors").stat().st_mode
    assert mode == (tmp_path / "usual").stat().st_mode


@contextlib.contextmanager
def small_disk() -> Iterator[None]:
    """Let no file grow over 400 bytes: the write fails in the middle, as on a full disk.

    Around the one call only: pytest's own report may be going to a file.
    """
    resource = pytest.importorskip("resource")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def test_a_full_disk_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save(path)
    former = path.read_bytes()
    assert len(former) > 400
    with pytest.raises(CheckpointError, match="previous checkpoint is intact") as caught, small_disk():
        save(path, scale=2.0)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == former
    assert os.listdir(tmp_path) == ["x.safetensors"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="nothing was saved"), small_disk():
        save(tmp_path / "folder" / "y.safetensors")
    save(tmp_path / "best.safetensors")
    with pytest.raises(CheckpointError, match=r"last.*; it was not saved, best\.safetensors was: "), small_disk():
        save(tmp_path / "last.safetensors")


@pytest.fixture
def folder(finished):
    return finished(keep_last_ckpts=3, keep_best_ckpts=2, epochs=6).folder


def updates(paths):
    return [int(path.stem.split("-")[1]) for path in paths]


def test_the_newest_are_kept(folder):
    validated = [event["update"] for event in events(folder, "validation")]
    assert len(validated) > 3
    assert updates(numbered_checkpoints(folder, "last")) == sorted(validated)[:-4:-1]
    newest = numbered_checkpoints(folder, "last")[0]
    last, _ = read_checkpoint(folder / "last.safetensors", "params/")
    own, _ = read_checkpoint(newest)
    assert own.keys() == last.keys() and all((own[k] == last[k]).all() for k in own), "no optimizer in it"


def test_a_resumed_run_drops_what_a_killed_one_wrote_ahead(make_trainer):
    trainer = make_trainer(keep_last_ckpts=2, epochs=2)
    trainer.run()
    save_checkpoint(trainer.folder / "last-9999.safetensors", params={}, optimizer={}, metadata={})
    make_trainer(keep_last_ckpts=2, epochs=4).run()
    assert 9999 not in updates(numbered_checkpoints(trainer.folder, "last"))
    assert len(numbered_checkpoints(trainer.folder, "last")) == 2


def test_the_mean(folder, tmp_path):
    paths = newest_checkpoints(folder, 3)
    mean, _ = average_checkpoints(paths)
    for name, array in mean.items():
        own = [read_checkpoint(path)[0][name].astype(np.float64) for path in paths]
        assert (array == np.mean(own, axis=0).astype(np.float32)).all() and array.dtype == np.float32
    checkpoint.save_average(folder, paths, tmp_path / "mean")
    translator = Translator.load(tmp_path / "mean", threads=1)
    assert (translator.model.params["bias"] == mean["params/bias"]).all()
    assert len(translator.translate(["w1 w2", "w3"])) == 2
    names = ["best.safetensors", "confidence.safetensors", "config.yaml", "joint.spm"]
    assert sorted(os.listdir(tmp_path / "mean")) == names
    assert read_checkpoint(tmp_path / "mean" / "best.safetensors")[1]["averaged"] == [path.name for path in paths]
    refused(CheckpointError, "must be a new folder", checkpoint.save_average, folder, paths, tmp_path / "mean")


def test_mistakes(folder, tmp_path):
    line = r"must contain 4 checkpoints last-UPDATE.*got 3.*keep_last_ckpts: 4"
    refused(CheckpointError, line, newest_checkpoints, folder, 4)
    refused(CheckpointError, r"got 2; ask for fewer", checkpoint.best_checkpoints, folder, 3)
    other = tmp_path / "other.safetensors"
    params = {name[7:]: array for name, array in read_checkpoint(folder / "best.safetensors")[0].items()}
    for changed in (params | {"bias": params["bias"][:3]}, {"bias": params["bias"]}, {}):
        save_checkpoint(other, params=changed, optimizer={}, metadata={})
        refused(CheckpointError, "must", average_checkpoints, [folder / "best.safetensors", other])
    save_checkpoint(other, params={"bias": np.ones(3, "i1")}, optimizer={}, metadata={})
    refused(CheckpointError, "average before quantising", average_checkpoints, [other])
    refused(CheckpointError, "no such file", average_checkpoints, [tmp_path / "nothing"])


def test_a_run_that_kept_none_is_told_of_the_two_that_are_there(finished):
    line = "got 0; name those that are there, --checkpoint best --ch"
    refused(CheckpointError, line, newest_checkpoints, finished().folder, 5)


def test_a_link_keeps_its_name_and_gets_a_new_target(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_bytes(Path("/dev/null"), b"x")
    assert not Path("/dev/null").is_file()


def test_only_our_temporaries_are_removed(tmp_path: Path) -> None:
    for name in (".last.safetensors.12.nmt-tmp", ".hidden", "last.safetensors", "x.nmt-tmp"):
        (tmp_path / name).touch()
    assert remove_temporaries(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == [".hidden", "last.safetensors", "x.nmt-tmp"]
