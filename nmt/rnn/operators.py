"""LSTM, GRU and RNN layers with the interface people know: (x, hx, cx) -> (y, hy, cy).

Stacks in one or both directions. Parameters are arrays by name: `W_x_l0` [D, G*H], `W_h_l0`
[H, G*H], `b_x_l0` and `b_h_l0` [G*H] for layer 0, the same with `_reverse` for its other direction.
States lie layer by layer, forward before reverse: [L * directions, B, H].
"""

from typing import Any

import numpy as np

from nmt.errors import NMTError
from nmt.rnn.cell import Cell
from nmt.rnn.cells import ElmanCell, GRUCell, LSTMCell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.device import Device
from nmt.rnn.layers import LayerGradients, Lengths, RecurrentLayers
from nmt.rnn.scan import Arrays

__all__ = ["GRU", "LSTM", "RNN", "LayerGradients"]


class _OneState(RecurrentLayers):
    """Layers whose only state is their output."""

    def __call__(
        self, x: np.ndarray, hx: np.ndarray | None = None, lengths: Lengths = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """x [T, B, D] -> y [T, B, directions * H] and hy, shaped like hx; keeps nothing.

        lengths: steps of each row, in any order, all T where None; y is zero beyond them, and hy is
        the state after each row's last step (of the reverse direction: after its first). With
        `batch_first` x and y are [B, T, ...]. Missing hx is zero. Raises ShapeError.
        """
        y, hy = self._run(x, (hx,), lengths, training=False)
        return y, hy

    def forward(
        self, x: np.ndarray, hx: np.ndarray | None = None, lengths: Lengths = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same with dropout, keeping what `backward` needs, x and y among it: do not change
        them before."""
        y, hy = self._run(x, (hx,), lengths, training=True)
        return y, hy

    def backward(self, d_y: np.ndarray | None, d_hy: np.ndarray | None = None) -> LayerGradients:
        """Gradients of sum(d_y * y) + sum(d_hy * hy) of the last `forward`; None is zero.

        One backward for each forward. Raises ShapeError, and NMTError where no forward came before.
        """
        return self._backward(d_y, (d_hy,))


class LSTM(RecurrentLayers):
    """Long short-term memory layers; gates i, f, g, o side by side (see `LSTMCell`)."""

    states = ("h", "c")
    gates = 4
    ones = 1

    def __call__(
        self,
        x: np.ndarray,
        hx: np.ndarray | None = None,
        cx: np.ndarray | None = None,
        lengths: Lengths = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x [T, B, D] -> y [T, B, directions * H], hy and cy, shaped like hx and cx; keeps nothing.

        lengths: steps of each row, in any order, all T where None; y is zero beyond them, and hy
        and cy are the states after each row's last step (of the reverse direction: after its
        first). With `batch_first` x and y are [B, T, ...]. Missing states are zero. Raises
        ShapeError.
        """
        y, hy, cy = self._run(x, (hx, cx), lengths, training=False)
        return y, hy, cy

    def forward(
        self,
        x: np.ndarray,
        hx: np.ndarray | None = None,
        cx: np.ndarray | None = None,
        lengths: Lengths = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same with dropout, keeping what `backward` needs, x and y among it: do not change
        them before."""
        y, hy, cy = self._run(x, (hx, cx), lengths, training=True)
        return y, hy, cy

    def backward(
        self,
        d_y: np.ndarray | None,
        d_hy: np.ndarray | None = None,
        d_cy: np.ndarray | None = None,
    ) -> LayerGradients:
        """Gradients of sum(d_y * y) + sum(d_hy * hy) + sum(d_cy * cy) of the last `forward`; None
        is zero.

        One backward for each forward. Raises ShapeError, and NMTError where no forward came before.
        """
        return self._backward(d_y, (d_hy, d_cy))

    def _cell(self, input_size: int) -> Cell:
        return LSTMCell(input_size, self.hidden_size, self.bias)


class GRU(_OneState):
    """Gated recurrent layers; gates r, z, n; the reset after the product or before it (see
    `GRUCell`)."""

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reset_after: bool = True,
        bidirectional: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        batch_first: bool = False,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        threads: int | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        self.reset_after = reset_after
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bidirectional=bidirectional,
            bias=bias,
            dropout=dropout,
            batch_first=batch_first,
            dtype=dtype,
            compute_dtype=compute_dtype,
            threads=threads,
            recompute=recompute,
            device=device,
        )

    def _cell(self, input_size: int) -> Cell:
        return GRUCell(input_size, self.hidden_size, self.bias, self.reset_after)

    def _to_cell(self, p: Arrays) -> Arrays:
        given = {"W_x": p["W_x"]}
        if self.reset_after:
            given["W_h"] = p["W_h"]
        else:  # the products with r * h and with h are two
            xp, twice = self.device.xp, 2 * self.hidden_size
            parts = p["W_h"][:, :twice], p["W_h"][:, twice:]
            given |= {"W_rz": xp.ascontiguousarray(parts[0]), "W_n": xp.ascontiguousarray(parts[1])}
        return given | ({"b": p["b_x"], "b_h": p["b_h"]} if self.bias else {})

    def _from_cell(self, g: Arrays) -> Arrays:
        W_h = g["W_h"] if self.reset_after else self.device.xp.concatenate([g["W_rz"], g["W_n"]], axis=1)
        given = {"W_x": g["W_x"], "W_h": W_h}
        return given | ({"b_x": g["b"], "b_h": g["b_h"]} if self.bias else {})


class RNN(_OneState):
    """Elman's layers, h_t = f(x W_x + h_prev W_h + b_x + b_h); f is `tanh` or `relu`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        nonlinearity: str = "tanh",
        bidirectional: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        batch_first: bool = False,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        threads: int | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise NMTError(f"RNN: nonlinearity must be tanh or relu, got {nonlinearity}")
        self.nonlinearity = nonlinearity
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bidirectional=bidirectional,
            bias=bias,
            dropout=dropout,
            batch_first=batch_first,
            dtype=dtype,
            compute_dtype=compute_dtype,
            threads=threads,
            recompute=recompute,
            device=device,
        )

    def _cell(self, input_size: int) -> Cell:
        return ElmanCell(input_size, self.hidden_size, self.bias, self.nonlinearity)
