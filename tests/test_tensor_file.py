"""The reader of tensor files against the library that others use, and against bytes that nobody should trust."""

import io
import json
import struct
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from nmt.errors import CheckpointError
from nmt.storage import tensor_file
from nmt.storage.tensor_file import map_tensors, read_foreign_tensors, write_tensors
from tests.refusals import refused

RNG = np.random.default_rng(0)
ARRAYS = {
    "f8": RNG.normal(size=(3, 1)),
    "f4": RNG.normal(size=(2, 3, 5)).astype("f4"),
    "f2": RNG.normal(size=7).astype("f2"),
    "i8": np.array([-(2**62), 5]),
    "u4": np.array([2**32 - 1], "u4"),
    "i1": np.arange(-3, 8, dtype="i1"),
    "u1": np.arange(3, dtype="u1"),
    "none": np.zeros((0, 4), "f4"),
    "scalar": np.array(2.5, "f4"),
    "ümlaut/x": np.ones(2, "i2"),
}


@pytest.fixture
def path(tmp_path):
    write_tensors(tmp_path / "x", ARRAYS, {"a": [1, "é", None]})
    return tmp_path / "x"


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be cut short there")
def test_files_that_are_read_whole_may_be_overwritten(path):
    with tensor_file.reading_whole():
        tensors, content = map_tensors(path)
        assert tensor_file.mapped_file(path) is None
    mapped, _ = map_tensors(path)
    assert tensor_file.mapped_file(path) is not None, "as before the block"
    with path.open("r+b") as file:
        file.truncate(10)  # a map would now kill the process that looks
    assert content["a"] == [1, "é", None]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(tensors[name], array)
        assert tensors[name].flags.aligned and mapped[name].dtype == array.dtype


def test_a_file_that_grows_while_it_is_read_is_refused(path, monkeypatch):
    class Growing(io.FileIO):
        def readinto(self, buffer):
            count = super().readinto(buffer)
            with open(path, "ab") as file:
                file.write(b"more")
            return count

    monkeypatch.setattr(Path, "open", lambda self, mode: Growing(self, mode))
    with tensor_file.reading_whole(), pytest.raises(CheckpointError, match="being written"):
        map_tensors(path)


def test_a_mapped_file_that_was_written_into_is_told(path):
    mapped = tensor_file.MappedFile(path)
    mapped.check_unchanged()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    first = path.with_name("first")
    path.rename(first)
    other.rename(path)  # another file in its place
    mapped.check_unchanged()
    first.replace(path)
    with path.open("ab") as file:
        file.write(b"more")
    refused(CheckpointError, "got one that was modified", mapped.check_unchanged)
    path.unlink()
    mapped.check_unchanged()


def test_what_is_read_is_what_the_library_reads(path):
    tensors, content = map_tensors(path)
    assert content["a"] == [1, "é", None]
    with safe_open(path, framework="numpy") as file:
        assert set(file.keys()) == tensors.keys()
        for name, array in tensors.items():
            theirs = file.get_tensor(name)
            assert array.dtype == theirs.dtype and array.shape == theirs.shape and (array == theirs).all()
    assert map_tensors(path, "f")[0].keys() == {"f8", "f4", "f2"}


def test_a_view_may_be_written_into_and_the_file_stays(path):
    before = path.read_bytes()
    tensors, _ = map_tensors(path)
    tensors["f4"][...] = 0
    assert path.read_bytes() == before
    assert (map_tensors(path)[0]["f4"] == ARRAYS["f4"]).all()


