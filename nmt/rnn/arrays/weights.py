"""Parameters by name, matrices of 8-bit integers among them, and their packed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.arguments import expect, float_type
from nmt.rnn.cell import Cell, Param, check_is_cell
from nmt.system.interruption import forkable

LARGEST = 127
"""The largest integer; the range is symmetric around zero."""


@dataclass(frozen=True)
class Quantised:
    """An int8 matrix: numbers [K, N], from -127 to 127, and scales float32. scales is [K] where each row is an output
    channel (`by_rows`, an embedding table), else [N]."""

    numbers: np.ndarray
    scales: np.ndarray
    by_rows: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the matrix."""
        return self.numbers.shape

    def restored(self) -> np.ndarray:
        """Return the dequantised matrix in float32."""
        return self.numbers * (self.scales[:, None] if self.by_rows else self.scales)


def quantise(matrix: np.ndarray, *, by_rows: bool) -> Quantised:
    """Quantise a float32 matrix [K, N] by rounding to nearest, ties to even; the largest magnitude in a channel becomes
    127. A channel that is all zero, or too small for float32 to divide by, becomes zero; one with an infinity or NaN
    gets the scale NaN, so that it stays visible."""
    largest = np.abs(matrix).max(1 if by_rows else 0, initial=0)
    finite = np.isfinite(largest)
    plain = finite & (largest >= np.float32(2.0**-119))
    scales = np.where(plain, largest / np.float32(LARGEST), np.where(finite, np.float32(0), np.float32(np.nan)))
    inverse = np.divide(np.float32(LARGEST), largest, out=np.zeros_like(largest), where=plain)
    kept = plain[:, None] if by_rows else plain
    scaled = np.where(kept, matrix, np.float32(0)) * (inverse[:, None] if by_rows else inverse)
    return Quantised(np.rint(scaled, out=scaled).astype(np.int8), scales, by_rows)


BLOCK = 32
"""The numbers along the input of a channel that share a factor in 4 bits."""
LARGEST_OF_4_BITS = 7
MOST_FACTOR = LARGEST // LARGEST_OF_4_BITS


def scales_of_4_bits(matrix: np.ndarray, *, by_rows: bool) -> np.ndarray:
    """Return the scales of a matrix in 4 bits: a channel's largest magnitude becomes 126, largest integer * factor."""
    largest = np.abs(matrix).max(1 if by_rows else 0, initial=0)
    scales = quantise(largest[:, None], by_rows=True).scales
    return scales * np.float32(LARGEST / (LARGEST_OF_4_BITS * MOST_FACTOR))


def blocks_of(channels: np.ndarray) -> np.ndarray:
    """Return a matrix [channels, inputs] as [channels, blocks, 32], with zeros after the last input."""
    return np.pad(channels, ((0, 0), (0, -channels.shape[1] % BLOCK))).reshape(len(channels), -1, BLOCK)


Packed = np.ndarray
# An element of a packed weight in bfloat16: two numbers (kernels/products/bfloat16.py); in int8: four (int8.py there).
PAIRS, QUADS = np.dtype(np.uint32), np.dtype(np.int32)


def packed_dtype(where: str, dtype: Any, compute_dtype: str | None) -> np.dtype:
    """Return the dtype of packed weights for products in `compute_dtype`: "float32", "bfloat16", "int8", None for
    `dtype`. Raises NMTError: an unknown name, or one not supported with `dtype`; a `dtype` that is neither float32 nor
    float64."""
    dtype = float_type(where, dtype)
    if compute_dtype in (None, dtype.name):
        return dtype
    rounded = {"bfloat16": PAIRS, "int8": QUADS} if dtype == np.float32 else {}
    if not isinstance(compute_dtype, str) or compute_dtype not in rounded:
        choices = " or ".join([dtype.name, *rounded])
        raise NMTError(f"{where}: compute_dtype must be {choices} with {dtype}, got {compute_dtype}")
    return rounded[compute_dtype]


def check_device(where: str, packed: np.dtype, device: str) -> None:
    """Raise NMTError if the device has no int8 products."""
    if packed == QUADS and device != "cpu":
        raise NMTError(f"{where}: compute_dtype int8 must be with device cpu, got {device}; use bfloat16 there")


