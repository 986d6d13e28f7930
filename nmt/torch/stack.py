"""Layers of cells over the tensors of a torch module: their weights, runs with and without gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn.utils.rnn import PackedSequence

from nmt.errors import NMTError
from nmt.rnn import tuning
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Fresh, Idle, Workspace, zeros_of
from nmt.rnn.cell import Cell, Param, axes_of
from nmt.rnn.scan.layered import LayersBySize, LayerSide, PreparedLayers
from nmt.rnn.scan.passes import Tape
from nmt.rnn.scan.scan import Scan
from nmt.system.interruption import forkable

_SAMPLE = 16
_said: set[str] = set()


def say_once(text: str) -> None:
    """Warn of something once in a process."""
    if text not in _said:
        _said.add(text)
        warnings.warn(f"nmt.torch: {text}", RuntimeWarning, stacklevel=4)


def array_of(tensor: Tensor) -> np.ndarray:
    """Return the array of the same memory."""
    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()


def mode() -> str | None:
    """Return the mode of torch in which the core cannot compute, as a warning names it; None if there is none."""
    if torch.is_autocast_enabled("cpu"):
        return "autocast"
    if forward_ad._current_level >= 0 or torch._C._functorch.maybe_current_level() is not None:
        return "transforms of functions and forward-mode gradients"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() or torch._C._len_torch_dispatch_stack():
        return "compiled, traced and exported code"
    return None


def obstacle(tensors: Iterable[Tensor]) -> str | None:
    """Return why the core cannot compute with these tensors, as a warning names it; None if it can."""
    dtype = None
    for one in tensors:
        dtype = dtype or one.dtype
        if type(one) is not Tensor and type(one) is not torch.nn.Parameter:
            return f"tensors of the type {type(one).__name__}"
        if one.device.type != "cpu" or one.layout is not torch.strided:
            return f"tensors on {one.device.type}, {one.layout}"
        if one.dtype is not dtype:
            return f"tensors of {dtype} and {one.dtype}"
        if dtype not in (torch.float32, torch.float64):
            return f"tensors of {dtype}"
    return None


def padded(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """Return a packed sequence as x [T, B, D], rows sorted by length, and their lengths."""
    sizes = packed.batch_sizes
    x, lengths = torch._VF._pad_packed_sequence(packed.data, sizes, False, 0.0, len(sizes))
    return x, lengths


def repacked(packed: PackedSequence, y: Tensor, lengths: Tensor) -> PackedSequence:
    """Return y [T, B, n] packed as another sequence of the same lengths."""
    return packed._replace(data=torch._VF._pack_padded_sequence(y, lengths, False)[0])


class Seen:
    """A parameter as it was when its numbers were taken."""

    def __init__(self, tensor: Tensor) -> None:
        flat = array_of(tensor)
        self._tensor, self._place, self._version = tensor, tensor.data_ptr(), _version(tensor)
        self._is_plain = flat.flags.c_contiguous
        self._some = flat.reshape(-1)[:: max(1, flat.size // _SAMPLE)]
        self._numbers, self._copy = self._some.tobytes(), tensor.detach().clone()

    def is_same(self, tensor: Tensor) -> bool:
        """Return whether this is that parameter, and unchanged. What is written through `.data`, or an array of the
        same memory, counts no version: it is noticed if it changes one of some of the numbers, as most of what does so
        will."""
        return (
            tensor is self._tensor
            and tensor.data_ptr() == self._place
            and self._is_plain
            and _version(tensor) == self._version
            and self._some.tobytes() == self._numbers
        )

    def is_whole(self, tensor: Tensor) -> bool:
        """Return the same, with a look at all numbers."""
        return self.is_same(tensor) and torch.equal(self._copy, tensor)


def _version(tensor: Tensor) -> int:
    """Return how often a tensor was written to; tensors of the inference mode do not count."""
    return -1 if tensor.is_inference() else tensor._version


Reference = Callable[..., tuple[Tensor, ...]]
"""A function that computes a layer with torch's own operations, from the tensors that a `Pass` takes."""


