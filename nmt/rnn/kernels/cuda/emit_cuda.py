"""Pass 7, emit for a GPU: every piece of row work of a program becomes a kernel, from the same program as on the CPU.

A kernel works on rows [first, last) of all steps, numbered t * B + n: one step's inside the time loop, those of a block
of time outside it. The host launches kernels and products in order and never waits. Sizes are arguments, so one
compiled kernel serves all batch sizes, lengths and widths of equal structure.

A block of threads computes a row, or several blocks where its features are independent:

| nest over | threads process | positions |
|---|---|---|
| features | features | |
| source positions | positions | |
| both | features | one after the other, in each thread |
| both, sums over features | features, by a warp's lanes | one per warp |

There is a barrier between nests, since a thread may read what another has written.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np
from numba import types

from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import Pass
from nmt.rnn.compiler.program import Nest, Place, PlaceKind, Product, Program, RowWork, StoredValue
from nmt.rnn.graph import Value
from nmt.rnn.kernels.cuda import tuning
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.machine_code.runtime import load_module
from nmt.rnn.kernels.loops.row_writer import Lines, Names, RowWriter, Terms, Variable

SYNC_BLOCK = "cuda.syncthreads()"


class CudaRows(RowWriter):
    """A writer of the nests of one row."""

    uses_parts = False
    """Whether a sum over the block needs shared memory."""

    def nest(self, nest: Nest) -> None:
        """Write one nest, after a barrier if it is not the first."""
        if self.row.lines:
            self.row.add(SYNC_BLOCK)
        self.begin(nest)
        first = nest.entries[0]
        if first.value.op == "softmax" and self.computes(first):
            self._softmax(first.value, first.place)
            return
        if not (nest.source_axis and nest.width is not None):
            self._loops(nest, nest.entries)
            return
        # Sums over features come last: the other entries have stored their operands by then.
        sums = [e for e in nest.entries if e.value.op == "sum_last" and self.computes(e)]
        rest = [e for e in nest.entries if e not in sums]
        if rest:
            self._nested(nest, rest, "for j in range(thread, {size}, threads):", "for s in range(ls):")
        if rest and sums:
            self.row.add(SYNC_BLOCK)
        if sums:
            positions = "for s in range(thread // 32, ls, threads // 32):"
            self._nested(nest, sums, positions, "for j in range(thread % 32, {size}, 32):", positions_outside=True)

    # ------------------------------------------------------------ forms

    def _loops(self, nest: Nest, entries: list[StoredValue]) -> None:
        """Write loops in which threads process features or positions; without either, all do the same."""
        looped = nest.source_axis or nest.width is not None
        self.inner = Lines(self.row.indent + 1) if looped else self.row
        self.s_block = self.inner if nest.source_axis else self.row
        self.j_block = self.inner if nest.width is not None else self.row
        self.end: list[str] = []
        for entry in entries:
            self.entry(entry)
        if looped and self.inner.lines:
            index, size = ("s", "ls") if nest.source_axis else ("j", self.w.dim(nest.width or 0))
            self.row.add(f"for {index} in range(thread, {size}, threads):")
            self.row.lines += self.inner.lines
        self.row.add(*self.end)

    def _nested(
        self, nest: Nest, entries: list[StoredValue], outer: str, inner: str, *, positions_outside: bool = False
    ) -> None:
        """Write a loop inside another, over features and positions; `size` in their heads is that of the features."""
        self.begin(nest)
        block, self.inner = Lines(self.row.indent + 1), Lines(self.row.indent + 2)
        self.s_block, self.j_block = (block, self.inner) if positions_outside else (self.inner, block)
        self.end = []
        for entry in entries:
            self.entry(entry)
        size = self.w.dim(nest.width or 0)
        block.add(inner.format(size=size))
        block.lines += self.inner.lines
        block.add(*self.end)
        self.row.add(outer.format(size=size))
        self.row.lines += block.lines

    # ------------------------------------------------------------ numbers and sums

    def put(self, block: Lines, place: Place, at: Terms, value: str) -> None:
        """Write a number at the loops' present position; only one thread writes if all compute it."""
        line = self.w.store(place, at, value)
        block.add(f"if thread == 0: {line}" if block is self.row else line)

    def sum_last(self, v: Value, place: Place) -> None:
        """Write a sum over features: by a warp for each source position, else by the block."""
        total = Variable.SUM.of(v.id)
        if "S" in v.axes:
            self.s_block.add(f"{total} = ZERO")
            self.inner.add(f"{total} += {self.name(v.args[0])}")
            # Offsets of the place belong to the position.
            at = self.at(place, 0, False)
            self.end += [f"{total} = warp_sum({total})", f"if thread % 32 == 0: {self.w.store(place, at, total)}"]
            return
        self.row.add(f"{total} = ZERO")
        self.inner.add(f"{total} += {self.name(v.args[0])}")
        self._over_block(v, place, total)

    def sum_s(self, v: Value, place: Place) -> None:
        """Write a sum over source positions: by the block, or in each thread for its features."""
        total = Variable.SUM.of(v.id)
        if v.width is None:
            self.row.add(f"{total} = ZERO")
            self.inner.add(f"{total} += {self.name(v.args[0])}")
            self._over_block(v, place, total)
            return
        self.j_block.add(f"{total} = ZERO")
        self.inner.add(f"{total} += {self.name(v.args[0])}")
        self.end.append(self.w.store(place, self.at(place, 0, True), total))

    def _over_block(self, v: Value, place: Place, total: str) -> None:
        self.uses_parts = True
        self.end.append(f"{total} = block_sum({total}, parts)")
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = total
        else:
            self.end.append(f"if thread == 0: {self.w.store(place, self.at(place, 0, False), total)}")

    def _softmax(self, v: Value, place: Place) -> None:
        source = self.places[v.args[0].id]
        self.uses_parts = True
        x, at = self.w.load(source, (self.w.base(source),)), (self.w.base(place),)
        self.row.add(
            "top = LOWEST",
            "for s in range(thread, ls, threads):",
            f"    top = max(top, {x})",
            "top = block_max(top, parts)",
            "total = ZERO",
            "for s in range(thread, ls, threads):",
            f"    e = exp({x} - top)",
            f"    {self.w.store(place, at, 'e')}",
            "    total += e",
            "total = block_sum(total, parts)",
            "for s in range(thread, ls, threads):",
            f"    {self.w.store(place, at, f'{self.w.load(place, at)} / total')}",
        )


