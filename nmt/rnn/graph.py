"""Symbolic values: a traced step is a graph of them.

Equal expressions are one value (hash-consing), so what the author or the differentiator writes twice is computed once.
Axes: `S` source steps, `B` rows; the feature axis, if there is one, is last and has a known width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nmt.errors import ShapeError
from nmt.rnn import named_axes
from nmt.rnn.ops import OPS, Op, OpKind

AXES = ("S", "B")
_VIEWS = frozenset({"slice", "axes", "flat"})


@dataclass(eq=False, slots=True)
class Value:
    """A node of a step in single assignment: `op(*args)` with axes, a width (None: one number per row) and attributes.
    `id` is its place in the graph."""

    graph: Graph
    id: int
    op: str
    args: tuple[Value, ...]
    axes: tuple[str, ...]
    width: int | None
    attrs: dict[str, Any]

    @property
    def rule(self) -> Op:
        """Return the operation's entry in the table `ops.OPS`."""
        return OPS[self.op]

    @property
    def kind(self) -> OpKind:
        """Return how the compiler treats it (see `ops.Op`)."""
        return OPS[self.op].kind

    @property
    def dims(self) -> tuple[tuple[str, int], ...]:
        """Return its named feature axes and their sizes, whose product is the width; none if there is one axis."""
        return self.attrs.get("dims", ())

    @property
    def is_elementwise(self) -> bool:
        """Return whether it is computed number by number."""
        return self.kind is OpKind.ELEMENTWISE

    @property
    def is_view(self) -> bool:
        """Return whether this value is a view: its argument's memory, or part of it, in another shape."""
        return self.op in _VIEWS

    @property
    def span(self) -> tuple[Value, int]:
        """Return the value in whose memory this view lies, and its first column there; if no view, itself and 0."""
        v, start = self, 0
        while v.op in _VIEWS:
            start += v.attrs.get("start", 0)
            v = v.args[0]
        return v, start

    def __repr__(self) -> str:
        args = " ".join(f"v{a.id}" for a in self.args)
        return f"v{self.id} = {self.op}({args}) [{' '.join(self.axes)} {self.width or ''}] {self.attrs or ''}"

    def __add__(self, other: Value | float) -> Value:
        return self.graph.apply("add", self, other)

    def __radd__(self, other: float) -> Value:
        return self.graph.apply("add", other, self)

    def __sub__(self, other: Value | float) -> Value:
        return self.graph.apply("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.graph.apply("sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self.graph.apply("mul", self, other)

    def __rmul__(self, other: float) -> Value:
        return self.graph.apply("mul", other, self)

    def __truediv__(self, other: Value | float) -> Value:
        return self.graph.apply("div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.graph.apply("div", other, self)

    def __neg__(self) -> Value:
        return self.graph.apply("neg", self)

    def __matmul__(self, weight: Value) -> Value:
        if not isinstance(weight, Value):
            return NotImplemented  # a substitute for a weight computes the product itself
        return self.graph.apply("matmul", self, weight, transposed=False)

    def __getattr__(self, name: str) -> Value:
        """Raise ShapeError: an author took the value for an array."""
        if name.startswith("__"):
            raise AttributeError(name)
        known = "+ - * / @, split, concat, sigmoid, tanh, relu, exp, softplus, sqrt, maximum, positive, mean, dot"
        raise ShapeError(f"a value of a step, which is traced once without numbers, has no .{name}; there are {known}")

    def __gt__(self, other: Value | float) -> bool:
        """Raise ShapeError: an author's step branches on the value."""
        advice = "positive(x) is 1 where x > 0"
        raise ShapeError(f"a step is traced once without numbers and cannot branch on them; {advice}")

    __lt__ = __ge__ = __le__ = __gt__


class Graph:
    """All values of one traced step, in the order of their creation (which is a topological order)."""

    def __init__(self, order: Iterable[str] = ()) -> None:
        """Make an empty graph; order: named axes whose order is known already."""
        self.values: list[Value] = []
        self.order = list(order)
        """Named axes as they were first used, the order of loops and memory."""
        self._known: dict[tuple[Any, ...], Value] = {}

    def leaf(self, op: str, name: str, axes: Iterable[str] = ("B",), width: int | None = None, **attrs: Any) -> Value:
        """Return a value given from outside: a parameter, an input, a state, a captured array, a cotangent."""
        ordered = tuple(a for a in AXES if a in set(axes))
        dims = attrs.pop("dims", ())
        self.order += [axis for axis, _ in dims if axis not in self.order]
        return self._make(op, (), ordered, width, {"name": name, **attrs, **named_axes.attribute(dims)})

    def const(self, number: float) -> Value:
        """Return a constant, the same for all rows. Raises ShapeError: it is not a number."""
        try:
            value = float(number)
        except (TypeError, ValueError):
            got = type(number).__name__
            raise ShapeError(f"step: operands must be values of the step or numbers, got {got}") from None
        return self._make("const", (), (), None, {"value": value})

    def apply(self, op: str, *arguments: Value | float, **attrs: Any) -> Value:
        """Build `op(*arguments)`, simplified where that is free; raises ShapeError when the shapes do not fit."""
        args = tuple(a if isinstance(a, Value) else self.const(a) for a in arguments)
        if any(a.graph is not self for a in args):
            raise ShapeError(f"{op}: values must be of one call of step, got one kept from another; compute it again")
        return _BUILDERS.get(op, _elementwise)(self, op, args, attrs)

    def _make(
        self, op: str, args: tuple[Value, ...], axes: tuple[str, ...], width: int | None, attrs: dict[str, Any]
    ) -> Value:
        """Return the value with these arguments, existing or new. The caller must have checked the shapes."""
        key = (op, tuple(a.id for a in args), axes, width, tuple(sorted(attrs.items())))
        if key not in self._known:
            self._known[key] = Value(self, len(self.values), op, args, axes, width, attrs)
            self.values.append(self._known[key])
        return self._known[key]

    def copied(self) -> Graph:
        """Return a new graph with the same values under the same ids; passes add values to the graph they are given."""
        graph = Graph(self.order)
        for v in self.values:
            args = tuple(graph.values[a.id] for a in v.args)
            graph.values.append(Value(graph, v.id, v.op, args, v.axes, v.width, dict(v.attrs)))
        graph._known = dict(zip(self._known, graph.values, strict=True))
        return graph


def reached(roots: Iterable[Value], goes_on: Callable[[Value], bool]) -> dict[int, Value]:
    """Return the roots and the values that they need, by id; the arguments of a value only if it `goes_on`."""
    found: dict[int, Value] = {}
    pending = list(roots)
    while pending:
        value = pending.pop()
        if value.id not in found:
            found[value.id] = value
            if goes_on(value):
                pending.extend(value.args)
    return found


def topological(roots: Iterable[Value], stop: set[int] | frozenset[int] = frozenset()) -> list[Value]:
    """Return all values the roots need, arguments first; does not go beyond the values whose ids are in `stop`."""
    found = reached(roots, lambda v: v.id not in stop)
    return [found[i] for i in sorted(found)]  # ids grow from arguments to results


def derived(order: Iterable[Value], given: Callable[[Value], bool]) -> set[int]:
    """Return the ids of the `given` values and of all that are computed from one. order: values, arguments first."""
    found: set[int] = set()
    for v in order:
        if given(v) or any(a.id in found for a in v.args):
            found.add(v.id)
    return found


def shown(v: Value) -> str:
    """Return a leaf's name, or the operation that computes a value, for an error."""
    name = v.attrs.get("name", f"the result of {v.op}")
    return name[2:] if v.op in ("state", "captured") else name  # without the prefix of its kind of array


def _is_matrix(v: Value) -> bool:
    """Return whether a value is a matrix parameter, or rows of one."""
    return v.op in ("param", "rows_of") and "rows" in v.attrs


def _elementwise(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return an elementwise operation: the operands' widths are equal or None, and the result has all their axes."""
    for a in args:
        if _is_matrix(a):
            raise ShapeError(
                f"{op}: the operands must be vectors or rows, got the matrix parameter {shown(a)} [{a.attrs['rows']}, "
                f"{a.width}]; multiply by it, x @ p.{shown(a)}, or declare a vector"
            )
    simple = _simplify(graph, op, args)
    if simple is not None:
        return simple
    if any(a.dims for a in args):
        return named_axes.elementwise(graph, op, args)
    widths = {a.width for a in args if a.width is not None}
    if len(widths) > 1:
        shapes = ", ".join(f"{a.width} ({shown(a)})" for a in args)
        raise ShapeError(f"{op}: widths must be equal, got {shapes}; check the cell's parameters")
    axes = tuple(x for x in AXES if any(x in a.axes for a in args))
    return graph._make(op, args, axes, widths.pop() if widths else None, attrs)


def _simplify(graph: Graph, op: str, args: tuple[Value, ...]) -> Value | None:
    """Simplify `x + 0`, `x * 1`, `x * 0` and constants; these come from gradients of constants and of gaps."""
    if op == "neg":
        if args[0].op == "const":
            return graph.const(-args[0].attrs["value"])
        return args[0].args[0] if args[0].op == "neg" else None
    if op not in ("add", "sub", "mul") or len(args) != 2:
        return None
    a, b = _number(args[0], args[1]), _number(args[1], args[0])
    if a is not None and b is not None:
        number = graph.const(a + b if op == "add" else a - b if op == "sub" else a * b)
        return graph.apply("expand", number, axes=args[0].axes, width=args[0].width, dims=args[0].dims)
    if op == "mul":
        if a == 0 or b == 0:
            other = args[1] if a == 0 else args[0]
            return graph.apply("expand", graph.const(0.0), axes=other.axes, width=other.width, dims=other.dims)
        return args[1] if a == 1 else args[0] if b == 1 else None
    if b == 0:
        return args[0]
    if a == 0:
        return args[1] if op == "add" else graph.apply("neg", args[1])
    return None


def _number(v: Value, other: Value) -> float | None:
    """Return the number that all entries of `v` equal, if an operation of it with `other` has the shape of `other`."""
    if v.op == "expand" and set(v.axes) <= set(other.axes):
        v = v.args[0] if v.width is None or (v.width, v.dims) == (other.width, other.dims) else v
    return v.attrs["value"] if v.op == "const" else None


def _expand(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a value broadcast to more axes."""
    (x,) = args
    axes, width, dims = attrs["axes"], attrs["width"], attrs.get("dims", ())
    if x.axes == axes and x.width == width and x.dims == dims:
        return x
    return graph._make(op, args, axes, width, named_axes.attribute(dims))


def _sum_last(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a sum over features: one number per row."""
    (x,) = args
    if x.width is None or x.dims:
        got = f"{named_axes.shown(x.dims)}; use total" if x.dims else "one number per row"
        raise ShapeError(f"{op}: the value must have one feature axis, got {got}")
    return graph._make(op, args, x.axes, None, {})


def _over_s(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a softmax, or a sum, over source positions."""
    (x,) = args
    if "S" not in x.axes:
        raise ShapeError(f"{op}: the value must have the axis S, got axes {' '.join(x.axes) or 'none'}")
    return graph._make(op, args, x.axes if op == "softmax" else tuple(a for a in x.axes if a != "S"), x.width, {})


def _matmul(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a product with a matrix parameter. A product of a concatenation becomes a sum of products with the rows of
    the matrix that belong to each part."""
    x, w = args = graph.apply("flat", args[0]), args[1]
    transposed = attrs["transposed"]
    if not _is_matrix(w):
        advice = f"; write x @ p.{shown(x)}" * _is_matrix(x)
        raise ShapeError(f"matmul: the right side must be a matrix parameter, got {shown(w)}{advice}")
    if w.width is None or x.width is None:
        raise ShapeError("matmul: both sides must have a feature axis")
    rows, columns = w.attrs["rows"], w.width
    inner, outer = (columns, rows) if transposed else (rows, columns)
    if x.width != inner:
        raise ShapeError(f"matmul: {w.attrs['name']} must have {x.width} rows to fit its left side, got {inner}")
    if x.op == "concat" and not transposed:
        # [a; b] @ W = a @ W_a + b @ W_b, so that a part that needs no state can leave the time loop.
        total, start = None, 0
        for part in x.args:
            width = part.width or 0
            product = graph.apply("matmul", part, rows_of(w, start, width), transposed=False)
            total = product if total is None else total + product
            start += width
        if total is not None:
            return total
    if "B" not in x.axes:  # a product needs rows: a vector without rows is broadcast to all of them
        x = graph.apply("expand", x, axes=("B",), width=x.width)
        args = x, w
    return graph._make(op, args, x.axes, outer, {"transposed": transposed})


def rows_of(w: Value, start: int, size: int) -> Value:
    """Return rows [start, start + size) of a matrix parameter."""
    if start == 0 and size == w.attrs["rows"]:
        return w
    base, offset = (w.args[0], w.attrs["start"]) if w.op == "rows_of" else (w, 0)
    attrs = {"name": w.attrs["name"], "start": offset + start, "rows": size}
    return w.graph._make("rows_of", (base,), (), w.width, attrs)


def _concat(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a concatenation of features; every part is broadcast to the axes of all."""
    if any(a.width is None or a.dims for a in args):
        found = (f", got {named_axes.shown(a.dims)}; use flat" for a in args if a.dims)
        raise ShapeError(f"concat: every part must have a feature axis{next(found, '')}")
    if len(args) == 1:
        return args[0]
    axes = tuple(x for x in AXES if any(x in a.axes for a in args))
    args = tuple(graph.apply("expand", a, axes=axes, width=a.width) if a.axes != axes else a for a in args)
    return graph._make(op, args, axes, sum(a.width or 0 for a in args), {})


def _slice(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a slice, pushed down through elementwise operations until it meets memory."""
    (x,), start, size = args, attrs["start"], attrs["size"]
    if x.dims:
        raise ShapeError(f"slice: the value must have one feature axis, got {named_axes.shown(x.dims)}; use flat")
    if x.width is None or start < 0 or start + size > x.width:
        raise ShapeError(f"slice: [{start}, {start + size}) must lie within the width, got {x.width}")
    if start == 0 and size == x.width:
        return x
    if x.op == "slice":
        return graph.apply("slice", x.args[0], start=x.attrs["start"] + start, size=size)
    if x.op == "expand":
        inner = x.args[0] if x.args[0].width is None else graph.apply("slice", x.args[0], start=start, size=size)
        # Made directly: slices of a deliberate copy (see direction.py) must be copies too.
        return graph._make("expand", (inner,), x.axes, size, {})
    if x.kind is OpKind.ELEMENTWISE:
        cut = [a if a.width is None else graph.apply("slice", a, start=start, size=size) for a in x.args]
        return graph.apply(x.op, *cut)
    offset = 0
    for part in x.args if x.op == "concat" else ():  # one part may contain all of it
        width = part.width or 0
        if offset <= start and start + size <= offset + width:
            return graph.apply("slice", part, start=start - offset, size=size)
        offset += width
    return graph._make("slice", (x,), x.axes, size, {"start": start, "size": size})


_BUILDERS = {
    "axes": named_axes.axes,
    "flat": named_axes.flat,
    "total": named_axes.total,
    "expand": _expand,
    "sum_last": _sum_last,
    "sum_s": _over_s,
    "softmax": _over_s,
    "matmul": _matmul,
    "concat": _concat,
    "slice": _slice,
}
