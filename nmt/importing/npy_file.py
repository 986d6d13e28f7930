"""What numpy.save wrote of a dictionary of arrays: an npy file with one Python object, read without running any of it.

Such a file is a pickle behind an npy header. Its opcodes are walked as those of torch files are (`torch_file`); of the
classes and functions it names only those of plain arrays mean something.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.files import explain
from nmt.importing.torch_file import Inert, MalformedError, read_pickle

_MOST_BYTES = 2**30
_NAMES = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
_DTYPES = ("f2", "f4", "f8", "i4", "i8")


def read_npy(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a dictionary in an npy file, by name. Raises CheckpointError: it cannot be read, is damaged, or
    holds something else."""
    problem = f"{path}: must be an npy file of a dictionary of arrays, got "
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise CheckpointError(f"{problem}one of more than a gigabyte")
        return _dictionary(path.read_bytes())
    except MalformedError as error:
        raise CheckpointError(f"{problem}{error}; put back a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; put back a copy") from error
    except CheckpointError:
        raise
    except Exception as error:  # noqa: BLE001 - what the parsers of NumPy and of pickles raise for broken bytes is not documented
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); put back a copy") from error


def _dictionary(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a file's bytes. Raises MalformedError."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise MalformedError("another version of the format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if shape != () or not dtype.hasobject:
        raise MalformedError("an array")
    whole = read_pickle(content[file.tell() :])
    held = _state(whole)[4]
    if not isinstance(held, list) or len(held) != 1 or not isinstance(held[0], dict):
        raise MalformedError("something else")
    return {str(name): _array(value) for name, value in held[0].items()}


def _state(found: Any) -> tuple[Any, ...]:
    """Version, shape, dtype, order and numbers of what would have become an array. Raises MalformedError."""
    if not isinstance(found, Inert) or found.name not in _NAMES:
        raise MalformedError("something else than arrays")
    if not isinstance(found.state, tuple) or len(found.state) != 5:
        raise MalformedError("an array without numbers")
    return found.state


def _array(found: Any) -> np.ndarray:
    """An array of numbers. Raises MalformedError."""
    _, shape, kind, fortran, numbers = _state(found)
    name = kind.arguments[0] if isinstance(kind, Inert) and kind.name == "numpy.dtype" and kind.arguments else None
    order = kind.state[1] if isinstance(kind, Inert) and isinstance(kind.state, tuple) and len(kind.state) > 1 else None
    if name not in _DTYPES or order != "<" or not isinstance(numbers, bytes):
        raise MalformedError("an array of something else than numbers")
    if not isinstance(shape, tuple) or any(type(n) is not int or n < 0 for n in shape):
        raise MalformedError("an array of an impossible shape")
    dtype = np.dtype(f"<{name}")
    if math.prod(shape) * dtype.itemsize != len(numbers):
        raise MalformedError("an array of another size than its numbers")
    return np.frombuffer(numbers, dtype).reshape(shape, order="F" if fortran is True else "C")
