"""Arrays of an HDF5 file as Keras writes its weights: groups of the oldest kind, float32, in one piece.

After the HDF5 File Format Specification, version 3.0: superblock 0 (II.A), version 1 B-trees (III.A.1), symbol table
nodes (III.B), local heaps (III.D), version 1 object headers (IV.A.1.a). Everything else that the format can do
(compression, pieces, links to other files, other numbers) is refused. HDF5's own library does all of it, far more than
a file from a stranger should be able to ask for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

import numpy as np

from nmt.importing.torch_file import MalformedError

_START = b"\x89HDF\r\n\x1a\n\x00\x00\x00\x00\x00\x08\x08\x00"
"""Signature, and a superblock of version 0 with addresses and lengths of 8 bytes."""
_ROOT = 0x40
"""Where the address of the root group's header stands: behind the superblock and the entry's first 8 bytes."""
_FLOAT32 = bytes.fromhex("1120 1f00 04000000 0000 2000 17 08 00 17 7f000000")
"""A datatype message (IV.A.2.d): IEEE single precision, little-endian."""
_DATASPACE, _DATATYPE, _LAYOUT, _FILTERS, _CONTINUED, _GROUP = 0x01, 0x03, 0x08, 0x0B, 0x10, 0x11
_MOST_OBJECTS = 10_000
_MOST_DEPTH = 16
_MOST_MESSAGES = 1_000


class _File:
    """The bytes of a file, read within their bounds."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.left = _MOST_OBJECTS

    def bytes_at(self, at: int, size: int) -> bytes:
        """So many bytes. Raises MalformedError: the file ends before them."""
        if at < 0 or size < 0 or at + size > len(self.content):
            raise MalformedError("a part of one")
        return self.content[at : at + size]

    def numbers(self, form: str, at: int) -> tuple[int, ...]:
        """Little-endian integers, as `struct` calls them."""
        return struct.unpack("<" + form, self.bytes_at(at, struct.calcsize("<" + form)))

    def marked(self, at: int, mark: bytes) -> int:
        """Where a block goes on behind its mark. Raises MalformedError: it has another one, or there are too many
        blocks, as there are where one leads to itself."""
        self.left -= 1
        if self.left < 0:
            raise MalformedError(f"more than {_MOST_OBJECTS:,} objects")
        if self.bytes_at(at, len(mark)) != mark:
            raise MalformedError("a damaged one")
        return at + len(mark)

    def text(self, at: int) -> str:
        """The text up to the next zero byte."""
        end = self.content.find(b"\x00", at, at + 256)
        if at < 0 or end < 0:
            raise MalformedError("a name without an end")
        return self.content[at:end].decode()


def read_hdf5(content: bytes, below: str = "") -> dict[str, np.ndarray]:
    """The float32 arrays below a group of the root, or all, by their path. Raises MalformedError."""
    file = _File(content)
    if file.bytes_at(0, len(_START)) != _START:
        raise MalformedError("another kind of HDF5 file than Keras writes")
    (root,) = file.numbers("Q", _ROOT)
    return dict(_arrays(file, root, "", below, 0))


def _arrays(file: _File, header: int, path: str, below: str, depth: int) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an object and of those in it."""
    if depth > _MOST_DEPTH:
        raise MalformedError("groups inside groups without an end")
    messages = _messages(file, header)
    if _GROUP not in messages:
        yield path, _array(file, messages)
        return
    tree, heap = file.numbers("QQ", messages[_GROUP][0])
    names = file.marked(heap, b"HEAP\x00")
    (_, _, texts) = file.numbers("QQQ", names + 3)
    for name, child in _links(file, tree, 0):
        text = file.text(texts + name)
        if depth or not below or text == below:
            yield from _arrays(file, child, f"{path}/{text}" if path else text, below, depth + 1)


def _links(file: _File, tree: int, depth: int) -> Iterator[tuple[int, int]]:
    """Of each object that a B-tree leads to the place of its name in the heap, and its header's address."""
    at = file.marked(tree, b"TREE\x00")
    level, count = file.numbers("BH", at)
    if depth > _MOST_DEPTH:
        raise MalformedError("a tree without an end")
    for n in range(count):
        (child,) = file.numbers("Q", at + 19 + 8 + 16 * n)
        if level:
            yield from _links(file, child, depth + 1)
            continue
        node = file.marked(child, b"SNOD\x01\x00")
        (entries,) = file.numbers("H", node)
        for m in range(entries):
            name, header, kind = file.numbers("QQI", node + 2 + 40 * m)
            if kind not in (0, 1):
                raise MalformedError("links to other files")
            yield name, header


def _messages(file: _File, header: int) -> dict[int, tuple[int, int]]:
    """Of the messages in an object's header where each kind's content lies, and its size."""
    at = file.marked(header, b"\x01\x00")
    count, _, size = file.numbers("HII", at)
    blocks, found = [(at + 14, size)], {}
    done = 0
    while blocks:
        at, size = blocks.pop(0)
        end = at + size
        while at + 8 <= end and done < min(count, _MOST_MESSAGES):
            kind, length = file.numbers("HH", at)
            if kind == _CONTINUED:
                blocks.append(tuple(file.numbers("QQ", at + 8)))  # type: ignore[arg-type]
            elif kind:
                found[kind] = (at + 8, length)
            at += 8 + length
            done += 1
    return found


def _array(file: _File, messages: dict[int, tuple[int, int]]) -> np.ndarray:
    """A dataset's numbers. Raises MalformedError: they are packed, in pieces, or no float32."""
    if _FILTERS in messages or not {_DATASPACE, _DATATYPE, _LAYOUT} <= set(messages):
        raise MalformedError("numbers that are packed or in pieces")
    at = messages[_DATASPACE][0]
    version, rank = file.numbers("BB", at)
    if version not in (1, 2) or rank > 8:
        raise MalformedError("an array of an impossible shape")
    shape = file.numbers("Q" * rank, at + (8 if version == 1 else 4))
    if file.bytes_at(messages[_DATATYPE][0], len(_FLOAT32)) != _FLOAT32:
        raise MalformedError("numbers that are no float32")
    at = messages[_LAYOUT][0]
    if file.numbers("BB", at) != (3, 1):
        raise MalformedError("numbers that are packed or in pieces")
    place, size = file.numbers("QQ", at + 2)
    if math.prod(shape) * 4 != size:
        raise MalformedError("an array of another size than its numbers")
    return np.frombuffer(file.bytes_at(place, size), "<f4").reshape(shape)
