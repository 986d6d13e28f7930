"""LSTM, GRU and RNN layers with the customary interface: (x, hx, cx) -> (y, hy, cy).

Stacks in one or both directions. Parameters are arrays by name: `W_x_l0` [D, G*H], `W_h_l0` [H, G*H], `b_x_l0` and
`b_h_l0` [G*H] for layer 0, the same with `_reverse` for a direction from last to first; with peepholes `w_i_l0`,
`w_f_l0`, `w_o_l0` [H], with a projection to P numbers `W_p_l0` [H, P] and `W_h_l0` [P, G*H]. They are views of one
vector, `flat`. States are ordered by layer, forward before reverse: [L * directions, B, H]; if the layers have
different sizes a state is a tuple with one array [directions, B, H] per layer.

For other systems' names of these options, and arrays in their layouts, see docs/library.md and weight_layouts.py.
"""

from collections.abc import Sequence
from typing import Any, Unpack

from nmt.rnn.arguments import flags, limit, whole_number
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.cell import Cell, Param
from nmt.rnn.cells import ElmanCell, GRUCell, LSTMCell, LSTMVariantCell
from nmt.rnn.cells.parts import ActivationSpec, activation, checked_activations
from nmt.rnn.layers.layer_stack import Given, LayerOptions, States
from nmt.rnn.layers.recurrent_layers import Into, LayerGradients, Lengths, RecurrentLayers, Reserve

__all__ = ["GRU", "LSTM", "RNN", "LayerGradients"]


class _OneState(RecurrentLayers):
    """Layers whose only state is their output."""

    def __call__(self, x: Array, hx: Given = None, lengths: Lengths = None) -> tuple[Array, States]:
        """Run the layers without keeping anything: x [T, B, D] -> y [T, B, directions * H] and hy, shaped like hx.

        lengths: steps of each row, in any order, all T where None; y is zero beyond them, and hy is the state after
        each row's last step (of the reverse direction: after its first), unless `padding` and `empty` say otherwise.
        With `batch_first` x and y are [B, T, ...]. A missing hx is zero, or the learned initial state. Raises
        ShapeError."""
        return self._run(x, (hx,), lengths, None)

    def forward(
        self, x: Array, hx: Given = None, lengths: Lengths = None, *, reserve: Reserve | None = None
    ) -> tuple[Array, States]:
        """Run the layers as a call does, with dropout, keeping what `backward` needs. That includes x, y and the
        parameters: do not change them before. It is kept in the layers' own reserve, or in another one if several
        passes are to wait at a time."""
        return self._run(x, (hx,), lengths, self._of_passes(reserve))

    def backward(
        self, d_y: Array | None, d_hy: Given = None, *, into: Into = None, reserve: Reserve | None = None
    ) -> LayerGradients:
        """Return gradients of sum(d_y * y) + sum(d_hy * hy) of the last `forward`; None is zero. Those of parameters
        are added to `into`, if given. One backward for each forward. Raises ShapeError, and NMTError without a
        preceding forward."""
        return self._backward(d_y, (d_hy,), into, reserve)

    def backward_data(self, d_y: Array | None, d_hy: Given = None, *, reserve: Reserve | None = None) -> LayerGradients:
        """Run `backward` without gradients of parameters; `backward_weights` may follow, with bit-identical results."""
        return self._backward(d_y, (d_hy,), reserve=reserve, data_only=True)


class LSTM(RecurrentLayers):
    """Long short-term memory layers; gates i, f, g, o side by side (see `LSTMCell`; options: `LSTMVariantCell`)."""

    states = ("h", "c")

    def __init__(
        self,
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        *,
        proj_size: int | None = None,
        peepholes: bool = False,
        input_forget: bool = False,
        clip: float | None = None,
        cell_clip: float | None = None,
        activations: tuple[ActivationSpec, ActivationSpec, ActivationSpec] = ("sigmoid", "tanh", "tanh"),
        **options: Unpack[LayerOptions],
    ) -> None:
        """Make LSTM layers.

        proj_size: width of h and y, which are then a product of the hidden units with `W_p`. peepholes: gates read the
        memory. input_forget: f = 1 - i, and the gates are i, g, o. clip: the activations' arguments are limited to
        [-clip, clip]; cell_clip: so is the memory. activations: of the gates, the candidate g and the memory in the
        output, by name or as (name, alpha, beta), see cells/parts.py. options: see `LayerStack`."""
        name = type(self).__name__
        flags(name, peepholes=peepholes, input_forget=input_forget)
        self.proj_size = None if proj_size is None else whole_number(name, "proj_size", proj_size)
        self.peepholes, self.input_forget = peepholes, input_forget
        self.clip, self.cell_clip = limit(name, "clip", clip), limit(name, "cell_clip", cell_clip)
        self.activations = checked_activations(name, activations, 3)
        super().__init__(input_size, hidden_size, num_layers, **options)

    def __call__(
        self, x: Array, hx: Given = None, cx: Given = None, lengths: Lengths = None
    ) -> tuple[Array, States, States]:
        """Run the layers without keeping anything; see `GRU.__call__`, here with a second state."""
        return self._run(x, (hx, cx), lengths, None)

    def forward(
        self, x: Array, hx: Given = None, cx: Given = None, lengths: Lengths = None, *, reserve: Reserve | None = None
    ) -> tuple[Array, States, States]:
        """Run the layers as a call does, with dropout, keeping what `backward` needs; see `GRU.forward`."""
        return self._run(x, (hx, cx), lengths, self._of_passes(reserve))

    def backward(
        self,
        d_y: Array | None,
        d_hy: Given = None,
        d_cy: Given = None,
        *,
        into: Into = None,
        reserve: Reserve | None = None,
    ) -> LayerGradients:
        """Return gradients of sum(d_y * y) + sum(d_hy * hy) + sum(d_cy * cy); see `GRU.backward`."""
        return self._backward(d_y, (d_hy, d_cy), into, reserve)

    def backward_data(
        self, d_y: Array | None, d_hy: Given = None, d_cy: Given = None, *, reserve: Reserve | None = None
    ) -> LayerGradients:
        """Run `backward` without gradients of parameters; `backward_weights` may follow, with bit-identical results."""
        return self._backward(d_y, (d_hy, d_cy), reserve=reserve, data_only=True)

    def _cell(self, input_size: int, hidden_size: int) -> Cell:
        """Return the cell: the plain one, whose program is smaller, if the options allow it."""
        variant = self.proj_size, self.clip, self.cell_clip, self.activations
        if variant == (None, None, None, ("sigmoid", "tanh", "tanh")) and not self.peepholes and not self.input_forget:
            return LSTMCell(input_size, hidden_size, self.bias)
        return LSTMVariantCell(
            input_size,
            hidden_size,
            self.bias,
            peepholes=self.peepholes,
            projection=self.proj_size,
            clip=self.clip,
            cell_clip=self.cell_clip,
            coupled=self.input_forget,
            activations=self.activations,
        )


