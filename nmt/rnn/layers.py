"""Layers of one recurrent cell, one above the other, in one or both directions: scans over scans.

What LSTM, GRU and RNN (`operators.py`) share: parameters by name, states stacked in one array,
dropout between layers, the shapes' check at the door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.cell import Cell, Param
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.device import Device, cpu
from nmt.rnn.kernels.threads import default_threads
from nmt.rnn.repeated import SHORT_ROWS, Repeated, Sizes
from nmt.rnn.scan import Arrays, Result, Scan, Tape
from nmt.rnn.weights import Weights, initial_array
from nmt.rnn.workspace import Workspace

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


class RecurrentLayers:
    """A stack whose subclasses name the cell, its `states` and the number of its `gates`.

    `params` may be written into at any time; each pass takes the numbers that are there, and lays them out for the
    products anew. After `freeze` that is done once.
    """

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
        compute_dtype: str | None = None,
        threads: int | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        """`dropout` acts on the output of every layer but the last, in `forward` only; `compute_dtype` is that of the
        products; with `recompute="gates"` forward stores states alone (see `Scan`). All arrays, also `params`, lie on
        `device`, None for the processor."""
        self.name = type(self).__name__
        asked = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for size, number in asked.items():
            if number < 1:
                raise ShapeError(f"{self.name}: {size} must be at least 1, got {number}")
        if not 0 <= dropout < 1:
            raise NMTError(f"{self.name}: dropout must be from 0 to less than 1, got {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bidirectional, self.bias, self.dropout = bidirectional, bias, dropout
        self.batch_first, self.dtype = batch_first, np.dtype(dtype)
        self.device = device or cpu()
        self.threads = threads or default_threads()
        self._suffixes = ("", "_reverse") if bidirectional else ("",)
        below = [input_size, *[hidden_size * len(self._suffixes)] * (num_layers - 1)]
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "threads": self.threads, "recompute": recompute}
        options["device"] = self.device
        self._scans = [Scan(self._cell(D), **options) for D in below]
        self._weights = [[Weights() for _ in self._suffixes] for _ in below]
        self.params: Arrays = {}
        self.initialize(0)
        self._kept: list[_Kept] | None = None
        self._passes = 0
        xp = self.device.xp
        self._memory = Workspace(xp)  # what a forward keeps
        self._scratch = Workspace(xp), Workspace(xp)  # of the way back
        self._idle: list[tuple[Workspace, Workspace]] = []  # of passes that keep nothing

    def initialize(self, seed: int) -> None:
        """Draw new parameters: Glorot uniform matrices, zero biases, the LSTM's forget bias one."""
        self._thaw({})
        rng = np.random.default_rng(seed)
        H, G = self.hidden_size, self.gates
        for layer, scan in enumerate(self._scans):
            shapes = {"W_x": Param((scan.cell.input_size, G * H), G), "W_h": Param((H, G * H), G)}
            if self.bias:
                shapes |= {"b_x": Param((G * H,), G, self.ones), "b_h": Param((G * H,), G)}
            for suffix in self._suffixes:
                for name, shape in shapes.items():
                    array = initial_array(shape, rng, self.dtype)
                    self.params[f"{name}_l{layer}{suffix}"] = self.device.upload(array)

    def freeze(self) -> None:
        """Make the parameters read-only: passes after the first find them laid out for the products.

        For inference step by step, where laying out would cost more than the step. `initialize`, and new arrays in
        `params` followed by `freeze`, end the old state.
        """
        self._thaw(dict(self.params))
        for array in self.params.values():
            if isinstance(array, np.ndarray):  # a card's arrays cannot be closed; nobody must write into them
                array.flags.writeable = False

    def _thaw(self, fixed: Arrays) -> None:
        self._fixed = fixed  # parameters that stay as they are
        self._frozen: set[tuple[int, int]] = set()  # layers and directions whose weights stay as they are
        self._sizes = Sizes(lambda T, B: Repeated(self._scans, self._weights, T, B))

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
        weights = self._weights[layer][direction]
        if (layer, direction) in self._frozen:
            return weights
        end = f"_l{layer}{self._suffixes[direction]}"
        names = ("W_x", "W_h", "b_x", "b_h") if self.bias else ("W_x", "W_h")
        try:
            own = {name: self.params[name + end] for name in names}
        except KeyError as e:
            have = ", ".join(self.params)
            raise ShapeError(f"{self.name}: params must hold {e.args[0]}, got {have}") from None
        for name, array in self._to_cell(own).items():
            if name not in weights or weights[name] is not array:
                weights[name] = array
        weights.changed()
        if all(self._fixed.get(name + end) is array for name, array in own.items()):
            self._frozen.add((layer, direction))
        return weights

    def _run(
        self, x: np.ndarray, given: Sequence[np.ndarray | None], lengths: Lengths, training: bool
    ) -> tuple[np.ndarray, ...]:
        if lengths is None and not training and self._is_short(x, given):
            return self._repeat(x, given)
        x = self._check("x", x, (*("BT" if self.batch_first else "TB"), self.input_size))
        xp = self.device.xp
        below = xp.ascontiguousarray(x.swapaxes(0, 1)) if self.batch_first else x
        first = self._check_states(given, below.shape[1], "{}x")
        memories = self._begin(training)
        kept: list[_Kept] = []
        final: list[Arrays] = []
        for layer, scan in enumerate(self._scans):
            mask = self._mask(below.shape, layer) if training and layer and self.dropout else None
            below = below if mask is None else below * mask
            results: list[Result] = []
            memory = memories[layer % 2]
            if not training:
                memory.reset()
            for direction in range(len(self._suffixes)):
                at = len(final)
                weights = self._refresh(layer, direction)
                result = scan.forward(
                    weights,
                    below,
                    {name: array[at] for name, array in first.items()},
                    lengths=lengths,
                    reverse=direction == 1,
                    training=training,
                    allocate=memory,
                    outputs=self._outputs(layer == self.num_layers - 1),
                    single_step=len(below) == 1 and (layer, direction) in self._frozen,
                )
                results.append(result)
                final.append(result.final)
            parts = [r.y for r in results]
            below = parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=-1)
            kept.append(_Kept([r.tape for r in results if r.tape is not None], mask))
        if training:
            self._kept = kept
            self._passes += 1
        else:
            self._idle.append(memories)
        y = xp.ascontiguousarray(below.swapaxes(0, 1)) if self.batch_first else below
        return (y, *(xp.stack([f[name] for f in final]) for name in self.states))

    def _begin(self, training: bool) -> tuple[Workspace, Workspace]:
        """Memory of a pass, but for what the caller gets: finding large memory anew takes a tenth of a pass. Without
        training a layer needs that of the one below, and no more."""
        if training:
            self._kept = None
            self._memory.reset()
            return self._memory, self._memory
        try:
            return self._idle.pop()  # one step for the interpreter: several threads may call
        except IndexError:
            return Workspace(self.device.xp), Workspace(self.device.xp)

    def _outputs(self, lasting: bool) -> Any:
        """Memory for a scan's result that the caller gets; those of two directions are joined in memory of their
        own."""
        return self.device.xp.zeros if lasting and not self.bidirectional else None

    def _is_short(self, x: Any, given: Sequence[Any]) -> bool:
        """Whether `_repeat` can do this; what is wrong with arrays is said elsewhere."""
        if self.device.name != "cpu" or len(self._frozen) < self.num_layers * len(self._suffixes):
            return False
        if type(x) is not np.ndarray or x.ndim != 3 or x.dtype != self.dtype or x.shape[2] != self.input_size:
            return False
        if not 0 < x.shape[0] * x.shape[1] <= SHORT_ROWS:
            return False
        shape = len(self._frozen), x.shape[0 if self.batch_first else 1], self.hidden_size
        return all(a is None or (type(a) is np.ndarray and a.shape == shape and a.dtype == self.dtype) for a in given)

    def _repeat(self, x: np.ndarray, given: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        """A short run with weights that stay as they are: nothing is checked and looked up again."""
        y, *final = self._sizes(x.swapaxes(0, 1) if self.batch_first else x, given)
        return (np.ascontiguousarray(y.swapaxes(0, 1)) if self.batch_first else y, *final)

    def _mask(self, shape: tuple[int, ...], layer: int) -> np.ndarray:
        """Dropout of a layer's input: anew for every pass, the same for every thread count."""
        mask = self.device.xp.empty(shape, self.dtype)
        self.device.dropout_mask(mask.reshape(-1), 1 - self.dropout, self._passes, layer << 40, self.threads)
        return mask

    # ------------------------------------------------------------ backward

    def _backward(self, d_y: np.ndarray | None, given: Sequence[np.ndarray | None]) -> LayerGradients:
        if self._kept is None:
            raise NMTError(f"{self.name}.backward: must follow a forward, got none; call forward")
        rows, xp = self._kept[0].tapes[0].rows, self.device.xp
        d_final = self._check_states(given, rows.B, "d_{}y")
        d_below = self._check_d_y(d_y, rows.T, rows.B)
        kept, self._kept = self._kept, None
        initial: list[Arrays] = []
        params: Arrays = {}
        for layer in range(self.num_layers - 1, -1, -1):
            d_below, first = self._layer_backward(layer, kept[layer].tapes, d_below, d_final, params)
            initial[:0] = first
            mask = kept[layer].mask
            d_below = d_below if mask is None else d_below * mask
        d_x = xp.ascontiguousarray(d_below.swapaxes(0, 1)) if self.batch_first else d_below
        d_first = {name: xp.stack([g[name] for g in initial]) for name in self.states}
        ordered = {name: params[name] for name in self.params}
        return LayerGradients(d_x, d_first["h"], d_first.get("c"), ordered)

    def _layer_backward(
        self, layer: int, tapes: list[Tape], d_y: np.ndarray, d_final: Arrays, params: Arrays
    ) -> tuple[np.ndarray, list[Arrays]]:
        """Gradients of one layer's input and initial states; fills those of its parameters."""
        H, scan, xp = self.hidden_size, self._scans[layer], self.device.xp
        memory = self._scratch[layer % 2]
        memory.reset()
        d_x, initial = xp.zeros((), self.dtype), []
        for direction, suffix in enumerate(self._suffixes):
            at = layer * len(self._suffixes) + direction
            shares = {name: xp.zeros(p.shape, self.dtype) for name, p in scan.params.items()}
            tapes[direction].allocate = memory
            found = scan.backward(
                tapes[direction],
                xp.ascontiguousarray(d_y[..., direction * H : (direction + 1) * H]),
                {name: array[at] for name, array in d_final.items()},
                shares,
                outputs=self._outputs(layer == 0),
            )
            if found.x is None:
                raise RuntimeError("a scan gave no gradient of its input")
            d_x = d_x + found.x if direction else found.x
            initial.append(found.initial)
            for name, g in self._from_cell(shares).items():
                params[f"{name}_l{layer}{suffix}"] = g
        return d_x, initial

    # ------------------------------------------------------------ the door

    def _check(self, what: str, array: Any, shape: tuple[str | int, ...]) -> np.ndarray:
        """A contiguous array of the layer's dtype; a letter in `shape` stands for any size."""
        promise = f"{self.dtype} [{', '.join(map(str, shape))}]"
        if not isinstance(array, self.device.xp.ndarray):
            raise ShapeError(f"{self.name}: {what} must be {promise}, got {type(array).__name__}")
        fits = array.ndim == len(shape) and all(
            isinstance(n, str) or n == m for n, m in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype != self.dtype:
            got = f"{array.dtype} {list(array.shape)}"
            raise ShapeError(f"{self.name}: {what} must be {promise}, got {got}")
        return self.device.xp.ascontiguousarray(array)

    def _check_d_y(self, d_y: np.ndarray | None, T: int, B: int) -> np.ndarray:
        width = self.hidden_size * len(self._suffixes)
        if d_y is None:
            return self.device.xp.zeros((T, B, width), self.dtype)
        if self.batch_first:
            return self._check("d_y", d_y, (B, T, width)).swapaxes(0, 1)
        return self._check("d_y", d_y, (T, B, width))

    def _check_states(self, given: Sequence[np.ndarray | None], B: int, label: str) -> Arrays:
        shape = (self.num_layers * len(self._suffixes), B, self.hidden_size)
        return {
            name: self._check(label.format(name), array, shape)
            for name, array in zip(self.states, given, strict=True)
            if array is not None
        }
