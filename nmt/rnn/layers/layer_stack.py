"""The parts of a stack of recurrent layers: cells, scans, parameters by name, options, and rows that end early.

Systems differ in outputs and final states of such rows. The engine's own convention is that of PyTorch, cuDNN and
MXNet: y is zero beyond a row's length, and the final state of a row without steps is its initial state; each other one
is an option. `pack`, `unpack` and `reverse_sequence` are what frameworks call so. `recurrent_layers.py` runs the
stack."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from nmt.errors import NMTError, NMTWarning, ShapeError
from nmt.rnn.arguments import MOST_THREADS, expect, flags, float_type, is_like, lengths_of, share, shown, whole_number
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import Weights, initial_array
from nmt.rnn.arrays.workspace import zeros_of
from nmt.rnn.cell import Cell, Param
from nmt.rnn.cells import LearnedStartCell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu
from nmt.rnn.scan.layered import LayersBySize, LayerSide, PreparedLayers
from nmt.rnn.scan.scan import Scan

Padding = Literal["zero", "repeat", "carry"]
"""y beyond a row's length.

`zero`    zero: PyTorch, cuDNN, MXNet, ONNX Runtime
`repeat`  the output of the previous step: Keras without zero_output_for_mask. In a direction that runs backwards no
          step precedes the padding, nor is there one in a row without steps: zero there
`carry`   the row's final state, in both directions, and in a row without steps its initial state: Caffe2
"""

Empty = Literal["initial", "zero"]
"""The final state of a row without steps: the initial one (Caffe2, Keras, Flax), or zero (ONNX Runtime)."""


class RowEnds:
    """The rows of a batch that end before T; converts results to the caller's convention, and gradients back."""

    def __init__(self, device: Device, lengths: np.ndarray, T: int, padding: Padding, empty: Empty) -> None:
        """Describe the rows of a batch. lengths [B], checked already."""
        self._xp, self._padding, self._empty = device.xp, padding, empty
        has_steps = lengths > 0
        ended = np.arange(T)[:, None] >= lengths
        if padding == "repeat":
            ended &= has_steps
        self._has_steps = device.upload(has_steps[:, None])
        self._ended = device.upload(np.ascontiguousarray(ended)[:, :, None])

    def final(self, state: Array) -> Array:
        """Return the final state [B, n] in the caller's convention; the same function converts its gradient back."""
        return self._chosen(self._has_steps, state) if self._empty == "zero" else state

    def output(self, y: Array, final: Array, reverse: bool) -> Array:
        """Return y [T, B, n] of one direction, padded from its final output [B, n]."""
        return self._xp.where(self._ended, final, y) if self._fills(reverse) else y

    def output_gradient(self, d_y: Array, reverse: bool) -> Array | None:
        """Return the part of the final output's gradient [B, n] that comes from `output`; None for none."""
        return self._chosen(self._ended, d_y).sum(axis=0) if self._fills(reverse) else None

    def _fills(self, reverse: bool) -> bool:
        return self._padding == "carry" or (self._padding == "repeat" and not reverse)

    def _chosen(self, where: Array, array: Array) -> Array:
        return self._xp.where(where, array, self._xp.zeros((), array.dtype))


def reverse_sequence(
    array: np.ndarray, lengths: Any, *, time_axis: int = 0, batch_axis: int = 1, xp: Any = np
) -> np.ndarray:
    """Return the first lengths[row] steps of each row in reverse order, the others in place: ONNX's ReverseSequence.
    array: any dtype, at least 2 axes; lengths: [B] integers from 0 to T. Returns a new array. The map is its own
    inverse and its own adjoint, so the same call maps the gradient back. Raises ShapeError."""
    axes = time_axis, batch_axis
    if array.ndim < 2 or sorted(axes) != sorted({n % array.ndim for n in axes if -array.ndim <= n < array.ndim}):
        promise = f"time_axis and batch_axis must be two axes of the array, which has {array.ndim}"
        raise ShapeError(f"reverse_sequence: {promise}, got {axes}")
    T, B = array.shape[time_axis], array.shape[batch_axis]
    steps = lengths_of("reverse_sequence", lengths, B, T)
    t = np.arange(T)[:, None]
    source = np.where(t < steps, steps - 1 - t, t)
    result = xp.moveaxis(array, axes, (0, 1))[xp.asarray(source), xp.arange(B)]
    return xp.ascontiguousarray(xp.moveaxis(result, (0, 1), axes))


