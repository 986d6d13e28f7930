"""Read files of `torch.save` as data: no function or class that a file names is ever looked up or called. Such a file
is a zip of raw numbers and a pickle that describes them (before PyTorch 1.6: several pickles, then the numbers).
Python's own unpickler reads it, with every global replaced ("Restricting Globals" in the documentation of `pickle`):
the few that make tensors and plain containers by functions of ours, all others by `Inert`."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage.tensor_file import MalformedError
from nmt.system.files import explain

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
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_PICKLE_BYTES = 2**30
_MOST_AXES = 8


class Inert:
    """A placeholder for an object or result that a pickle names: its name, arguments and state."""

    name = ""

    def __new__(cls, *arguments: Any, **keywords: Any) -> Inert:
        """Accept any arguments that the pickle gives."""
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self.arguments, self.state = arguments, None
        self.items: dict[Any, Any] = {}
        self.elements: list[Any] = []

    def __repr__(self) -> str:
        """Return the name only: the content may be of any size."""
        return f"Inert({self.name!r})"

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def append(self, element: Any) -> None:
        """Store an element of what would have been a list."""
        self.elements.append(element)

    add = append

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the state."""
        state = self.state[0] if isinstance(self.state, tuple) and self.state else self.state
        return state.get(name, default) if isinstance(state, Mapping) else default


class _Dictionary(dict):
    """A dictionary that ignores the attributes a pickle sets, such as `_metadata` of a state_dict."""

    def __setstate__(self, state: Any) -> None:
        pass


@dataclass(frozen=True)
class _Storage:
    """The dtype of raw numbers, the key under which they are stored, and their count."""

    dtype: str
    key: str
    count: int


class _Tensor:
    """A view of a storage; it becomes an array once the numbers have been read."""

    def __init__(self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> None:
        if not isinstance(storage, _Storage) or not isinstance(size, tuple) or not isinstance(stride, tuple):
            raise MalformedError("a tensor without numbers")
        numbers = (offset, *size, *stride)
        if len(size) != len(stride) or len(size) > _MOST_AXES or any(type(n) is not int or n < 0 for n in numbers):
            raise MalformedError("a tensor of an impossible shape")
        self.storage, self._offset, self._size, self._stride = storage, offset, size, stride

    def __setstate__(self, state: Any) -> None:
        pass

    def array(self, numbers: np.ndarray) -> np.ndarray:
        """Return the view of these numbers, read-only. Raises MalformedError if it exceeds them."""
        if 0 in self._size:
            return np.zeros(self._size, numbers.dtype)
        if self._offset + sum((n - 1) * step for n, step in zip(self._size, self._stride, strict=True)) >= len(numbers):
            raise MalformedError("a tensor that reaches beyond its numbers")
        strides = [step * numbers.itemsize for step in self._stride]
        return np.lib.stride_tricks.as_strided(numbers[self._offset :], self._size, strides, writeable=False)


def _bytes(text: Any, *encoding: Any) -> bytes:
    if not isinstance(text, str):
        raise MalformedError("bytes made of something else than text")
    return text.encode("latin1")


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": lambda *given: _Dictionary(*(one for one in given[:1] if isinstance(one, list | dict))),
    "collections.defaultdict": lambda *arguments: _Dictionary(),
    "torch._utils._rebuild_tensor": _Tensor,
    "torch._utils._rebuild_tensor_v2": _Tensor,
    "torch._utils._rebuild_parameter": lambda data, *rest: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *rest: data,
    "_codecs.encode": _bytes,
}
"""The replacements for the globals that are supported."""