@dataclass(frozen=True)
class Source:
    """The positions of tensors whose sum is a cell's parameter; `transposed`: as torch stores them, [out, in]."""

    at: tuple[int, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Call:
    """A run of one layer, besides its tensors."""

    layer: int
    weights: Sequence[Tensor]
    """The parameters of all layers."""
    version: object
    """The result of `Stack.read` for them."""
    inputs: tuple[str, ...]
    """The names of the tensors before the parameters: x, the states that are given, captured arrays, sequences."""
    lengths: Sequence[int] | np.ndarray | None = None
    source_lengths: Sequence[int] | np.ndarray | None = None
    seed: int = 0
    reference: Reference | None = None


@dataclass(frozen=True)
class Kept:
    """A forward pass that waits for its backward: a tape for each direction, and the memory in which they are."""

    scan: Scan
    needs: frozenset[str]
    tapes: list[Tape]
    memory: Workspace


class Stack:
    """Layers of one dtype, the same directions in each; any number of threads may run it."""

    def __init__(
        self, cells: Sequence[Cell], sources: Mapping[str, Source], dtype: torch.dtype, ends: Sequence[str]
    ) -> None:
        """Prepare layers. sources: of the cells' parameters; ends: `forward`, `backward` or both, in this order."""
        self.cells, self.sources, self.ends = cells, sources, tuple(ends)
        self.states = list(cells[0].states())
        self.dtype = torch.empty((), dtype=dtype).numpy().dtype
        self._scans: dict[tuple[int, frozenset[str] | None], Scan] = {}
        self.weights = Weights()
        """The numbers that `read` took last, below `LAYER.END.`."""
        self._targets: list[list[tuple[Tensor, Source]]] = []
        self._seen: list[Seen] = []
        self._lock = forkable(RLock())
        self._idle = Idle(Workspace)
        plain = self.ends[0] == "forward" and not (cells[0].captured() or cells[0].sequences())
        widths = [n for cell in cells for n in (cell.input_size, cell.output_size, *cell.states().values())]
        self._may_be_short = plain and all(len(axes_of(n)) == 1 for n in widths)
        # By number of threads: a version of the weights, and the prepared layers that are valid for it. They are one
        # value, so that no thread can read the layers of one version under the key of another.
        self._prepared: dict[int, tuple[object, LayersBySize]] = {}

    def _scan(self, layer: int, needs: frozenset[str] | None = None) -> Scan:
        """Return the scan of a layer whose backward pass computes the gradients of `needs`, None for all."""
        key = layer, needs
        if key not in self._scans:
            self._scans[key] = Scan(self.cells[layer], dtype=self.dtype, needs=needs)
        return self._scans[key]

    # ------------------------------------------------------------ weights

    def has_read(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether the numbers of all parameters are those that were taken last, see `Seen.is_same`."""
        return len(self._seen) == len(tensors) and all(map(Seen.is_same, self._seen, tensors))

    def read(self, tensors: Sequence[Tensor]) -> object:
        """Take the numbers of all parameters, by layer and direction, unless they are those that were taken last;
        return an object that is another one after each change of them."""
        with self._lock, torch.no_grad():
            if len(self._seen) == len(tensors) and all(map(Seen.is_whole, self._seen, tensors)):
                return self.weights.version
            if not self._targets:
                self._targets = [self._make(cell, n, end) for n, cell in enumerate(self.cells) for end in self.ends]
            each = len(tensors) // len(self._targets)
            for n, targets in enumerate(self._targets):
                own = tensors[n * each : (n + 1) * each]
                for target, source in targets:
                    first, *rest = (own[at].t() if source.transposed else own[at] for at in source.at)
                    if first.shape != target.shape:  # which would be repeated
                        raise NMTError(f"nmt.torch: a parameter must be {[*target.shape]}, got {[*first.shape]}")
                    target.copy_(sum(rest, first))
            self.weights.changed()
            self._seen = [Seen(one) for one in tensors]
            return self.weights.version

    def _make(self, cell: Cell, layer: int, end: str) -> list[tuple[Tensor, Source]]:
        """Allocate the weights of one direction; return them as tensors of the same memory."""
        view, found = self.weights.view(f"{layer}.{end}"), []
        for name, param in cell.params().items():
            view[name] = zeros_of(np, param.shape, self.dtype)
            found.append((torch.from_numpy(view[name]), self.sources[name]))
        return found

    # ------------------------------------------------------------ runs

    def records(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether a run of these tensors keeps what its backward pass needs."""
        return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)

    def short(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
        """Return y [T, B, n] and the final states [L * directions, B, n] of a run of all layers without gradients over
        few whole rows; None if it is not that short."""
        array, threads, version = array_of(x), torch.get_num_threads(), self.weights.version
        if not (self._may_be_short and 0 < array.shape[0] * array.shape[1] <= tuning.SHORT_ROWS):
            return None
        given: list[Any] = [*map(array_of, states)] or [None] * len(self.states)
        known, sizes = self._prepared.get(threads) or (None, None)
        if known is not version or sizes is None:
            layers = [self._sides(n) for n in range(len(self.cells))]
            joins = [np.concatenate] * len(given)
            sizes = LayersBySize(partial(PreparedLayers, layers, joins, threads=threads), tuning.SENTENCE_SIZES)
            self._prepared[threads] = version, sizes
        return tuple(map(torch.from_numpy, sizes(array, given)))

    def _sides(self, layer: int) -> list[LayerSide]:
        """Return the directions of a layer, each with its weights."""
        scan, views = self._scan(layer), [self.weights.view(f"{layer}.{end}") for end in self.ends]
        return [LayerSide(scan, view, (), "", reverse=n == 1) for n, view in enumerate(views)]

    def __call__(self, call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run one layer; return y [T, B, directions * n] and the final states. tensors: those of `call.inputs`, x [T,
        B, D], states [directions, B, n] and others as `Scan.forward` takes them; then each direction's parameters."""
        if self.records(tensors):
            return Pass.apply(self, call, *tensors)
        outputs, _ = self.forward(call, tensors, None)
        return outputs

    def forward(
        self, call: Call, tensors: Sequence[Tensor], needs: frozenset[str] | None
    ) -> tuple[tuple[Tensor, ...], Kept | None]:
        """Return the outputs of a run; and, with `needs`, what its backward pass needs."""
        arrays = dict(zip(call.inputs, map(array_of, tensors), strict=False))
        cell, scan, memory = self.cells[call.layer], self._scan(call.layer, needs), self._memory()
        alone = len(self.ends) == 1
        results = [
            scan.forward(
                self.weights.view(f"{call.layer}.{end}"),
                arrays["x"],
                {name: arrays[name][side] for name in self.states if name in arrays},
                lengths=call.lengths,
                captured={name: arrays[name] for name in cell.captured() if name in arrays},
                source_lengths=call.source_lengths,
                sequences={name: arrays[name] for name in cell.sequences() if name in arrays},
                reverse=end == "backward",
                training=needs is not None,
                seed=call.seed,
                allocate=memory,
                outputs=Fresh() if alone else None,
                threads=torch.get_num_threads(),
            )
            for side, end in enumerate(self.ends)
        ]
        y = results[0].y if alone else np.concatenate([result.y for result in results], axis=-1)
        final = [np.stack([result.final[name] for result in results]) for name in self.states]
        outputs = tuple(map(torch.from_numpy, (y, *final)))
        if needs is not None:
            return outputs, Kept(scan, needs, [result.tape for result in results], memory)
        self._idle.give(memory)
        return outputs, None

    def backward(self, call: Call, kept: Kept, count: int, d_outputs: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return gradients of the `count` tensors of a run, None for those not needed. The tape is freed."""
        d_y, *d_final = [None if d is None else array_of(d) for d in d_outputs]
        width, scratch = kept.scan.cell.output_size, self._memory()
        inputs: dict[str, list[np.ndarray]] = {name: [] for name in call.inputs}
        params: list[Tensor | None] = []
        each = (count - len(inputs)) // len(self.ends)
        for side, tape in enumerate(kept.tapes):
            tape.allocate = scratch
            named = ((name, param) for name, param in kept.scan.params.items() if name in kept.needs)
            shares = {name: self._share(name, param, scratch) for name, param in named}
            found = kept.scan.backward(
                tape,
                None if d_y is None else np.ascontiguousarray(d_y[..., side * width : (side + 1) * width]),
                {name: d[side] for name, d in zip(self.states, d_final, strict=True) if d is not None},
                shares,
                outputs=Fresh(),
            )
            lent = {**found.captured, **found.sequences}  # in memory that is used again
            own = {"x": found.x, **found.initial, **{name: array.copy() for name, array in lent.items()}}
            for name in inputs:
                one = own.get(name)
                if one is not None:
                    inputs[name].append(one)
            params += self._of_params(shares, each)
        joined = [self._joined(name, shares_of) for name, shares_of in inputs.items()]
        self._idle.give(kept.memory)
        self._idle.give(scratch)
        return joined + params

    def _share(self, name: str, param: Param, scratch: Workspace) -> np.ndarray:
        """Return an array of zeros for the gradient of a parameter, in scratch memory if the gradient is copied
        afterwards because it is transposed."""
        if not self.sources[name].transposed:
            return zeros_of(np, param.shape, self.dtype)
        share = scratch(param.shape, self.dtype)
        share[...] = 0
        return share

    def _joined(self, name: str, shares: list[np.ndarray]) -> Tensor | None:
        """Return the gradient of an input: of a state, those of all directions, else their sum."""
        if not shares:
            return None
        return torch.from_numpy(np.stack(shares) if name in self.states else sum(shares[1:], shares[0]))

    def _of_params(self, shares: Mapping[str, np.ndarray], count: int) -> list[Tensor | None]:
        """Return gradients of one direction's tensors from those of the cell's parameters."""
        found: list[Tensor | None] = [None] * count
        for name, share in shares.items():
            source, tensor = self.sources[name], torch.from_numpy(share)
            # In new memory, even where a matrix of one row is laid out as its transpose.
            whole = tensor.t().clone(memory_format=torch.contiguous_format) if source.transposed else tensor
            for n, at in enumerate(source.at):
                found[at] = whole.clone() if n else whole
        return found

    def needs(self, call: Call, needed: Sequence[bool]) -> frozenset[str]:
        """Return the names whose gradients a backward pass computes, from whether each tensor needs one."""
        count = len(call.inputs)
        names = {name for name, is_needed in zip(call.inputs, needed, strict=False) if is_needed} - {*self.states}
        each = (len(needed) - count) // len(self.ends)
        of_params = [any(needed[count + at :: each]) for at in range(each)]
        own = (name for name in self.cells[call.layer].params() if any(of_params[at] for at in self.sources[name].at))
        return frozenset(names).union(own)

    def _memory(self) -> Workspace:
        """Return memory for a pass; allocating large memory again takes a tenth of a pass."""
        memory = self._idle.take()
        memory.reset()
        return memory


class Pass(Function):
    """A run of one layer as a node of torch's graph."""

    @staticmethod
    def forward(ctx: Any, stack: Stack, call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of `Stack.__call__`."""
        ctx.set_materialize_grads(False)
        ctx.stack, ctx.call, ctx.count = stack, call, len(tensors)
        ctx.needs = stack.needs(call, ctx.needs_input_grad[2:])
        outputs, ctx.kept = stack.forward(call, tensors, ctx.needs)
        ctx.save_for_backward(*tensors, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *d_outputs: Tensor | None) -> tuple[Any, ...]:
        """Return all tensors' gradients. Raises NMTError: they are to be differentiated, the cell is not torch's."""
        tensors = ctx.saved_tensors[: ctx.count]  # torch raises an error if one has changed
        if torch.is_grad_enabled():
            return None, None, *_differentiable(ctx, tensors, d_outputs)
        if ctx.stack.weights.version is not ctx.call.version:  # run with other numbers since
            ctx.stack.read(ctx.call.weights)
        kept, ctx.kept = ctx.kept, None
        if kept is None:  # a second time, by retain_graph: the first took the memory
            with torch.no_grad():
                _, kept = ctx.stack.forward(ctx.call, tensors, ctx.needs)
        return None, None, *ctx.stack.backward(ctx.call, kept, ctx.count, d_outputs)


def _differentiable(ctx: Any, tensors: Sequence[Tensor], d_outputs: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the gradients by torch's own operations, so that they have gradients themselves. Raises NMTError."""
    name = type(ctx.stack.cells[0]).__name__
    if ctx.call.reference is None:
        raise NMTError(f"nmt.torch: create_graph must be False with a {name}, got True; its gradients have none")
    say_once("second derivatives are computed by torch's own layers")
    outputs = ctx.call.reference(*tensors)
    ys, ds = zip(*((y, d) for y, d in zip(outputs, d_outputs, strict=True) if d is not None), strict=True)
    wanted = [one for one, is_needed in zip(tensors, ctx.needs_input_grad[2:], strict=True) if is_needed]
    found = iter(torch.autograd.grad(ys, wanted, ds, create_graph=True, allow_unused=True))
    return [next(found) if is_needed else None for is_needed in ctx.needs_input_grad[2:]]
