"""Pass 1, trace: run a cell's step once on symbolic values; take out what is constant over time.

Values that depend only on captured arrays and parameters (an attention's keys) become a second, small graph, run once
per sequence. The step reads its results as arrays named `K_invariant0`, ... With this split the backward loop sums the
gradient of the keys over time first and goes through the product behind them once.

A cell's declarations and its step's results are checked here once: they are an author's code, and may be wrong. A value
that is not requested is never built: a pass that needs no gradient of a matrix has no product for it, and
stores nothing for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import ArrayKind, Numbered, output
from nmt.rnn.cell import Captured, Cell, Param, Scope, State, check_is_cell, dims_of
from nmt.rnn.graph import Graph, Value, derived, topological
from nmt.rnn.named_axes import shown as axes_shown
from nmt.rnn.ops import OpKind
from nmt.rnn.own_code import own_code, place_of, shown


@dataclass(frozen=True)
class Mask:
    """A dropout mask the step reads: per step, or one for the whole sequence."""

    name: str
    width: int
    rate: float
    variational: bool

    @property
    def array(self) -> str:
        """Return the name of the mask's array."""
        return ArrayKind.CONSTANT.of(self.name) if self.variational else self.name


@dataclass
class Trace:
    """One step as a graph: from `inputs` and `states` before it to `outputs` and `new` states.

    `leaves` are all its leaves, and `inputs` some of them, by the names of their arrays (see array_names.py). `named`
    are noted values that the caller gives the compiler instructions for, by name; they need not be outputs. `noted` are
    all noted values of a step as it was written; a step split from it has those that it still computes. `invariants` is
    the step that computes, once per sequence, the arrays named `K_invariant0`, ..."""

    graph: Graph
    inputs: dict[str, Value]
    states: dict[str, Value]
    outputs: dict[str, Value]
    new: dict[str, Value]
    leaves: dict[str, Value]
    masks: list[Mask] = field(default_factory=list)
    invariants: Trace | None = None
    named: dict[str, Value] = field(default_factory=dict)
    noted: dict[str, Value] = field(default_factory=dict)


def trace(
    cell: Cell, *, training: bool, cut: bool = True, record: Collection[str] = (), named: Collection[str] = ()
) -> Trace:
    """Trace `cell.step` for one kind of run; see `trace_step` and `ready`. Raises ShapeError."""
    return ready(type(cell).__name__, trace_step(cell, training=training), cut=cut, record=record, named=named)


def ready(
    name: str, whole: Trace, *, cut: bool = True, record: Collection[str] = (), named: Collection[str] = ()
) -> Trace:
    """Return `whole` prepared for the passes, with other outputs, in a new graph. With `cut` False invariants stay in
    the graph, as the interpreter needs it. name: of the cell, for errors. record: names of noted values that become
    outputs, `N_` before their names; named: those listed in `Trace.named`. Raises ShapeError."""
    _check_noted(name, "record", record, whole.noted)
    _check_noted(name, "keep", named, whole.noted)
    outputs = {**whole.outputs, **_recorded(whole.noted, record)}
    found = replace(whole, outputs=outputs, named={name: whole.noted[name] for name in named})
    return _cut_invariants(found) if cut else found


def trace_step(cell: Cell, *, training: bool) -> Trace:
    """Run `cell.step` once on symbolic values. Raises ShapeError: the step or the cell's declarations do not fit, with
    the place in the author's file; or they raise something themselves."""
    graph = Graph()
    declared = Declared(cell)
    params, captured = dict[str, Value](), dict[str, Value]()
    for name, param in declared.params.items():
        rows = {"rows": param.shape[0]} if len(param.shape) == 2 else {}
        params[name] = graph.leaf("param", name, (), param.shape[-1], **rows)
    for name, one in declared.captured.items():
        axes = ("S", "B") if one.source_axis else ("B",)
        captured[name] = graph.leaf("captured", ArrayKind.CAPTURED.of(name), axes, one.width)
    leaves = {ArrayKind.PARAMETER.of(name): v for name, v in params.items()}
    leaves |= {ArrayKind.CAPTURED.of(name): v for name, v in captured.items()}
    masks: list[Mask] = []

    def dropout(x: Value, rate: float, variational: bool) -> Value:
        if not training:
            return x
        if x.width is None:
            raise ShapeError("dropout: the value must have a feature axis, got one number per row")
        mask = Mask(Numbered.MASK.of(len(masks)), x.width, rate, variational)
        masks.append(mask)
        leaves[mask.array] = graph.leaf("captured" if variational else "input", mask.array, ("B",), x.width)
        return x * (graph.apply("axes", leaves[mask.array], dims=x.dims) if x.dims else leaves[mask.array])

    read = {"x": ("x", declared.input_size)}
    read |= {name: (ArrayKind.SEQUENCE.of(name), width) for name, width in declared.sequences.items()}
    readable = params | captured
    readable |= {name: graph.leaf("input", array, ("B",), width) for name, (array, width) in read.items()}
    inputs = {array: readable[name] for name, (array, _) in read.items()}
    leaves |= inputs
    noted: dict[str, Value] = {}

    def note(name: str, v: Value) -> None:
        if not isinstance(v, Value):
            raise ShapeError(f"note: {name} must be a value of the step, got {type(v).__name__}")
        noted[name] = v

    states = {
        name: graph.leaf("state", ArrayKind.STATE.of(name), ("B",), width, dims=dims_of(width))
        for name, width in declared.states.items()
    }
    y, new = declared.results(graph, cell.step, Scope(readable, dropout, note), inputs["x"], State(states))
    leaves |= {v.attrs["name"]: v for v in states.values()}
    return Trace(graph, inputs, states, {"y": y}, new, leaves, masks, noted=noted)


