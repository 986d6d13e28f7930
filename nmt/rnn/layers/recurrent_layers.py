"""Stacks of layers of one recurrent cell, in one or both directions: scans on top of scans, forward and backward.

This is what LSTM, GRU and RNN (`operators.py`) share. Memory of a pass is reused by the next; the caller owns the
results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Unpack

import numpy as np

from nmt.errors import NMTError, most_like
from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.workspace import Idle, Workspace, zeros_of
from nmt.rnn.layers.layer_stack import Given, LayerOptions, LayerStack, RowEnds, States, check_array
from nmt.rnn.scan.layered import LayerSide
from nmt.rnn.scan.passes import Result, Tape


@dataclass(frozen=True)
class KeptLayer:
    """A tape per direction, and the dropout mask of the layer's input."""

    tapes: list[Tape]
    mask: Array | None


@dataclass
class KeptPass:
    """The data that a forward pass through all layers keeps."""

    of: object
    layers: list[KeptLayer]
    ends: RowEnds | None
    is_split: bool = False
    """Whether `backward_data` has run."""


class Reserve:
    """The data that one forward pass keeps for its backward pass, and the memory for it (cuDNN's reserve space). The
    next forward with the same reserve reuses the memory, and forgets the pass before. Layers have one by default; with
    several, made by their `reserve()`, several forward passes can wait for their backward at a time."""

    def __init__(self, xp: Any = np) -> None:
        """Create an empty reserve. `xp`: of the device whose memory it uses."""
        self.memory = Workspace(xp)
        self.kept: KeptPass | None = None
        """The pass that waits for its backward."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of the memory, in use or not."""
        return self.memory.nbytes

    def release(self) -> None:
        """Forget the pass, and free the memory."""
        self.begin()
        self.memory.release()

    def begin(self) -> None:
        """Forget the last pass."""
        self.kept = None
        self.memory.reset()

    def waiting(self, where: str, of: object, *, after_data: bool = False) -> KeptPass:
        """Return the pass that waits for its backward, or its gradients of weights. Raises NMTError: there is none."""
        if self.kept is None or self.kept.of is not of:
            got = "none" if self.kept is None else "that of other layers"
            raise NMTError(f"{where}: must follow a forward, got {got}; call forward")
        if after_data and not self.kept.is_split:
            raise NMTError(f"{where}: must follow backward_data, got a forward alone; call backward_data first")
        if self.kept.is_split and not after_data:
            raise NMTError(f"{where}: must come once for each forward, got backward_data before; call forward again")
        return self.kept


Lengths = Sequence[int] | np.ndarray | None
Into = Mapping[str, Array] | Array | None
"""The arrays that gradients of parameters are added to: by name, or one vector like `flat`; None for new arrays."""


@dataclass(frozen=True)
class LayerGradients:
    """Gradients of one pass, shaped like x, hx, cx and `params`. A field is None if the cell has no c or `needs` omits
    it. `params` is empty if `needs` omits "params", and after `backward_data`."""

    d_x: Array | None
    d_hx: States | None
    d_cx: States | None
    params: Arrays


