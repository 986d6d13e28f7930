"""Read Marian's binary files (src/common/binary.cpp of 1.12): named arrays in their memory layout.

A file has a version, the number of arrays, and for each the lengths of its name, type, shape and bytes, eight bytes
each; then the names, the shapes with four bytes a number, padding up to a multiple of 256 that begins with its length,
and the arrays.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from nmt.errors import CheckpointError
from nmt.system.files import explain

_VERSION = 1
START = struct.pack("<Q", _VERSION)
"""The first bytes of such a file."""
_DTYPES = {0x0101: "i1", 0x0102: "<i2", 0x0104: "<i4", 0x0204: "<u4", 0x0402: "<f2", 0x0404: "<f4", 0x0408: "<f8"}
_MOST_ARRAYS = 100_000
_MOST_NAME_BYTES = 1000
_MOST_AXES = 8


class _MalformedError(Exception):
    """A malformed file; the text completes an error's `got`."""


def read_marian(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of such a file by name, views of one memory map. Raises CheckpointError if it cannot be read,
    is damaged, or is packed for one kind of processor."""
    try:
        content = np.memmap(path, np.uint8, "r")
        return _arrays(content, content.data)
    except _MalformedError as error:
        raise CheckpointError(f"{path}: must be a model of Marian, got {error}; restore a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; restore a copy") from error
    except (struct.error, ValueError) as error:
        raise CheckpointError(f"{path}: must be a model of Marian, got a damaged one; restore a copy") from error


def _arrays(content: np.ndarray, view: memoryview) -> dict[str, np.ndarray]:
    """Return the arrays of such a file by name; `view` is the same bytes, for the standard library."""
    version, count = struct.unpack("<QQ", view[:16])
    if version != _VERSION or count > _MOST_ARRAYS:
        raise _MalformedError("another version or a damaged one")
    headers = [struct.unpack("<QQQQ", view[16 + 32 * n : 48 + 32 * n]) for n in range(count)]
    at = 16 + 32 * count
    names, shapes = [], []
    for name_size, _, _, _ in headers:
        if not 0 < name_size <= _MOST_NAME_BYTES or at + name_size > len(content):
            raise _MalformedError("a damaged one")
        names.append(content[at : at + name_size].tobytes().rstrip(b"\0").decode())
        at += name_size
    for _, _, axes, _ in headers:
        if axes > _MOST_AXES or at + 4 * axes > len(content):
            raise _MalformedError("a damaged one")
        shapes.append(struct.unpack(f"<{axes}i", view[at : at + 4 * axes]))
        at += 4 * axes
    (gap,) = struct.unpack("<Q", view[at : at + 8])
    at += 8 + gap
    found: dict[str, np.ndarray] = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        if kind not in _DTYPES:
            raise _MalformedError(f"numbers of {name!r:.60} that are packed for one kind of processor (type {kind:#x})")
        dtype = np.dtype(_DTYPES[kind])
        if min(shape, default=0) < 0 or at + size > len(content) or math.prod(shape) * dtype.itemsize > size:
            raise _MalformedError(f"fewer numbers of {name!r:.60} than it names")
        found[name] = np.frombuffer(content[at : at + math.prod(shape) * dtype.itemsize], dtype).reshape(shape)
        at += size
    if len(found) != len(names):
        raise _MalformedError("an array twice")
    return found