def _check_noted(cell: str, option: str, names: Collection[str], noted: Mapping[str, Value]) -> None:
    unknown = sorted(set(names) - set(noted))
    if unknown:
        known = ", ".join(noted) or "none"
        raise ShapeError(f"{cell}: {option} must name values that the step notes, {known}, got {', '.join(unknown)}")


def _recorded(noted: Mapping[str, Value], record: Collection[str]) -> dict[str, Value]:
    """Return the noted values of these names, each broadcast to one entry per row."""
    found: dict[str, Value] = {}
    for name in record:
        v = noted[name].graph.apply("flat", noted[name])
        axes = v.axes if "B" in v.axes else (*v.axes, "B")
        found[ArrayKind.NOTED.of(name)] = v.graph.apply("expand", v, axes=axes, width=v.width)
    return found


def rebuild(roots: list[Value], graph: Graph, known: dict[int, Value]) -> list[Value]:
    """Return the same expressions in another graph; `known` maps old ids to values of the new one and grows."""
    for v in topological(roots, stop=set(known)):
        if v.id in known:
            continue
        if v.kind is OpKind.LEAF and v.op not in ("const", "rows_of"):
            attrs = dict(v.attrs)
            known[v.id] = graph.leaf(v.op, attrs.pop("name"), v.axes, v.width, **attrs)
        else:
            args = tuple(known[a.id] for a in v.args)
            known[v.id] = graph._make(v.op, args, v.axes, v.width, v.attrs)
    return [known[r.id] for r in roots]


def _cut_invariants(whole: Trace) -> Trace:
    """Return the step without the values that it computes from captured arrays only. The values cut are those that a
    value changing over time reads, or that are outputs."""
    roots = [*whole.outputs.values(), *whole.new.values()]
    order = topological(roots)
    moving = derived(order, lambda v: v.op in ("input", "state"))
    given = derived(order, lambda v: v.op == "captured")  # values that depend on a constant array
    read = [a for v in order if v.id in moving for a in v.args]
    # Of a view of a captured array nothing has to be computed.
    still = (v for v in [*read, *roots] if v.id in given - moving and v.span[0].kind is not OpKind.LEAF)
    frontier = list({v.id: v for v in still}.values())
    if not frontier:
        return whole
    constant = {ArrayKind.CONSTANT.of(Numbered.INVARIANT.of(n)): value for n, value in enumerate(frontier)}
    small = replace(small_step(whole, constant, {"captured"}), masks=[m for m in whole.masks if m.variational])
    return replace(cut_out(whole, constant), masks=whole.masks, invariants=small)


def cut_out(whole: Trace, values: Mapping[str, Value]) -> Trace:
    """Return the step that reads these values from arrays of the given names instead of computing them."""
    roots = [*whole.outputs.values(), *whole.new.values()]
    graph, known = Graph(whole.graph.order), {}
    for name, value in values.items():
        known[value.id] = graph.leaf("captured", name, value.axes, value.width, dims=value.dims)
    new_roots = rebuild(roots, graph, known)
    used = {v.id for v in topological(new_roots)}
    pointed = dict(zip(whole.named, rebuild(list(whole.named.values()), graph, known), strict=True))
    leaves = {k: rebuild([v], graph, known)[0] for k, v in whole.leaves.items()}
    always = {*whole.inputs, *map(ArrayKind.STATE.of, whole.states)}
    leaves = {k: v for k, v in leaves.items() if v.id in used or k in always}
    leaves |= {name: known[v.id] for name, v in values.items()}
    return Trace(
        graph,
        {k: leaves[k] for k in whole.inputs},
        {k: leaves[ArrayKind.STATE.of(k)] for k in whole.states},
        dict(zip(whole.outputs, new_roots, strict=False)),
        dict(zip(whole.new, new_roots[len(whole.outputs) :], strict=True)),
        leaves,
        named=pointed,
        noted={k: known[v.id] for k, v in whole.noted.items() if v.id in known},
    )