# The pure-Python unpickler: the one in C allocates as many memo entries as a file demands.
class _Unpickler(pickle._Unpickler):
    """An unpickler that does not look up what a pickle names. storages: the storages it refers to, by key."""

    # Without byte arrays: they are allocated in the size that a file names, and torch writes none.
    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]}

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement for a global."""
        whole = f"{module}.{name}"
        return _REPLACEMENTS[whole] if whole in _REPLACEMENTS else type("Inert", (Inert,), {"name": whole})

    def persistent_load(self, found: Any) -> _Storage:
        """Return the storage that ("storage", class, key, device, count) describes. Raises MalformedError."""
        if not isinstance(found, tuple) or len(found) < 5 or found[0] != "storage":
            raise MalformedError("a pickle that names something outside it")
        kind = getattr(found[1], "name", "").rpartition(".")[2]
        if kind not in _DTYPES or not isinstance(found[2], str) or type(found[4]) is not int:
            raise MalformedError(f"numbers of the kind {kind!r:.40}")
        return self.storages.setdefault(found[2], _Storage(_DTYPES[kind], found[2], found[4]))


def read_torch(path: Path) -> Any:
    """Return the object that `torch.save` wrote to a file: dictionaries, lists and plain values, tensors as read-only
    arrays (bfloat16 as float32), and `Inert` for everything else. Raises CheckpointError."""
    problem = f"{path}: must be a file that torch.save wrote, got "
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return _from_zip(archive)
        with path.open("rb") as file:
            return _from_legacy(file)
    except MalformedError as error:
        raise CheckpointError(f"{problem}{error}; restore a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; restore a copy") from error
    except Exception as error:  # noqa: BLE001 - what pickle and zipfile raise for damaged bytes is not documented
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); restore a copy") from error


def _from_zip(archive: zipfile.ZipFile) -> Any:
    """Read the pickle `NAME/data.pkl` and the numbers `NAME/data/KEY`."""
    names = {info.filename: info for info in archive.infolist()}
    pickles = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise MalformedError("a zip without data.pkl")
    folder = pickles[0].partition("/")[0]
    if any(info.compress_type != zipfile.ZIP_STORED for info in names.values()):
        raise MalformedError("compressed members, which torch does not write")
    if names[pickles[0]].file_size > _MOST_PICKLE_BYTES:
        raise MalformedError("a pickle of more than a gigabyte")
    if f"{folder}/byteorder" in names and archive.read(f"{folder}/byteorder") != b"little":
        raise MalformedError("numbers in big-endian order")
    with archive.open(pickles[0]) as file:
        value = _Unpickler(file).load()
    return _with_arrays(value, lambda storage: _numbers(archive.read(f"{folder}/data/{storage.key}"), storage))


def _from_legacy(file: BinaryIO) -> Any:
    """Read the format before version 1.6: a magic number, a version, the machine, the object and the keys of its
    numbers, one pickle each, then the numbers in the order of the keys, each preceded by its count (8 bytes)."""
    if file.read(1) != b"\x80":
        raise MalformedError("something else")
    file.seek(0)
    if _Unpickler(file).load() != _LEGACY_MAGIC:
        raise MalformedError("something else")
    _Unpickler(file).load(), _Unpickler(file).load()
    reader = _Unpickler(file)
    value, keys = reader.load(), _Unpickler(file).load()
    read: dict[str, np.ndarray] = {}
    for key in keys:
        storage = reader.storages[key]
        width = 2 if storage.dtype == "bfloat16" else np.dtype(storage.dtype).itemsize
        count, content = int.from_bytes(file.read(8), "little"), file.read(storage.count * width)
        if count != storage.count or len(content) < count * width:
            raise MalformedError("fewer numbers than it names")
        read[key] = _numbers(content, storage)
    return _with_arrays(value, lambda storage: read[storage.key])


def _numbers(content: bytes, storage: _Storage) -> np.ndarray:
    """Return raw bytes as an array [N]; bfloat16 becomes float32."""
    if storage.dtype == "bfloat16":
        return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, np.dtype(storage.dtype))


def _with_arrays(value: Any, numbers_of: Callable[[_Storage], np.ndarray]) -> Any:
    """Return a value with arrays in place of its tensors; each storage is read once."""
    read: dict[str, np.ndarray] = {}
    done: dict[int, Any] = {}

    def visit(one: Any) -> Any:
        if not isinstance(one, _Tensor | Inert | dict | list | tuple):
            return one
        if id(one) in done:
            return done[id(one)]
        found: Any = one
        done[id(one)] = one
        if isinstance(one, _Tensor):
            if one.storage.key not in read:
                read[one.storage.key] = numbers_of(one.storage)
            found = one.array(read[one.storage.key])
        elif isinstance(one, Inert):
            one.__dict__.update({name: visit(held) for name, held in vars(one).items()})
        elif isinstance(one, dict):
            one.update([(key, visit(held)) for key, held in one.items()])
        elif isinstance(one, list):
            one[:] = [visit(held) for held in one]
        else:
            found = tuple(visit(held) for held in one)
        done[id(one)] = found
        return found

    return visit(value)