Lengths = Sequence[int] | np.ndarray


def pack(padded: Any, lengths: Lengths) -> Any:
    """Pack padded [T, B, ...] into values [sum of lengths, ...]: the real steps of row 0, then of row 1, and so on.
    lengths: from 0 to T. The result is a copy on the same device; the gradient is `unpack`. Raises ShapeError."""
    if padded.ndim < 2:
        raise ShapeError(f"pack: padded must be [T, B, ...], got {list(padded.shape)}")
    return padded.swapaxes(0, 1)[_real_steps("pack", lengths, padded.shape[1], padded.shape[0])]


def unpack(values: Any, lengths: Lengths, steps: int | None = None) -> Any:
    """Unpack values [sum of lengths, ...] into padded [T, B, ...], zero beyond each row's length, of the same dtype and
    device, contiguous. T is `steps`, or the longest row. The gradient is `pack`. Raises ShapeError."""
    longest = max((int(n) for n in lengths), default=0)
    real = _real_steps("unpack", lengths, len(lengths), longest if steps is None else steps)
    if len(values) != real.sum():
        raise ShapeError(f"unpack: values must be as many as the sum of all lengths, {real.sum()}, got {len(values)}")
    rows, T = real.shape
    # Other devices' arrays implement NumPy's functions themselves.
    padded: Any = np.zeros_like(values, shape=(T, rows, *values.shape[1:]))
    padded.swapaxes(0, 1)[real] = values
    return padded


def _real_steps(where: str, lengths: Lengths, rows: int, steps: int) -> np.ndarray:
    """Return which steps of each row are real, bool [B, T]."""
    return np.arange(steps) < lengths_of(where, lengths, rows, steps)[:, None]


States = Array | tuple[Array, ...]
"""One state of all layers."""
Given = States | None


def check_array(where: str, what: str, array: Any, shape: Sequence[Any], dtype: np.dtype, device: Device) -> Array:
    """Return the array, contiguous. A letter in `shape` stands for any size. Raises ShapeError."""
    return device.xp.ascontiguousarray(expect(where, what, array, device.xp.ndarray, dtype, shape))


class LayerStates:
    """Splits one state of all layers by layer and direction, and joins it again."""

    def __init__(self, where: str, device: Device, dtype: np.dtype, widths: Sequence[int], directions: int) -> None:
        """Describe one state. `where`: the caller's name, for errors; `widths` of the state by layer."""
        self._where, self._device, self._dtype = where, device, dtype
        self._widths, self._directions = list(widths), directions
        self._equal = len(set(widths)) == 1

    def shapes(self, B: int) -> list[tuple[int, ...]]:
        """Return the shapes of the caller's arrays."""
        if self._equal:
            return [(len(self._widths) * self._directions, B, self._widths[0])]
        return [(self._directions, B, width) for width in self._widths]

    def split(self, given: States, B: int, what: str) -> list[Array]:
        """Return [B, n] for each layer and direction. Raises ShapeError."""
        shapes = self.shapes(B)
        if self._equal and isinstance(given, tuple | list):
            got = f"a {type(given).__name__} of {len(given)}; give each state by itself, and lengths by name"
            raise ShapeError(f"{self._where}: {what} must be one array, {self._dtype} {list(shapes[0])}, got {got}")
        arrays = (given,) if self._equal else given
        if not isinstance(arrays, tuple | list) or len(arrays) != len(shapes):
            got = f"{len(arrays)}" if isinstance(arrays, tuple | list) else type(arrays).__name__
            raise ShapeError(f"{self._where}: {what} must be a tuple of {len(shapes)} arrays, one a layer, got {got}")
        checked = [
            check_array(self._where, what if self._equal else f"{what}[{n}]", array, shape, self._dtype, self._device)
            for n, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
        ]
        return [side for array in checked for side in array]

    def fits(self, given: Any, B: int) -> bool:
        """Return whether `split` would accept it without conversion."""
        arrays, shapes = ((given,) if self._equal else given), self.shapes(B)
        if not isinstance(arrays, tuple) or len(arrays) != len(shapes):
            return False
        return all(
            type(a) is self._device.xp.ndarray and a.shape == shape and a.dtype == self._dtype
            for a, shape in zip(arrays, shapes, strict=True)
        )

    def join(self, sides: Sequence[Array]) -> States:
        """Return new arrays made from [1, B, n] of each layer and direction."""
        join, size = self._device.xp.concatenate, self._directions
        if self._equal:
            return join(sides)
        return tuple(join(sides[n : n + size]) for n in range(0, len(sides), size))


