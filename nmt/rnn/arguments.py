"""Checks of the numbers that a user passes to a layer or cell; each error names the argument."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np

from nmt.errors import NMTError, ShapeError

MOST_SIZE = 1 << 24
"""A larger size must be a typing error: a matrix between two vectors of this size fits into no memory."""
MOST_THREADS = 1024


def whole_number(where: str, name: str, value: Any, most: int = MOST_SIZE) -> int:
    """Check a size or count of at least 1 and return it as an int; NumPy integers are accepted. Raises ShapeError."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ShapeError(f"{where}: {name} must be a whole number of at least 1, got {value!r}")
    number = int(value)
    if not 1 <= number <= most:
        bound = "at least 1" if number < 1 else f"at most {most:,}"
        raise ShapeError(f"{where}: {name} must be {bound}, got {number}")
    return number


def float_type(where: str, dtype: Any) -> np.dtype:
    """Return float32 or float64 as a dtype. Raises NMTError: another type, or the name of none."""
    found = None
    with suppress(TypeError):
        found = None if dtype is None else np.dtype(dtype)  # NumPy takes None for float64
    if found is None or found not in (np.float32, np.float64):
        raise NMTError(f"{where}: dtype must be float32 or float64, got {dtype if found is None else found}")
    return found


def flags(where: str, **values: Any) -> None:
    """Raise NMTError unless each value is true or false; text such as "no" would count as true."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_) and not (type(value) is int and value in (0, 1)):
            raise NMTError(f"{where}: {name} must be True or False, got {value!r}")


def share(where: str, name: str, value: Any) -> float:
    """Check a dropout probability and return it. Raises NMTError."""
    if not is_number(value) or not 0 <= value < 1:
        raise NMTError(f"{where}: {name} must be from 0 to less than 1, got {value!r}")
    return float(value)


def limit(where: str, name: str, value: Any) -> float | None:
    """Check a bound, which must be above 0, and return it; None means no bound. Raises ShapeError."""
    if value is not None and (not is_number(value) or not 0 < value < math.inf):
        raise ShapeError(f"{where}: {name} must be above 0 or None, got {value!r}")
    return None if value is None else float(value)


def lengths_of(where: str, lengths: Any, rows: int, most: int, name: str = "lengths") -> np.ndarray:
    """Return the lengths of rows as an array of integers. Raises ShapeError."""
    array = np.asarray(lengths)
    whole = array.dtype.kind in "iu" or not array.size
    if array.shape != (rows,) or not whole or (rows and (array.min() < 0 or array.max() > most)):
        got = array.tolist() if array.shape == (rows,) else shown(array)
        raise ShapeError(f"{where}: {name} must be {rows} integers from 0 to {most}, got {got}")
    return array


def is_array(array: Any, kind: Any) -> bool:
    """Return whether this is an array of a device's kind; one of `np.ma` is none, as its mask would be ignored."""
    return isinstance(array, kind) and not isinstance(array, np.ma.MaskedArray)


def is_like(array: Any, kind: Any, dtype: np.dtype, shape: Sequence[Any]) -> bool:
    """Return whether this is an array of a device's kind, dtype and shape; what is no number in `shape` is any size."""
    if not is_array(array, kind) or array.dtype != dtype or array.ndim != len(shape):
        return False
    return all(n is None or isinstance(n, str) or n == m for n, m in zip(shape, array.shape, strict=True))


def expect(where: str, what: str, array: Any, kind: Any, dtype: np.dtype, shape: Sequence[Any], place: str = "") -> Any:
    """Return this array. Raises ShapeError: it is not one for `is_like`; place: where it must be, for the error."""
    if not is_like(array, kind, dtype, shape):
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(f"{where}: {what} must be {dtype} [{sizes}]{place}, got {shown(array, kind)}")
    return array


def shown(array: Any, kind: Any = np.ndarray) -> str:
    """Return the type and shape of an array, or the type of something else, for an error."""
    return f"{array.dtype} {list(array.shape)}" if is_array(array, kind) else type(array).__name__


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool)
