"""Files of tensors (safetensors) with JSON content and checksums: written aside and renamed, read through a memory map.
The reader is our own and trusts nothing: whatever the bytes are, it returns complete arrays or raises one
CheckpointError. Nothing in such a file can run code."""

from __future__ import annotations

import json
import math
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage import four_bits
from nmt.system.files import explain, write_bytes
from nmt.system.paths import absent, is_file

FORMAT_VERSION = 1
METADATA_KEY = "nmt"
_CHECKSUM_KEY = "nmt_crc32"
"""The metadata key of the CRC-32 of the content: without it a changed setting would go unnoticed."""
_PACKED_KEY = "packed"
"""The key in the content of tensors that are stored in 4 bits: their shapes and the axes of their channels."""
_FACTORS_SUFFIX = "#factors"

_BFLOAT16 = np.dtype([("bfloat16", "<u2")])
"""The upper halves of float32 numbers, which NumPy has no type for: only files of others have them."""
_DTYPES: dict[str, Any] = {
    "BF16": _BFLOAT16,
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "U64": "<u8",
    "I32": "<i4",
    "U32": "<u4",
    "I16": "<i2",
    "U16": "<u2",
    "I8": "i1",
    "U8": "u1",
}
_Bytes = mmap.mmap | memoryview
_is_whole = ContextVar("_is_whole", default=os.name == "nt")
"""Windows replaces no file that a process has mapped."""
_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000
_MOST_AXES = 8
_LONGEST_AXIS = 2**40


class MalformedError(Exception):
    """A malformed file; the text completes the `got` of an error."""


@dataclass(frozen=True)
class _Entry:
    """The place of a tensor, counted from the first byte after the header."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], content: Mapping[str, Any], *, in_4_bits: bool = False
) -> None:
    """Write a temporary file, wait for the disk, then rename it to `path`. `content`: values for JSON, to which
    `format_version` and `checksums` are added; `in_4_bits`: where matrices fit (`four_bits.pack`). Raises OSError."""
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    checksums = {name: tensor_checksum(array) for name, array in whole.items()}
    extra = {_PACKED_KEY: _pack(whole)} if in_4_bits else {}
    text = json.dumps({"format_version": FORMAT_VERSION, **content, **extra, "checksums": checksums})
    metadata = {METADATA_KEY: text, _CHECKSUM_KEY: str(_text_checksum(text))}
    # save, not save_file: the latter writes another temporary file, which a killed run would
    # leave behind under a name that looks like one of the user's files.
    write_bytes(path, save(whole, metadata=metadata), sync=True)


def _pack(tensors: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Replace int8 matrices by their codes and factors; return their shapes and axes by name."""
    packed: dict[str, list[int]] = {}
    for name, array in list(tensors.items()):
        found = four_bits.pack(array) if array.dtype == np.int8 and array.ndim == 2 else None
        if found is not None:
            tensors[name], tensors[name + _FACTORS_SUFFIX], axis = found
            packed[name] = [*array.shape, axis]
    return packed


def _unpack(path: Path, tensors: dict[str, np.ndarray], packed: Any) -> None:
    """Replace codes and factors by int8 matrices. Raises CheckpointError."""
    try:
        for name, (rows, columns, axis) in packed.items():
            if name in tensors:
                factors = tensors.pop(name + _FACTORS_SUFFIX)
                tensors[name] = four_bits.unpack(tensors[name], factors, (rows, columns), axis)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: must have matrices of 4 bits in the sizes that it states, got others; restore a copy"
        ) from error


