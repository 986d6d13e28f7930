"""Writes files as torch.save does, without torch: names of its functions are lent to a pickle while it is written."""

import io
import pickle
import sys
import types
import zipfile
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

KINDS = {"float32": "FloatStorage", "float16": "HalfStorage", "int64": "LongStorage", "float64": "DoubleStorage"}


@contextmanager
def lent(**modules):
    """Modules with these names in them, for as long as a pickle is written."""
    with patch.dict(sys.modules):
        for name, values in modules.items():
            sys.modules[name] = types.ModuleType(name)
            for key, value in values.items():
                value.__module__, value.__qualname__ = name, key
                setattr(sys.modules[name], key, value)
        yield


class _Tensor:
    def __init__(self, array, rebuild, storage):
        self.array, self.rebuild, self.storage = array, rebuild, storage

    def __reduce__(self):
        strides = tuple(n // self.array.itemsize for n in self.array.strides)
        return self.rebuild, (self.storage, 0, self.array.shape, strides, False, {})


class _Storage:
    def __init__(self, kind, key, count):
        self.kind, self.key, self.count = kind, key, count


class Namespace:
    """Lent to pickles as argparse.Namespace."""

    def __init__(self, **values):
        self.__dict__.update(values)


def save(path, value, *, bfloat16=()):
    """A zip with data.pkl and the numbers of all arrays in `value`."""
    members = {}

    def _rebuild_tensor_v2():
        raise AssertionError("never called")

    kinds = {name: type(name, (), {}) for name in KINDS.values()}

    def described(found):
        if isinstance(found, np.ndarray):
            key = str(len(members))
            members[key] = np.ascontiguousarray(found).tobytes()
            storage = _Storage(kinds[KINDS[str(found.dtype)]], key, found.size)
            return _Tensor(np.ascontiguousarray(found), _rebuild_tensor_v2, storage)
        if isinstance(found, dict):
            return {k: described(v) for k, v in found.items()}
        return [described(v) for v in found] if type(found) is list else found

    class Pickler(pickle.Pickler):
        def persistent_id(self, found):
            if isinstance(found, _Storage):
                return ("storage", found.kind, found.key, "cpu", found.count)
            return None

    content = io.BytesIO()
    with lent(**{"torch._utils": {"_rebuild_tensor_v2": _rebuild_tensor_v2}, "torch": kinds}):
        Pickler(content, protocol=2).dump(described(value))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", content.getvalue())
        archive.writestr("archive/byteorder", b"little")
        for key, numbers in members.items():
            archive.writestr(f"archive/data/{key}", numbers)
    return path
