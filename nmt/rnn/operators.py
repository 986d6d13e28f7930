"""LSTM, GRU and RNN layers with the interface people know: (x, hx, cx) -> (y, hy, cy).

Stacks in one or both directions, built on `Scan`. Parameters are arrays by name: `W_x_l0` [D, G*H],
`W_h_l0` [H, G*H], `b_x_l0` and `b_h_l0` [G*H] for layer 0, the same with `_reverse` for its other
direction. States lie layer by layer, forward before reverse: [L * directions, B, H].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.cell import Cell, Param
from nmt.rnn.cells import ElmanCell, GRUCell, LSTMCell
from nmt.rnn.kernels.threads import default_threads, run_parallel
from nmt.rnn.kernels.update import dropout_mask
from nmt.rnn.scan import Arrays, Result, Scan, Tape
from nmt.rnn.weights import Weights, initial_array

Lengths = Sequence[int] | np.ndarray | None


@dataclass(frozen=True)
class LayerGradients:
    """Gradients of one pass, shaped like x, hx, cx (None where there is no c) and `params`."""

    d_x: np.ndarray
    d_hx: np.ndarray
    d_cx: np.ndarray | None
    params: Arrays


@dataclass(frozen=True)
class _Kept:
    """What backward needs of one layer: a tape per direction, and the dropout of its input."""

    tapes: list[Tape]
    mask: np.ndarray | None


class _Layers:
    """What the three operators share. `states` names the cell's states, `gates` counts its gates."""

    states: tuple[str, ...] = ("h",)
    gates = 1
    ones: int | None = None  # the gate whose bias starts at one

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        batch_first: bool = False,
        dtype: Any = np.float32,
        threads: int | None = None,
    ) -> None:
        """`dropout` acts on the output of every layer but the last, in `forward` only."""
        self.name = type(self).__name__
        if min(input_size, hidden_size, num_layers) < 1:
            sizes = f"{input_size}, {hidden_size}, {num_layers}"
            raise ShapeError(
                f"{self.name}: input_size, hidden_size and num_layers must be at least 1, got {sizes}"
            )
        if not 0 <= dropout < 1:
            raise NMTError(f"{self.name}: dropout must be from 0 to less than 1, got {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bidirectional, self.bias, self.dropout = bidirectional, bias, dropout
        self.batch_first, self.dtype = batch_first, np.dtype(dtype)
        self.threads = threads or default_threads()
        self._suffixes = ("", "_reverse") if bidirectional else ("",)
        sizes = [input_size, *[hidden_size * len(self._suffixes)] * (num_layers - 1)]
        self._scans = [Scan(self._cell(D), dtype=dtype, threads=self.threads) for D in sizes]
        self._weights = [[Weights() for _ in self._suffixes] for _ in sizes]
        self.params: Arrays = {}
        self.initialize(0)
        self._kept: list[_Kept] | None = None
        self._passes = 0

    def initialize(self, seed: int) -> None:
        """Draw new parameters: Glorot uniform matrices, zero biases, the LSTM's forget bias one."""
        rng = np.random.default_rng(seed)
        H, G = self.hidden_size, self.gates
        for layer, scan in enumerate(self._scans):
            shapes = {"W_x": Param((scan.cell.input_size, G * H), G), "W_h": Param((H, G * H), G)}
            if self.bias:
                shapes |= {"b_x": Param((G * H,), G, self.ones), "b_h": Param((G * H,), G)}
            for suffix in self._suffixes:
                for name, shape in shapes.items():
                    array = initial_array(shape, rng, self.dtype)
                    self.params[f"{name}_l{layer}{suffix}"] = array

    # ------------------------------------------------------------ what differs from cell to cell

    def _cell(self, input_size: int) -> Cell:
        raise NotImplementedError

    def _to_cell(self, p: Arrays) -> Arrays:
        """The cell's parameters from one layer's `W_x`, `W_h`, `b_x`, `b_h`; two biases are one."""
        given = {"W_x": p["W_x"], "W_h": p["W_h"]}
        return given | ({"b": p["b_x"] + p["b_h"]} if self.bias else {})

    def _from_cell(self, g: Arrays) -> Arrays:
        """Gradients of the layer's parameters from the cell's."""
        given = {"W_x": g["W_x"], "W_h": g["W_h"]}
        return given | ({"b_x": g["b"], "b_h": g["b"].copy()} if self.bias else {})

    # ------------------------------------------------------------ forward

    def _refresh(self, layer: int, direction: int) -> Weights:
        """The cell's weights from `params` as they are now."""
        end = f"_l{layer}{self._suffixes[direction]}"
        names = ("W_x", "W_h", "b_x", "b_h") if self.bias else ("W_x", "W_h")
        try:
            own = {name: self.params[name + end] for name in names}
        except KeyError as e:
            have = ", ".join(self.params)
            raise ShapeError(f"{self.name}: params must hold {e.args[0]}, got {have}") from None
        weights = self._weights[layer][direction]
        for name, array in self._to_cell(own).items():
            if name not in weights or weights[name] is not array:
                weights[name] = array
        weights.changed()
        return weights

    def _run(
        self, x: np.ndarray, given: Sequence[np.ndarray | None], lengths: Lengths, training: bool
    ) -> tuple[np.ndarray, ...]:
        x = self._check("x", x, ("B", "T", "D") if self.batch_first else ("T", "B", "D"))
        below = np.ascontiguousarray(x.swapaxes(0, 1)) if self.batch_first else x
        first = self._check_states(given, below.shape[1], "x")
        kept: list[_Kept] = []
        final: list[Arrays] = []
        for layer, scan in enumerate(self._scans):
            mask = self._mask(below.shape, layer) if training and layer and self.dropout else None
            below = below if mask is None else below * mask
            results: list[Result] = []
            for direction in range(len(self._suffixes)):
                at = len(final)
                result = scan.forward(
                    self._refresh(layer, direction),
                    below,
                    {name: array[at] for name, array in first.items()},
                    lengths=lengths,
                    reverse=direction == 1,
                    training=training,
                )
                results.append(result)
                final.append(result.final)
            below = _side_by_side([r.y for r in results])
            kept.append(_Kept([r.tape for r in results if r.tape is not None], mask))
        if training:
            self._kept = kept
            self._passes += 1
        y = np.ascontiguousarray(below.swapaxes(0, 1)) if self.batch_first else below
        return (y, *(np.stack([f[name] for f in final]) for name in self.states))

    def _mask(self, shape: tuple[int, ...], layer: int) -> np.ndarray:
        """Dropout of a layer's input: drawn anew for every pass, the same for every thread count."""
        mask = np.empty(shape, self.dtype)
        seed, offset = np.uint64(self._passes), np.uint64(layer << 40)
        run_parallel(dropout_mask, self.threads, mask.reshape(-1), 1 - self.dropout, seed, offset)
        return mask

    # ------------------------------------------------------------ backward

    def _backward(
        self, d_y: np.ndarray | None, given: Sequence[np.ndarray | None]
    ) -> LayerGradients:
        if self._kept is None:
            raise NMTError(
                f"{self.name}.backward: must follow a forward of its own, got none; call forward"
            )
        rows = self._kept[0].tapes[0].rows
        H, sides = self.hidden_size, len(self._suffixes)
        d_final = self._check_states(given, rows.B, "the forward pass", "d_{}y")
        if d_y is None:
            d_y = np.zeros((rows.T, rows.B, H * sides), self.dtype)
        else:
            d_y = self._check("d_y", d_y, (rows.B, rows.T, 0) if self.batch_first else (rows.T, rows.B, 0))
            d_y = d_y.swapaxes(0, 1) if self.batch_first else d_y
        kept, self._kept = self._kept, None
        initial: list[Arrays] = [{} for _ in range(self.num_layers * sides)]
        params: Arrays = {}
        for layer in range(self.num_layers - 1, -1, -1):
            d_below: np.ndarray | None = None
            for direction, suffix in enumerate(self._suffixes):
                at = layer * sides + direction
                tape, scan = kept[layer].tapes[direction], self._scans[layer]
                shares = {k: np.zeros(p.shape, self.dtype) for k, p in scan.params.items()}
                found = scan.backward(
                    tape,
                    np.ascontiguousarray(d_y[..., direction * H : (direction + 1) * H]),
                    {name: array[at] for name, array in d_final.items()},
                    shares,
                )
                initial[at] = found.initial
                for name, g in self._from_cell(shares).items():
                    params[f"{name}_l{layer}{suffix}"] = g
                d_below = found.x if d_below is None or found.x is None else d_below + found.x
            if d_below is None:
                raise RuntimeError("a scan gave no gradient of its input")
            mask = kept[layer].mask
            d_y = d_below if mask is None else d_below * mask
        d_x = np.ascontiguousarray(d_y.swapaxes(0, 1)) if self.batch_first else d_y
        d_first = [np.stack([g[name] for g in initial]) for name in self.states]
        ordered = {name: params[name] for name in self.params}
        return LayerGradients(d_x, d_first[0], d_first[1] if len(d_first) > 1 else None, ordered)

    # ------------------------------------------------------------ the door

    def _check(self, what: str, array: Any, shape: tuple[str | int, ...]) -> np.ndarray:
        """A contiguous array of the layer's dtype; letters stand for any size, D for input_size."""
        known = {"D": self.input_size, 0: self.hidden_size * len(self._suffixes)}
        sizes = [known.get(n, n) for n in shape]
        fits = isinstance(array, np.ndarray) and array.dtype == self.dtype
        if fits and array.ndim == len(sizes):
            fits = all(isinstance(n, str) or n == m for n, m in zip(sizes, array.shape, strict=True))
        else:
            fits = False
        if not fits:
            promise = f"{self.dtype} [{', '.join(map(str, sizes))}]"
            got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else array
            kind = type(got).__name__ if not isinstance(got, str) else got
            raise ShapeError(f"{self.name}: {what} must be {promise}, got {kind}")
        return np.ascontiguousarray(array)

    def _check_states(
        self, given: Sequence[np.ndarray | None], B: int, where: str, label: str = "{}x"
    ) -> Arrays:
        shape = (self.num_layers * len(self._suffixes), B, self.hidden_size)
        return {
            name: self._check(label.format(name), array, shape)
            for name, array in zip(self.states, given, strict=True)
            if array is not None
        }


class _OneState(_Layers):
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


class LSTM(_Layers):
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
        threads: int | None = None,
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
            threads=threads,
        )

    def _cell(self, input_size: int) -> Cell:
        return GRUCell(input_size, self.hidden_size, self.bias, self.reset_after)

    def _to_cell(self, p: Arrays) -> Arrays:
        given = {"W_x": p["W_x"]}
        if self.reset_after:
            given["W_h"] = p["W_h"]
        else:  # the products with r * h and with h are two
            W_rz, W_n = np.split(p["W_h"], [2 * self.hidden_size], axis=1)
            given |= {"W_rz": np.ascontiguousarray(W_rz), "W_n": np.ascontiguousarray(W_n)}
        return given | ({"b": p["b_x"], "b_h": p["b_h"]} if self.bias else {})

    def _from_cell(self, g: Arrays) -> Arrays:
        W_h = g["W_h"] if self.reset_after else np.concatenate([g["W_rz"], g["W_n"]], axis=1)
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
        threads: int | None = None,
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
            threads=threads,
        )

    def _cell(self, input_size: int) -> Cell:
        return ElmanCell(input_size, self.hidden_size, self.bias, self.nonlinearity)


def _side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
