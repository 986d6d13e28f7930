"""A GPU as a device: arrays of the runtime, kernels of this package."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import prod
from threading import RLock, local
from typing import Any

import numpy as np

from nmt.errors import DeviceError, ShapeError
from nmt.overriding import override
from nmt.rnn.arrays.beam_state import BeamChoice, BeamRules, BeamState
from nmt.rnn.arrays.device_operations import Array, OutputGradients, OutputLayer, SearchOperations
from nmt.rnn.arrays.weights import PAIRS
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.kernels.cuda import optimizer, output_loss, tuning
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.machine_code.divergence import add_divergence
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.rows import row_kernels, row_operations
from nmt.rnn.kernels.cuda.run_cuda import CudaExecutable
from nmt.rnn.kernels.cuda.search import beam_step as search
from nmt.rnn.kernels.cuda.search import best, choose_tokens
from nmt.system.interruption import forkable


def _of_runtime(function: Callable[..., Any], *, threads: bool = False) -> Any:
    """Return a method that calls a function of a runtime; with `threads`, without the last argument, the threads."""

    def method(self: GPUBase, *arguments: Any, **named: Any) -> Any:
        return function(self.runtime, *(arguments[:-1] if threads else arguments), **named)

    return method


_NO_RECORDING = ("streamcapture", "notsupported")
"""Parts of the names of CUDA's errors for what cannot be recorded, without underscores: a driver's version decides."""


class _OfThread(local):
    """The state of each thread: memory by role, and whether it records."""

    def __init__(self) -> None:
        self.buffers: dict[str, Array] = {}
        self.views: dict[tuple[Any, ...], Array] = {}  # of the buffers, by role, shape and type
        self.recording = False


def _keep(kept: OrderedDict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any) -> None:
    kept[key] = value
    if len(kept) > tuning.MOST_RECORDED:
        kept.popitem(last=False)


class CudaDevice(GPUBase, SearchOperations):
    """A GPU, or its substitute in the tests; `threads` is ignored."""

    name = "cuda"
    block_rows = tuning.BLOCK_ROWS

    def __init__(self, runtime: CupyRuntime) -> None:
        self.runtime, self.memory = runtime, runtime.memory
        self._lock = forkable(RLock())  # for the next three; never held while something is recorded
        self._indices: OrderedDict[bytes, Array] = OrderedDict()
        self._seen: OrderedDict[tuple[Any, ...], None] = OrderedDict()
        self._recorded: OrderedDict[tuple[Any, ...], Callable[[], None]] = OrderedDict()
        self._of_thread = _OfThread()

    @property
    def xp(self) -> Any:  # type: ignore[override]
        """Return the module of the runtime's arrays."""
        return self.runtime.xp

    # ------------------------------------------------------------ arrays

    def upload(self, array: np.ndarray) -> Array:
        return self.runtime.upload(array)

    def download(self, array: Array) -> np.ndarray:
        return self.runtime.download(array)

    def synchronize(self) -> None:
        self.runtime.synchronize()

    def index(self, numbers: np.ndarray) -> Array:
        whole = np.ascontiguousarray(numbers, np.int64)
        key = whole.tobytes()
        with self._lock:
            if key not in self._indices:
                self._indices[key] = self.runtime.upload(whole)
                if len(self._indices) > tuning.KEPT_INDICES:
                    self._indices.popitem(last=False)
            self._indices.move_to_end(key)
            return self._indices[key]

    def buffer(self, role: str, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        key, views = (role, shape, dtype), self._of_thread.views
        if key not in views:
            size, buffers = prod(shape) * dtype.itemsize, self._of_thread.buffers
            if role not in buffers or buffers[role].size < size:
                views.clear()
                buffers[role] = self.xp.zeros(size + size // 4, np.uint8)
            if len(views) == tuning.KEPT_VIEWS:
                views.clear()
            views[key] = buffers[role][:size].view(dtype).reshape(shape)
        return views[key]

    def replay(self, key: tuple[Any, ...], arrays: Sequence[Array], launch: Callable[[], None]) -> None:
        if self._of_thread.recording:  # part of a larger recording
            launch()
            return
        buffers = [(memory.data.ptr, memory.size) for memory in self._of_thread.buffers.values()]
        whole = (*key, *(array.data.ptr for array in arrays), *buffers)
        with self._lock:
            recording, seen = self._recorded.get(whole), whole in self._seen
            if recording is not None:
                self._recorded.move_to_end(whole)
            elif not seen:
                _keep(self._seen, whole, None)
        if recording is None and seen:
            try:
                recording = self.record(launch)
            except DeviceError as error:
                if not any(word in str(error).lower().replace("_", "") for word in _NO_RECORDING):
                    raise
                warnings.warn(f"{error}; launched without a recording, which is slower", stacklevel=2)
                recording = launch
            with self._lock:
                _keep(self._recorded, whole, recording)
        (recording or launch)()

    @override
    def record(self, launch: Callable[[], None]) -> Callable[[], None]:
        self._of_thread.recording = True
        try:
            return self.runtime.record(launch)
        finally:
            self._of_thread.recording = False

    # ------------------------------------------------------------ cells

    def executable(self, plan: Plan, dtype: np.dtype, packed: np.dtype) -> CudaExecutable:
        return CudaExecutable(self, plan, dtype, packed)

    @override
    def clear(self, array: Array, threads: int) -> None:
        self.runtime.own_stream()
        super().clear(array, threads)

    def clear_ended(self, array: Array, lengths: np.ndarray, threads: int) -> None:
        if len(lengths) and lengths.min() < len(array):
            self.clear_from(array, self.index(lengths))

    def begin_stack(self, stack: Array, first: np.ndarray, ends: np.ndarray, start: Array | None, threads: int) -> None:
        if not stack.size:
            return
        slots, B, width = stack.shape
        kernel = row_kernels.begin_stack(stack.dtype, row_kernels.threads_for(stack.size))
        given = stack if start is None else self.xp.ascontiguousarray(start)
        numbers = self.index(first), self.index(ends), given, int(start is not None), 0.0
        self.runtime.launch(kernel, row_kernels.grid_of(kernel, stack.size), stack, slots, B, width, *numbers)

    def dropout_mask(self, out: Array, keep_probability: float, seed: int, offset: int, threads: int) -> None:
        kernel = row_kernels.dropout_mask(out.dtype, row_kernels.threads_for(out.size))
        threshold = int(keep_probability * 4294967296.0)
        numbers = 1.0 / keep_probability, 0.0, threshold, seed % 2**64, offset
        self.runtime.launch(kernel, row_kernels.grid_of(kernel, out.size), out, out.size, *numbers)

    # ------------------------------------------------------------ the rest of a model

    embedding_rows = _of_runtime(row_operations.embedding_rows, threads=True)
    embedding_gradient = _of_runtime(row_operations.embedding_gradient, threads=True)
    square_norm = _of_runtime(optimizer.square_norm, threads=True)
    change = _of_runtime(optimizer.change, threads=True)
    choose_tokens = _of_runtime(choose_tokens.choose_tokens)
    average_log_probs = _of_runtime(best.average)
    trace_back = _of_runtime(search.trace_back)

    @property
    def search(self) -> SearchOperations:
        return self

    def take_rows(self, array: Any, index: Any, out: Any = None, threads: int = 1) -> Any:
        if out is None:
            out = self.xp.empty((*array.shape[:-2], len(index), array.shape[-1]), array.dtype)
        row_operations.take_rows(self.runtime, array, index, out)
        return out

    def output_loss(
        self,
        h: Any,
        layer: OutputLayer,
        targets: np.ndarray,
        label_smoothing: float,
        gradients: OutputGradients | None,
        scale: float,
        threads: int,
        divergence: float = 0.0,
    ) -> Any:
        bias = layer.weights[layer.bias]
        if targets.size and not 0 <= targets.min() <= targets.max() < len(bias):
            raise ShapeError(
                f"output_loss: targets must be classes from 0 and below {len(bias)}, got {targets.min()} to "
                f"{targets.max()}; check the vocabulary"
            )
        given = self.upload(targets)
        sums = output_loss.output_loss(self._matrices(layer, h), h, layer, given, label_smoothing, scale, gradients)
        if divergence and gradients is not None:
            sums[1] += add_divergence(self, layer, h, gradients, weight=divergence, scale=scale, threads=threads)
        return sums

    def best_tokens(
        self,
        outputs: Any,
        layer: OutputLayer,
        first: int,
        places: int,
        threads: int,
        allocate: Allocate | None = None,
    ) -> tuple[Any, Any]:
        allocate, R, bias = allocate or self.xp.empty, len(outputs), layer.weights[layer.bias]
        tokens, scores = allocate((R, places), np.int32), allocate((R, places), outputs.dtype)
        best.best_tokens(self.runtime, self._logits(outputs, layer, allocate), bias, first, tokens, scores)
        return tokens, scores

    def log_probs(self, outputs: Any, layer: OutputLayer, threads: int, allocate: Allocate | None = None) -> Any:
        found = self._logits(outputs, layer, allocate or self.xp.empty)
        best.log_probs(self.runtime, found, layer.weights[layer.bias])
        return found

    def _logits(self, outputs: Any, layer: OutputLayer, allocate: Any) -> Any:
        found = allocate((len(outputs), len(layer.weights[layer.bias])), outputs.dtype)
        output_loss.output_logits(self._matrices(layer, outputs), outputs, layer, found)
        return found

    def beam_step(
        self,
        tokens: Any,
        scores: Any,
        plain: Any,
        state: BeamState,
        choice: BeamChoice,
        rules: BeamRules | None = None,
    ) -> None:
        search.beam_step(self.runtime, tokens, scores, plain, state, choice)
        if rules is not None:
            choose_tokens.extend_history(self.runtime, rules, state)

    def output_rows(self, vocab_size: int, itemsize: int, packed: np.dtype) -> int:
        return output_loss.chunk_rows(vocab_size, itemsize)

    def _matrices(self, layer: OutputLayer, like: Any) -> Matrices:
        return Matrices(self, like.dtype, layer.packed == PAIRS, layer.weights)
