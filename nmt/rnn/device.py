"""Where arrays lie and work is done: the processor, or a GPU.

What runs cells, wires layers or updates parameters is written once, with three things of a device: `xp`, a module
with NumPy's functions for its arrays; the named operations below; and `executable`, which runs a cell's plan. Arrays
stay on their device; only `upload` and `download` move them. Lengths and other numbers that decide what is launched
are host arrays everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, Protocol

import numpy as np

from nmt.rnn.arrays.beam_rules import BeamChoice, BeamRules
from nmt.rnn.arrays.beam_state import BeamState
from nmt.rnn.arrays.flat_arrays import Group
from nmt.rnn.arrays.quantised import Quantised
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate, zeros_of
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.profile import Clock, ProcessorClock
from nmt.rnn.rows import Rows

Array = Any
"""An array of a device: of its `xp`."""

ALIGNED = 64
"""Numbers: an array in a group begins at a line of the cache, and where tensor cores may read it."""


class Executable(Protocol):
    """A plan that can run."""

    plan: Plan

    def forward(self, arrays: dict[str, Array], weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the forward arrays. `arrays` holds inputs, state stacks, captured arrays, masks and parameter
        vectors."""

    def backward(
        self,
        arrays: dict[str, Array],
        weights: Weights,
        rows: Rows,
        allocate: Allocate,
        gradients: dict[str, Array],
    ) -> None:
        """Fill the backward arrays and add to the parameters' `gradients`."""

    def weight_gradients(
        self,
        arrays: dict[str, Array],
        weights: Weights,
        rows: Rows,
        allocate: Allocate,
        gradients: dict[str, Array],
    ) -> None:
        """Add to the parameters' `gradients` after a `backward`; the plan is one `with_operands` (compiler/plan.py)."""

    def scratch(self, rows: Rows, *, backward: bool) -> list[tuple[int, ...]]:
        """Return shapes of the memory that a pass takes from `allocate` besides its arrays."""


@dataclass(frozen=True)
class OutputLayer:
    """outputs @ matrix + bias: two of `weights` by name, matrix [H, V], or [V, H] where it is `tied` to an embedding;
    `packed` is the type of the products (see weights.packed_dtype)."""

    weights: Weights
    matrix: str
    bias: str
    tied: bool
    packed: np.dtype


@dataclass(frozen=True)
class OutputGradients:
    """Where those of an output layer go: h [R, H] is overwritten, matrix and bias are added to."""

    h: Array
    matrix: Array
    bias: Array


@dataclass(frozen=True)
class CandidateLists:
    """Lists of tokens that rows may choose among, and which of them each row has.

    ids: int32 [U], the tokens that the columns of a narrowed output layer stand for, in rising order. places: int32,
    the columns of all lists one after another, each list rising; list n is places[starts[n] : starts[n + 1]]. bias:
    that of each place. row_lists: int64 [R]. longest: entries of the longest list. All of the host.
    """

    ids: np.ndarray
    places: np.ndarray
    bias: np.ndarray
    starts: np.ndarray
    row_lists: np.ndarray
    longest: int