class GRU(_OneState):
    """Gated recurrent layers; gates r, z, n; the reset after the product or before it (see `GRUCell`)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        *,
        reset_after: bool = True,
        clip: float | None = None,
        activations: tuple[ActivationSpec, ActivationSpec] = ("sigmoid", "tanh"),
        **options: Unpack[LayerOptions],
    ) -> None:
        """Make GRU layers. reset_after: ONNX's linear_before_reset. clip: the activations' arguments are limited to
        [-clip, clip]; activations: of the gates and of n, see cells/parts.py. options: see `LayerStack`."""
        name = type(self).__name__
        flags(name, reset_after=reset_after)
        self.reset_after, self.clip = reset_after, limit(name, "clip", clip)
        self.activations = checked_activations(name, activations, 2)
        super().__init__(input_size, hidden_size, num_layers, **options)

    def _cell(self, input_size: int, hidden_size: int) -> Cell:
        sizes = input_size, hidden_size
        return GRUCell(*sizes, self.bias, self.reset_after, clip=self.clip, activations=self.activations)

    def _shapes(self, cell: Cell) -> dict[str, Param]:
        """Return a layer's parameters, with one matrix W_h, which the cell splits in two if the reset comes first."""
        W_h = Param((cell.output_size, 3 * cell.output_size), gates=3)
        own = super()._shapes(cell)
        return {"W_x": own.pop("W_x"), "W_h": W_h} | _without(own, "W_h", "W_rz", "W_n")

    def _to_cell(self, p: Arrays) -> Arrays:
        """Convert a layer's parameters; with both biases, and two recurrent matrices if the reset comes first."""
        given = _without(p, "W_h", "b_x", "b_h")
        if self.reset_after:
            given["W_h"] = p["W_h"]
        else:  # the products with r * h and with h are separate
            xp, twice = self.device.xp, 2 * len(p["W_h"])
            parts = p["W_h"][:, :twice], p["W_h"][:, twice:]
            given |= {"W_rz": xp.ascontiguousarray(parts[0]), "W_n": xp.ascontiguousarray(parts[1])}
        return given | ({"b": p["b_x"], "b_h": p["b_h"]} if self.bias else {})

    def _from_cell(self, g: Arrays) -> Arrays:
        W_h = g["W_h"] if self.reset_after else self.device.xp.concatenate([g["W_rz"], g["W_n"]], axis=1)
        found = _without(g, "W_h", "W_rz", "W_n", "b", "b_h") | {"W_h": W_h}
        return found | ({"b_x": g["b"], "b_h": g["b_h"]} if self.bias else {})


def _without(arrays: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if name not in names}


class RNN(_OneState):
    """Elman's layers, h_t = f(x W_x + h_prev W_h + b_x + b_h); f is `tanh`, or another activation."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        *,
        nonlinearity: ActivationSpec = "tanh",
        clip: float | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        """Make RNN layers. nonlinearity: see cells/parts.py; clip: its argument's limit; options: `LayerStack`."""
        activation(nonlinearity, f"{type(self).__name__}: nonlinearity")
        self.nonlinearity, self.clip = nonlinearity, limit(type(self).__name__, "clip", clip)
        super().__init__(input_size, hidden_size, num_layers, **options)

    def _cell(self, input_size: int, hidden_size: int) -> Cell:
        return ElmanCell(input_size, hidden_size, self.bias, self.nonlinearity, self.clip)