def check_params(where: str, expected: Mapping[str, Param], arrays: Any, dtype: Any) -> None:
    """Raise ShapeError unless these are Weights in which every parameter is, contiguous and of its shape and dtype."""
    if not isinstance(arrays, Weights):
        raise ShapeError(f"{where}: weights must be Weights, got {type(arrays).__name__}; make them, Weights(params)")
    for name, param in expected.items():
        if name not in arrays:
            raise ShapeError(f"{where}: parameter {name} must be given, got {', '.join(arrays) or 'none'}")
        quantised = arrays.quantised(name)
        if quantised is None or quantised.shape != param.shape:
            _check_array(where, f"parameter {name}", param, arrays[name], dtype)


def check_gradients(where: str, expected: Mapping[str, Param], arrays: Mapping[str, np.ndarray], dtype: Any) -> None:
    """Raise ShapeError unless those arrays that gradients of parameters are added to are like these, and writeable."""
    for name, param in expected.items():
        if name not in arrays:
            continue
        _check_array(where, f"gradient {name}", param, arrays[name], dtype)
        if not getattr(arrays[name].flags, "writeable", True):
            raise ShapeError(f"{where}: gradient {name} must be writeable, got a read-only array")


def _check_array(where: str, what: str, param: Param, array: Any, dtype: Any) -> None:
    expect(where, what, array, type(array) if hasattr(array, "flags") else np.ndarray, np.dtype(dtype), param.shape)
    if not array.flags.c_contiguous:
        raise ShapeError(f"{where}: {what} must be contiguous; pass np.ascontiguousarray of it")


class Again(NamedTuple):
    """Refill derived arrays: `job` describes one, valid while the parameter's array stays; `run` refills several."""

    job: Callable[[Packed], Any]
    run: Callable[[list[Any]], None]


_Key = tuple[Any, ...]  # a parameter's whole name, then its form


