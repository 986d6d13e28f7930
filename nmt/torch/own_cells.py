"""A cell of one's own as a module of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from nmt.errors import NMTError, ShapeError
from nmt.rnn.arrays.weights import initial_params
from nmt.rnn.cell import Cell, Scope, State
from nmt.rnn.cells.wrapping import WrappedCell
from nmt.rnn.compiler.trace import trace_step
from nmt.rnn.graph import Value
from nmt.torch.stack import Call, Source, Stack
from nmt.torch.tensors import mode, obstacle, padded, repacked


class CellModule(nn.Module):
    """A cell over time; its parameters have the names and shapes that `Cell.params` declares.

    It computes on the processor, in float32 or float64, and has no second derivatives. Dropout of the cell is active
    while the module is training, with masks drawn from torch's generator.
    """

    def __init__(self, cell: Cell, *, batch_first: bool = False, reverse: bool = False, dtype: Any = None) -> None:
        """Make a module of a cell as it is now, with new parameters. Raises ShapeError: the cell does not fit together.

        batch_first: x and y are [B, T, ...]; reverse: run from each row's last step to its first.
        """
        super().__init__()
        self._cell, self.batch_first, self.reverse = cell, batch_first, reverse
        self._drops = bool(trace_step(cell, training=True).masks)
        for name, array in initial_params(cell, _seed()).items():
            *path, last = name.split(".")
            place: nn.Module = self
            for one in path:
                if one not in place._modules:
                    place.add_module(one, nn.Module())
                place = place.get_submodule(one)
            tensor = torch.from_numpy(array).to(dtype or torch.get_default_dtype())
            place.register_parameter(last, nn.Parameter(tensor))

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
        known = {*states, *self._cell.captured(), *self._cell.sequences()}
        strange = {*(state or {})} - {*states} or {*others} - known
        if strange:
            raise ShapeError(
                f"{type(self._cell).__name__}: arrays must be among {', '.join(sorted(known))}, got {min(strange)}"
            )
        given = {name: state[name] for name in states if name in state} if state else {}
        if packed is not None:
            x, lengths = padded(packed)
            if packed.sorted_indices is not None:
                given = {name: one.index_select(0, packed.sorted_indices) for name, one in given.items()}
        elif self.batch_first:
            x = x.transpose(0, 1)
        weights = [self.get_parameter(name) for name in self._cell.params()]
        tensors = [x, *(one.unsqueeze(0) for one in given.values()), *others.values(), *weights]
        reason = mode() or obstacle(tensors)
        if reason is not None:
            raise NMTError(
                f"nmt.torch: {type(self._cell).__name__} must be given plain tensors on the processor, all float32 or "
                f"all float64, got {reason}"
            )
        stack, inputs = self._stack(x.dtype), ("x", *given, *others)
        records, found = stack.records(tensors), None
        version = stack.read(weights) if records or not stack.has_read(weights) else None
        if lengths is None and not records and (inputs in (("x",), ("x", *stack.states))):
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

    def _stack(self, dtype: torch.dtype) -> Stack:
        """Return the layer for tensors of this dtype, made at first use; without dropout for evaluation."""
        stacks = self.__dict__.setdefault("_of_our_core", {})
        quiet = self._drops and not self.training
        if (dtype, quiet) not in stacks:
            sources = {name: Source((n,)) for n, name in enumerate(self._cell.params())}
            cell, end = _WithoutDropout(self._cell) if quiet else self._cell, "backward" if self.reverse else "forward"
            stacks[dtype, quiet] = Stack([cell], sources, dtype, (end,))
        return stacks[dtype, quiet]

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to copy or pickle: all but the compiled core, which is made again when it is needed."""
        return {name: value for name, value in self.__dict__.items() if name != "_of_our_core"}

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
