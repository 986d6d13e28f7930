"""Files of torch.save are read as data: what they hold, and nothing of what they could run."""

import os
import pickle
import zipfile

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.torch_file import Inert, read_torch
from tests.importing.torch_files import Namespace, save
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused, refused_of_damaged


def tensors():
    rng = np.random.default_rng(1)
    weight, half = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=5).astype(np.float16)
    return {"weight": weight, "half": half, "count": np.array([7], np.int64), "empty": np.zeros((0, 3), np.float32)}


def test_tensors_and_plain_values_come_back(tmp_path):
    values = {"model": tensors(), "epoch": 3, "name": "ä", "list": [1.5, None, True], "big": 2**70}
    found = read_torch(save(tmp_path / "model.pt", values))
    assert found.keys() == values.keys()
    assert_same_bits(found["model"], values["model"])
    assert all(found["model"][name].dtype == array.dtype for name, array in values["model"].items())
    assert {k: found[k] for k in ("epoch", "name", "list", "big")} == {k: values[k] for k in found if k != "model"}


def test_objects_are_names_with_their_state_and_never_made(tmp_path):
    found = read_torch(save(tmp_path / "model.pt", {"opt": Namespace(layers=2)}))
    assert isinstance(found["opt"], Inert)
    assert found["opt"].get("layers") == 2


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_planted_call_does_nothing(tmp_path):
    target = tmp_path / "made"
    assert isinstance(read_torch(save(tmp_path / "model.pt", {"model": Malicious(target)}))["model"], Inert)
    assert not target.exists()
    # The same file would have run, had anybody loaded it as a pickle.
    pickle.loads(pickle.dumps(Malicious(target)))
    assert target.exists()


def rewritten(path, change):
    """The same file with data.pkl or other members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda m: {"archive/other": b""}, "without data.pkl"),
        (lambda m: m | {"archive/data.pkl": b"\x80\x02}"}, "a damaged one"),
        (lambda m: m | {"archive/byteorder": b"big"}, "big-endian"),
        (lambda m: m | {"archive/data/0": b"1234"}, "beyond its numbers"),
        (lambda m: {k: v for k, v in m.items() if k != "archive/data/0"}, "a damaged one"),
        (lambda m: m | {"archive/data.pkl": b"\x80\x02r\xff\xff\xff\x7f."}, "a damaged one"),
    ],
)
def test_damage_is_one_line(tmp_path, change, fact):
    path = rewritten(save(tmp_path / "model.pt", tensors()), change)
    assert refused(CheckpointError, fact, read_torch, path).startswith(f"{path}: ")


def test_a_size_in_a_pickle_takes_no_memory(tmp_path):
    """Python makes a byte array of the size that the opcode BYTEARRAY8 names before it reads; torch writes none."""
    content = b"\x80\x05\x96" + (2**31).to_bytes(8, "little") + b"a."
    path = rewritten(save(tmp_path / "model.pt", tensors()), lambda m: m | {"archive/data.pkl": content})
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(CheckpointError, "a damaged one", read_torch, path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000


def test_the_opcodes_of_old_pickles_make_inert_objects_too(tmp_path):
    """INST and OBJ name a class and make it in one step."""
    for content in (b"(X\x04\x00\x00\x00madeios\nmkdir\n.", b"(cos\nmkdir\nX\x04\x00\x00\x00madeo."):
        path = rewritten(save(tmp_path / "model.pt", tensors()), lambda m, c=content: m | {"archive/data.pkl": c})
        found = read_torch(path)
        assert isinstance(found, Inert)
        assert (found.name, found.arguments) == ("os.mkdir", ("made",))
    assert not os.path.exists("made")


def test_values_that_hold_themselves_and_shared_ones(tmp_path):
    shared = tensors()["weight"]
    found = read_torch(save(tmp_path / "model.pt", {"a": {"b": shared}, "c": (1, [2])}))
    np.testing.assert_array_equal(found["a"]["b"], shared)
    path = rewritten(tmp_path / "model.pt", lambda m: m | {"archive/data.pkl": b"\x80\x02]q\x00h\x00a."})
    loop = read_torch(path)
    assert loop[0] is loop


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x02.", b"\x80\x04\x95", b"PK\x03\x04", pickle.dumps({"a": 1})])
def test_other_files_are_one_line(tmp_path, content):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    refused(CheckpointError, "must be a file that torch.save wrote", read_torch, path)


def test_whatever_the_bytes_are_it_is_one_line_or_values(tmp_path):
    path = save(tmp_path / "model.pt", {"model": tensors(), "opt": Namespace(a=[1, 2])})
    assert refused_of_damaged(CheckpointError, path, read_torch, 1500) > 100
