"""What the names in a kernel mean here: `cuda`, the functions of `ptx`, `math`, and Numba's number types."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.cuda_emulator.memory import Checked, EmulationError, Shaped, Shared
from tests.cuda_emulator.schedule import Launch, current

ALL = 0xFFFFFFFF


def number_type(kind: Any) -> Any:
    """The NumPy type of a Numba number type or of a NumPy one."""
    return getattr(np, "bool_" if str(kind) in ("bool", "boolean") else str(kind), None) or np.dtype(kind).type


class Cuda:
    """Stands for the name `cuda` inside a kernel."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.gridDim, self.blockDim = (SimpleNamespace(x=x, y=y, z=z) for x, y, z in (launch.grid, launch.block))
        self.shared = SimpleNamespace(array=self._shared)
        self.local = SimpleNamespace(array=lambda shape, dtype: Shaped(shape, number_type(dtype), "local memory"))
        self.atomic = SimpleNamespace(add=_add)
        self.cg = SimpleNamespace(this_grid=lambda: SimpleNamespace(sync=launch.grid_barrier))

    threadIdx = property(lambda self: current().index)  # noqa: N815
    blockIdx = property(lambda self: current().block.index)  # noqa: N815

    def grid(self, axes: int) -> Any:
        t, b, d = current().index, current().block.index, self.blockDim
        place = (b.x * d.x + t.x, b.y * d.y + t.y, b.z * d.z + t.z)
        return place[0] if axes == 1 else place[:axes]

    def gridsize(self, axes: int) -> Any:
        size = tuple(a * b for a, b in zip(self.launch.grid, self.launch.block, strict=True))
        return size[0] if axes == 1 else size[:axes]

    def _shared(self, shape: Any, dtype: Any) -> Shared:
        thread, kind = current(), number_type(dtype)
        number, arrays = thread.shared_arrays, thread.block.shared
        thread.shared_arrays += 1
        if number == len(arrays):
            count = self.launch.shared_bytes // np.dtype(kind).itemsize if shape == 0 else shape
            arrays.append(Shared(count, kind, f"{self.launch.name}: shared array {number}"))
        return arrays[number]

    def syncthreads(self) -> None:
        self.launch.barrier()

    def syncwarp(self, mask: int = ALL) -> None:
        self.launch.collective("syncwarp", None, lambda lanes: lanes, mask)

    def shfl_xor_sync(self, mask: int, value: Any, lanes: int) -> Any:
        source = current().lane ^ int(lanes)
        values = self.launch.collective("shuffle", value, lambda lanes: dict.fromkeys(lanes, lanes), mask)
        if 0 <= source < 32 and source not in values:
            raise EmulationError(f"{self.launch.name}: a shuffle reads from lane {source}, which takes no part")
        return values.get(source, value)


def _add(array: Checked, index: Any, value: Any) -> Any:
    # Around the race detection of shared memory: atomic operations may meet.
    place = array.place(index)
    old = array.array[place]
    if isinstance(array, Shared) and array.writer[place] is None:
        raise EmulationError(f"{array.name}: element {place} is changed, but nobody has written it")
    array.array[place] = old + value
    return old


class Math:
    """The module `math` with the results' type that of the arguments, as on a GPU."""

    inf, nan, pi = np.inf, np.nan, np.pi
    _others = {"fabs": np.abs, "pow": np.power}  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        function = self._others.get(name) or getattr(np, name)
        return lambda *values: function(*(v if isinstance(v, np.generic) else np.float64(v) for v in values))


def round_bfloat16(x: Any) -> int:
    """float32 -> the bits of the nearest bfloat16, ties to even."""
    value = np.float32(x)
    if value != value:
        return 0x7FFF
    bits = int(value.view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def widen_bfloat16(x: Any) -> np.ndarray:
    """bfloat16 as uint16 -> float32."""
    return (np.asarray(x).astype(np.uint32) << 16).view(np.float32)


class Ptx:
    """The functions of `nmt.rnn.kernels.cuda.machine_code.ptx`."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def mma_bfloat16(self, *values: Any) -> Any:
        return self.launch.collective("mma", values, _mma_bfloat16, ALL)

    def mma_tf32(self, *values: Any) -> Any:
        return self.launch.collective("mma", values, _mma_tf32, ALL)

    def pack_bfloat16(self, low: Any, high: Any) -> Any:
        return np.uint32(round_bfloat16(low) | round_bfloat16(high) << 16)

    def to_bfloat16(self, x: Any) -> Any:
        return np.uint32(round_bfloat16(x))

    def from_bfloat16(self, bits: Any) -> Any:
        return np.uint32(int(bits) << 16 & ALL).view(np.float32)

    def as_bits(self, x: Any) -> Any:
        return np.float32(x).view(np.uint32)

    def as_float(self, bits: Any) -> Any:
        return np.uint32(bits).view(np.float32)

    def load4(self, array: Checked, index: Any) -> tuple[Any, ...]:
        if int(index) % 4:
            raise EmulationError(f"{array.name}: four words are read from {index}, no multiple of 16 bytes")
        return tuple(array[int(index) + i] for i in range(4))

    def load_acquire(self, array: Checked, index: Any) -> Any:
        self.launch.spin()
        return array[index]

    def add_release(self, array: Checked, index: Any, value: Any) -> None:
        self.launch.spins = 0
        array[index] += np.uint32(value)


_G, _T = np.arange(32) >> 2, np.arange(32) & 3


def _mma_bfloat16(lanes: dict[int, Any]) -> dict[int, Any]:
    words = np.array([lanes[lane][:6] for lane in range(32)], np.uint32)
    low, high = widen_bfloat16(words & 0xFFFF), widen_bfloat16(words >> 16)
    A, B = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
    for part, (row, k) in enumerate(((0, 0), (8, 0), (0, 8), (8, 8))):
        A[_G + row, 2 * _T + k], A[_G + row, 2 * _T + k + 1] = low[:, part], high[:, part]
    for part, k in enumerate((0, 8), start=4):
        B[2 * _T + k, _G], B[2 * _T + k + 1, _G] = low[:, part], high[:, part]
    return _add_product(lanes, A, B)


def _mma_tf32(lanes: dict[int, Any]) -> dict[int, Any]:
    words = np.array([lanes[lane][:6] for lane in range(32)], np.uint32)
    values = (words & np.uint32(0xFFFFE000)).view(np.float32)
    A, B = np.zeros((16, 8), np.float32), np.zeros((8, 8), np.float32)
    A[_G, _T], A[_G + 8, _T], A[_G, _T + 4], A[_G + 8, _T + 4] = values[:, :4].T
    B[_T, _G], B[_T + 4, _G] = values[:, 4:].T
    return _add_product(lanes, A, B)


def _add_product(lanes: dict[int, Any], A: np.ndarray, B: np.ndarray) -> dict[int, Any]:
    C = np.zeros((16, 8), np.float32)
    given = np.array([lanes[lane][6:] for lane in range(32)], np.float32).T
    C[_G, 2 * _T], C[_G, 2 * _T + 1], C[_G + 8, 2 * _T], C[_G + 8, 2 * _T + 1] = given
    D = C + A @ B
    parts = np.stack([D[_G, 2 * _T], D[_G, 2 * _T + 1], D[_G + 8, 2 * _T], D[_G + 8, 2 * _T + 1]], axis=1)
    return {lane: tuple(parts[lane]) for lane in lanes}
