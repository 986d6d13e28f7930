"""The operations of a model on a GPU, besides those of its cells: embeddings, output layer, optimizer, search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.beam_state import BeamChoice, BeamRules, BeamState
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer, SearchOperations
from nmt.rnn.arrays.weights import PAIRS
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.element_rules import ElementRule
from nmt.rnn.kernels.cuda import optimizer, output_loss
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.machine_code.divergence import add_divergence
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.rows import row_operations
from nmt.rnn.kernels.cuda.search import beam_step as search
from nmt.rnn.kernels.cuda.search import best, choose_tokens, ensemble


class ModelOperations(GPUBase, SearchOperations):
    """The model operations of `device_cuda.CudaDevice`. `threads` is ignored here."""

    @property
    def search(self) -> SearchOperations:
        return self

    def embedding_rows(self, ids: Any, table: Any, out: Any, scale: float, threads: int) -> None:
        row_operations.embedding_rows(self.runtime, ids, table, out, scale)

    def embedding_gradient(self, ids: np.ndarray, d_out: Any, d_table: Any, scale: float, threads: int) -> None:
        row_operations.embedding_gradient(self.runtime, ids, d_out, d_table, scale)

    def take_rows(self, array: Any, index: Any, out: Any = None, threads: int = 1) -> Any:
        if out is None:
            out = self.xp.empty((*array.shape[:-2], len(index), array.shape[-1]), array.dtype)
        row_operations.take_rows(self.runtime, array, index, out)
        return out

    def spread_rows(self, given: Any, places: np.ndarray, out: Any, threads: int = 1) -> None:
        index = np.full(len(out), -1, np.int64)
        index[places] = np.arange(len(places))
        row_operations.take_rows(self.runtime, given, self.index(index), out)

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

    def choose_tokens(
        self, log_probs: Any, rules: BeamRules, state: BeamState, places: int, allocate: Allocate
    ) -> tuple[Any, Any, Any]:
        return choose_tokens.choose_tokens(self.runtime, log_probs, rules, state, places, allocate)

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

    def average_log_probs(self, arrays: Sequence[Any], kind: Literal["log_prob", "prob"]) -> Any:
        return ensemble.average(self.runtime, arrays, kind)

    def coverage_bonus(self, coverage: Any, factor: float, out: Any) -> None:
        ensemble.coverage_bonus(self.runtime, coverage, factor, out)

    def trace_back(self, state: BeamState) -> Any:
        return search.trace_back(self.runtime, state)

    def output_rows(self, vocab_size: int, itemsize: int, packed: np.dtype) -> int:
        return output_loss.chunk_rows(vocab_size, itemsize)

    def square_norm(self, gradients: Sequence[Any], threads: int) -> float:
        return optimizer.square_norm(self.runtime, gradients)

    def change(self, rule: ElementRule, arrays: Sequence[Any], factors: Sequence[float], threads: int) -> None:
        optimizer.change(self.runtime, rule, arrays, factors)

    def _matrices(self, layer: OutputLayer, like: Any) -> Matrices:
        return Matrices(self, like.dtype, layer.packed == PAIRS, layer.weights)
