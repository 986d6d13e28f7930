"""torch.nn.LSTM, GRU and RNN on our core, with the same arguments, parameters and results; and cells of one's own.

Where the core has nothing to give (tensors on a GPU, half precision, compiled code) torch's own layers compute, which a
warning says once; they also report errors in the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence

from nmt.errors import NMTError, ShapeError
from nmt.rnn.arguments import flags
from nmt.rnn.arrays.weights import initial_params
from nmt.rnn.cell import Cell, Scope, State, check_is_cell
from nmt.rnn.cells import ElmanCell, GRUCell, LSTMCell, LSTMVariantCell
from nmt.rnn.cells.wrapping import WrappedCell
from nmt.rnn.compiler.trace import trace_step
from nmt.rnn.graph import Value
from nmt.torch.stack import Call, Source, Stack, mode, obstacle, padded, repacked, say_once

_VF = torch._VF
_THEIRS = {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu}
_FEW_STEPS = 8
"""Runs of fewer steps are left to torch where gradients follow: laying weights and their gradients out for us takes
longer than the run. 12995ccb:benchmarks/torch_modules.py, two cores of an AMD EPYC, 2026-11-25: docs/library.md."""


class _WithStacks(nn.Module):
    """A module with layers of the core, which are neither copied nor pickled: they are made again when needed."""

    @property
    def _stacks(self) -> dict[Any, Stack]:
        found: dict[Any, Stack] = self.__dict__.setdefault("_of_our_core", {})
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_of_our_core"}


class _OnOurCore(_WithStacks, nn.RNNBase):
    """The forward pass of the three modules; it precedes torch's class among their parents."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Run the layers, as torch's module of the same name does."""
        if not all(map(is_, map(self._parameters.get, self._flat_weights_names), self._flat_weights)):
            self._update_flat_weights()  # slower; weights that others compute are not among the parameters
        packed = input if isinstance(input, PackedSequence) else None
        data: Tensor = input if packed is None else packed.data
        given: Sequence[Tensor] = () if hx is None else (hx,)
        if hx is not None and self.mode == "LSTM" and not isinstance(hx, Tensor):
            given = tuple(hx)
        reason = mode()
        if reason is None and not self._fits(data, given, packed):
            return super().forward(input, hx)
        stack = self._stacks.get(data.dtype) if reason is None else None
        is_known = stack is not None and stack.has_read(self._flat_weights)
        reason = reason or obstacle((data, *given) if is_known else (data, *given, *self._flat_weights))
        if reason is not None:
            say_once(f"torch's own layers compute with {reason}")
            return super().forward(input, hx)
        stack, tensors = stack or self._stack(data.dtype), (data, *given, *self._flat_weights)
        records = stack.records(tensors)
        time_axis = int(self.batch_first and data.dim() == 3)
        steps = data.shape[time_axis] if packed is None else len(packed.batch_sizes)
        if records and steps < _FEW_STEPS:
            return super().forward(input, hx)
        is_single, is_turned = packed is None and data.dim() == 2, packed is None and self.batch_first
        lengths = None
        if packed is not None:
            x, lengths = padded(packed)
            order = packed.sorted_indices
            given = given if order is None else [one.index_select(1, order) for one in given]
        elif is_single:
            x, is_turned = data.unsqueeze(1), False
            given = [one.unsqueeze(1) for one in given]
        else:
            x = data.transpose(0, 1) if is_turned else data
        y, *final = self._run(stack, x, given, lengths, packed, records, is_known)
        if packed is not None:
            y = repacked(packed, y, lengths)
            back = packed.unsorted_indices
            final = final if back is None else [one.index_select(1, back) for one in final]
        elif is_single:
            y, final = y.squeeze(1), [one.squeeze(1) for one in final]
        elif is_turned:
            y = y.transpose(0, 1)
        return y, tuple(final) if len(final) > 1 else final[0]

    def _fits(self, data: Any, given: Sequence[Any], packed: PackedSequence | None) -> bool:
        """Return whether these are the arguments of a run of some steps and rows; torch reports what they lack."""
        if not all(isinstance(one, Tensor) for one in (data, *given, *self._flat_weights)):
            return False
        dims, batch_axis = (2, 3) if packed is None else (2, 2), 0 if self.batch_first else 1
        if data.dim() not in dims or data.shape[-1] != self.input_size or not data.numel():
            return False
        if not given:
            return True
        rows = [] if data.dim() == 2 else [data.shape[batch_axis]]
        rows = rows if packed is None else [int(packed.batch_sizes[0])]
        shapes = [(self.num_layers * (1 + self.bidirectional), *rows, width) for width in self._widths]
        return [tuple(one.shape) for one in given] == shapes

    def _run(
        self,
        stack: Stack,
        x: Tensor,
        given: Sequence[Tensor],
        lengths: Tensor | None,
        packed: PackedSequence | None,
        records: bool,
        is_known: bool,
    ) -> tuple[Tensor, ...]:
        """Run all layers over x [T, B, D]; return y and the final states."""
        weights = list(self._flat_weights)
        version = stack.read(weights) if records or not is_known else None
        drops = self.dropout > 0 and self.training and self.num_layers > 1
        if lengths is None and not drops and not records:
            found = stack.short(x, given)
            if found is not None:
                return found
        inputs = ("x", *stack.states[: len(given)])
        steps = None if lengths is None else lengths.numpy()
        count, finals = len(weights) // self.num_layers, []
        for layer in range(self.num_layers):
            if layer and drops:
                x = self._dropped(x, lengths, packed)
            D = len(stack.ends)
            own = [one[layer * D : (layer + 1) * D] for one in given]
            call = Call(layer, weights, version, inputs, steps, reference=partial(self._reference, lengths))
            x, *final = stack(call, x, *own, *weights[layer * count : (layer + 1) * count])
            finals.append(final)
        return (x, *(finals[0] if len(finals) == 1 else map(torch.cat, zip(*finals, strict=True))))

    def _dropped(self, x: Tensor, lengths: Tensor | None, packed: PackedSequence | None) -> Tensor:
        """Return x with dropout: the numbers that torch would drop, drawn in its order."""
        if packed is None or lengths is None:
            return dropout(x, self.dropout)
        packed = repacked(packed, x, lengths)
        return padded(packed._replace(data=dropout(packed.data, self.dropout)))[0]

    def _reference(self, lengths: Tensor | None, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """Compute one layer by torch's operations on packed sequences, which all have derivatives."""
        count = len(self._flat_weights) // self.num_layers
        given, weights = rest[:-count], list(rest[-count:])
        T, B, _ = x.shape
        if not given:
            given = tuple(x.new_zeros(1 + self.bidirectional, B, width) for width in self._widths)
        lengths = torch.full((B,), T) if lengths is None else lengths
        data, sizes = _VF._pack_padded_sequence(x, lengths, False)
        hx = given if self.mode == "LSTM" else given[0]
        data, *final = _THEIRS[self.mode](data, sizes, hx, weights, self.bias, 1, 0.0, False, self.bidirectional)
        return (_VF._pad_packed_sequence(data, sizes, False, 0.0, T)[0], *final)

    @property
    def _widths(self) -> list[int]:
        return [self.proj_size or self.hidden_size, self.hidden_size][: 2 if self.mode == "LSTM" else 1]

    # ------------------------------------------------------------ the core

    def _stack(self, dtype: torch.dtype) -> Stack:
        """Return the layers for tensors of this dtype, made at first use."""
        if dtype not in self._stacks:
            D = 1 + self.bidirectional
            widths = [self.input_size, *[(self.proj_size or self.hidden_size) * D] * (self.num_layers - 1)]
            ends = ("forward", "backward")[:D]
            self._stacks[dtype] = Stack([self._cell(width) for width in widths], self._sources(), dtype, ends)
        return self._stacks[dtype]

    def _cell(self, input_size: int) -> Cell:
        sizes = input_size, self.hidden_size, self.bias
        if self.mode == "GRU":
            return GRUCell(*sizes)
        if self.mode != "LSTM":
            return ElmanCell(*sizes, "relu" if self.mode == "RNN_RELU" else "tanh")
        return LSTMVariantCell(*sizes, projection=self.proj_size) if self.proj_size else LSTMCell(*sizes)

    def _sources(self) -> dict[str, Source]:
        """Return where the cells' parameters come from: weight_ih, weight_hh, bias_ih, bias_hh, weight_hr."""
        found = {"W_x": Source((0,), True), "W_h": Source((1,), True)}
        if self.bias:
            found |= {"b": Source((2,)), "b_h": Source((3,))} if self.mode == "GRU" else {"b": Source((2, 3))}
        return found | {"W_p": Source((4 if self.bias else 2,), True)}


