"""Launches of kernels by the emulator, on NumPy's arrays."""

from __future__ import annotations

from types import CellType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import types

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, Size, whole_size
from tests.cuda_emulator.memory import Checked, EmulationError
from tests.cuda_emulator.names import Cuda, Math, Ptx, number_type
from tests.cuda_emulator.schedule import Launch


class EmulatedRuntime:
    """With a seed the order of threads is random, another in every launch; without, threads run one after the other
    from barrier to barrier."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed, self.launches = seed, 0

    def launch(self, kernel: GPUKernel, grid: Size, *arguments: Any) -> None:
        self.launches += 1
        seed = None if self.seed is None else self.seed * 1_000_003 + self.launches
        launch = Launch(kernel.name, whole_size(grid), kernel.block, kernel.shared_bytes, seed)
        given = _arguments(kernel, arguments)
        with np.errstate(all="ignore"):
            launch.run(_rebuild(kernel.function, _Meaning(launch)), given, kernel.cooperative)


def _arguments(kernel: GPUKernel, given: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(given) != len(kernel.signature):
        raise EmulationError(f"{kernel.name}: {len(kernel.signature)} arguments, got {len(given)}")
    names = kernel.function.__code__.co_varnames
    return tuple(
        _argument(f"{kernel.name}: {name}", kind, value)
        for name, kind, value in zip(names, kernel.signature, given, strict=False)
    )


def _argument(where: str, kind: Any, value: Any) -> Any:
    if not isinstance(kind, types.Array):
        return number_type(kind)(value)
    if not isinstance(value, np.ndarray) or value.dtype != number_type(kind.dtype):
        raise EmulationError(f"{where} must be an array of {kind.dtype}, got {getattr(value, 'dtype', type(value))}")
    if not value.flags.c_contiguous:
        raise EmulationError(f"{where} must be C-contiguous, got strides {value.strides} of {value.shape}")
    return Checked(value.reshape(-1), where)


class _Meaning:
    """What a name's value stands for in one launch."""

    def __init__(self, launch: Launch) -> None:
        self.modules = {
            numba.cuda.__name__: Cuda(launch),
            "nmt.rnn.kernels.cuda.machine_code.ptx": Ptx(launch),
            "math": Math(),
        }
        self.made: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            if value.__name__ not in self.modules:
                raise EmulationError(f"a kernel names the module {value.__name__}")
            return self.modules[value.__name__]
        if isinstance(value, types.Type):
            return number_type(value)
        if isinstance(value, FunctionType) or hasattr(value, "py_func"):
            return _rebuild(value, self)
        if type(value).__module__ == "numba.core.extending" or type(value).__name__ == "_Intrinsic":
            return getattr(self.modules["nmt.rnn.kernels.cuda.machine_code.ptx"], value._name)
        return value


def _rebuild(function: Any, meaning: _Meaning) -> Any:
    """The same code, its globals and what it closes over replaced by what they mean here."""
    function = getattr(function, "py_func", function)
    if id(function) not in meaning.made:
        scope: dict[str, Any] = {"__builtins__": __builtins__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        new = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells or None)
        meaning.made[id(function)] = new
        for cell, old in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = meaning(old.cell_contents)
        for name in function.__code__.co_names:
            if name in function.__globals__:
                scope[name] = meaning(function.__globals__[name])
    return meaning.made[id(function)]