def small_step(whole: Trace, values: Mapping[str, Value], sources: Collection[str]) -> Trace:
    """Return a step without states that computes these values. The leaves of the kinds in `sources` that it reads are
    its inputs, under the names of their arrays."""
    graph, known, inputs, leaves = Graph(whole.graph.order), {}, {}, {}
    needed = {v.id for v in topological(list(values.values()))}
    for name, v in whole.leaves.items():
        if v.id in needed and v.op in sources:
            known[v.id] = inputs[name] = leaves[name] = graph.leaf("input", name, v.axes, v.width, dims=v.dims)
    outputs = dict(zip(values, rebuild(list(values.values()), graph, known), strict=True))
    for name, v in whole.leaves.items():
        if v.id in needed and v.op == "param":
            leaves[name] = known[v.id]
    return Trace(graph, inputs, {}, outputs, {}, leaves)


class Declared:
    """A cell's sizes and names. Raises ShapeError: they have wrong types, or its methods raise."""

    def __init__(self, cell: Cell) -> None:
        check_is_cell("trace", cell)
        self.name = type(cell).__name__
        self.input_size = self._size(cell, "input_size")
        self.output_size = self._size(cell, "output_size")
        self.params: dict[str, Param] = self._named(cell.params, Param, "a Param")
        self.states: dict[str, int] = self._named(cell.states, int, "a width")
        self.captured: dict[str, Captured] = self._named(cell.captured, Captured, "a Captured")
        self.sequences: dict[str, int] = self._named(cell.sequences, int, "a width")
        self._check_names()
        self._check_starts(cell)

    def results(self, graph: Graph, step: Callable[..., Any], *given: Any) -> tuple[Value, dict[str, Value]]:
        """Run the step; return its output and new states, checked."""
        where = f"{self.name}.step"
        found, at = self._called("step", step, "must compute with the operations of nmt.rnn", *given)
        if not isinstance(found, tuple | list) or len(found) != 2 or not isinstance(found[1], Mapping):
            raise ShapeError(f"{where}: must return its output and a State, got {_kind(found)}{at}")
        y, new = found
        for name, value in {"output": y, **{f"state {k}": v for k, v in new.items()}}.items():
            if not isinstance(value, Value) or value.graph is not graph:
                got = "one of another call" if isinstance(value, Value) else type(value).__name__
                raise ShapeError(f"{where}: {name} must be a value computed from x, s and p, got {got}{at}")
        self._check(where, y, new, at)
        return y, dict(new)

    def _check(self, where: str, y: Value, new: Mapping[str, Value], at: str) -> None:
        if set(new) != set(self.states):
            promise = f"the State that it returns must have {', '.join(self.states)}"
            raise ShapeError(f"{where}: {promise}, got {', '.join(new) or 'none'}{at}")
        for name, value in new.items():
            width = self.states[name]
            if value.width != width or "S" in value.axes or value.dims != dims_of(width):
                wanted = axes_shown(dims_of(width)) or width
                raise ShapeError(f"{where}: state {name} must be [B, {wanted}], got {_shape(value)}{at}")
        if y.width != self.output_size or "S" in y.axes or y.dims:
            advice = "; use flat" if y.dims else ""
            raise ShapeError(f"{where}: output must be [B, {self.output_size}], got {_shape(y)}{advice}{at}")

    def _size(self, cell: Cell, what: str) -> int:
        size = getattr(cell, what, None)
        if not _is_size(size):
            advice = "; set it in __init__"
            raise ShapeError(f"{self.name}: {what} must be a whole number of at least 1, got {shown(size)}{advice}")
        return size  # type: ignore[return-value]

    def _check_names(self) -> None:
        """Check that everything a step reads from its scope, and a scan names in `needs`, has a distinct name."""
        names = Counter(["x", *self.params, *self.captured, *self.sequences])
        if twice := sorted(name for name, n in names.items() if n > 1):
            promise = "parameters, captured arrays, sequences and the input x must have different names"
            raise ShapeError(f"{self.name}: {promise}, got {shown(twice[0])} twice")

    def _check_starts(self, cell: Cell) -> None:
        """Check that initial values belong to existing states and vectors of the same width."""
        promise = "must return a tuple of names of its states"
        found, at = self._called("starts", cell.starts, promise)
        if not isinstance(found, tuple | list) or not all(isinstance(k, str) and k in self.states for k in found):
            raise ShapeError(f"{self.name}.starts: {promise}, got {shown(found)}{at}")
        promise = "must return a dict with a parameter as wide for names of its states"
        found, at = self._called("learned", cell.learned, promise)
        vectors = {name: param.shape for name, param in self.params.items()}
        fits = isinstance(found, dict) and found.keys() <= self.states.keys()
        if not fits or any(vectors.get(str(param)) != (self.states[name],) for name, param in found.items()):
            raise ShapeError(f"{self.name}.learned: {promise}, got {shown(found)}{at}")

    def _called(self, name: str, method: Callable[..., Any], promise: str, *given: Any) -> tuple[Any, str]:
        """Call a method; return its result, and its place in the source for an error."""
        with own_code(f"{self.name}.{name}:", promise, kind=ShapeError, of=method):
            found = method(*given)
        place = place_of(method)
        return found, f" ({place})" if place else ""

    def _named(self, method: Callable[[], Any], kind: type, words: str) -> Any:
        """Return a method's declarations by name, checked."""
        where, promise = f"{self.name}.{method.__name__}:", f"must return a dict with {words} for each name"
        found, at = self._called(method.__name__, method, promise)
        if not isinstance(found, dict):
            raise ShapeError(f"{where} {promise}, got {type(found).__name__}{at}")
        for name, value in found.items():
            fits = _is_size(value) if kind is int else isinstance(value, kind)
            if isinstance(value, Param):
                fits = isinstance(value.shape, tuple) and 0 < len(value.shape) < 3 and all(map(_is_size, value.shape))
            if not isinstance(name, str) or not fits:
                raise ShapeError(f"{where} {promise}, got {shown(value)} for {shown(name)}{at}")
        return found


