"""What torch.save wrote, read without running any of it.

Such a file is a zip of raw numbers and a pickle that says what they are. A pickle is a program; here its opcodes are
walked (`pickletools`), and of all that it could call only what tensors and plain values are made of means something.
Any other class or function becomes an `Inert`: its name and what it was given, never itself.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.files import explain

_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_MOST_PICKLE_BYTES = 2**30
_MOST_AXES = 8


class MalformedError(Exception):
    """What is wrong with a file, for the error's `got`."""


class Inert:
    """Something that a pickle would have made by calling `name`: with what arguments, and the state it was given."""

    def __init__(self, name: str, arguments: Any = ()) -> None:
        self.name, self.arguments, self.state = name, arguments, None
        self.items: dict[Any, Any] = {}
        self.elements: list[Any] = []

    def __repr__(self) -> str:
        """Its name alone: what it holds may be of any size."""
        return f"Inert({self.name!r})"

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute of its state."""
        state = self.state[0] if isinstance(self.state, tuple) and self.state else self.state
        return state.get(name, default) if isinstance(state, Mapping) else default


@dataclass(frozen=True)
class _Name:
    """A class or function that a pickle names."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """Raw numbers: their dtype, the file that holds them, and how many there are."""

    dtype: str
    key: str
    count: int


_MARK = object()


@dataclass
class _Machine:
    """The stack and memo of a pickle; see the module."""

    storage: Callable[[_Storage], np.ndarray]
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, content: bytes) -> tuple[Any, int]:
        """What a pickle describes, and the bytes it takes. Raises MalformedError."""
        steps: dict[str, Callable[[Any], None]] = _steps(self)
        for opcode, argument, _ in pickletools.genops(io.BytesIO(content)):
            if opcode.name == "STOP":
                position = _end_of(content)
                return self.stack.pop(), position
            step = steps.get(opcode.name)
            if step is None:
                raise MalformedError(f"a pickle with {opcode.name}")
            step(argument)
        raise MalformedError("a pickle without an end")

    def above_mark(self) -> list[Any]:
        """What lies above the last mark, which goes with it."""
        found: list[Any] = []
        while (top := self.stack.pop()) is not _MARK:
            found.append(top)
        return found[::-1]

    def reduce(self, function: Any, arguments: Any) -> Any:
        """What a call would have given: a tensor, a plain container, or an `Inert`."""
        name = function.name if isinstance(function, _Name) else ""
        if not name:
            raise MalformedError("a pickle that calls what is no name")
        if name == "collections.OrderedDict":
            return dict(arguments[0]) if arguments and arguments[0] else {}
        if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
            return self._tensor(*arguments[:4])
        if name in ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"):
            return arguments[0]
        if name == "collections.defaultdict":
            return {}
        if name == "_codecs.encode" and isinstance(arguments[0], str):
            return arguments[0].encode("latin1")
        return Inert(name, arguments)

    def _tensor(self, storage: Any, offset: Any, size: Any, stride: Any) -> np.ndarray:
        """A view of a storage, within its bounds."""
        if not isinstance(storage, _Storage) or not isinstance(size, tuple) or not isinstance(stride, tuple):
            raise MalformedError("a tensor without numbers")
        if len(size) != len(stride) or len(size) > _MOST_AXES:
            raise MalformedError("a tensor of an impossible shape")
        if any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
            raise MalformedError("a tensor of an impossible shape")
        numbers = self.storage(storage)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if 0 in size:
            return np.zeros(size, numbers.dtype)
        if last >= len(numbers):
            raise MalformedError("a tensor that reaches beyond its numbers")
        strides = [step * numbers.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(numbers[offset:], size, strides, writeable=False)


def _taker(stack: list[Any]) -> Callable[[int], tuple[Any, ...]]:
    """A function that takes so many values from a stack."""

    def take(count: int) -> tuple[Any, ...]:
        found = tuple(stack[len(stack) - count :])
        if len(found) < count:
            raise MalformedError("a pickle that takes more than it has put")
        del stack[len(stack) - count :]
        return found

    return take


def _steps(machine: _Machine) -> dict[str, Callable[[Any], None]]:
    """What each opcode does to the stack; those that are not here end the reading."""
    stack, memo = machine.stack, machine.memo
    push, take = stack.append, _taker(machine.stack)

    def constant(value: Any) -> Callable[[Any], None]:
        return lambda _: push(value)

    return {
        **dict.fromkeys(("PROTO", "FRAME"), lambda _: None),
        **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"), push),
        **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "LONG", "INT"), push),
        **dict.fromkeys(("BINFLOAT", "FLOAT"), push),
        **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "STRING"), push),
        "NONE": constant(None),
        "NEWTRUE": constant(True),
        "NEWFALSE": constant(False),
        "MARK": constant(_MARK),
        "EMPTY_TUPLE": constant(()),
        "EMPTY_LIST": lambda _: push([]),
        "EMPTY_DICT": lambda _: push({}),
        "EMPTY_SET": lambda _: push(set()),
        "TUPLE": lambda _: push(tuple(machine.above_mark())),
        "TUPLE1": lambda _: push(take(1)),
        "TUPLE2": lambda _: push(take(2)),
        "TUPLE3": lambda _: push(take(3)),
        "LIST": lambda _: push(machine.above_mark()),
        "FROZENSET": lambda _: push(frozenset(machine.above_mark())),
        "POP": lambda _: None if take(1) else None,
        "DUP": lambda _: push(stack[-1]),
        "MEMOIZE": lambda _: memo.update({len(memo): stack[-1]}),
        **dict.fromkeys(("BINPUT", "LONG_BINPUT", "PUT"), lambda n: memo.update({int(n): stack[-1]})),
        **dict.fromkeys(("BINGET", "LONG_BINGET", "GET"), lambda n: push(memo[int(n)])),
        **_filling(machine, take),
        **_calling(machine, take),
    }


def _filling(machine: _Machine, take: Callable[[int], tuple[Any, ...]]) -> dict[str, Callable[[Any], None]]:
    """Opcodes that put something into a container."""
    stack = machine.stack

    def set_items(pairs: list[Any]) -> None:
        target = stack[-1].items if isinstance(stack[-1], Inert) else stack[-1]
        if not isinstance(target, dict):
            raise MalformedError("a pickle that sets items of what has none")
        target.update(zip(pairs[::2], pairs[1::2], strict=True))

    def append(elements: list[Any]) -> None:
        target = stack[-1].elements if isinstance(stack[-1], Inert) else stack[-1]
        if not isinstance(target, list):
            raise MalformedError("a pickle that appends to what is no list")
        target.extend(elements)

    def add(elements: list[Any]) -> None:
        if not isinstance(stack[-1], set):
            raise MalformedError("a pickle that adds to what is no set")
        stack[-1].update(elements)

    return {
        "SETITEM": lambda _: set_items(list(take(2))),
        "SETITEMS": lambda _: set_items(machine.above_mark()),
        "APPEND": lambda _: append(list(take(1))),
        "APPENDS": lambda _: append(machine.above_mark()),
        "ADDITEMS": lambda _: add(machine.above_mark()),
    }


def _calling(machine: _Machine, take: Callable[[int], tuple[Any, ...]]) -> dict[str, Callable[[Any], None]]:
    """Opcodes that would name something outside the pickle, call it, or give it a state."""
    stack = machine.stack

    def build(_: Any) -> None:
        (state,) = take(1)
        if isinstance(stack[-1], Inert):  # attributes of dictionaries and tensors are nothing that anybody reads
            stack[-1].state = state

    def call(_: Any) -> None:
        function, arguments = take(2)
        stack.append(machine.reduce(function, arguments))

    return {
        "GLOBAL": lambda text: stack.append(_Name(str(text).replace(" ", "."))),
        "STACK_GLOBAL": lambda _: stack.append(_Name(".".join(map(str, take(2))))),
        "BINPERSID": lambda _: stack.append(_storage_of(take(1)[0])),
        "REDUCE": call,
        "NEWOBJ": call,
        "BUILD": build,
    }


def _storage_of(found: Any) -> _Storage:
    """What a persistent id names: ("storage", its class, key, device, count). Raises MalformedError."""
    if not isinstance(found, tuple) or len(found) < 5 or found[0] != "storage" or not isinstance(found[1], _Name):
        raise MalformedError("a pickle that names something outside it")
    kind = found[1].name.rpartition(".")[2]
    if kind not in _DTYPES or not isinstance(found[2], str) or type(found[4]) is not int:
        raise MalformedError(f"numbers of the kind {kind!r:.40}")
    return _Storage(_DTYPES[kind], found[2], found[4])


def _end_of(content: bytes) -> int:
    """Where the first pickle of these bytes ends."""
    for opcode, _, position in pickletools.genops(content):
        if opcode.name == "STOP":
            return int(position or 0) + 1
    raise MalformedError("a pickle without an end")


def read_pickle(content: bytes) -> Any:
    """What a pickle without tensors describes. Raises MalformedError, and what else broken bytes lead to."""
    return _Machine(_refuse).run(content)[0]


def read_torch(path: Path) -> Any:
    """What `torch.save` wrote into a file: dictionaries, lists and plain values, tensors as arrays [...] (read only;
    bfloat16 as float32), and `Inert` for all else.

    Raises:
        CheckpointError: It cannot be read, is damaged, or is something else.
    """
    problem = f"{path}: must be a file that torch.save wrote, got "
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return _from_zip(archive)
        return _from_legacy(path)
    except MalformedError as error:
        raise CheckpointError(f"{problem}{error}; put back a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; put back a copy") from error
    except (zipfile.BadZipFile, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); put back a copy") from error
    except (OverflowError, MemoryError, EOFError, NotImplementedError, RuntimeError) as error:
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); put back a copy") from error


def _from_zip(archive: zipfile.ZipFile) -> Any:
    """The pickle `NAME/data.pkl` with numbers `NAME/data/KEY`."""
    names = {info.filename: info for info in archive.infolist()}
    pickles = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise MalformedError("a zip without data.pkl")
    folder = pickles[0].partition("/")[0]
    for info in names.values():
        if info.compress_type != zipfile.ZIP_STORED:
            raise MalformedError("compressed members, which torch does not write")
    if names[pickles[0]].file_size > _MOST_PICKLE_BYTES:
        raise MalformedError("a pickle of more than a gigabyte")
    if f"{folder}/byteorder" in names and archive.read(f"{folder}/byteorder") != b"little":
        raise MalformedError("numbers in big-endian order")
    read: dict[str, np.ndarray] = {}

    def storage(found: _Storage) -> np.ndarray:
        if found.key not in read:
            read[found.key] = _numbers(archive.read(f"{folder}/data/{found.key}"), found)
        return read[found.key]

    return _Machine(storage).run(archive.read(pickles[0]))[0]


def _numbers(content: bytes, storage: _Storage) -> np.ndarray:
    """Raw bytes as numbers; bfloat16 becomes float32."""
    if storage.dtype == "bfloat16":
        halves = np.frombuffer(content, "<u2").astype(np.uint32) << 16
        return halves.view(np.float32)
    return np.frombuffer(content, np.dtype(storage.dtype))


def _from_legacy(path: Path) -> Any:
    """What versions before 1.6 wrote: a magic number, a version, the machine, the object and the keys of its numbers,
    a pickle each, then the numbers in the order of keys, each after its count (8 bytes)."""
    content = path.read_bytes()
    magic, at = _Machine(_refuse).run(content[:64])
    if magic != 0x1950A86A20F9469CFC6C:
        raise MalformedError("something else")
    for _ in range(2):
        at += _end_of(content[at:])
    start = at
    at += _end_of(content[start:])
    keys, size = _Machine(_refuse).run(content[at:])
    at += size
    asked: dict[str, _Storage] = {}

    def ask(found: _Storage) -> np.ndarray:
        asked[found.key] = found
        return np.zeros(found.count, np.uint8)

    _Machine(ask).run(content[start:])  # the kinds of numbers are known now, and so where they lie
    read: dict[str, np.ndarray] = {}
    for key in keys:
        found = asked[key]
        count = int.from_bytes(content[at : at + 8], "little")
        width = 2 if found.dtype == "bfloat16" else np.dtype(found.dtype).itemsize
        if count != found.count or at + 8 + count * width > len(content):
            raise MalformedError("fewer numbers than it names")
        read[key] = _numbers(content[at + 8 : at + 8 + count * width], found)
        at += 8 + count * width
    return _Machine(lambda found: read[found.key]).run(content[start:])[0]


def _refuse(found: _Storage) -> np.ndarray:
    raise MalformedError("numbers where none are expected")
