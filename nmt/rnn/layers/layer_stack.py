"""The parts of a stack of recurrent layers: cells, scans, parameters by name, and the options they share.

`recurrent_layers.py` runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.arguments import MOST_THREADS, share, whole_number
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Cell, Param
from nmt.rnn.cells import LearnedStartCell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu
from nmt.rnn.layers.layer_params import LayerParams
from nmt.rnn.layers.layer_states import LayerStates
from nmt.rnn.layers.row_ends import Empty, Padding
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.short_runs import LayersBySize, LayerSide, PreparedLayers

Need = Literal["x", "states", "params"]
"""A kind of gradient that `backward` may compute."""

_MOST_LAYERS = 1000


class LayerOptions(TypedDict, total=False):
    """The keyword arguments of `LayerStack`, which every operator accepts besides its own."""

    bidirectional: bool
    reverse: bool
    bias: bool
    dropout: float
    batch_first: bool
    learn_initial: bool
    padding: Padding
    empty: Empty
    needs: Collection[Need]
    dtype: Any
    compute_dtype: str | None
    threads: int | None
    recompute: Recompute
    device: Device | None


class LayerStack:
    """A stack of layers; subclasses make the cells and name their `states`.

    `params` may be written into at any time; each pass reads the present numbers and packs them for the products again.
    After `freeze` that is done once.
    """

    states: tuple[str, ...] = ("h",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        *,
        bidirectional: bool = False,
        reverse: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        batch_first: bool = False,
        learn_initial: bool = False,
        padding: Padding = "zero",
        empty: Empty = "initial",
        needs: Collection[Need] = ("x", "states", "params"),
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        threads: int | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        """Make a stack of layers.

        hidden_size: of all layers, or a number for each; num_layers: None for 1, or the length of that sequence.

        bidirectional: every layer in both directions, outputs concatenated; reverse: only from a row's last step to its
        first. dropout: of the output of every layer but the last, in `forward` only. batch_first: x, y and their
        gradients are [B, T, ...], states are not. learn_initial: states not given are parameters `start_h_l0` [n],
        `start_c_l0` [n], ..., the same for all rows, initially zero. padding: what y is beyond a row's length; empty:
        what the final state of a row without steps is (see row_ends.py). needs: which gradients backward computes;
        without "x" the first layer's plan has no product for it, without "params" no plan has a sum over time.
        compute_dtype: of the products; recompute: with "gates" forward stores only states (see `Scan`). device: where
        all arrays are, including `params`; None for the processor. Raises ShapeError, NMTError.
        """
        self.name = type(self).__name__
        input_size = whole_number(self.name, "input_size", input_size)
        self.hidden_sizes = self._check_sizes(hidden_size, num_layers)
        threads = None if threads is None else whole_number(self.name, "threads", threads, MOST_THREADS)
        if device is not None and not isinstance(device, Device):
            raise NMTError(
                f"{self.name}: device must be a Device, as nmt.rnn.devices.choose_device gives, got {device!r}"
            )
        dropout = share(self.name, "dropout", dropout)
        self._check_options((bidirectional, reverse), padding, empty, needs)
        self.input_size, self.num_layers = input_size, len(self.hidden_sizes)
        self.bidirectional, self.reverse, self.bias, self.dropout = bidirectional, reverse, bias, dropout
        self.batch_first, self.learn_initial, self.dtype = batch_first, learn_initial, np.dtype(dtype)
        self.padding: Padding = padding
        self.empty: Empty = empty
        self.needs = frozenset(needs)
        self.device, self.threads = device or cpu(), threads or default_threads()
        self._ends = ("", "_reverse") if bidirectional else ("_reverse",) if reverse else ("",)
        self.directions = len(self._ends)
        self._make_layers(compute_dtype, recompute, device)
        self.initialize(0)

    def _make_layers(self, compute_dtype: str | None, recompute: Recompute, device: Device | None) -> None:
        """Make the scans from the lowest layer up, their parameters in one vector, and the states of each name."""
        self._layers: list[list[LayerSide]] = []
        shapes: dict[str, Param] = {}
        below = self.input_size
        for layer, H in enumerate(self.hidden_sizes):
            cell = self._cell(below, H)
            cell = LearnedStartCell(cell) if self.learn_initial else cell
            scan = Scan(
                cell,
                dtype=self.dtype,
                compute_dtype=compute_dtype,
                threads=self.threads,
                needs=self._wanted(cell, layer),
                recompute=recompute,
                device=device,
            )
            shapes |= self._add_layer(scan)
            below = cell.output_size * self.directions
        self.output_size = below
        self._store = LayerParams(self.name, shapes, self.dtype, self.device)
        self._states = {}
        for name in self.states:
            widths = [sides[0].scan.states[name] for sides in self._layers]
            self._states[name] = LayerStates(self.name, self.device, self.dtype, widths, self.directions)

    def _add_layer(self, scan: Scan) -> dict[str, Param]:
        """Add a layer on top, with the same scan in all directions; return its parameters by name."""
        own = self._shapes(scan.cell)
        ends = [f"_l{len(self._layers)}{end}" for end in self._ends]
        self._layers.append([LayerSide(scan, Weights(), tuple(own), end, end.endswith("_reverse")) for end in ends])
        return {name + end: param for end in ends for name, param in own.items()}

    def __repr__(self) -> str:
        """Return the sizes from layer to layer, and the device."""
        sizes = " -> ".join(map(str, (self.input_size, *self.hidden_sizes)))
        ways = "bidirectional, " if self.bidirectional else "reverse, " if self.reverse else ""
        return f"{self.name}({sizes}, {ways}{self.dtype}, {self.device.name}, threads={self.threads})"

    # ------------------------------------------------------------ parameters

    @property
    def params(self) -> Arrays:
        """Return the parameters by name: views of `flat`, unless others have been put in."""
        return self._store.arrays

    @property
    def flat(self) -> Array:
        """Return all parameters as one vector, without gaps, in the order of `params`.

        Arrays that were put into `params` since then are copied into it and replaced by its views. Raises ShapeError.
        """
        return self._store.flat

    def views(self, flat: Array) -> Arrays:
        """Return the pieces, by parameter, of a vector laid out like `flat`, such as a gradient or an optimizer's
        state.

        Raises ShapeError.
        """
        return self._store.views(flat)

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy parameters from host arrays of any float type (for those of other systems see weight_layouts.py).

        Raises ShapeError.
        """
        self._thaw({})
        self._store.load(arrays)

    def initialize(self, seed: int) -> None:
        """Draw new parameters: Glorot uniform matrices, zero biases, the LSTM's forget bias one."""
        self._thaw({})
        self._store.initialize(seed)

    def freeze(self) -> None:
        """Make the parameters read-only, so that passes after the first find them packed for the products.

        For inference step by step, where packing would cost more than the step. `initialize`, `load`, and new arrays in
        `params` followed by `freeze`, end the old state.
        """
        self._thaw({})
        _ = self.flat
        self._thaw(dict(self.params))
        self._store.set_writeable(False)

    def _thaw(self, fixed: Arrays) -> None:
        """Make the parameters writeable again, except those in `fixed`; every side is packed again when it next
        runs."""
        self._store.set_writeable(True)
        self._fixed = fixed  # fixed parameters
        self._frozen: set[str] = set()  # sides with fixed weights
        self._forget_sizes()

    def _forget_sizes(self) -> None:
        """Free the memory of short runs."""
        joins = [states.join for states in self._states.values()]
        self._sizes = LayersBySize(lambda T, B: PreparedLayers(self._layers, joins, T, B))

    def _refresh(self, side: LayerSide) -> Weights:
        """Return the cell's weights with the present numbers of `params`."""
        weights = side.weights
        if side.end in self._frozen:
            return weights
        try:
            own = {name: self.params[name + side.end] for name in side.params}
        except KeyError as e:
            have = ", ".join(self.params)
            raise ShapeError(f"{self.name}: params must hold {e.args[0]}, got {have}") from None
        for name, array in self._to_cell(own).items():
            if name not in weights or weights[name] is not array:
                weights[name] = array
        weights.changed()
        if all(self._fixed.get(name + side.end) is array for name, array in own.items()):
            self._frozen.add(side.end)
        return weights

    def _wanted(self, cell: Cell, layer: int) -> set[str]:
        """Return the names whose gradients a layer's backward pass computes, besides its states."""
        params = set(cell.params()) if "params" in self.needs else set()
        return params | ({"x"} if layer or "x" in self.needs else set())

    # ------------------------------------------------------------ what differs from cell to cell

    def _cell(self, input_size: int, hidden_size: int) -> Cell:
        raise NotImplementedError

    def _shapes(self, cell: Cell) -> dict[str, Param]:
        """Return a layer's parameters: the cell's, but two biases for its one, as in all systems except Keras."""
        shapes: dict[str, Param] = {}
        for name, param in cell.params().items():
            shapes |= {"b_x": param, "b_h": replace(param, ones=None)} if name == "b" else {name: param}
        return shapes

    def _to_cell(self, p: Arrays) -> Arrays:
        """Convert a layer's parameters to the cell's."""
        given = {name: array for name, array in p.items() if name not in ("b_x", "b_h")}
        return given | ({"b": p["b_x"] + p["b_h"]} if self.bias else {})

    def _from_cell(self, g: Arrays) -> Arrays:
        """Convert gradients of the cell's parameters to those of a layer's."""
        given = {name: array for name, array in g.items() if name != "b"}
        return given | ({"b_x": g["b"], "b_h": g["b"].copy()} if self.bias else {})

    # ------------------------------------------------------------ checks of the constructor's arguments

    def _check_sizes(self, hidden_size: int | Sequence[int], num_layers: int | None) -> tuple[int, ...]:
        """Return the hidden size of each layer."""
        layers = None if num_layers is None else whole_number(self.name, "num_layers", num_layers, _MOST_LAYERS)
        if not isinstance(hidden_size, Sequence | np.ndarray) or isinstance(hidden_size, str):
            return (whole_number(self.name, "hidden_size", hidden_size),) * (layers or 1)
        if not len(hidden_size):
            raise ShapeError(f"{self.name}: hidden_size must have a number for each layer, got none")
        if layers not in (None, len(hidden_size)):
            raise ShapeError(
                f"{self.name}: num_layers must be {len(hidden_size)}, the number of hidden sizes, or None, got {layers}"
            )
        return tuple(whole_number(self.name, "hidden_size", size) for size in hidden_size)

    def _check_options(self, directions: tuple[bool, bool], padding: str, empty: str, needs: Collection[str]) -> None:
        """Raise NMTError if both directions are requested twice, or an option has an unknown value."""
        if all(directions):
            raise NMTError(f"{self.name}: bidirectional and reverse must not both be set, got both; drop reverse")
        given = {"padding": [padding], "empty": [empty], "needs": needs}
        for (name, names), kind in zip(given.items(), (Padding, Empty, Need), strict=True):
            for one in names:
                if one not in get_args(kind):
                    raise NMTError(f"{self.name}: {name} must be among {', '.join(get_args(kind))}, got {one}")