class LayerParams:
    """Arrays by name, side by side in one vector without gaps, in the order of `shapes`."""

    def __init__(self, where: str, shapes: Mapping[str, Param], dtype: np.dtype, device: Device) -> None:
        """Allocate parameters, all zero. `where`: the name of the caller, for errors."""
        self.shapes, self.dtype = dict(shapes), dtype
        self._where, self._device = where, device
        self._flat = zeros_of(device.xp, (sum(math.prod(p.shape) for p in shapes.values()),), dtype)
        self._views = self.views(self._flat)
        self.arrays: Arrays = dict(self._views)

    def views(self, flat: Array) -> Arrays:
        """Return the pieces, by parameter, of a vector laid out like `flat`. Raises ShapeError."""
        size, xp = sum(math.prod(p.shape) for p in self.shapes.values()), self._device.xp
        if not is_like(flat, xp.ndarray, self.dtype, (size,)) or not flat.flags.c_contiguous:
            got = shown(flat, xp.ndarray)
            raise ShapeError(f"{self._where}: a flat vector must be contiguous {self.dtype} [{size}], got {got}")
        found, start = {}, 0
        for name, param in self.shapes.items():
            stop = start + math.prod(param.shape)
            found[name] = flat[start:stop].reshape(param.shape)
            start = stop
        return found

    @property
    def flat(self) -> Array:
        """Return all parameters as one vector, of which they are views. Arrays that were put into `arrays` since then
        are copied into it and replaced by its views. Raises ShapeError: one of them does not fit."""
        strange = {name: a for name, a in self.arrays.items() if self._views.get(name) is not a}
        if strange or len(self.arrays) < len(self._views):
            self.check(self.arrays)
            for name, array in strange.items():
                self._views[name][...] = array
            self.arrays.update(self._views)
        return self._flat

    def check(self, arrays: Mapping[str, Array], *, exact: bool = False) -> None:
        """Raise ShapeError unless these are the parameters, with their shapes; `exact`: with dtype and device, too."""
        if not isinstance(arrays, Mapping) or arrays.keys() != self.shapes.keys():
            got = ", ".join(map(str, arrays)) or "none" if isinstance(arrays, Mapping) else type(arrays).__name__
            raise ShapeError(f"{self._where}: parameters must be {', '.join(self.shapes)}, got {got}")
        for name, param in self.shapes.items():
            array = arrays[name]
            if exact:
                check_array(self._where, name, array, param.shape, self.dtype, self._device)
                continue
            array = array if isinstance(array, self._device.xp.ndarray) else np.asarray(array)
            if array.shape != param.shape or array.dtype.kind not in "fiuV":  # V: the small floats of ml_dtypes
                got = f"{array.dtype} {list(array.shape)}"
                raise ShapeError(f"{self._where}: {name} must be numbers {list(param.shape)}, got {got}")

    def given(self, name: str) -> Array:
        """Return a parameter, checked if it has been put in. Raises ShapeError, for missing and unknown names too."""
        array = self.arrays.get(name)
        if array is None or len(self.arrays) != len(self._views):
            self.check(self.arrays)
        if array is not self._views[name]:
            check_array(self._where, name, array, self.shapes[name].shape, self.dtype, self._device)
        return array

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy parameters from host arrays, checked already."""
        for name, view in self._views.items():
            view[...] = self._device.upload(np.ascontiguousarray(arrays[name], self.dtype))
        self.arrays.update(self._views)

    def initialize(self, seed: int) -> None:
        """Draw new parameters, as each `Param` specifies."""
        rng = np.random.default_rng(seed)
        self.load({name: initial_array(param, rng, self.dtype) for name, param in self.shapes.items()})

    def set_writeable(self, writeable: bool) -> None:
        """Make the host arrays writeable or read-only. Those on a GPU stay writeable; do not write into them."""
        if not isinstance(self._flat, np.ndarray):
            return
        self._flat.flags.writeable = writeable
        for array in self._views.values():
            array.flags.writeable = writeable


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
    """A stack of layers; subclasses make the cells and name their `states`. `params` may be written into at any time;
    each pass reads the present numbers and packs them for the products again. After `freeze` that is done once."""

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
        what the final state of a row without steps is. needs: which gradients backward computes;
        without "x" the first layer's plan has no product for it, without "params" no plan has a sum over time.
        compute_dtype: of the products; recompute: with "gates" forward stores only states (see `Scan`). device: where
        all arrays are, including `params`; None for the processor. Raises ShapeError, NMTError."""
        self.name = type(self).__name__
        input_size = whole_number(self.name, "input_size", input_size)
        self.hidden_sizes = self._check_sizes(hidden_size, num_layers)
        threads = None if threads is None else whole_number(self.name, "threads", threads, MOST_THREADS)
        dropout = share(self.name, "dropout", dropout)
        if dropout and len(self.hidden_sizes) == 1:
            text = "dropout must be with two layers or more, between which it is, got one layer; nothing is dropped"
            warnings.warn(f"{self.name}: {text}", NMTWarning, stacklevel=4)  # the caller of the layer's class
        flags(self.name, bidirectional=bidirectional, reverse=reverse, bias=bias)
        flags(self.name, batch_first=batch_first, learn_initial=learn_initial)
        self.needs = self._check_options((bidirectional, reverse), padding, empty, needs)
        self.input_size, self.num_layers = input_size, len(self.hidden_sizes)
        self.bidirectional, self.reverse, self.bias, self.dropout = bidirectional, reverse, bias, dropout
        self.batch_first, self.learn_initial, self.dtype = batch_first, learn_initial, float_type(self.name, dtype)
        self.padding, self.empty = padding, empty
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
            needs = set(cell.params()) if "params" in self.needs else set()  # besides those of the states
            scan = Scan(
                cell,
                dtype=self.dtype,
                compute_dtype=compute_dtype,
                threads=self.threads,
                needs=needs | ({"x"} if layer or "x" in self.needs else set()),
                recompute=recompute,
                device=device,
                name=self.name,
            )
            own, ends = self._shapes(cell), [f"_l{layer}{end}" for end in self._ends]
            sides = (LayerSide(scan, Weights(), tuple(own), end, end.endswith("_reverse")) for end in ends)
            self._layers.append([*sides])
            shapes |= {name + end: param for end in ends for name, param in own.items()}
            below = cell.output_size * self.directions
        self.output_size = below
        self._store = LayerParams(self.name, shapes, self.dtype, self.device)
        self._states = {}
        for name in self.states:
            widths = [sides[0].scan.states[name] for sides in self._layers]
            self._states[name] = LayerStates(self.name, self.device, self.dtype, widths, self.directions)

    def __repr__(self) -> str:
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
        """Return all parameters as one vector, without gaps, in the order of `params`. Arrays that were put into
        `params` since then are copied into it and replaced by its views. Raises ShapeError."""
        return self._store.flat

    def views(self, flat: Array) -> Arrays:
        """Return the pieces, by parameter, of a vector laid out like `flat`, such as a gradient. Raises ShapeError."""
        return self._store.views(flat)

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy parameters from host arrays of any float type (other layouts: weight_layouts.py). Raises ShapeError."""
        self._store.check(arrays)
        self._thaw({})
        self._store.load(arrays)

    def initialize(self, seed: int) -> None:
        """Draw new parameters: Glorot uniform matrices, zero biases, the LSTM's forget bias one."""
        self._thaw({})
        self._store.initialize(seed)

    def freeze(self) -> None:
        """Make the parameters read-only, so that passes after the first find them packed for the products. For
        inference step by step, where packing would cost more than the step. `initialize`, `load`, and new arrays in
        `params` followed by `freeze`, end the old state."""
        self._thaw({})
        _ = self.flat
        self._thaw(dict(self.params))
        self._store.set_writeable(False)

    def _thaw(self, fixed: Arrays) -> None:
        """Make the parameters writeable again, except those in `fixed`; a side's next run packs it again."""
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
        own = {name: self._store.given(name + side.end) for name in side.params}
        for name, array in self._to_cell(own).items():
            if name not in weights or weights[name] is not array:
                weights[name] = array
        weights.changed()
        if all(self._fixed.get(name + side.end) is array for name, array in own.items()):
            self._frozen.add(side.end)
        return weights

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
        given = {name: array for name, array in p.items() if name not in ("b_x", "b_h")}
        return given | ({"b": p["b_x"] + p["b_h"]} if self.bias else {})

    def _from_cell(self, g: Arrays) -> Arrays:
        given = {name: array for name, array in g.items() if name != "b"}
        return given | ({"b_x": g["b"], "b_h": g["b"].copy()} if self.bias else {})

    # ------------------------------------------------------------ checks of the constructor's arguments

    def _check_sizes(self, hidden_size: int | Sequence[int], num_layers: int | None) -> tuple[int, ...]:
        """Return the hidden size of each layer."""
        layers = None if num_layers is None else whole_number(self.name, "num_layers", num_layers, _MOST_LAYERS)
        if not isinstance(hidden_size, Sequence | np.ndarray) or isinstance(hidden_size, str | bytes):
            return (whole_number(self.name, "hidden_size", hidden_size),) * (layers or 1)
        if not len(hidden_size):
            raise ShapeError(f"{self.name}: hidden_size must have a number for each layer, got none")
        if layers not in (None, len(hidden_size)):
            promise = f"num_layers must be {len(hidden_size)}, the number of hidden sizes, or None"
            raise ShapeError(f"{self.name}: {promise}, got {layers}")
        return tuple(whole_number(self.name, "hidden_size", size) for size in hidden_size)

    def _check_options(self, directions: tuple[bool, bool], padding: str, empty: str, needs: Any) -> frozenset[str]:
        """Return the kinds of gradients. Raises NMTError: both directions requested twice, or an unknown value."""
        if all(directions):
            raise NMTError(f"{self.name}: bidirectional and reverse must not both be set, got both; drop reverse")
        kinds = needs if isinstance(needs, list | tuple | Set) else [needs]
        given = {"padding": [padding], "empty": [empty], "needs": kinds}
        for (name, names), kind in zip(given.items(), (Padding, Empty, Need), strict=True):
            for one in names:
                if one not in get_args(kind):
                    raise NMTError(f"{self.name}: {name} must be among {', '.join(get_args(kind))}, got {one}")
        return frozenset(kinds)
