"""A GPU as a device: arrays of the runtime, kernels of this package."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from threading import RLock, local
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import DeviceError, ShapeError
from nmt.overriding import override
from nmt.rnn.arrays.beam_state import BeamState
from nmt.rnn.arrays.device_operations import Array, OutputGradients, OutputLayer, SearchOperations
from nmt.rnn.arrays.pass_numbers import PassNumbers, Seed
from nmt.rnn.arrays.weights import PAIRS, Weights
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.device import Slot, T
from nmt.rnn.kernels.cuda import optimizer, output_loss, tuning
from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.given_numbers import SCALE, SEED, WORDS, GivenNumbers, address
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.machine_code.divergence import add_divergence
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime, UnrecordedError
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.row_numbers import is_dense
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
    """The state of each thread: memory by role, the constants of what it records, and the numbers of its pass."""

    def __init__(self) -> None:
        self.buffers: dict[str, Array] = {}
        self.views: dict[tuple[Any, ...], Array] = {}  # of the buffers, by role, shape and type
        self.constants: list[Array] | None = None  # None where nothing is recorded
        self.given: GivenNumbers | None = None


class _Recording(NamedTuple):
    """A function that replays, the result of the recorded one, and arrays that it reads."""

    replay: Callable[[], None]
    result: Any
    constants: list[Array]


class CudaDevice(GPUBase, SearchOperations):
    """A GPU, or its substitute in the tests; `threads` is ignored."""

    name = "cuda"
    block_rows = tuning.BLOCK_ROWS

    def __init__(self, runtime: CupyRuntime) -> None:
        self.runtime, self.memory = runtime, runtime.memory
        self._lock = forkable(RLock())  # for the next three; never held while something is recorded
        self._indices: OrderedDict[bytes, Array] = OrderedDict()
        # By how many are kept, then by key: False where it has been seen once, True where nothing can be recorded.
        self._kept: dict[int, OrderedDict[tuple[Any, ...], _Recording | bool]] = {
            most: OrderedDict() for most in (tuning.MOST_RECORDED, tuning.MOST_PASSES)
        }
        self._of_thread = _OfThread()

    @property
    def xp(self) -> Any:  # type: ignore[override]
        """Return the module of the runtime's arrays."""
        return self.runtime.xp

    # ------------------------------------------------------------ arrays

    def upload(self, array: np.ndarray) -> Array:
        found = self._given(address(array))
        return self.runtime.upload(array) if found is None else found.reshape(array.shape)

    def download(self, array: Array) -> np.ndarray:
        return self.runtime.download(array)

    def synchronize(self) -> None:
        self.runtime.synchronize()

    def _given(self, name: object) -> Array | None:
        """Return a number or array of this thread's pass. Raises UnrecordedError: another one while it is recorded."""
        given = self._of_thread.given
        found = None if given is None else given.find(name)
        if found is None and given is not None and self._of_thread.constants is not None:
            raise UnrecordedError("numbers of the host")
        return found

    def index(self, numbers: np.ndarray) -> Array:
        whole = np.ascontiguousarray(numbers, np.int64)
        found = self._given(address(whole))
        return self._constant(whole) if found is None else found.reshape(whole.shape)

    @override
    def given(self, numbers: np.ndarray, *, fixed: bool) -> Array | None:
        if self._of_thread.given is None:
            return None
        return self._constant(numbers) if fixed else self.index(numbers)

    def _constant(self, numbers: np.ndarray) -> Array:
        key, constants = numbers.tobytes(), self._of_thread.constants
        with self._lock:
            if key not in self._indices:
                self._indices[key] = self.runtime.upload(numbers)
                if len(self._indices) > tuning.KEPT_INDICES:
                    self._indices.popitem(last=False)
            self._indices.move_to_end(key)
            found = self._indices[key]
        if constants is not None:
            constants.append(found)
        return found

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

    @override
    def run_pass(self, numbers: PassNumbers | None, memory: Sequence[Array], launch: Callable[[], T]) -> T:
        if numbers is None:
            return launch()
        block = partial(self.buffer, "numbers", dtype=np.dtype(np.uint8))
        self._of_thread.given = given = GivenNumbers(numbers, block, self.runtime.upload)
        facts = [(each.min() == most, each.min() > 0, is_dense(each, most)) for each, most in numbers.lengths]
        try:
            if not all(dense for *_, dense in facts):  # what is launched depends on all lengths
                return launch()
            return self._repeat(tuning.MOST_PASSES, (*numbers.key, *facts), [given.block, *memory], launch)
        finally:
            self._of_thread.given = None

    def replay(self, key: tuple[Any, ...], arrays: Sequence[Array], launch: Callable[[], None]) -> None:
        self._repeat(tuning.MOST_RECORDED, key, arrays, launch)

    def _repeat(self, most: int, key: tuple[Any, ...], arrays: Sequence[Array], launch: Callable[[], T]) -> T:
        if self._of_thread.constants is not None:  # part of a larger recording
            return launch()
        buffers = [(memory.data.ptr, memory.size) for memory in self._of_thread.buffers.values()]
        whole, kept = (*key, *(array.data.ptr for array in arrays), *buffers), self._kept[most]
        with self._lock:
            known = kept.get(whole)
        if known is False:
            known = self._recorded(launch)
        with self._lock:
            kept[whole] = False if known is None else known
            kept.move_to_end(whole)
            if len(kept) > most:
                kept.popitem(last=False)
        if not isinstance(known, _Recording):
            return launch()
        known.replay()
        result: T = known.result
        return result

    def _recorded(self, launch: Callable[[], Any]) -> _Recording | bool:
        """Return a recording of what `launch` does; True if CUDA, or a part of it, allows none."""
        results: list[Any] = []
        constants = self._of_thread.constants = []
        try:
            return _Recording(self.runtime.record(lambda: results.append(launch())), results[0], constants)
        except UnrecordedError:
            return True
        except DeviceError as error:
            if not any(word in str(error).lower().replace("_", "") for word in _NO_RECORDING):
                raise
            warnings.warn(f"{error}; launched without a recording, which is slower", stacklevel=4)
            return True
        finally:
            self._of_thread.constants = None
            self.runtime.own_stream()

    @override
    def record(self, launch: Callable[[], None]) -> Callable[[], None]:
        self._of_thread.constants = []
        try:
            return self.runtime.record(launch)
        finally:
            self._of_thread.constants = None

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

    def begin_stack(self, stack: Array, lengths: np.ndarray, reverse: bool, start: Array | None, threads: int) -> None:
        given = stack if start is None else self.contiguous(start)
        numbers = *stack.shape, self.index(lengths), int(reverse), given, int(start is not None), 0.0
        row_kernels.launch(self.runtime, row_kernels.begin_stack, stack.dtype, stack.size, stack, *numbers)

    @override
    def take_slots(self, stack: Array, lengths: np.ndarray, slot: Slot, out: Array | None = None) -> Array:
        out = self.xp.empty(stack.shape[1:], stack.dtype) if out is None else out
        self.slots_of(stack, self.index(lengths), slot, out)
        return out

    def dropout_mask(self, out: Array, keep_probability: float, seed: int, offset: int, threads: int) -> None:
        base = self._given(SEED if isinstance(seed, Seed) else None)
        factor, more = (seed.factor, seed.more) if isinstance(seed, Seed) and base is not None else (0, int(seed))
        base = self._constant(np.zeros(1, np.int64)).view(np.uint64) if base is None else base
        threshold = int(keep_probability * 4294967296.0)
        numbers = 1.0 / keep_probability, 0.0, threshold, base, factor % 2**64, more % 2**64, offset
        row_kernels.launch(self.runtime, row_kernels.dropout_mask, out.dtype, out.size, out, out.size, *numbers)

    # ------------------------------------------------------------ the rest of a model

    embedding_rows = _of_runtime(row_operations.embedding_rows, threads=True)
    square_norm = _of_runtime(optimizer.square_norm, threads=True)
    change = _of_runtime(optimizer.change, threads=True)
    choose_tokens = _of_runtime(choose_tokens.choose_tokens)
    average_log_probs = _of_runtime(best.average)
    trace_back = _of_runtime(search.trace_back)

    @override
    def embedding_gradient(self, ids: np.ndarray, d_out: Array, d_table: Array, scale: float, threads: int) -> None:
        words = self._given((WORDS, address(ids)))
        if words is None:
            words = self.runtime.upload(row_operations.sorted_words(ids, len(d_table)))
        row_operations.embedding_gradient(self.runtime, words, len(d_table), d_out, d_table, scale)

    @override
    def spread_rows(self, rows: Array, places: np.ndarray, out: Array, threads: int = 1) -> None:
        self.clear(out, threads)
        Matrices(self, out.dtype, False, Weights()).put_rows(rows, self.index(places), Matrix.whole(out))

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
        bias, given = layer.weights[layer.bias], self._of_thread.given
        least = 0 if given is None or given.find(address(targets)) is None else -1  # then a negative one is no row
        if targets.size and not least <= targets.min() <= targets.max() < len(bias):
            raise ShapeError(
                f"output_loss: targets must be classes from 0 and below {len(bias)}, got {targets.min()} to "
                f"{targets.max()}; check the vocabulary"
            )
        if given is not None and scale is given.numbers.scale:
            factor, out = given.find(SCALE), self.buffer("losses", (3,), np.dtype(np.float64))
        else:
            factor, out = self.index(np.array([scale]).view(np.int64)).view(np.float64), self.xp.empty(3, np.float64)
        classes, matrices = self.upload(targets), self._matrices(layer, h)
        sums = output_loss.output_loss(matrices, h, layer, classes, label_smoothing, factor, gradients, out)
        if divergence and gradients is not None:
            sums[1] += add_divergence(self, layer, h, gradients, weight=divergence, scale=scale, threads=threads)
        return sums

    def best_tokens(
        self, outputs: Any, layer: OutputLayer, first: int, places: int, threads: int, allocate: Allocate | None = None
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
        self, tokens: Any, scores: Any, plain: Any, state: BeamState, settings: Any, rules: Any = None
    ) -> None:
        search.beam_step(self.runtime, tokens, scores, plain, state, settings)
        if rules is not None:
            choose_tokens.extend_history(self.runtime, rules, state)

    def _matrices(self, layer: OutputLayer, like: Any) -> Matrices:
        return Matrices(self, like.dtype, layer.packed == PAIRS, layer.weights)
