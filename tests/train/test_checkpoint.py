"""Checkpoints: what was saved comes back; what is not whole is refused, and costs nothing."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from nmt.errors import CheckpointError
from nmt.rnn.devices import cpu
from nmt.storage.model_folder import PARAMS_PREFIX, read_checkpoint, set_params
from nmt.train.checkpoints.checkpoint import read_whole, save_checkpoint

PARAMS = {"b": np.arange(6, dtype="f4").reshape(2, 3), "a": np.ones(1, "f4"), "e": np.ones((0, 2))}


def save(path: Path, scale: float = 1.0) -> None:
    params = {name: array * np.float32(scale) for name, array in PARAMS.items()}
    save_checkpoint(path, params=params, optimizer={"b/m": params["b"]}, metadata={"state": {"é": 1}})


def test_round_trip(tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors")
    params, optimizer, _, _, metadata = read_whole(tmp_path / "x.safetensors")
    for name, array in PARAMS.items():
        np.testing.assert_array_equal(params[PARAMS_PREFIX + name], array)
    np.testing.assert_array_equal(optimizer["b/m"], PARAMS["b"])
    assert metadata["state"] == {"é": 1}
    only, _ = read_checkpoint(tmp_path / "x.safetensors", prefix=PARAMS_PREFIX)
    assert sorted(only) == ["params/a", "params/b", "params/e"]


def test_nothing_lies_beside_it_and_others_may_read_it(tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == ["x.safetensors"]
    (tmp_path / "usual").touch()
    mode = (tmp_path / "x.safetensors").stat().st_mode
    assert mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("keep", [0, 4, 60, -1])
def test_a_cut_file_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "x.safetensors"
    save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"x\.safetensors: must be") as caught:
        read_whole(path)
    assert "\n" not in str(caught.value)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save(path)
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"x\.safetensors.*other bytes"):
        read_whole(path)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": np.ones(2, "f4")}, path)
    with pytest.raises(CheckpointError, match="another safetensors file"):
        read_whole(path)
    save_file({"a": np.ones(2, "f4")}, path, metadata={"nmt": json.dumps({"format_version": 99})})
    with pytest.raises(CheckpointError, match="checkpoint format 1, got 99"):
        read_whole(path)
    with pytest.raises(CheckpointError, match="no such file"):
        read_whole(tmp_path / "nothing")


def test_parameters_of_another_shape_are_named(tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors")
    tensors, _ = read_checkpoint(tmp_path / "x.safetensors", prefix=PARAMS_PREFIX)
    wanted = {"a": np.zeros(1, "f4"), "b": np.zeros((3, 2), "f4"), "e": np.zeros((0, 2))}
    model: Any = SimpleNamespace(params=wanted, device=cpu())
    with pytest.raises(CheckpointError, match=r"must contain b as \[3, 2\].*got \[2, 3\]"):
        set_params(model, tensors, tmp_path / "x.safetensors")
    assert not wanted["a"].any(), "nothing is copied unless everything fits"


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
