"""Compilation of kernels for a given GPU, without one: Numba to PTX, the linker to machine code, cached on disk.

The file's name is a hash of all inputs: the function's code and that of all it calls, the types, the sources of this
package, and the versions of the compilers.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from threading import RLock
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from nmt.errors import DeviceError, how_to_install
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.machine_code.features import fingerprint
from nmt.rnn.kernels.machine_code.store import Record, python_code, store
from nmt.system.notices import making_code

Capability = tuple[int, int]


@dataclass(frozen=True)
class Resources:
    """Resources of machine code: registers, bytes of stack and spills per thread, declared shared bytes per block."""

    registers: int
    stack: int
    spills: int
    shared: int


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code, the name of its entry point, the bytes of each of its parameters, and its resources."""

    entry: str
    parameters: tuple[int, ...]
    resources: Resources
    cubin: bytes


def compile_kernel(kernel: GPUKernel, capability: Capability) -> CompiledKernel:
    """Return machine code for GPUs of this capability, (9, 0) for example, from the disk cache if it is there. Raises
    DeviceError if the compilers are not installed."""
    name = f"{kernel.name}-{_key(kernel, capability)}"
    found = store().read(name)
    if found is not None:
        facts = found.facts
        return CompiledKernel(facts["entry"], tuple(facts["parameters"]), Resources(**facts["resources"]), found.code)
    with making_code(store().keeps):
        ptx = to_ptx(kernel, capability)
        entry = re.search(r"\.visible \.entry (\w+)\(([^)]*)\)", ptx)
        if entry is None:
            raise RuntimeError(f"{kernel.name}: PTX without an entry point")
        parameters = tuple(int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+)", entry[2]))
        cubin, log = _link(ptx, capability)
    made = CompiledKernel(entry[1], parameters, _resources(log), cubin)
    facts = {"entry": made.entry, "parameters": made.parameters, "resources": asdict(made.resources)}
    store().write(name, Record(facts, cubin))
    return made


def to_ptx(kernel: GPUKernel, capability: Capability) -> str:
    """Compile a kernel to PTX with Numba. Sums are computed in the order written and NaN is handled as usual; a product
    and a sum may be fused into one operation with one rounding. Raises DeviceError if the compilers are not
    installed."""
    cuda = _numba_cuda()
    with _lock, _without_gpu(capability):
        text, _ = cuda.compile(
            kernel.function,
            kernel.signature,
            device=False,
            abi="numba",
            cc=capability,
            output="ptx",
            launch_bounds=(kernel.block_threads, 1),
        )
    return str(text)


def _numba_cuda() -> ModuleType:
    try:
        from cuda.bindings import nvjitlink  # noqa: F401
        from numba import cuda

        metadata.version("numba-cuda")
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise DeviceError(
            f"CUDA compiler: the package numba-cuda must be installed, it is not; {how_to_install('cuda')}"
        ) from error
    _load_arrays()
    return cuda


@lru_cache(maxsize=1)
def _load_arrays() -> None:
    """Load a part of numba-cuda that names `numpy.row_stack` while it is loaded; NumPy 2.5 has none."""
    missing = not hasattr(np, "row_stack")
    if missing:
        np.row_stack = np.vstack
    try:
        import numba.cuda.np.arrayobj  # noqa: F401
    finally:
        if missing:
            del np.row_stack


_lock = RLock()


@contextmanager
def _without_gpu(capability: Capability) -> Iterator[None]:
    """Give Numba a fixed capability during the block, where it would ask the driver for that of the present GPU."""
    from numba.cuda import dispatcher

    asked = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = asked


def _link(ptx: str, capability: Capability) -> tuple[bytes, str]:
    """Link PTX; return machine code and the linker's report."""
    from cuda.bindings import nvjitlink

    options = [f"-arch=sm_{capability[0]}{capability[1]}", "-O3", "-verbose"]
    handle = nvjitlink.create(len(options), options)
    try:
        code = ptx.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "kernel.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
    finally:
        nvjitlink.destroy(handle)
    return bytes(cubin), log.decode(errors="replace")


def _resources(log: str) -> Resources:
    def largest(pattern: str) -> int:
        return max((int(number) for number in re.findall(pattern, log)), default=0)

    spills = largest(r"(\d+) bytes spill stores") + largest(r"(\d+) bytes spill loads")
    return Resources(
        largest(r"[Uu]sed (\d+) registers"), largest(r"(\d+) bytes stack"), spills, largest(r"(\d+) bytes smem")
    )


def _key(kernel: GPUKernel, capability: Capability) -> str:
    parts = [*_describe(kernel.function, set()), *map(str, kernel.signature), str(kernel.block_threads)]
    return hashlib.sha256("\n".join([*parts, str(capability), _versions()]).encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def _versions() -> str:
    """Return the versions of Python and the compilers, and a digest of the sources of `kernels/cuda`."""
    packages = ("numba", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "llvmlite")
    found = [f"{name} {_version(name)}" for name in packages]
    return "\n".join([sys.version, *found, fingerprint(Path(__file__).parents[1])])


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _describe(function: Callable[..., Any], seen: set[int]) -> Iterator[str]:
    """Yield everything that determines a function's behaviour: its code, its closure, the globals it uses."""
    function = getattr(function, "py_func", function)
    if id(function) in seen:
        return
    seen.add(id(function))
    if not isinstance(function, FunctionType):
        yield repr(function)
        return
    yield f"{function.__name__} {python_code(function.__code__)}"
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
    for value in [*cells, *named, *(function.__defaults__ or ())]:
        if isinstance(value, ModuleType):
            yield value.__name__
        elif callable(value) and not isinstance(value, type):
            yield from _describe(value, seen)
        else:
            yield repr(value)