def map_tensors(path: Path, prefix: str = "") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tensors whose names start with `prefix`, and the content that `write_tensors` was given. Tensors are
    views of a private map: pages are read when first used and shared with other processes, and writing into one changes
    neither these nor the file. In `reading_whole`, or 4 bits, they are arrays in memory. Raises CheckpointError."""
    if not is_file(path):
        raise CheckpointError(absent(path, advice="it is a checkpoint of nmt-train"))
    try:
        mapped, start, entries, metadata = _open(path)
    except OSError as error:  # the content of the file is unknown
        raise CheckpointError(
            f"{path}: must be readable, got {explain(error)}; let it be read and run again"
        ) from error
    except (MalformedError, ValueError) as error:
        raise CheckpointError(
            f"{path}: must be a whole checkpoint, got a damaged or truncated file ({explain(error)}); restore a copy, "
            "or remove it"
        ) from error
    content = _parse_content(path, metadata)
    tensors = {name: _view(mapped, start, e) for name, e in entries.items() if name.startswith(prefix)}
    _unpack(path, tensors, content.pop(_PACKED_KEY, {}))
    checksums = content["checksums"]
    for name, tensor in tensors.items():
        if checksums.get(name) != tensor_checksum(tensor):
            raise CheckpointError(
                f"{path}: must be a whole checkpoint, got other bytes than were written in {name!r:.80}; "
                "restore a copy, or remove it"
            )
    return tensors, content


def tensors_made_with(path: Path, subwords: str, advice: str) -> dict[str, np.ndarray]:
    """Return the tensors of a file next to a model, none if there is none. Raises CheckpointError, with `advice`, if
    its content names the digest of other `subwords`, and as `map_tensors` does."""
    if not is_file(path):
        return {}
    tensors, content = map_tensors(path)
    if content.get("subwords") != subwords:
        raise CheckpointError(f"{path}: must have been made with the subwords next to it, got others; {advice}")
    return tensors


def read_foreign_tensors(path: Path) -> dict[str, np.ndarray]:
    """Map the tensors of any safetensors file; bfloat16 is copied to float32. Raises CheckpointError."""
    try:
        mapped, start, entries, _ = _open(path)
    except (MalformedError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: must be a whole safetensors file, got {explain(error)}; restore a copy"
        ) from error
    arrays = {name: _view(mapped, start, entry) for name, entry in entries.items()}
    wide = {name: array for name, array in arrays.items() if array.dtype == _BFLOAT16}
    return arrays | {name: (array["bfloat16"].astype("<u4") << 16).view("<f4") for name, array in wide.items()}


@contextmanager
def reading_whole() -> Iterator[None]:
    """Read files within the block instead of mapping them. A long-lived process needs that: if another process writes
    into a mapped file, its numbers change, and if the file is truncated, the process is killed (SIGBUS)."""
    token = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(token)


class MappedFile:
    """The present state of a file whose tensors are mapped, to check now and then that it has not changed."""

    def __init__(self, path: Path) -> None:
        self._path, self._then = path, os.stat(path)

    def check_unchanged(self) -> None:
        """Raise CheckpointError if the file was written into; one that was renamed to its place does no harm."""
        try:
            now = os.stat(self._path)
        except OSError:
            return  # the file was removed: the map stays valid
        same_file = (now.st_dev, now.st_ino) == (self._then.st_dev, self._then.st_ino)
        if same_file and (now.st_size, now.st_mtime_ns) != (self._then.st_size, self._then.st_mtime_ns):
            raise CheckpointError(
                f"{self._path}: must not change while its model is in use, got one that was modified; reload the "
                "model, and replace files with a rename (mv)"
            )


def mapped_file(path: Path) -> MappedFile | None:
    """Return the present state of a file, or None within `reading_whole`, where nothing is mapped."""
    return None if _is_whole.get() else MappedFile(path)


def _open(path: Path) -> tuple[_Bytes, int, dict[str, _Entry], dict[str, str]]:
    """Return a file's bytes, the position of the data, all entries, and the metadata. Raises MalformedError."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size <= _LENGTH_BYTES:
            raise MalformedError(f"{size} bytes")
        if not _is_whole.get():
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            return mapped, *_read_header(mapped)
        file.seek(0)
        whole = np.empty(size, np.uint8)
        got = file.readinto(whole.data)
    if got != size or path.stat().st_size != size:
        raise MalformedError(f"{got} of {size} bytes, being written")
    return whole.data, *_read_header(whole.data)


def tensor_checksum(tensor: np.ndarray) -> int:
    """Return the CRC-32 of an array: safetensors notices missing bytes, but not changed ones."""
    return zlib.crc32(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)


def _text_checksum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _read_header(mapped: _Bytes) -> tuple[int, dict[str, _Entry], dict[str, str]]:
    """Return the position of the data, every tensor's entry, and the metadata. Raises MalformedError."""
    length = int.from_bytes(mapped[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if length > _MOST_HEADER_BYTES or start > len(mapped):
        raise MalformedError(f"a header of {length} bytes in a file of {len(mapped)}")
    try:
        header = json.loads(bytes(mapped[_LENGTH_BYTES:start]))
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or a number of thousands of digits
        raise MalformedError("a header that is not JSON") from error
    if not isinstance(header, dict):
        raise MalformedError("a header without tensors")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise MalformedError("a header with other metadata")
    entries = {name: _entry(name, value) for name, value in header.items()}
    position = 0
    for entry in sorted(entries.values(), key=lambda e: (e.begin, e.end)):
        if entry.begin != position:
            raise MalformedError("tensors that overlap or leave holes")
        position = entry.end
    if position != len(mapped) - start:
        raise MalformedError(f"{len(mapped) - start} bytes of data instead of {position}")
    return start, entries, metadata


def _entry(name: str, value: Any) -> _Entry:
    """Return the checked entry of one tensor in a header. Raises MalformedError."""
    try:
        dtype, shape, (begin, end) = np.dtype(_DTYPES[value["dtype"]]), value["shape"], value["data_offsets"]
        numbers = [*shape, begin, end]
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"no dtype, shape or place of {name!r:.80}") from error
    if len(shape) > _MOST_AXES or any(type(n) is not int or not 0 <= n <= _LONGEST_AXIS for n in numbers):
        raise MalformedError(f"an impossible shape of {name!r:.80}")
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise MalformedError(f"a shape of {name!r:.80} that does not fit its bytes")
    return _Entry(dtype, tuple(shape), begin, end)


def _view(mapped: _Bytes, start: int, entry: _Entry) -> np.ndarray:
    """Return a tensor in the mapped file; a copy only if it is not aligned."""
    if not (count := math.prod(entry.shape)):
        return np.zeros(entry.shape, entry.dtype)
    array = np.frombuffer(mapped, entry.dtype, count, start + entry.begin).reshape(entry.shape)
    return array if array.flags.aligned else array.copy()


def _parse_content(path: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a checkpoint, verified by its checksum. Raises CheckpointError."""
    try:
        text = metadata[METADATA_KEY]
        content: dict[str, Any] = json.loads(text)
        version = int(content["format_version"])
        checksum = metadata.get(_CHECKSUM_KEY)
    except (KeyError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise CheckpointError(
            f"{path}: must be a checkpoint that nmt-train wrote, got another safetensors file"
        ) from error
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: must have checkpoint format {FORMAT_VERSION}, got {version}; use the version of nmt that wrote it"
        )
    if not isinstance(content.get("checksums"), dict) or checksum not in (None, str(_text_checksum(text))):
        raise CheckpointError(
            f"{path}: must be a whole checkpoint, got other settings than were written; restore a copy, or remove it"
        )
    return content