class Weights(MutableMapping[str, np.ndarray]):
    """A dictionary of parameters. Call `changed()` after writing into one of its arrays.

    Any number of threads may read it and run cells with it; while one writes, no other thread may use it.

    `view(prefix)` is the same store seen below `prefix.`: cells nest without copies, and a packed form is made once
    for all users. A matrix may be stored as int8 only (`hold_quantised`): int8 products read that, everything else a
    restored float32 array, which is made at first use."""

    def __init__(self, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self._arrays: dict[str, np.ndarray | Quantised] = dict(arrays or {})
        self.whole: Any = getattr(arrays, "whole", None)  # the memory of all arrays that were given, if it is one
        self._packed: dict[_Key, Packed] = {}
        self._stale: set[_Key] = set()
        self._jobs: dict[_Key, Any] = {}
        self._used: list[set[_Key]] = [set(), set()]  # used before the last change, and since then
        self._version: list[object] = [object()]
        self._prefix = ""
        self._lock = forkable(RLock())  # several threads may share a model
        self._below: Weights | None = None  # the store that `over` was called on, ...
        self._own: frozenset[str] = frozenset()  # ... and the names that are not taken from it

    def over(self, own: Mapping[str, np.ndarray | Quantised]) -> Weights:
        """Return a store that has some parameters of its own and shares all others, with their packed forms, with this
        one: many models that differ in a few parameters take the memory of one. While it is in use, this store must not
        be written to."""
        found = Weights()
        found._arrays, found._below, found._own = {**self._arrays, **own}, self, frozenset(own)
        return found

    def view(self, prefix: str) -> Weights:
        """Return the parameters below `prefix.`, sharing arrays and packed forms."""
        inner = Weights.__new__(Weights)
        vars(inner).update(vars(self))  # everything is shared with the store, including its lock
        inner._prefix = f"{self._prefix}{prefix}."
        return inner

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays[self._prefix + name]
        if isinstance(array, Quantised):  # arrays are of any device
            return self.derived(name, ("restored",), lambda _: array.restored())
        return array

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._prefix + name in self._arrays

    def __setitem__(self, name: str, array: np.ndarray | Quantised) -> None:
        with self._lock:
            self._arrays[self._prefix + name] = array
            for key in [k for k in self._packed if k[0] == self._prefix + name]:  # the packed forms of the former one
                del self._packed[key]
                self._jobs.pop(key, None)
            self._version[0] = object()

    def hold_quantised(self, name: str, matrix: Quantised) -> None:
        """Store a quantised matrix in place of an array."""
        self[name] = matrix

    def quantised(self, name: str) -> Quantised | None:
        """Return the quantised matrix stored in place of an array, if any."""
        held = self._arrays[self._prefix + name]
        return held if isinstance(held, Quantised) else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array, without restoring it."""
        return self._arrays[self._prefix + name].shape

    def __delitem__(self, name: str) -> None:
        with self._lock:
            del self._arrays[self._prefix + name]
            self._version[0] = object()

    def __iter__(self) -> Iterator[str]:
        return (k[len(self._prefix) :] for k in self._arrays if k.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def changed(self) -> None:
        """Report that numbers have changed: packed forms are made again at their next use."""
        with self._lock:
            self._stale.update(self._packed)
            if self._used[1]:
                self._used[:] = [self._used[1], set()]
            self._version[0] = object()  # last: a thread that sees the new version finds stale forms marked

    @property
    def version(self) -> object:
        """Return an object that is replaced after every change, including changes above the view. Whatever was prepared
        for a former version is no longer valid."""
        return self._version[0]

    @property
    def packed_bytes(self) -> int:
        """Return the bytes of all packed forms, including those above the view."""
        with self._lock:
            return sum(packed.nbytes for packed in self._packed.values())

    def _shared(self, name: str) -> Weights | None:
        """Return the store below if it has the packed forms of a parameter."""
        return self._below if self._prefix + name not in self._own else None

    def ready(self, name: str, form: tuple[Any, ...]) -> Packed | None:
        """Return what `derived` would return if that is up to date, else None."""
        if (shared := self._shared(name)) is not None:
            return shared.ready(self._prefix + name, form)
        key = (self._prefix + name, *form)
        with self._lock:
            if key not in self._packed or key in self._stale:
                return None
            self._used[1].add(key)
            return self._packed[key]

    def derived(
        self, name: str, form: tuple[Any, ...], make: Callable[[Packed | None], Packed], again: Again | None = None
    ) -> Packed:
        """Return the array that `make` computes from a parameter, cached under `form` until the parameter changes.
        make: receives its previous array, to fill again, or None; returns the array. again: refills many at once after
        a change: this one, and those used since the previous change."""
        if (shared := self._shared(name)) is not None:
            return shared.derived(self._prefix + name, form, make, again)
        return self._derived((self._prefix + name, *form), make, again)

    def of_whole(self, form: tuple[Any, ...], make: Callable[[Packed | None], Packed]) -> Packed:
        """Return the array that `make` computes from `whole`, cached as by `derived`."""
        return self._derived(("", *form), make, None)

    def _derived(self, key: _Key, make: Callable[[Packed | None], Packed], again: Again | None) -> Packed:
        with self._lock:
            self._used[1].add(key)
            is_stale = key in self._stale
            if key not in self._packed or (is_stale and (again is None or key not in self._jobs)):
                self._packed[key] = make(self._packed.get(key))
                self._stale.discard(key)
                if again is not None:
                    self._jobs[key] = again.job(self._packed[key])
            elif is_stale and again is not None:
                keys = [k for k in self._jobs if k in self._stale and (k == key or k in self._used[0])]
                again.run([self._jobs[k] for k in keys])
                self._stale.difference_update(keys)
            return self._packed[key]


def initial_params(cell: Cell, seed: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Return initial parameters: Glorot uniform for each gate's matrix (Glorot and Bengio 2010, equation 16), biases
    zero, the forget gate's one."""
    check_is_cell("initial_params", cell)
    rng = np.random.default_rng(seed)
    return {name: initial_array(param, rng, dtype) for name, param in cell.params().items()}


def initial_array(param: Param, rng: np.random.Generator, dtype: Any = np.float32) -> np.ndarray:
    """Return the initial array of one parameter, as `cell.Param` specifies."""
    if param.weight:
        limit = np.sqrt(6.0 / (param.shape[0] + 1))
        return rng.uniform(-limit, limit, param.shape).astype(dtype)
    if len(param.shape) == 1:
        array = np.full(param.shape, param.start, dtype)
        if param.ones is not None:
            array.reshape(param.gates, -1)[param.ones] = 1
        return array
    if param.deviation is not None:
        return (rng.standard_normal(param.shape) * param.deviation).astype(dtype)
    rows, columns = param.shape
    limit = np.sqrt(6.0 / (rows + columns / param.gates))
    return rng.uniform(-limit, limit, param.shape).astype(dtype)