HEADER = """\"\"\"Generated by nmt.rnn.kernels.cuda.emit_cuda; a cache, safe to delete.\"\"\"
import numpy as np
from numba import cuda
from nmt.rnn.kernels.cuda.rows.row_functions import activations, block_max, block_sum, warp_sum
F = np.{dtype}
ZERO, ONE, LOWEST = F(0), F(1), F(-np.inf)
sigmoid, tanh, exp, relu, sqrt, softplus, maximum = activations(F)
"""

FIXED = ("first", "last", "old", "lowest", "B", "C", "S", "flip")
ROWS = ("lengths", "source_lengths", "owner")


@dataclass
class RowKernel:
    """A kernel and its arguments after the fixed ones.

    dims: sizes. arrays: by name. scratch: memory of the call, a piece per row (`rows`) or per block (`row`). serial: a
    block processes a row's steps in order, since it accumulates into memory that is constant over time. spread: several
    blocks may share a row. width: the maximum number of features per row in one loop.
    """

    name: str
    dims: list[int]
    arrays: list[str]
    scratch: dict[str, Place]
    serial: bool
    spread: bool
    width: int
    kernel: GPUKernel


@dataclass
class CudaModule:
    """One pass: kernels and products in order, by phase. `number` identifies it."""

    steps: dict[Phase, list[RowKernel | Product]]
    number: int = field(default_factory=count().__next__)

    @property
    def kernels(self) -> list[RowKernel]:
        """Return all kernels of the pass."""
        return [step for step in chain(*self.steps.values()) if isinstance(step, RowKernel)]


