"""Running a recurrent layer by the persistent kernels: memory, launches, and when it is possible.

Arrays are the runtime's: float32, C-contiguous, time-major. Rows may have any lengths in any order; a launch processes
groups of neighbouring rows, each as long as its longest row, so sorted rows cost least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from nmt.rnn.kernels.cuda.persistent.tiles import Tile, choose_tile
from nmt.rnn.kernels.cuda.persistent.time_loop import backward_kernel, forward_kernel
from nmt.rnn.kernels.cuda.rows import row_kernels

MOST_ROUNDS = 3
"""For inference with bfloat16 products; with more, a launch a step was faster on an H100 (results/gpu.md)."""


@dataclass(frozen=True)
class LayerForward:
    """The results of a forward run, which its backward run needs.

    gates: the array a of `forward`, overwritten. inner: c of an LSTM, h W_n + b_n of a GRU [T, B, H]. before: h before
    each step [T, B, H], as the product reads it: bfloat16 as uint16, or float32; multiplied with `d_product` it gives
    the gradient of W_h. last [n, B, H]: h, and c of an LSTM.
    """

    y: Any
    gates: Any
    inner: Any
    before: Any
    last: Any


@dataclass(frozen=True)
class LayerBackward:
    """Gradients of a run: d_a [T, B, G*H] of x W_x + b, d_product [T, B, G*H] of h W_h in the products' type (of an
    LSTM the same numbers rounded), d_inner [T, B, H] of a GRU's h W_n + b_n, None for an LSTM; first [n, B, H] of the
    states."""

    d_a: Any
    d_product: Any
    d_inner: Any
    first: Any


@dataclass(frozen=True)
class PersistentLayer:
    """A layer's tiles, forward and backward, on one GPU; see `plan_layer`."""

    runtime: CupyRuntime
    cell: str
    forward_tile: Tile
    backward_tile: Tile | None = None

    def forward(
        self,
        W_h: Any,
        a: Any,
        lengths: Any,
        states: Any,
        y: Any = None,
        *,
        b_h: Any = None,
        reverse: bool = False,
        allocate: Any = None,
    ) -> tuple[LayerForward, Callable[[], None]]:
        """Return the memory of a forward run, and what launches it.

        W_h [H, G*H]; a [T, B, G*H] = x W_x + b, overwritten; lengths [B] int64; states [n, B, H]: h_0, and c_0 of an
        LSTM; y: memory for it, or None; b_h [3H] of a GRU; allocate: memory, of the runtime where None. y is zero
        beyond a row's length; with `reverse`, rows start at their last step.
        """
        tile, H = self.forward_tile, self.forward_tile.hidden
        empty = allocate or self.runtime.xp.empty
        T, B = a.shape[:2]
        y = empty((T, B, H), np.float32) if y is None else y
        inner = empty((T, B, H), np.float32)
        handed = empty((T + 1, B, H), _handed_type(tile))
        last = empty(states.shape, np.float32)
        bias = inner.reshape(-1)[:0] if b_h is None else b_h
        given = (W_h, bias, a, lengths, states, y, inner, handed, handed.view(np.uint32), last)
        before = handed[1:] if reverse else handed[:-1]
        found = LayerForward(y, a, inner, before if not tile.exact else before.view(np.float32), last)
        return found, self._launch(forward_kernel, tile, given, (T, B, int(reverse)), empty)

    def backward(
        self,
        W_h: Any,
        run: LayerForward,
        lengths: Any,
        states: Any,
        d_y: Any,
        d_last: Any,
        *,
        reverse: bool = False,
        allocate: Any = None,
    ) -> tuple[LayerBackward, Callable[[], None]]:
        """Return the memory of the gradients of sum(d_y * y) + sum(d_last * last), and what launches their computation;
        it overwrites run.gates, run.inner of a GRU, and d_last [n, B, H]."""
        tile = self.backward_tile
        if tile is None:
            raise RuntimeError("a layer for inference has no backward pass")
        T, B = run.gates.shape[:2]
        empty = allocate or self.runtime.xp.empty
        d_product = empty(run.gates.shape, _handed_type(tile))
        is_lstm = self.cell == "lstm"
        kept = run.inner if is_lstm else run.y
        words = d_product.view(np.uint32)
        given = (W_h, run.gates, run.inner, lengths, kept, states[-1], d_y, d_last, d_product, words)
        handed = d_product if not tile.exact else d_product.view(np.float32)
        found = LayerBackward(run.gates, handed, None if is_lstm else run.inner, d_last)
        return found, self._launch(backward_kernel, tile, given, (T, B, int(reverse)), empty)

    def _launch(
        self,
        make: Callable[[str, Tile, int], GPUKernel],
        tile: Tile,
        given: tuple[Any, ...],
        sizes: tuple[int, int, int],
        empty: Any,
    ) -> Callable[[], None]:
        """Return what launches a kernel, one block per multiprocessor, each of which takes turns at several groups of
        rows where there are more than the GPU holds at once."""
        slices, together = tile.slices(sizes[1]), tile.together(self.runtime.multiprocessors)
        turns = tile.turns(sizes[1], self.runtime.multiprocessors)
        kernel, flags = make(self.cell, tile, turns), empty((slices * tile.blocks,), np.uint32)

        def launch() -> None:
            row_kernels.launch(self.runtime, row_kernels.clear_words, flags.dtype, flags.size, flags, flags.size)
            for first in range(0, slices, together * turns):
                self.runtime.launch(kernel, (tile.blocks, min(together, slices - first)), *given, flags, *sizes, first)

        return launch


def _handed_type(tile: Tile) -> Any:
    return np.uint32 if tile.exact else np.uint16


def plan_layer(
    runtime: CupyRuntime, cell: str, hidden: int, batch: int, *, exact: bool, training: bool = True
) -> PersistentLayer | None:
    """Return how to run a layer, or None if the GPU cannot hold its weights, the sizes do not divide, or a launch for
    each step is faster. cell: `lstm`, or `gru` with the reset after the product. exact: products of nearly float32
    precision, else of bfloat16. training: whether there is a backward pass, which takes more."""
    gpu = runtime.multiprocessors, runtime.capability
    ways = (False, True) if training else (False,)
    tiles = [choose_tile(hidden, CELLS[cell], batch, *gpu, backward=way, exact=exact) for way in ways]
    if not training and not exact and tiles[0] is not None and tiles[0].rounds(batch, gpu[0]) > MOST_ROUNDS:
        return None
    found = [tile for tile in tiles if tile is not None]
    return PersistentLayer(runtime, cell, *found) if len(found) == len(ways) else None