def test_every_change_is_noticed_or_changes_nothing(path, tmp_path):
    whole = path.read_bytes()
    changed = tmp_path / "y"
    rng = np.random.default_rng(1)
    noticed = 0
    for at in sorted({*range(60), *rng.integers(0, len(whole), 400).tolist()}):
        broken = bytearray(whole)
        broken[at] ^= 1 << int(rng.integers(8))
        changed.write_bytes(broken)
        try:
            tensors, content = map_tensors(changed)
        except CheckpointError as error:
            assert str(error).startswith(f"{changed}: must") and "\n" not in str(error)
            noticed += 1
        else:
            assert content["a"] == [1, "é", None] and tensors.keys() == ARRAYS.keys()
            assert all(array.tobytes() == ARRAYS[name].tobytes() for name, array in tensors.items())
    assert noticed > 300
    for keep in (*range(30), len(whole) // 2, len(whole) - 1):
        changed.write_bytes(whole[:keep])
        refused(CheckpointError, "must be a whole", map_tensors, changed)
    changed.write_bytes(whole + b"\0")
    refused(CheckpointError, "bytes of data", map_tensors, changed)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HOSTILE = {
    "empty": b"",
    "no header": b"\0" * 8,
    "endless header": struct.pack("<Q", 2**64 - 1) + b"{}",
    "long header": struct.pack("<Q", 10**9) + b"{}",
    "header beyond the end": struct.pack("<Q", 50) + b"{}",
    "not utf-8": file_of(b'{"\xff": 1}'),
    "deep": file_of(b"[" * 200_000 + b"]" * 200_000),
    "digits": file_of(b'{"a": ' + b"9" * 5000 + b"}"),
    "a list": file_of([1]),
    "a number": file_of(b"7"),
    "metadata": file_of({"__metadata__": [1]}),
    "no dtype": file_of({"a": {"shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8),
    "unknown dtype": file_of({"a": tensor("F128")}, b"\0" * 8),
    "a dtype that is a list": file_of({"a": tensor(["F32"])}, b"\0" * 8),
    "a tensor that is a string": file_of({"a": "F32"}, b"\0" * 8),
    "negative": file_of({"a": tensor(shape=(-2,))}, b"\0" * 8),
    "huge": file_of({"a": tensor(shape=(2**70, 0), offsets=(0, 0))}, b""),
    "product overflows": file_of({"a": tensor(shape=(2**32, 2**32), offsets=(0, 0))}, b""),
    "a float": file_of({"a": tensor(shape=(2.0,))}, b"\0" * 8),
    "a truth": file_of({"a": tensor(shape=(True, 2))}, b"\0" * 8),
    "axes": file_of({"a": tensor(shape=(1,) * 70 + (2,))}, b"\0" * 8),
    "outside": file_of({"a": tensor(offsets=(8, 16))}, b"\0" * 8),
    "backwards": file_of({"a": tensor(offsets=(8, 0))}, b"\0" * 8),
    "overlap": file_of({"a": tensor(), "b": tensor()}, b"\0" * 8),
    "three places": file_of({"a": tensor(offsets=(0, 4, 8))}, b"\0" * 8),
    "no content": file_of({"a": tensor()}, b"\0" * 8),
    "content is a number": save({}, metadata={"nmt": "7"}),
    "content is deep": save({}, metadata={"nmt": "[" * 200_000}),
    "version": save({}, metadata={"nmt": '{"format_version": "x"}'}),
    "infinite version": save({}, metadata={"nmt": '{"format_version": 1e999}'}),
    "no checksums": save({}, metadata={"nmt": '{"format_version": 1}'}),
    "checksums": save({}, metadata={"nmt": '{"format_version": 1, "checksums": 3}'}),
    "content without its checksum's truth": save({}, metadata={"nmt": '{"format_version": 1}', "nmt_crc32": "1"}),
}


def test_numbers_of_others_in_bfloat16_are_widened_and_a_missing_file_is_called_so(tmp_path):
    numbers = np.array([[1.5, -2.0, 3.0e38]], np.float32)  # the last one is rounded towards zero
    halves = (numbers.view("<u4") >> 16).astype("<u2")
    (tmp_path / "b").write_bytes(file_of({"a": tensor("BF16", (1, 3), (0, 6))}, halves.tobytes()))
    found = read_foreign_tensors(tmp_path / "b")["a"]
    assert found.dtype == np.float32 and found.shape == (1, 3)
    np.testing.assert_array_equal(found, (numbers.view("<u4") & 0xFFFF0000).view("<f4"))
    refused(CheckpointError, "no such file; it is a checkpoint", map_tensors, tmp_path / "missing")


def test_a_file_of_a_later_format_is_called_so(tmp_path):
    for version in (0, 2):
        content = json.dumps({"format_version": version, "checksums": {}})
        (tmp_path / "later").write_bytes(save({}, metadata={"nmt": content}))
        with pytest.raises(CheckpointError, match=f"must have checkpoint format 1, got {version}; use the version"):
            map_tensors(tmp_path / "later")
    (tmp_path / "later").write_bytes(save({}))
    refused(CheckpointError, "must be a checkpoint .*, got another safetensors file", map_tensors, tmp_path / "later")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_one_line(name, tmp_path):
    (tmp_path / "h").write_bytes(HOSTILE[name])
    assert "must" in refused(CheckpointError, "", map_tensors, tmp_path / "h")


WRONG = {
    "empty": "0 bytes",
    "no header": "8 bytes",
    **dict.fromkeys(["endless header", "long header", "header beyond the end"], "a header of"),
    "not utf-8": "a header that is not JSON",
    "a list": "a header without tensors",
    "metadata": "a header with other metadata",
    "no dtype": "no dtype, shape or place of 'a'",
    **dict.fromkeys(["negative", "huge", "a float", "a truth", "axes"], "an impossible shape of 'a'"),
    "product overflows": "a shape of 'a' that does not fit its bytes",
    **dict.fromkeys(["outside", "overlap"], "tensors that overlap or leave holes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_header_is_told_by_its_fault(name, tmp_path):
    """Files of others have no checksums, for whose absence the files above could be refused as well."""
    (tmp_path / "h").write_bytes(HOSTILE[name])
    refused(CheckpointError, f"got {WRONG[name]}", read_foreign_tensors, tmp_path / "h")
    refused(CheckpointError, rf"got a damaged or truncated file \({WRONG[name]}", map_tensors, tmp_path / "h")


def test_what_is_not_aligned_is_copied(tmp_path):
    header = {"__metadata__": {}, "a": tensor("U8", (1,), (0, 1)), "b": tensor("F32", (2,), (1, 9))}
    data = b"\7" + np.array([1.5, -2], "<f4").tobytes()
    import zlib

    sums = {"a": zlib.crc32(b"\7"), "b": zlib.crc32(data[1:])}
    header["__metadata__"] = {"nmt": json.dumps({"format_version": 1, "checksums": sums})}
    (tmp_path / "m").write_bytes(file_of(header, data))
    tensors, _ = map_tensors(tmp_path / "m")
    assert tensors["b"].flags.aligned and tensors["b"].tolist() == [1.5, -2]


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """Who removes it, as is advised for a damaged one, loses a good model."""
    write_tensors(tmp_path / "m.safetensors", {"a": np.zeros(3, np.float32)}, {})

    monkeypatch.setattr(Path, "open", Mock(side_effect=PermissionError(13, "Permission denied")))
    told = refused(CheckpointError, "must be readable, got permission denied", map_tensors, tmp_path / "m.safetensors")
    assert "damaged" not in told and "remove" not in told