def emit_cuda(one: Pass, dtype: np.dtype, name: str) -> CudaModule:
    """Return kernels for one direction of a plan; `name` ("forward", "backward") only labels them."""
    phases: dict[Phase, list[_KernelWriter | Product]] = {}
    for phase, program in one.programs.items():
        phases[phase] = [
            step
            if isinstance(step, Product)
            else _KernelWriter(program, step, f"{name}_{phase}{n}", in_loop=phase is Phase.LOOP)
            for n, step in enumerate(program.steps)
        ]
    texts = [step.source() for step in chain(*phases.values()) if isinstance(step, _KernelWriter)]
    source = HEADER.format(dtype=dtype.name) + "\n\n" + "\n\n".join(texts)
    module = load_module(source, hashlib.sha256(source.encode()).hexdigest()[:20]) if texts else None

    def made(steps: list[_KernelWriter | Product]) -> list[RowKernel | Product]:
        return [s if isinstance(s, Product) else s.kernel(module, dtype) for s in steps]

    return CudaModule({phase: made(steps) for phase, steps in phases.items()})


class _KernelWriter(Names):
    """A writer of one kernel's source."""

    def __init__(self, program: Program, step: RowWork, name: str, *, in_loop: bool) -> None:
        super().__init__(program, name, {})
        self.step = step
        entries = [e for nest in step.nests for e in nest.entries]
        self.serial = not in_loop and any(e.add and e.place.kind is PlaceKind.CONSTANT for e in entries)
        first, *more = step.nests
        alone = not more and first.width is not None and not first.source_axis and not self.serial
        # Where no feature of a row depends on another, several blocks may share a row.
        self.spread = alone and all(e.value.width is not None for e in entries)
        self.width = max((nest.width or 1 for nest in step.nests), default=1)

    def array(self, place: Place) -> str:
        if place.kind is not PlaceKind.ROW:
            return super().array(place)
        self.function.scratch[place.name] = place
        return self.variable(place.name)

    def base(self, place: Place, row: str = "n") -> str:
        if place.kind is not PlaceKind.ROW:
            return super().base(place, row)
        size = f" * {self.dim(place.width)}" if place.width is not None else ""
        return f"(block * S + s){size}" if place.source_axis else f"block{size}"

    def source(self) -> str:
        """Return the kernel's source text."""
        rows = CudaRows(self, 2)
        for nest in self.step.nests:
            rows.nest(nest)
        names = [self.variable(a) for a in (*self.function.arrays, *self.function.scratch)]
        arguments = [*FIXED, *ROWS, *self.dims.values(), *names]
        lines = [f"def {self.function.name}({', '.join(arguments)}):", "    block = cuda.blockIdx.x"]
        if self.spread:
            lines.append("    thread = cuda.threadIdx.x + cuda.blockIdx.y * cuda.blockDim.x")
            lines.append("    threads = cuda.blockDim.x * cuda.gridDim.y")
        else:
            lines.append("    thread, threads = cuda.threadIdx.x, cuda.blockDim.x")
        if rows.uses_parts:
            lines.append("    parts = cuda.shared.array(32, F)")
        if self.serial:
            lines += ["    n = block", "    for t in range(first // B, min(last // B, lengths[n])):"]
        else:
            lines += [
                "    for row in range(first + block, last, cuda.gridDim.x):",
                "        t = row // B",
                "        n = row - t * B",
                "        if lengths[n] <= t:",
                "            continue",
            ]
        lines.append("        before, after = t + flip, t + 1 - flip")
        if rows.uses_captured:
            lines += ["        c = owner[n]", "        ls = source_lengths[c]"]
        lines += rows.row.lines
        if not self.spread:
            lines.append(f"        {SYNC_BLOCK}")  # before scratch, and memory that the next row reads, is overwritten
        return "\n".join(lines) + "\n"

    def kernel(self, module: Any, dtype: np.dtype) -> RowKernel:
        """Return the compiled source as a launchable kernel."""
        function = self.function
        number = types.float32 if dtype == np.float32 else types.float64
        arrays = [types.int64[::1] if parse(a).kind is ArrayKind.INDEX else number[::1] for a in function.arrays]
        signature = (
            *[types.int64] * len(FIXED),
            *[types.int64[::1]] * len(ROWS),
            *[types.int64] * len(self.dims),
            *arrays,
            *[number[::1]] * len(function.scratch),
        )
        # The threads of a block are fixed at compile time, since the width limits how many are useful.
        most = tuning.SHARED_ROW_THREADS if self.spread else tuning.ROW_THREADS
        threads = min(most, max(32, 1 << (self.width - 1).bit_length()))
        made = GPUKernel(getattr(module, function.name), signature, threads)
        shared = function.arrays, function.scratch, self.serial, self.spread, self.width
        return RowKernel(function.name, list(self.dims), *shared, made)
