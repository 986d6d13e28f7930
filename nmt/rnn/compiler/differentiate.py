"""Pass 2, differentiate: reverse mode on the graph of a step.

One gradient rule per operation (`ops.py`); gradients from several users are summed. Only requested gradients are
built: values that do not lead to a wanted leaf are never visited.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.rnn.graph import Graph, Value, derived, topological


@dataclass(frozen=True)
class Sink:
    """A contribution to a parameter's gradient, summed over all rows and steps. Rows [start, start + rows) of the
    matrix `name` receive the sum of outer(left, right); a vector receives the sum of `right`."""

    name: str
    start: int
    rows: int | None
    left: Value | None
    right: Value


def differentiate(outputs: list[tuple[Value, Value]], wanted: set[int]) -> tuple[dict[int, Value], list[Sink]]:
    """Return gradients of sum(output * cotangent) by id, for the wanted leaves and every value on the way to one of
    them; and the sinks of wanted parameters. A gradient has the axes of its value, except that a value without rows (a
    parameter, or arithmetic on parameters) keeps one row per sentence until its leaf is reached, where the sink sums
    them."""
    order = topological([o for o, _ in outputs])
    active = derived(order, lambda v: v.id in wanted)
    gradients: dict[int, Value] = {}
    pieces: dict[int, dict[tuple[int, int], Value]] = {}
    sinks: list[Sink] = []

    def add(target: Value, g: Value) -> None:
        if target.id not in active or _is_zero(g):
            return
        g = fit(g, target)
        gradients[target.id] = gradients[target.id] + g if target.id in gradients else g

    for output, cotangent in outputs:
        add(output, cotangent)
    for v in reversed(order):
        if v.id in pieces:
            add(v, _join(v, pieces.pop(v.id)))
        if v.id not in gradients:
            continue
        g = gradients[v.id]
        if v.op in ("param", "rows_of"):
            sinks.append(Sink(v.attrs["name"], 0, None, None, g))
        elif v.op == "slice":
            if v.args[0].id in active:
                place = pieces.setdefault(v.args[0].id, {})
                span = (v.attrs["start"], v.attrs["size"])
                place[span] = place[span] + g if span in place else g
        elif v.op == "concat":
            start = 0
            for part in v.args:
                width = part.width or 0
                add(part, g.graph.apply("slice", g, start=start, size=width))
                start += width
        elif v.op == "matmul":
            for target, share in _of_product(v, g, sinks, active):
                add(target, share)
        elif v.rule.gradient is not None:
            for target, share in zip(v.args, v.rule.gradient(g, v), strict=True):
                if target.id in active:
                    add(target, share)
    return gradients, sinks


def fit(g: Value, target: Value) -> Value:
    """Sum a gradient over the axes, named ones too, that its target lacks; broadcast it over those it lacks itself."""
    graph = g.graph
    if "S" in g.axes and "S" not in target.axes:
        g = graph.apply("sum_s", g)
    for axis, _ in reversed(g.dims):
        if axis not in dict(target.dims):
            g = graph.apply("total", g, axis=axis)
    if g.width is not None and target.width is None:
        g = graph.apply("sum_last", g)
    axes = tuple(a for a in ("S", "B") if a in g.axes or a in target.axes)
    return graph.apply("expand", g, axes=axes, width=target.width, dims=target.dims)


def _is_zero(g: Value) -> bool:
    """Return whether a gradient is the number 0, or 0 broadcast."""
    return g.op == "const" and g.attrs["value"] == 0 or (g.op == "expand" and _is_zero(g.args[0]))


def _join(v: Value, pieces: dict[tuple[int, int], Value]) -> Value:
    """Return the concatenated gradients of slices; overlapping slices and gaps are padded with zeros and summed."""
    graph = v.graph
    total: Value | None = None
    rest = dict(pieces)
    while rest:
        parts, position = [], 0
        axes = next(iter(rest.values())).axes
        for (start, size), g in sorted(rest.items()):
            if start >= position:
                if start > position:
                    parts.append(_zeros(graph, axes, start - position))
                parts.append(g)
                position = start + size
                del rest[start, size]
        if position < (v.width or 0):
            parts.append(_zeros(graph, axes, (v.width or 0) - position))
        joined = graph.apply("concat", *parts)
        total = joined if total is None else total + joined
    if total is None:
        raise RuntimeError("a value without pieces was joined")
    return total


def _zeros(graph: Graph, axes: tuple[str, ...], width: int) -> Value:
    return graph.apply("expand", graph.const(0.0), axes=axes, width=width)


def _of_product(v: Value, g: Value, sinks: list[Sink], active: set[int]) -> list[tuple[Value, Value]]:
    x, w = v.args
    if (w.args[0] if w.op == "rows_of" else w).id in active:
        left, right = (g, x) if v.attrs["transposed"] else (x, g)
        sinks.append(Sink(w.attrs["name"], w.attrs.get("start", 0), w.attrs["rows"], left, right))
    if x.id not in active:
        return []
    return [(x, v.graph.apply("matmul", g, w, transposed=not v.attrs["transposed"]))]
