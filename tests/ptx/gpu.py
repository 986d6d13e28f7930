"""The package's runtime on the stand-in, its kernels by their PTX."""

from __future__ import annotations

import hashlib
import inspect
import re
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba.core import types

from nmt.rnn.kernels.cuda.machine_code import compile as compiler
from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.compile import CompiledKernel, Resources
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from tests.cuda_standin.gpu import CODES, Block, Gpu, StandInError
from tests.cuda_standin.runtime import packages_of
from tests.ptx.machine import Code, add_memory, cache_folder, remove_memory
from tests.ptx.program import PtxError, read_program

APART = 40  # bits of the addresses of an array
PAGE = 4096  # arrays keep their alignment
# What a kernel is given as the length of an array. Numba adds it to an index below zero, which would then be one from
# the end, as in Python; no kernel means that.
LENGTH = 1 << 34

__all__ = ["PtxGpu", "ptx_runtime"]


def ptx_of(kernel: GPUKernel, capability: tuple[int, int]) -> str:
    """What NVVM makes of a kernel; kept on disk, by the kernel's own code."""
    parts = [*compiler._describe(kernel.function, set()), str(kernel.signature), str(kernel.block_threads)]
    parts += [str(capability), sys.version, inspect.getsource(ptx)]
    parts += map(compiler._version, ("numba", "numba-cuda", "nvidia-nvvm", "llvmlite"))
    path = cache_folder() / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:24]}.ptx"
    if not path.exists():
        made = path.with_suffix(f".{id(kernel)}")
        made.write_text(compiler.to_ptx(kernel, capability))
        made.replace(path)
    return path.read_text()


@cache
def _code(text: str) -> Code:
    return Code(read_program(text))


class PtxGpu(Gpu):
    """The stand-in's GPU. seed: of the order of threads, another in each launch; 0: one after the other. change: what
    is done to the text of a kernel before it runs, for planted mistakes."""

    def __init__(self, seed: int = 1, change: Callable[[GPUKernel, str], str] = lambda kernel, text: text) -> None:
        super().__init__()
        self.seed, self.change, self.runs = seed, change, 0
        self.codes: list[Code] = []

    def add(self, block: Block) -> None:
        super().add(block)
        add_memory(block.ptr, block.size)

    def remove(self, start: int) -> None:
        remove_memory(start)
        super().remove(start)

    def compile(self, kernel: GPUKernel, capability: tuple[int, int]) -> CompiledKernel:
        text = self.change(kernel, ptx_of(kernel, capability))
        code = _code(text)
        self.kernels.append(kernel)
        self.entries.append(code.program.name)
        self.codes.append(code)
        threads = re.search(r"\.maxntid (\d+)", text)
        if threads and int(threads[1]) != kernel.block_threads:
            raise StandInError(f"{kernel.name}: compiled for {threads[1]} threads")
        program = code.program
        resources = Resources(0, 0, 0, program.shared)
        return CompiledKernel(program.name, program.parameters, resources, str(len(self.kernels) - 1).encode())

    def run(self, number: int, grid: tuple[int, int, int], values: list[Any], arguments: list[Any]) -> None:
        self.runs += 1
        kernel = self.kernels[number]
        words, arrays = b"", []
        for kind, value, argument in zip(kernel.signature, values, arguments, strict=True):
            if isinstance(argument, np.ndarray):
                # Far from all others: an access beyond an array must not land in another one of the launch.
                arrays.append((len(arrays) + 1 << APART | argument.ctypes.data % PAGE, argument))
                value = (*value[:4], arrays[-1][0], LENGTH, *value[6:])  # noqa: PLW2901
            words += _words(kind, value)
        seed = self.seed * 1_000_003 + self.runs if self.seed else 0
        try:
            self.codes[number].run(kernel, grid, words, arrays, seed)
        except PtxError as error:
            raise StandInError(f"{kernel.name}: {error}") from error


def _words(kind: Any, value: Any) -> bytes:
    """A parameter, 8 bytes a word."""
    if isinstance(kind, types.Array):
        return struct.pack("=7Q", *value)
    return struct.pack(f"={CODES[str(kind)]}", value).ljust(8, b"\0")


def ptx_runtime(
    seed: int | None = None,
    multiprocessors: int | None = None,
    change: Callable[[GPUKernel, str], str] = lambda kernel, text: text,
) -> CupyRuntime:
    """The package's runtime; `gpu` is its attribute for tests."""
    gpu = PtxGpu(seed or 0, change)
    if multiprocessors:
        gpu.multiprocessors = multiprocessors
    runtime = CupyRuntime(packages=packages_of(gpu))
    runtime.gpu = gpu
    return runtime