class RecurrentLayers(LayerStack):
    """A stack that can run; see `LayerStack` for its options and parameters."""

    def __init__(self, *sizes: Any, **options: Unpack[LayerOptions]) -> None:
        if unknown := options.keys() - LayerOptions.__annotations__.keys():
            known = sorted({*signature(type(self)).parameters, *LayerOptions.__annotations__} - {"options"})
            advice = f"; did you mean {close}?" if (close := most_like(min(unknown), known)) else ""
            promise = f"keywords must be among {', '.join(known)}"
            raise TypeError(f"{type(self).__name__}: {promise}, got {min(unknown)}{advice}")
        super().__init__(*sizes, **options)
        xp = self.device.xp
        self._passes = 0
        self._reserve = self.reserve()  # memory that a forward keeps for its backward
        self._idle = Idle(lambda: (Workspace(xp), Workspace(xp)))  # memory of passes that keep nothing

    # ------------------------------------------------------------ memory

    def reserve(self) -> Reserve:
        """Return memory for one more forward pass that waits for its backward."""
        return Reserve(self.device.xp)

    @property
    def workspace_bytes(self) -> int:
        """Return the bytes kept between passes for reuse, which the largest pass determines. Reserves of `reserve()`
        and packed weights are not included."""
        return self._reserve.nbytes + sum(one.nbytes for pair in self._idle.kept for one in pair)

    def release(self) -> None:
        """Free that memory; a forward that waits for its backward is forgotten. The next pass allocates again."""
        self._reserve.release()
        self._idle.kept.clear()
        self._forget_sizes()

    def _of_passes(self, reserve: Reserve | None) -> Reserve:
        """Return a reserve, the layers' own where None. Raises NMTError: it is none."""
        if reserve is not None and not isinstance(reserve, Reserve):
            raise NMTError(f"{self.name}: reserve must be one of layer.reserve(), got {type(reserve).__name__}")
        return self._reserve if reserve is None else reserve

    def _outputs(self, lasting: bool) -> Any:
        """Return memory for a scan's result that the caller gets; two directions are joined in separate memory."""
        return self.device.xp.zeros if lasting and not self.bidirectional else None

    # ------------------------------------------------------------ forward

    def _run(self, x: Array, given: Sequence[Given], lengths: Lengths, reserve: Reserve | None) -> Any:
        """Run all layers; with a reserve, apply dropout and keep the pass there for its backward."""
        if lengths is None and reserve is None and self._is_short(x, given):
            return self._repeat(x, given)
        x = self._check("x", x, (*("BT" if self.batch_first else "TB"), self.input_size))
        xp = self.device.xp
        below = xp.ascontiguousarray(x.swapaxes(0, 1)) if self.batch_first else x
        T, B, _ = below.shape
        first = self._by_state(given, B, "{}x")
        if reserve is not None:
            reserve.begin()
        # Kept, as allocating large memory again takes a tenth of a pass. In inference a layer reads only the layer
        # below, so two workspaces take turns.
        memories = self._idle.take() if reserve is None else (reserve.memory, reserve.memory)
        kept: list[KeptLayer] = []
        final: list[Arrays] = []
        ends = None
        for layer, sides in enumerate(self._layers):
            mask = self._mask(below.shape, layer) if reserve and layer and self.dropout else None
            below = below if mask is None else below * mask
            results: list[Result] = []
            memory, is_last = memories[layer % 2], layer == self.num_layers - 1
            if reserve is None:
                memory.reset()
            for side in sides:
                at = len(final)
                result = side.scan.forward(
                    self._refresh(side),
                    below,
                    {name: states[at] for name, states in first.items()},
                    lengths=lengths,
                    reverse=side.reverse,
                    training=reserve is not None,
                    allocate=memory,
                    outputs=self._outputs(is_last),
                    single_step=T == 1 and side.end in self._frozen,
                )
                ends = ends or self._row_ends(lengths, T, B)  # the scan has checked the lengths
                if ends:
                    result.final = {name: ends.final(state) for name, state in result.final.items()}
                if ends and is_last:
                    result.y = ends.output(result.y, result.final["h"], side.reverse)
                results.append(result)
                final.append(result.final)
            parts = [r.y for r in results]
            below = parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=-1)
            kept.append(KeptLayer([r.tape for r in results if r.tape is not None], mask))
        if reserve is None:
            self._idle.give(memories)
        else:
            reserve.kept = KeptPass(self, kept, ends)
            self._passes += 1
        y = xp.ascontiguousarray(below.swapaxes(0, 1)) if self.batch_first else below
        return (y, *(states.join([f[name][None] for f in final]) for name, states in self._states.items()))

    def _by_state(self, given: Sequence[Given], B: int, what: str) -> dict[str, Sequence[Array]]:
        """Return the given arrays by state, for each layer and direction [B, n]; `what` names them in errors."""
        pairs = zip(self._states.items(), given, strict=True)
        return {name: s.split(array, B, what.format(name)) for (name, s), array in pairs if array is not None}

    def _row_ends(self, lengths: Lengths, T: int, B: int) -> RowEnds | None:
        """Return how results differ from the engine's convention where rows end early; None if they do not."""
        if (self.padding, self.empty) == ("zero", "initial") or (lengths is None and T):
            return None
        steps = np.full(B, T, np.int64) if lengths is None else np.asarray(lengths, np.int64)
        return RowEnds(self.device, steps, T, self.padding, self.empty)

    def _is_short(self, x: Any, given: Sequence[Any]) -> bool:
        """Return whether `_repeat` can do this run; errors in the arrays are reported elsewhere."""
        if not self.device.is_cpu or len(self._frozen) < self.num_layers * self.directions:
            return False
        if type(x) is not np.ndarray or x.ndim != 3 or x.dtype != self.dtype or x.shape[2] != self.input_size:
            return False
        if not 0 < x.shape[0] * x.shape[1] <= tuning.SHORT_ROWS:
            return False
        B = x.shape[0 if self.batch_first else 1]
        return all(a is None or states.fits(a, B) for a, states in zip(given, self._states.values(), strict=True))

    def _repeat(self, x: Array, given: Sequence[Given]) -> tuple[Any, ...]:
        """Return the results of a short run with fixed weights, without repeating checks and look-ups."""
        first = self._by_state(given, x.shape[0 if self.batch_first else 1], "{}x")
        y, *final = self._sizes(x.swapaxes(0, 1) if self.batch_first else x, [first.get(name) for name in self.states])
        return (np.ascontiguousarray(y.swapaxes(0, 1)) if self.batch_first else y, *final)

    def _mask(self, shape: tuple[int, ...], layer: int) -> Array:
        """Return a dropout mask of a layer's input: new for every pass, the same for every number of threads."""
        mask = self.device.xp.empty(shape, self.dtype)
        self.device.dropout_mask(mask.reshape(-1), 1 - self.dropout, self._passes, layer << 40, self.threads)
        return mask

    # ------------------------------------------------------------ backward

    def _backward(
        self,
        d_y: Array | None,
        given: Sequence[Given],
        into: Into = None,
        reserve: Reserve | None = None,
        *,
        data_only: bool = False,
    ) -> LayerGradients:
        """Run the backward pass; with `data_only` keep the operands of `backward_weights` in the reserve."""
        reserve, xp = self._of_passes(reserve), self.device.xp
        kept = reserve.waiting(f"{self.name}.backward{'_data' if data_only else ''}", self)
        rows = kept.layers[0].tapes[0].rows
        d_below: Array | None = self._check_d_y(d_y, rows.T, rows.B)
        d_final = self._by_state(given, rows.B, "d_{}y")
        params = None if data_only else self._targets(into)
        later = data_only and "params" in self.needs
        memories = (reserve.memory, reserve.memory) if data_only else self._idle.take()
        initial: list[Arrays] = []
        for layer in range(self.num_layers - 1, -1, -1):
            memory = memories[layer % 2]
            if not data_only:
                memory.reset()
            d_below, first = self._layer_backward(layer, kept, d_below, d_final, memory, params, later)
            initial[:0] = first
            mask = kept.layers[layer].mask
            d_below = d_below if mask is None else d_below * mask
        if data_only:
            kept.is_split = True
        else:
            self._idle.give(memories)
            reserve.kept = None  # it cannot run again
        d_x = xp.ascontiguousarray(d_below.swapaxes(0, 1)) if self.batch_first and d_below is not None else d_below
        d_first: dict[str, States] = {}
        if "states" in self.needs:
            d_first = {name: s.join([g[name][None] for g in initial]) for name, s in self._states.items()}
        return LayerGradients(d_x, d_first.get("h"), d_first.get("c"), self._in_order(params))

    def backward_weights(self, into: Into = None, *, reserve: Reserve | None = None) -> Arrays:
        """Return gradients of the parameters after `backward_data`, added to `into` if given; may be called repeatedly.
        Raises ShapeError, and NMTError without a preceding `backward_data`."""
        kept = self._of_passes(reserve).waiting(f"{self.name}.backward_weights", self, after_data=True)
        params = self._targets(into)
        if params is None:
            raise NMTError(f"{self.name}.backward_weights: needs must hold params, got {', '.join(sorted(self.needs))}")
        for sides, layer in zip(self._layers, kept.layers, strict=True):
            for side, tape in zip(sides, layer.tapes, strict=True):
                shares = self._shares(side)
                side.scan.backward_weights(tape, shares)
                self._add(side, shares, params)
        return self._in_order(params)

    def _layer_backward(
        self,
        layer: int,
        kept: KeptPass,
        d_y: Array,
        d_final: dict[str, Sequence[Array]],
        memory: Workspace,
        params: Arrays | None,
        weights_later: bool,
    ) -> tuple[Array | None, list[Arrays]]:
        """Return gradients of one layer's input and initial states. Those of its parameters are added to `params`, or
        their operands are kept for later."""
        xp, d_inputs, initial = self.device.xp, [], []
        for n, (side, tape) in enumerate(zip(self._layers[layer], kept.layers[layer].tapes, strict=True)):
            width = side.scan.cell.output_size
            d_part = xp.ascontiguousarray(d_y[..., n * width : (n + 1) * width])
            d_last = {name: sides[layer * self.directions + n] for name, sides in d_final.items()}
            if kept.ends:
                d_last = self._end_gradients(kept.ends, d_last, d_part if layer == self.num_layers - 1 else None, side)
            tape.allocate = memory
            shares = None if params is None else self._shares(side)
            outputs = self._outputs(layer == 0)
            found = side.scan.backward(tape, d_part, d_last, shares, outputs=outputs, weights_later=weights_later)
            d_inputs.append(found.x)
            initial.append(found.initial)
            if params is not None and shares is not None:
                self._add(side, shares, params)
        shares_of_x = [d for d in d_inputs if d is not None]
        return (sum(shares_of_x[1:], shares_of_x[0]) if shares_of_x else None), initial

    def _end_gradients(self, ends: RowEnds, d_last: Arrays, d_y: Array | None, side: LayerSide) -> Arrays:
        """Convert the gradients of the caller's final states to a scan's; d_y is given for the last layer only."""
        share = None if d_y is None else ends.output_gradient(d_y, side.reverse)
        if share is not None:
            d_last = {**d_last, "h": d_last["h"] + share if "h" in d_last else share}
        return {name: ends.final(array) for name, array in d_last.items()}

    # ------------------------------------------------------------ gradients of parameters

    def _targets(self, into: Into) -> Arrays | None:
        """Return the arrays to add gradients to; empty for new ones, None where none are needed. Raises ShapeError."""
        if "params" not in self.needs:
            if into is not None:
                raise NMTError(f"{self.name}.backward: into must be None without params among needs, got arrays")
            return None
        if into is None:
            return {}
        if isinstance(into, Mapping):
            found = dict(into)
            self._store.check(found, exact=True)
        else:
            found = self.views(into)
        if not all(getattr(array.flags, "writeable", True) for array in found.values()):
            raise NMTError(f"{self.name}: into must be writeable, got read-only arrays")
        return found

    def _shares(self, side: LayerSide) -> Arrays:
        """Return zero gradients of a cell's parameters, to be added to."""
        return {name: zeros_of(self.device.xp, p.shape, self.dtype) for name, p in side.scan.params.items()}

    def _add(self, side: LayerSide, shares: Arrays, params: Arrays) -> None:
        for name, share in self._from_cell(shares).items():
            if (whole := name + side.end) in params:
                params[whole] += share
            else:
                params[whole] = share

    def _in_order(self, params: Arrays | None) -> Arrays:
        return {} if params is None else {name: params[name] for name in self._store.shapes}

    # ------------------------------------------------------------ checks of arrays

    def _check(self, what: str, array: Any, shape: tuple[str | int, ...]) -> Array:
        return check_array(self.name, what, array, shape, self.dtype, self.device)

    def _check_d_y(self, d_y: Array | None, T: int, B: int) -> Array:
        """Return the gradient of y, time first; zero if it is None. Raises ShapeError."""
        if d_y is None:
            return zeros_of(self.device.xp, (T, B, self.output_size), self.dtype)
        if self.batch_first:
            return self._check("d_y", d_y, (B, T, self.output_size)).swapaxes(0, 1)
        return self._check("d_y", d_y, (T, B, self.output_size))
