"""The operations of a model on a GPU, besides those of its cells: embeddings, output layer, optimizer, search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.beam_state import BeamChoice, BeamRules, BeamState
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer, SearchOperations
from nmt.rnn.arrays.weights import PAIRS
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.kernels.cuda import optimizer, output_loss
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.machine_code.divergence import add_divergence
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.rows import row_operations
from nmt.rnn.kernels.cuda.search import beam_step as search
from nmt.rnn.kernels.cuda.search import best, choose_tokens


def _of_runtime(function: Callable[..., Any], *, threads: bool = False) -> Any:
    """Return a method that calls a function of a runtime; with `threads`, without the last argument, the threads."""

    def method(self: GPUBase, *arguments: Any, **named: Any) -> Any:
        return function(self.runtime, *(arguments[:-1] if threads else arguments), **named)

    return method


class ModelOperations(GPUBase, SearchOperations):
    """The model operations of `device_cuda.CudaDevice`. `threads` is ignored here."""

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
