"""An ONNX file's graph: its nodes and constant tensors (onnx.proto of ONNX 1.16, Protocol Buffers' wire format).

Only what a small network needs is read. A graph inside a node, functions, operators of other domains and numbers in
other files are refused: what they compute would be missed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.protobuf import WireError, fields, read_varint
from nmt.errors import CheckpointError
from nmt.files import explain, read_small
from nmt.importing.torch_file import MalformedError

SUFFIX = ".onnx"
_MOST_BYTES = 2**30
_MOST_NODES = 100_000
_DTYPES = {1: "<f4", 6: "<i4", 7: "<i8", 10: "<f2", 11: "<f8"}
"""TensorProto.DataType."""
_RAW_DATA, _DIMS, _KIND, _NAME, _SEGMENT, _EXTERNAL, _LOCATION = 9, 1, 2, 8, 3, 13, 14
_OTHER_DATA = {4, 5, 6, 7, 10, 11}
"""Fields of TensorProto with numbers one by one, as few writers have them."""


@dataclass
class Node:
    """An operator. attributes: integers, floats, bytes and lists of them."""

    op: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Graph:
    """What a file holds: names of its inputs (without constants) and outputs, nodes in order, constants by name."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)


def read_onnx(path: Path) -> Graph:
    """The graph in an ONNX file. Raises CheckpointError: it cannot be read, is damaged, or has other parts."""
    problem = f"{path}: must be an ONNX file, got "
    try:
        return _model(read_small(path, _MOST_BYTES))
    except (MalformedError, WireError) as error:
        raise CheckpointError(f"{problem}{error}; put back a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; put back a copy") from error
    except (UnicodeDecodeError, struct.error, TypeError, ValueError) as error:
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); put back a copy") from error


def _fields(content: Any) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message: integers, or bytes. Raises MalformedError, WireError."""
    return fields(_bytes(content))


def _bytes(value: Any) -> bytes:
    """A field that must be bytes. Raises MalformedError."""
    if not isinstance(value, bytes):
        raise MalformedError("a damaged one")
    return value


def _text(value: Any) -> str:
    """A field that must be text."""
    return _bytes(value).decode()


def _signed(number: int) -> int:
    """Protocol Buffers' int64."""
    return number - 2**64 if number >= 2**63 else number


def _integers(value: Any) -> list[int]:
    """A repeated int64's value: one number, or several packed. Raises MalformedError."""
    if isinstance(value, int):
        return [_signed(value)]
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(_signed(number))
    return found


def _model(content: bytes) -> Graph:
    """A ModelProto's graph (field 7). Raises MalformedError."""
    graphs = []
    for number, value in _fields(content):
        if number == 7:
            graphs.append(value)
        elif number == 25:
            raise MalformedError("functions of its own")
    if len(graphs) != 1:
        raise MalformedError("something else")
    return _graph(graphs[0])


def _graph(content: bytes) -> Graph:
    """A GraphProto: node 1, initializer 5, input 11, output 12, sparse_initializer 15. Raises MalformedError."""
    graph = Graph()
    for number, value in _fields(content):
        if number == 1:
            graph.nodes.append(_node(value))
        elif number == 5:
            name, array = _tensor(value)
            graph.tensors[name] = array
        elif number in (11, 12):
            (graph.inputs if number == 11 else graph.outputs).append(_named(value))
        elif number == 15:
            raise MalformedError("sparse numbers")
        if len(graph.nodes) > _MOST_NODES:
            raise MalformedError(f"more than {_MOST_NODES:,} nodes")
    graph.inputs = [name for name in graph.inputs if name not in graph.tensors]
    return graph


def _named(content: bytes) -> str:
    """The name of a ValueInfoProto."""
    return next((_text(value) for number, value in _fields(content) if number == 1), "")


def _node(content: bytes) -> Node:
    """A NodeProto: input 1, output 2, op_type 4, attribute 5, domain 7. Raises MalformedError."""
    node = Node()
    for number, value in _fields(content):
        if number in (1, 2):
            (node.inputs if number == 1 else node.outputs).append(_text(value))
        elif number == 4:
            node.op = _text(value)
        elif number == 5:
            name, found = _attribute(value)
            node.attributes[name] = found
        elif number == 7 and value not in (b"", b"ai.onnx"):
            raise MalformedError(f"operators of {_text(value)[:40]!r}")
    return node


def _attribute(content: bytes) -> tuple[str, Any]:
    """An AttributeProto's name and value: f 2, i 3, s 4, t 5, floats 7, ints 8, strings 9. Raises MalformedError."""
    name, found = "", None
    lists: dict[int, list[Any]] = {7: [], 8: [], 9: []}
    for number, value in _fields(content):
        if number == 1:
            name = _text(value)
        elif number == 2:
            found = struct.unpack("<f", value)[0]
        elif number == 3:
            found = _signed(value)
        elif number == 4:
            found = _bytes(value)
        elif number == 5:
            found = _tensor(value)[1]
        elif number == 7:
            lists[7].extend(struct.unpack(f"<{len(value) // 4}f", value))
        elif number == 8:
            lists[8].extend(_integers(value))
        elif number == 9:
            lists[9].append(_bytes(value))
        elif number in (6, 10, 11):
            raise MalformedError("a graph inside a node")
    several = [one for one in lists.values() if one]
    return name, several[0] if several else found


def _tensor(content: bytes) -> tuple[str, np.ndarray]:
    """A TensorProto's name and numbers, which must be raw bytes. Raises MalformedError."""
    name, kind, raw = "", 0, b""
    shape: list[int] = []
    for number, value in _fields(content):
        if number == _DIMS:
            shape += _integers(value)
        elif number == _KIND:
            kind = value
        elif number == _NAME:
            name = _text(value)
        elif number == _RAW_DATA:
            raw = _bytes(value)
        elif number == _EXTERNAL or (number == _LOCATION and value):
            raise MalformedError("numbers in another file")
        elif number in _OTHER_DATA or number == _SEGMENT:
            raise MalformedError("numbers that are not raw bytes")
    if kind not in _DTYPES:
        raise MalformedError(f"numbers of the kind {str(kind)[:20]}")
    dtype = np.dtype(_DTYPES[kind])
    if any(n < 0 for n in shape) or len(shape) > 8 or math.prod(shape) * dtype.itemsize != len(raw):
        raise MalformedError("a tensor of another size than its numbers")
    return name, np.frombuffer(raw, dtype).reshape(shape)
