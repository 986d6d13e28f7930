"""The processor as a device: NumPy arrays, and kernels on threads."""

from __future__ import annotations

import numpy as np

from nmt.rnn.compiler.plan import Plan
from nmt.rnn.device import Device
from nmt.rnn.kernels import update
from nmt.rnn.kernels.run_cpu import Executable, clear_ended
from nmt.rnn.kernels.threads import run_parallel


class CPUDevice(Device):
    """NumPy arrays; host and device are one."""

    name = "cpu"
    xp = np

    def upload(self, array: np.ndarray) -> np.ndarray:
        return array

    def download(self, array: np.ndarray) -> np.ndarray:
        return array

    def index(self, numbers: np.ndarray) -> np.ndarray:
        return numbers

    def executable(self, plan: Plan, dtype: np.dtype, packed: np.dtype) -> Executable:
        return Executable(plan, dtype, packed)

    def clear_ended(self, array: np.ndarray, lengths: np.ndarray, threads: int) -> None:
        clear_ended(array, lengths, threads)

    def dropout_mask(self, out: np.ndarray, keep_probability: float, seed: int, offset: int, threads: int) -> None:
        run_parallel(update.dropout_mask, threads, out, keep_probability, np.uint64(seed % 2**64), np.uint64(offset))

    def embedding_rows(self, ids: np.ndarray, table: np.ndarray, out: np.ndarray, scale: float, threads: int) -> None:
        run_parallel(update.embedding_rows, threads, ids, table, out, scale)

    def embedding_gradient(
        self, ids: np.ndarray, d_out: np.ndarray, d_table: np.ndarray, scale: float, threads: int
    ) -> None:
        run_parallel(update.embedding_gradient, threads, ids, d_out, d_table, scale)

    def square_norm(self, gradient: np.ndarray, threads: int) -> np.float64:
        parts = np.zeros(threads)
        run_parallel(update.square_norm, threads, gradient, parts)
        return parts.sum()

    def adam_step(
        self,
        param: np.ndarray,
        gradient: np.ndarray,
        m: np.ndarray,
        v: np.ndarray,
        settings: tuple[float, ...],
        threads: int,
    ) -> None:
        run_parallel(update.adam_step, threads, param, gradient, m, v, *settings)

    def sgd_step(
        self,
        param: np.ndarray,
        gradient: np.ndarray,
        velocity: np.ndarray,
        settings: tuple[float, ...],
        threads: int,
    ) -> None:
        run_parallel(update.sgd_step, threads, param, gradient, velocity, *settings)
