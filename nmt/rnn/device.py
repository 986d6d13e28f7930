"""Devices, on which arrays are stored and computation runs: the processor, or a GPU.

The code that runs cells, wires layers or updates parameters is written once, with three things of a device: `xp`, a
module with NumPy's functions for its arrays; the named operations below; and `executable`, which runs a cell's plan.
Arrays stay on their device; only `upload` and `download` move them. Lengths and other numbers that decide what is
launched are host arrays everywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind, Arrays, parse
from nmt.rnn.arrays.device_operations import (
    ADD_SCALED,
    Array,
    ElementRule,
    OutputGradients,
    OutputLayer,
    SearchOperations,
)
from nmt.rnn.arrays.pass_numbers import PassNumbers
from nmt.rnn.arrays.weights import Quantised, Weights
from nmt.rnn.arrays.workspace import Allocate, Group, zeros_of
from nmt.rnn.compiler.plan import PlacedSink, Plan
from nmt.rnn.compiler.program import Place
from nmt.rnn.rows import Rows, TimeBlock, shape_of_step

T = TypeVar("T")

Slot = tuple[int, int, int]
"""A slot of each row, (first, times, most): first + times * min(length, most), modulo 2 of two; `times` is 0 or 1."""

ALIGNED = 64
"""Arrays in a group begin at a multiple of this many numbers: on a cache line, and aligned for tensor cores."""


class PlanRun(ABC):
    """One pass of a plan over one batch, block of time by block."""

    arrays: Arrays
    weights: Weights
    rows: Rows
    allocate: Allocate
    dtype: np.dtype
    local: dict[str, Place]
    """The arrays that last for a block of time."""

    @contextmanager
    def block_memory(self) -> Iterator[None]:
        """Allocate the arrays of a block of time, and free them after the pass; the next pass reuses the memory."""
        with self.allocate.temporary():
            self.take_block_memory()
            yield
        for name in self.local:
            del self.arrays[name]

    def take_block_memory(self) -> None:
        """Allocate the arrays that last for a block of time."""
        for name, place in self.local.items():
            self.arrays[name] = self.allocate((self.rows.block_steps, *shape_of_step(place, self.rows)), self.dtype)

    @abstractmethod
    def block(self, block: TimeBlock) -> None:
        """Run the programs for one block of time."""

    def add_gradients(self, plan: Plan, gradients: Arrays, block: TimeBlock) -> None:
        """Add one block of time to all gradients that `gradients` contains."""
        for placed in plan.sinks:
            if placed.sink.name in gradients:
                self.add_gradient(placed, gradients[placed.sink.name], block)

    @abstractmethod
    def add_gradient(self, placed: PlacedSink, target: Array, block: TimeBlock) -> None:
        """Add a sink's share of a gradient for one block of time. Sums active rows only: padding may contain NaN."""

    def argument(self, name: str, owner: Array) -> Array:
        """Return the array that has this name in a generated function; `owner`: the row of each source."""
        if name in self.arrays:
            return self.arrays[name]
        kind, base = parse(name)
        if kind is ArrayKind.INDEX:
            return owner
        if kind is ArrayKind.PARAMETER:
            return self.weights[base]
        raise RuntimeError(f"no memory for {name}")