class Device:
    """A place for arrays and the operations on them; `threads` means nothing but to the processor."""

    name: str
    xp: Any
    memory: int | None = None
    """Bytes of the GPU; None for the processor, whose memory is shared with others."""
    block_rows: int | None = None
    """Rows, of all steps together, of a block of time; None for tuning.BLOCK_ROWS."""

    # ------------------------------------------------------------ arrays

    def upload(self, array: np.ndarray) -> Array:
        """Return a host array on the device; on the processor the same array."""
        raise NotImplementedError

    def download(self, array: Array) -> np.ndarray:
        """Return a device array on the host, once it has been computed; on the processor the same array."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until everything given to it is done."""

    def index(self, numbers: np.ndarray) -> Array:
        """Whole numbers of the host as int64 of the device, to take elements by. Not to be written into."""
        raise NotImplementedError

    def group(self, shapes: Mapping[str, tuple[int, ...]], dtype: Any) -> Group:
        """Zeros of these shapes by name, in one piece of memory, each at a multiple of ALIGNED numbers."""
        sizes = [math.prod(shape) for shape in shapes.values()]
        ends = list(accumulate(-(-size // ALIGNED) * ALIGNED for size in sizes))
        whole = zeros_of(self.xp, (ends[-1] if ends else 0,), dtype)
        places = zip(shapes.items(), [0, *ends], sizes, strict=False)
        return Group(((name, whole[at : at + size].reshape(shape)) for (name, shape), at, size in places), whole)

    def clock(self) -> Clock:
        """For a profile of what the device does."""
        return ProcessorClock()

    def record(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Return what does again what `launch` does, which has run before on the same arrays; on the processor
        itself."""
        return launch

    # ------------------------------------------------------------ cells

    def executable(self, plan: Plan, dtype: np.dtype, packed: np.dtype) -> Executable:
        """Return a plan ready to run; `packed` is the type of the products (see weights.packed_dtype)."""
        raise NotImplementedError

    def clear(self, array: Array, threads: int) -> None:
        """Zeros into a contiguous array."""
        array[...] = 0

    def clear_ended(self, array: Array, lengths: np.ndarray, threads: int) -> None:
        """Zero each row of [T, B, n] from its length (host, [B]) on."""
        raise NotImplementedError

    def dropout_mask(self, out: Array, keep_probability: float, seed: int, offset: int, threads: int) -> None:
        """Fill the flat `out` with 0 or 1/keep_probability by a generator of (seed, offset + i): the same bits on every
        device."""
        raise NotImplementedError

    # ------------------------------------------------------------ the rest of a model

    def embedding_rows(self, ids: Array, table: Array | Quantised, out: Array, scale: float, threads: int) -> None:
        """out[i] = table[ids[i]] * scale; ids int32 or int64 [N], table [V, E], on the processor also in int8 by rows,
        out [N, E]."""
        raise NotImplementedError

    def embedding_gradient(self, ids: np.ndarray, d_out: Array, d_table: Array, scale: float, threads: int) -> None:
        """d_table[ids[i]] += d_out[i] * scale for every i, in an order that is always the same; ids int32 of the
        host."""
        raise NotImplementedError

    def take_rows(self, array: Array, index: Array, out: Array | None = None, threads: int = 1) -> Array:
        """array[..., index, :] of [..., n, m], contiguous, in `out` where that is given; index int64 of the device."""
        raise NotImplementedError

    def spread_rows(self, rows: Array, places: np.ndarray, out: Array, threads: int = 1) -> None:
        """out [N, n] is rows [R, n] at places [R] (host, each below N and once), zero elsewhere."""
        raise NotImplementedError

    def take_columns(self, array: Array, first: int, out: Array, threads: int) -> None:
        """out [..., n] = array[..., first : first + n]; both contiguous."""
        out[...] = self.xp.ascontiguousarray(array[..., first : first + out.shape[-1]])

    def join_columns(self, parts: Sequence[Array], out: Array, threads: int) -> None:
        """out [..., n] holds the parts [..., n_i] side by side; all contiguous."""
        out[...] = self.xp.concatenate(parts, axis=-1)

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
        """Return the cross entropy of the output layer's distribution against targets, and its gradients.

        h [R, H], contiguous; targets int32 [R] of the host. Returns float64 [3], sums over the rows: negative log
        likelihood, smoothed loss, rows whose target is the first most probable token. `scale` is a factor of the
        gradients alone. `divergence`: how much of the divergence of rows 2 i and 2 i + 1 is added to the loss, where
        there are gradients. Raises ShapeError. (See kernels/model/output.py.)
        """
        raise NotImplementedError

    def row_losses(
        self, h: Array, layer: OutputLayer, targets: np.ndarray, threads: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At each row of h [R, H] the negative log-probability of its target, the mean of those of all tokens, float64
        [R], and whether the target is the first most probable token, int64 [R]. On the processor alone."""
        raise NotImplementedError

    def weighted_gradients(
        self,
        h: Array,
        layer: OutputLayer,
        targets: np.ndarray,
        weights: np.ndarray,
        gradients: OutputGradients,
        threads: int,
    ) -> None:
        """The gradients of a loss whose derivative by the logits of row r is weights[0, r] times its distribution, less
        weights[1, r] everywhere, plus weights[2, r] at its target. weights [3, R], of h's dtype. On the processor
        alone."""
        raise NotImplementedError

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
        raise NotImplementedError

    def choose_tokens(
        self, log_probs: Array, rules: BeamRules, state: BeamState, places: int, allocate: Allocate
    ) -> tuple[Array, Array, Array]:
        """On a GPU: the `places` best tokens of each row of log-probabilities [R, V], which may be overwritten, by
        the rules, or one that was drawn, places 1 then. Tokens [R, places], -1 where there are no more; what they
        count, and their log-probabilities."""
        raise NotImplementedError

    def beam_step(
        self,
        tokens: Array,
        scores: Array,
        plain: Array,
        state: BeamState,
        choice: BeamChoice,
        rules: BeamRules | None = None,
    ) -> None:
        """On a GPU: extend every live hypothesis by one token and keep the best, in place.

        tokens, scores and log-probabilities (`plain`) from `best_tokens` or `choose_tokens`; rules: those of
        `choose_tokens`, whose words are kept.
        """
        raise NotImplementedError

    def average_log_probs(self, arrays: Sequence[Array], kind: Literal["log_prob", "prob"]) -> Array:
        """On a GPU: the mean of several models' log-probabilities or probabilities, in the first array."""
        raise NotImplementedError

    def coverage_bonus(self, coverage: Array, factor: float, out: Array) -> None:
        """On a GPU: what the attention that each source word has got, coverage [R, n], adds to a score, into out
        float64 [R] (see decode.penalty.final_scores)."""
        raise NotImplementedError

    def trace_back(self, state: BeamState) -> Array:
        """On a GPU: the tokens of all ended hypotheses, int32 [N * K, T], the last one included; what lies behind is
        arbitrary."""
        raise NotImplementedError

    def log_probs(self, outputs: Array, layer: OutputLayer, threads: int, allocate: Allocate | None = None) -> Array:
        """Return the log-probabilities of all tokens [R, V] for outputs [R, H]: the same bits as `best_tokens`
        gives."""
        raise NotImplementedError

    def best_candidates(
        self, outputs: Array, layer: OutputLayer, lists: CandidateLists, first: int, places: int, threads: int
    ) -> tuple[Array, Array]:
        """`best_tokens` among the list of each row; the layer has the columns `lists.ids`. Log-probabilities are those
        among the list, and their bits depend on nothing but the row and its list. Of the processor alone."""
        raise NotImplementedError

    def candidate_log_probs(
        self, outputs: Array, layer: OutputLayer, lists: CandidateLists, vocab_size: int, threads: int
    ) -> Array:
        """`log_probs` among the list of each row [R, vocab_size], -inf elsewhere: the same bits as `best_candidates`
        gives. Of the processor alone."""
        raise NotImplementedError

    def output_rows(self, vocab_size: int, itemsize: int, packed: np.dtype) -> int:
        """Return rows whose logits exist at a time in `output_loss`, where there are as many."""
        raise NotImplementedError

    def square_norm(self, gradients: Sequence[Array], threads: int) -> float:
        """Return the sum of squares of all arrays in float64; NaN and infinity come through."""
        raise NotImplementedError

    def adam_step(
        self, param: Array, gradient: Array, m: Array, v: Array, settings: tuple[float, ...], threads: int
    ) -> None:
        """One step of Adam on flat arrays, in place; settings: lr, beta1, beta2, eps, weight decay, both bias
        corrections, scale of the gradient (see kernels/model/update.py)."""
        raise NotImplementedError

    def sgd_step(
        self, param: Array, gradient: Array, velocity: Array, settings: tuple[float, ...], threads: int
    ) -> None:
        """One step of gradient descent on flat arrays, in place; settings: lr, momentum, weight decay, scale of the
        gradient. `velocity` may be empty where the momentum is 0."""
        raise NotImplementedError

    def add_scaled(self, total: Array, other: Array, factor: float, scale: float = 1.0) -> None:
        """total = total * scale + factor * other, on flat arrays."""
        raise NotImplementedError