def _shape(value: Value) -> str:
    """Return a value's shape as documents write it: `[B, 14]`, `[S, B, 7]`, `[B, h=2 k=4]`, `[B]`."""
    features = axes_shown(value.dims) or value.width
    return f"[{', '.join([*value.axes, *([str(features)] if features else [])])}]"


def _is_size(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _kind(found: Any) -> str:
    if not isinstance(found, tuple | list):
        return type(found).__name__
    return f"{len(found)} things: {', '.join(type(one).__name__ for one in found[:4])}" if found else "nothing"


@dataclass(frozen=True)
class Wanted:
    """Selected gradients and recorded values of a run. needs: leaves of the trace whose gradients are computed, by the
    names of their arrays, None for all; those of the initial states always are. receives: which outputs have an
    incoming gradient, `y` and recorded values by name; the final states always may. record: names of noted values
    (`Scope.note`) to store for every step."""

    needs: frozenset[str] | None = None
    receives: frozenset[str] = frozenset({"y"})
    record: tuple[str, ...] = ()

    @property
    def cotangents(self) -> frozenset[str]:
        """Return `receives` by the names of a trace's outputs."""
        return frozenset(map(output, self.receives))

    def through(self, invariants: Trace) -> frozenset[str]:
        """Return the values of the small step through which a wanted gradient flows."""
        needed = {v.id for name, v in invariants.leaves.items() if self.needs is None or name in self.needs}
        outputs = invariants.outputs.items()
        return frozenset(name for name, value in outputs if any(v.id in needed for v in topological([value])))


def wanted(
    cell: Cell, needs: Collection[str] | None, receives: Collection[str] | None, record: Iterable[str]
) -> Wanted:
    """Return what a scan of a cell must compute; `receives` None is `y`. Raises ShapeError: an unknown name."""
    where, record = type(cell).__name__, tuple(record)
    known = {"x": "x"} | {name: ArrayKind.SEQUENCE.of(name) for name in cell.sequences()}
    known |= {name: ArrayKind.CAPTURED.of(name) for name in cell.captured()}
    known |= {name: ArrayKind.PARAMETER.of(name) for name in cell.params()}
    _check(f"{where}: needs", needs, {*known})
    if "y" in record:
        raise ShapeError(f"{where}: record must name noted values other than the output y, got y; note it as another")
    _check(f"{where}: receives", receives, {"y", *record})
    return Wanted(
        None if needs is None else frozenset(known[name] for name in needs),
        frozenset({"y"} if receives is None else receives),
        record,
    )


def _check(where: str, names: Collection[str] | None, known: set[str]) -> None:
    is_none = names is not None and not isinstance(names, list | tuple | Set)
    unknown = set() if is_none else set(names or ()) - known
    if is_none or unknown:
        got = names if isinstance(names, str) else shown(names) if is_none else ", ".join(sorted(map(str, unknown)))
        raise ShapeError(f"{where} must be a collection of names among {', '.join(sorted(known))}, got {got}")