class LSTM(_OnOurCore, nn.LSTM):
    """torch.nn.LSTM, with the same arguments."""


class GRU(_OnOurCore, nn.GRU):
    """torch.nn.GRU, with the same arguments."""


class RNN(_OnOurCore, nn.RNN):
    """torch.nn.RNN, with the same arguments."""


class CellModule(_WithStacks):
    """A cell over time; its parameters have the names and shapes that `Cell.params` declares. It computes on the
    processor, in float32 or float64, and has no second derivatives. Dropout of the cell is active while the module is
    training, with masks drawn from torch's generator."""

    def __init__(self, cell: Cell, *, batch_first: bool = False, reverse: bool = False, dtype: Any = None) -> None:
        """Make a module of a cell as it is now, with new parameters. Raises ShapeError: the cell does not fit together.
        batch_first: x and y are [B, T, ...]; reverse: run from each row's last step to its first."""
        super().__init__()
        check_is_cell("nmt.torch.cell", cell)
        if dtype not in (None, torch.float32, torch.float64):
            raise NMTError(f"{type(cell).__name__}: dtype must be torch.float32 or torch.float64, got {dtype}")
        flags(type(cell).__name__, batch_first=batch_first, reverse=reverse)
        self._cell, self.batch_first, self.reverse = cell, batch_first, reverse
        self._drops = bool(trace_step(cell, training=True).masks)
        for name, array in initial_params(cell, _seed()).items():
            *path, last = name.split(".")
            place: nn.Module = self
            for one in path:
                if one not in place._modules:
                    place.add_module(one, nn.Module())
                place = place.get_submodule(one)
            place.register_parameter(last, nn.Parameter(torch.from_numpy(array).to(dtype or torch.get_default_dtype())))

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: Mapping[str, Tensor] | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        source_lengths: Tensor | Sequence[int] | None = None,
        **others: Tensor,
    ) -> tuple[Any, dict[str, Tensor]]:
        """Run the cell over x [T, B, D], or a packed sequence; return y, [T, B, n] or packed, and the states after each
        row's last step, [B, n] by name.

        state: initial states by name; missing ones are as the cell starts. lengths: steps of each row, all T where
        None. others: the cell's captured arrays and further sequences, by name, and source_lengths, as `Scan.forward`
        takes them; of a packed sequence, with rows in the order of the packed ones. Raises ShapeError, NMTError.
        """
        packed, states = x if isinstance(x, PackedSequence) else None, self._cell.states()
        given = self._checked(x, states, {} if state is None else state, lengths, others)
        if packed is not None:
            x, lengths = padded(packed)
            if packed.sorted_indices is not None:
                given = {name: one.index_select(0, packed.sorted_indices) for name, one in given.items()}
        elif self.batch_first and x.dim() > 1:
            x = x.transpose(0, 1)
        weights = [self.get_parameter(name) for name in self._cell.params()]
        tensors = [x, *(one.unsqueeze(0) for one in given.values()), *others.values(), *weights]
        reason = mode() or obstacle(tensors)
        if reason is not None:
            promise = "must be given plain tensors on the processor, all float32 or all float64"
            raise NMTError(f"nmt.torch: {type(self._cell).__name__} {promise}, got {reason}")
        stack, inputs = self._stack(x.dtype), ("x", *given, *others)
        records, found = stack.records(tensors), None
        version = stack.read(weights) if records or not stack.has_read(weights) else None
        if lengths is None and not records and (inputs in (("x",), ("x", *stack.states))):
            shapes = [(*x.shape[:2], self._cell.input_size), *((1, *x.shape[1:2], n) for n in states.values())]
            if all(one.shape == shape for one, shape in zip(tensors[: len(inputs)], shapes, strict=False)):
                found = stack.short(x, tensors[1 : len(inputs)])
        if found is None:
            seed = _seed() if self._drops and self.training else 0
            steps, of_sources = (one.numpy() if isinstance(one, Tensor) else one for one in (lengths, source_lengths))
            found = stack(Call(0, weights, version, inputs, steps, of_sources, seed), *tensors)
        y, *last = found
        final = {name: one.squeeze(0) for name, one in zip(stack.states, last, strict=True)}
        if packed is not None:
            if packed.unsorted_indices is not None:
                final = {name: one.index_select(0, packed.unsorted_indices) for name, one in final.items()}
            return repacked(packed, y, lengths), final
        return (y.transpose(0, 1) if self.batch_first else y), final

    def _checked(self, x: Any, states: Mapping[str, int], state: Any, lengths: Any, others: Mapping[str, Any]) -> Any:
        """Return initial states in the cell's order. Raises ShapeError: an argument is of another kind."""
        name, packed = type(self._cell).__name__, isinstance(x, PackedSequence)
        if not isinstance(state, Mapping):
            promise = f"state must be a dict with tensors for {', '.join(states) or 'no state'}"
            raise ShapeError(f"{name}: {promise}, got {type(state).__name__}; give others, and lengths, by name")
        known = {*self._cell.captured(), *self._cell.sequences()}
        if strange := state.keys() - states.keys() or others.keys() - known:
            promise = f"arrays must be among {', '.join(sorted({*states, *known}))}"
            raise ShapeError(f"{name}: {promise}, got {min(strange)}; states are given in one dict, others by name")
        for what, one in {"x": x.data if packed else x, **state, **others}.items():
            if not isinstance(one, Tensor):
                raise ShapeError(f"{name}: {what} must be a tensor, got {type(one).__name__}")
            if packed and what in state and one.shape[:1] != (x.batch_sizes[0],):
                raise ShapeError(f"{name}: {what} must have {int(x.batch_sizes[0])} rows, got {list(one.shape)}")
        if packed and lengths is not None:
            raise ShapeError(f"{name}: lengths must be None with a packed sequence, got both")
        return {one: state[one] for one in states if one in state}

    def _stack(self, dtype: torch.dtype) -> Stack:
        """Return the layer for tensors of this dtype, made at first use; without dropout for evaluation."""
        quiet = self._drops and not self.training
        if (dtype, quiet) not in self._stacks:
            sources = {name: Source((n,)) for n, name in enumerate(self._cell.params())}
            cell, end = _WithoutDropout(self._cell) if quiet else self._cell, "backward" if self.reverse else "forward"
            self._stacks[dtype, quiet] = Stack([cell], sources, dtype, (end,))
        return self._stacks[dtype, quiet]

    def extra_repr(self) -> str:
        """Return the cell and its sizes."""
        return f"{type(self._cell).__name__} {self._cell.input_size} -> {self._cell.output_size}"


def cell(cell: Cell, *, batch_first: bool = False, reverse: bool = False, dtype: Any = None) -> CellModule:
    """Return a cell of `nmt.rnn`, or of one's own, as a module of torch: see `CellModule`."""
    return CellModule(cell, batch_first=batch_first, reverse=reverse, dtype=dtype)


class _WithoutDropout(WrappedCell):
    """A cell without dropout, for gradients in evaluation."""

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return self.cell.step(p.without_dropout(), x, s)


def _seed() -> int:
    """Return a seed drawn from torch's generator."""
    return int(torch.randint(1 << 62, ()))
