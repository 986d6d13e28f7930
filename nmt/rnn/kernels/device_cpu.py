"""The CPU as a device: NumPy arrays, and kernels on threads.

Modules that multiply are imported where they are used: on a new machine their code takes half a minute to compile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.device_operations import ElementRule, OutputLayer
from nmt.rnn.arrays.weights import Quantised
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.device import Device, Executable, T
from nmt.rnn.kernels.memory import moves
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.threads.pool import host, in_one_call, run_parallel


class CPUDevice(Device):
    """A device whose arrays are NumPy arrays; host memory and device memory are the same."""

    name = "cpu"
    xp = np
    is_cpu = True

    def upload(self, array: np.ndarray) -> np.ndarray:
        return array

    def download(self, array: np.ndarray) -> np.ndarray:
        return host(array)

    def in_one_call(self) -> AbstractContextManager[None]:
        return in_one_call()

    def host(self, arrays: T) -> T:
        return host(arrays)

    def index(self, numbers: np.ndarray) -> np.ndarray:
        return numbers

    def executable(self, plan: Plan, dtype: np.dtype, packed: np.dtype) -> Executable:
        from nmt.rnn.kernels.loops.run_cpu import CPUExecutable

        return CPUExecutable(plan, dtype, packed)

    def clear(self, array: np.ndarray, threads: int) -> None:
        run_parallel(moves.clear_all, _useful_threads(threads, array), array.reshape(-1))

    def clear_ended(self, array: np.ndarray, lengths: np.ndarray, threads: int) -> None:
        from nmt.rnn.kernels.loops.run_cpu import clear_ended

        clear_ended(array, lengths, threads)

    def begin_stack(
        self, stack: np.ndarray, lengths: np.ndarray, reverse: bool, start: np.ndarray | None, threads: int
    ) -> None:
        first, ends = (lengths, lengths) if reverse else (np.zeros(len(lengths), np.int64), lengths + 1)
        given = stack[0] if start is None else self.contiguous(start)
        run_parallel(moves.begin_stack, _useful_threads(threads, stack), stack, first, ends, given, start is not None)

    def fill_slots(self, slots: np.ndarray, start: np.ndarray | None, threads: int) -> None:
        given = slots[0] if start is None else self.contiguous(start)
        run_parallel(moves.fill_slots, _useful_threads(threads, slots), slots, given, start is not None)

    def add(self, total: np.ndarray, other: np.ndarray, threads: int) -> None:
        run_parallel(moves.add, _useful_threads(threads, total), total.reshape(-1), other.reshape(-1))

    def dropout_mask(self, out: np.ndarray, keep_probability: float, seed: int, offset: int, threads: int) -> None:
        run_parallel(update.dropout_mask, threads, out, keep_probability, np.uint64(seed % 2**64), np.uint64(offset))

    def embedding_rows(
        self, ids: np.ndarray, table: np.ndarray | Quantised, out: np.ndarray, scale: float, threads: int
    ) -> None:
        threads = _useful_threads(threads, out)
        if isinstance(table, Quantised):
            run_parallel(update.embedding_rows_int8, threads, ids, table.numbers, table.scales, out, scale)
        else:
            run_parallel(update.embedding_rows, threads, ids, table, out, scale)

    def embedding_gradient(
        self, ids: np.ndarray, d_out: np.ndarray, d_table: np.ndarray, scale: float, threads: int
    ) -> None:
        run_parallel(update.embedding_gradient, threads, ids, d_out, d_table, scale)

    def take_rows(
        self, array: np.ndarray, index: np.ndarray, out: np.ndarray | None = None, threads: int = 1
    ) -> np.ndarray:
        *outer, before, width = array.shape
        if out is None:
            out = np.empty((*outer, len(index), width), array.dtype)
        if out.size:
            blocks = math.prod(outer)
            flat = array.reshape(blocks, before, width), index, out.reshape(blocks, len(index), width)
            run_parallel(moves.take_rows, _useful_threads(threads, out), *flat)
        return out

    def take_columns(self, array: np.ndarray, first: int, out: np.ndarray, threads: int) -> None:
        n, m = array.shape[-1], out.shape[-1]
        run_parallel(
            moves.copy_columns, _useful_threads(threads, out), array.reshape(-1, n), first, out.reshape(-1, m), 0, m
        )

    def join_columns(self, parts: Sequence[np.ndarray], out: np.ndarray, threads: int) -> None:
        flat, into = out.reshape(-1, out.shape[-1]), 0
        for part in parts:
            width = part.shape[-1]
            run_parallel(
                moves.copy_columns, _useful_threads(threads, part), part.reshape(-1, width), 0, flat, into, width
            )
            into += width

    def output_loss(self, *args: Any) -> np.ndarray:
        from nmt.rnn.kernels.model.output import output_loss

        return output_loss(*args)

    def best_tokens(self, outputs: Any, layer: OutputLayer, first: int, places: int, threads: int, *_: Any) -> Any:
        from nmt.rnn.kernels.products.packing import packed_output
        from nmt.rnn.kernels.search.best_tokens import best_tokens

        return best_tokens(outputs, packed_output(layer, threads), layer.weights[layer.bias], first, places, threads)

    def log_probs(self, outputs: Any, layer: OutputLayer, threads: int, *_: Any) -> np.ndarray:
        from nmt.rnn.kernels.products.packing import packed_output
        from nmt.rnn.kernels.search.best_tokens import log_probs

        return log_probs(outputs, packed_output(layer, threads), layer.weights[layer.bias], threads)

    def square_norm(self, gradients: Sequence[np.ndarray], threads: int) -> float:
        total = 0.0
        for gradient in gradients:
            parts = np.zeros(_useful_threads(threads, gradient))
            run_parallel(update.square_norm, len(parts), gradient.reshape(-1), parts)
            total += float(host(parts).sum())
        return total

    def change(self, rule: ElementRule, arrays: Sequence[np.ndarray], factors: Sequence[float], threads: int) -> None:
        run_parallel(update.OF_RULE[rule], _useful_threads(threads, arrays[0]), *arrays, *factors)


def _useful_threads(threads: int, array: np.ndarray) -> int:
    """Return the number of threads to use for row work on an array: all, or one if the array is too small."""
    return threads if array.size >= tuning.ROW_WORK_ALONE_BELOW else 1