class Executable(ABC):
    """A plan compiled for a device."""

    plan: Plan

    @abstractmethod
    def run(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, *, backward: bool) -> PlanRun:
        """Return a pass over a batch, with memory for what `arrays` lacks."""

    def forward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the forward arrays; `arrays` has inputs, state stacks, captured arrays, masks and parameter vectors."""
        run = self.run(arrays, weights, rows, allocate, backward=False)
        with run.block_memory():
            for block in run.rows.blocks(backward=False):
                run.block(block)

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays) -> None:
        """Fill the backward arrays and add to the parameters' `gradients`."""
        run = self.run(arrays, weights, rows, allocate, backward=True)
        with run.block_memory():
            for block in run.rows.blocks(backward=True):
                run.block(block)
                run.add_gradients(self.plan, gradients, block)

    def weight_gradients(
        self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays
    ) -> None:
        """Add to the parameters' `gradients` after a `backward`; the plan is one `with_operands` (compiler/plan.py)."""
        run = self.run(arrays, weights, rows, allocate, backward=True)
        for block in run.rows.blocks(backward=True):
            run.add_gradients(self.plan, gradients, block)

    def prepare(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> list[Any]:
        """Return launches that replay `forward` on these arrays after their contents have changed. Raises RuntimeError:
        not every row has length T, or the device is not the processor."""
        raise RuntimeError("runs are prepared for the processor only")


class Device(ABC):
    """A device and its operations on arrays; `threads` matters only on the processor."""

    name: str
    xp: Any
    is_cpu: bool = False
    """Whether this is the processor: arrays are NumPy's, and code may read them after `host`, without `download`."""
    memory: int | None = None
    """Bytes of GPU memory; None for the processor, whose memory is shared with other processes."""
    block_rows: int | None = None
    """Rows, in all steps, of a block of time; None for tuning.BLOCK_ROWS."""

    @property
    def search(self) -> SearchOperations:
        """Return the operations of a search on a GPU. Raises RuntimeError on the processor."""
        raise RuntimeError(f"the search is of a GPU alone, got the device {self.name}")

    # ------------------------------------------------------------ arrays

    @abstractmethod
    def upload(self, array: np.ndarray) -> Array:
        """Return a host array copied to the device; on the processor the same array."""

    @abstractmethod
    def download(self, array: Array) -> np.ndarray:
        """Return a device array on the host, after it has been computed; on the processor the same array."""

    def in_one_call(self) -> AbstractContextManager[None]:
        """Return a context in which launches may wait: they run at its end without Python in between, not at all after
        an error. Until then Python must neither read nor write their arrays but by `host`."""
        return nullcontext()

    def host(self, arrays: T) -> T:
        """Return these arrays for the functions of `xp`, to be read or written, when the launches that wait (see
        `in_one_call`) have run: the only way by which Python may use the memory of a launch. Copies nothing: a GPU's
        arrays stay there, and its functions of `xp` follow its launches in order."""
        return arrays

    def contiguous(self, array: Array) -> Array:
        """Return an array as it is, or a contiguous copy."""
        return array if array.flags.c_contiguous else self.xp.ascontiguousarray(self.host(array))

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""
        self.host(None)

    @abstractmethod
    def index(self, numbers: np.ndarray) -> Array:
        """Return integers of the host as read-only int64 on the device, to be used as an index."""

    def group(self, shapes: Mapping[str, tuple[int, ...]], dtype: Any) -> Group:
        """Return zero arrays of these shapes by name, in one piece of memory, each at a multiple of ALIGNED numbers."""
        sizes = [math.prod(shape) for shape in shapes.values()]
        ends = list(accumulate(-(-size // ALIGNED) * ALIGNED for size in sizes))
        whole = zeros_of(self.xp, (ends[-1] if ends else 0,), dtype)
        places = zip(shapes.items(), [0, *ends], sizes, strict=False)
        return Group(((name, whole[at : at + size].reshape(shape)) for (name, shape), at, size in places), whole)

    def record(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Return a callable that replays what `launch` does, on the same arrays; `launch` must have run before. On the
        processor it is `launch` itself."""
        return launch

    def run_pass(self, numbers: PassNumbers | None, memory: Sequence[Array], launch: Callable[[], T]) -> T:
        """Do what `launch` does and return what it returns; on a GPU by a recording where the key of `numbers` and the
        addresses of `memory` come again. `memory`: all that lasts longer than the pass, besides the device's own."""
        return launch()

    # ------------------------------------------------------------ cells

    @abstractmethod
    def executable(self, plan: Plan, dtype: np.dtype, packed: np.dtype) -> Executable:
        """Return a plan compiled for this device; `packed` is the type of the products (see weights.packed_dtype)."""

    def clear(self, array: Array, threads: int) -> None:
        """Zero a contiguous array."""
        array[...] = 0

    @abstractmethod
    def clear_ended(self, array: Array, lengths: np.ndarray, threads: int) -> None:
        """Zero the steps of each row of [T, B, n] from its length (host, [B]) on."""

    @abstractmethod
    def begin_stack(self, stack: Array, lengths: np.ndarray, reverse: bool, start: Array | None, threads: int) -> None:
        """Zero the slots of a stack [slots, B, n] from lengths[b] + 1 on, with `reverse` from lengths[b] on; then write
        the initial states, `start` [B, n] or zero, to slot 0, or lengths[b]. `lengths` are of the host, [B]."""

    def take_slots(self, stack: Array, lengths: np.ndarray, slot: Slot, out: Array | None = None) -> Array:
        """Return a slot of each row of [slots, B, n], in `out` if given. `lengths` are of the host, [B]."""
        B, (first, times, most) = len(lengths), slot
        at = np.full(B, first) if not times else lengths if most > 1 else np.minimum(lengths, most)
        if len(stack) == 2:
            at = at % 2
        return self.take_rows(stack.reshape(-1, stack.shape[-1]), self.index(at * B + np.arange(B)), out)

    def fill_slots(self, slots: Array, start: Array | None, threads: int) -> None:
        """Set every slot of [slots, B, n] to `start` [B, n], or zero."""
        slots[...] = 0 if start is None else start

    def add(self, total: Array, other: Array, threads: int) -> None:
        """Add `other` to `total`, of the same shape; both are contiguous."""
        total += other

    @abstractmethod
    def dropout_mask(self, out: Array, keep_probability: float, seed: int, offset: int, threads: int) -> None:
        """Fill the flat `out` with 0 or 1/keep_probability from (seed, offset + i), the same bits on every device."""

    # ------------------------------------------------------------ the rest of a model

    @abstractmethod
    def embedding_rows(self, ids: Array, table: Array | Quantised, out: Array, scale: float, threads: int) -> None:
        """Compute out[i] = table[ids[i]] * scale; ids int32 or int64 [N], table [V, E], out [N, E]. On the processor
        the table may also be int8 by rows."""

    @abstractmethod
    def embedding_gradient(self, ids: np.ndarray, d_out: Array, d_table: Array, scale: float, threads: int) -> None:
        """Add d_out[i] * scale to d_table[ids[i]] for every i, always in the same order; ids int32 of the host."""

    @abstractmethod
    def take_rows(self, array: Array, index: Array, out: Array | None = None, threads: int = 1) -> Array:
        """Return array[..., index, :] of [..., n, m], contiguous, in `out` if given, zero where an index is negative;
        index int64 of the device."""

    def spread_rows(self, rows: Array, places: np.ndarray, out: Array, threads: int = 1) -> None:
        """Set out [N, n] to rows [R, n] at places [R] (host, each below N, no duplicates), and to zero elsewhere."""
        index = np.full(len(out), -1, np.int64)
        index[places] = np.arange(len(places))
        self.take_rows(rows, self.index(index), out, threads)

    def take_columns(self, array: Array, first: int, out: Array, threads: int) -> None:
        """Set out [..., n] to array[..., first : first + n]; both are contiguous."""
        out[...] = array[..., first : first + out.shape[-1]]

    def join_columns(self, parts: Sequence[Array], out: Array, threads: int) -> None:
        """Concatenate the parts [..., n_i] along the last axis into out [..., n]; all are contiguous."""
        into = 0
        for part in parts:
            out[..., into : into + part.shape[-1]] = part
            into += part.shape[-1]

    @abstractmethod
    def output_loss(
        self,
        h: Array,
        layer: OutputLayer,
        targets: np.ndarray,
        label_smoothing: float,
        gradients: OutputGradients | None,
        scale: float,
        threads: int,
        divergence: float = 0.0,
    ) -> Array:
        """Return the cross entropy of the output layer's distribution against targets, and compute its gradients.

        h [R, H], contiguous; targets int32 [R] of the host. Returns float64 [3] on the device, sums over the rows:
        negative log likelihood, smoothed loss, and the number of rows whose target is the most probable token (the
        first of equals). `scale` is a factor of the gradients only. `divergence` is the weight of the divergence
        between rows 2 i and 2 i + 1 in the loss, used where gradients are computed. Raises ShapeError. (See
        kernels/model/output.py.)
        """

    @abstractmethod
    def best_tokens(
        self,
        outputs: Array,
        layer: OutputLayer,
        first: int,
        places: int,
        threads: int,
        allocate: Allocate | None = None,
    ) -> tuple[Array, Array]:
        """Return the `places` most probable tokens of each row of outputs [R, H], from token `first` on, and their
        log-probabilities (see kernels/search/best_tokens.py)."""

    @abstractmethod
    def log_probs(self, outputs: Array, layer: OutputLayer, threads: int, allocate: Allocate | None = None) -> Array:
        """Return the log-probabilities [R, V] of all tokens for outputs [R, H], with the bits of `best_tokens`."""

    @abstractmethod
    def square_norm(self, gradients: Sequence[Array], threads: int) -> float:
        """Return the sum of squares of all arrays in float64; NaN and infinity are propagated."""

    @abstractmethod
    def change(self, rule: ElementRule, arrays: Sequence[Array], factors: Sequence[float], threads: int) -> None:
        """Apply a rule of device_operations.py to flat arrays, in place, and factors."""

    def add_scaled(self, total: Array, other: Array, factor: float, scale: float = 1.0, threads: int = 1) -> None:
        """Compute total = total * scale + factor * other on flat arrays, in place."""
        self.change(ADD_SCALED, (other, total), (factor, scale), threads)
