"""Run a recurrent layer by the persistent kernels: memory, launches, and when it can be done.

Arrays are the runtime's: float32, C-contiguous, time-major. Rows may have any lengths in any order; a launch goes over
groups of neighbouring rows, each as long as its longest row, so that sorted rows cost least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nmt.rnn.kernels.cuda.kernel import Kernel, Runtime
from nmt.rnn.kernels.cuda.persistent.gru import gru_backward_kernel, gru_forward_kernel
from nmt.rnn.kernels.cuda.persistent.lstm import lstm_backward_kernel, lstm_forward_kernel
from nmt.rnn.kernels.cuda.persistent.tiles import Tile, choose_tile

__all__ = ["GATES", "Backward", "Forward", "PersistentLayer", "plan_layer"]

Cell = Literal["lstm", "gru"]
GATES: dict[str, int] = {"lstm": 4, "gru": 3}


@dataclass(frozen=True)
class Forward:
    """What a forward run gives and its backward run needs.

    gates: the array a of `forward`, overwritten. inner: c of an LSTM, h W_n + b_n of a GRU [T, B, H]. before: h before
    each step [T, B, H], as the product has it: bfloat16 as uint16, or float32; what `d_product` is to be multiplied
    with for the gradient of W_h. last: h, and c of an LSTM, [B, H].
    """

    y: Any
    gates: Any
    inner: Any
    before: Any
    last: tuple[Any, ...]


@dataclass(frozen=True)
class Backward:
    """Gradients: d_a [T, B, G*H] of x W_x + b, d_product [T, B, G*H] of h W_h as the products have it (of an LSTM the
    same numbers rounded), d_inner [T, B, H] of a GRU's h W_n + b_n, first: of h_0, and c_0 of an LSTM."""

    d_a: Any
    d_product: Any
    d_inner: Any
    first: tuple[Any, ...]


@dataclass(frozen=True)
class PersistentLayer:
    """A layer's two divisions into blocks on one card; see `plan_layer`."""

    runtime: Runtime
    cell: Cell
    forward_tile: Tile
    backward_tile: Tile

    def forward(
        self, W_h: Any, a: Any, lengths: Any, states: tuple[Any, ...], *, b_h: Any = None, reverse: bool = False
    ) -> Forward:
        """W_h [H, G*H]; a [T, B, G*H] = x W_x + b, overwritten; lengths [B] int64; states: h_0, and c_0 of an LSTM,
        [B, H]; b_h [3H] of a GRU. y is zero beyond a row's length, and where reversed, rows begin at their last
        step."""
        tile, xp, H = self.forward_tile, self.runtime.xp, self.forward_tile.hidden
        T, B = a.shape[:2]
        y, inner = xp.empty((T, B, H), np.float32), xp.empty((T, B, H), np.float32)
        handed = xp.empty((T + 1, B, H), _handed_type(tile))
        last = tuple(xp.empty((B, H), np.float32) for _ in states)
        words = handed.view(np.uint32)
        if self.cell == "lstm":
            kernel = lstm_forward_kernel(tile)
            given = (W_h, a, lengths, *states, y, inner, handed, words, *last)
        else:
            kernel = gru_forward_kernel(tile)
            given = (W_h, b_h, a, lengths, *states, y, inner, handed, words, *last)
        self._launch(kernel, tile, given, (T, B, int(reverse)))
        before = handed[1:] if reverse else handed[:-1]
        return Forward(y, a, inner, before if not tile.exact else before.view(np.float32), last)

    def backward(
        self,
        W_h: Any,
        run: Forward,
        lengths: Any,
        states: tuple[Any, ...],
        d_y: Any,
        d_last: tuple[Any, ...],
        *,
        reverse: bool = False,
    ) -> Backward:
        """The gradients of sum(d_y * y) + sum(d_last * last); overwrites run.gates, run.inner of a GRU, and d_last."""
        tile = self.backward_tile
        T, B = run.gates.shape[:2]
        d_product = self.runtime.xp.empty(run.gates.shape, _handed_type(tile))
        words = d_product.view(np.uint32)
        if self.cell == "lstm":
            kernel, d_inner = lstm_backward_kernel(tile), None
            given = (W_h, run.gates, lengths, states[1], run.inner, d_y, *d_last, d_product, words)
        else:
            kernel, d_inner = gru_backward_kernel(tile), run.inner
            given = (W_h, run.gates, run.inner, lengths, states[0], run.y, d_y, *d_last, d_product, words)
        self._launch(kernel, tile, given, (T, B, int(reverse)))
        return Backward(run.gates, d_product if not tile.exact else d_product.view(np.float32), d_inner, d_last)

    def _launch(self, kernel: Kernel, tile: Tile, given: tuple[Any, ...], sizes: tuple[int, int, int]) -> None:
        """As many groups of rows at once as the card holds: one block on a multiprocessor."""
        slices, together = tile.slices(sizes[1]), max(1, self.runtime.multiprocessors // tile.blocks)
        flags = self.runtime.xp.zeros(slices * tile.blocks, np.uint32)
        for slice_ in range(0, slices, together):
            grid = (tile.blocks, min(together, slices - slice_))
            self.runtime.launch(kernel, grid, *given, flags, *sizes, slice_)


def _handed_type(tile: Tile) -> Any:
    return np.uint32 if tile.exact else np.uint16


def plan_layer(runtime: Runtime, cell: Cell, hidden: int, batch: int, *, exact: bool) -> PersistentLayer | None:
    """How to run a layer, or None where the card cannot hold its weights or the sizes do not divide.

    cell: `lstm`, or `gru` with the reset after the product. exact: products of nearly float32 precision, else of
    bfloat16.
    """
    card = runtime.multiprocessors, runtime.capability
    forward, backward = (
        choose_tile(hidden, GATES[cell], batch, *card, backward=backward, exact=exact) for backward in (False, True)
    )
    if forward is None or backward is None:
        return None
    return PersistentLayer(runtime, cell, forward, backward)
