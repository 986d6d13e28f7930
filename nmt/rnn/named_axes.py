"""Shape rules of values with named feature axes: `Value.dims`, the names and sizes of what is one width to the others.

Two values of an elementwise operation may have different named axes; each is broadcast over those it lacks. All values
of a step have their axes in the order of `Graph.order`, so that one nest of loops serves all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from nmt.errors import ShapeError

Dims = tuple[tuple[str, int], ...]
Graph: TypeAlias = Any
Value: TypeAlias = Any
"""Those of graph.py, which imports these rules."""


def attribute(dims: Dims) -> dict[str, Dims]:
    """Return the attributes of a value with these named axes; none if it has none."""
    return {"dims": dims} if dims else {}


def shown(dims: Dims) -> str:
    """Return named axes for an error: `h=8 k=64`."""
    return " ".join(f"{axis}={size}" for axis, size in dims)


def elementwise(graph: Graph, op: str, args: tuple[Value, ...]) -> Value:
    """Return an elementwise operation of values of which some have named axes; the result has all of them. Raises
    ShapeError: an axis has two sizes, or a value has features without names."""
    sizes: dict[str, int] = {}
    for a in args:
        if a.width is not None and not a.dims:
            other = shown(next(b.dims for b in args if b.dims))
            got = f"{other} and a width of {a.width}; use axes"
            raise ShapeError(f"{op}: the features of both must have named axes, got {got}")
        for axis, size in a.dims:
            if sizes.setdefault(axis, size) != size:
                raise ShapeError(f"{op}: axis {axis} must have one size, got {sizes[axis]} and {size}")
    found = tuple(x for x in ("S", "B") if any(x in a.axes for a in args))
    return graph._make(op, args, found, math.prod(sizes.values()), {"dims": _ordered(graph, sizes)})


def _ordered(graph: Graph, sizes: Mapping[str, int]) -> Dims:
    return tuple((axis, sizes[axis]) for axis in graph.order if axis in sizes)


def axes(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a value's features as several named axes, pushed down through elementwise operations until it meets
    memory. Raises ShapeError: they do not make up the width, or have another order than elsewhere in the step."""
    (x,), dims = args, tuple(attrs["dims"])
    if not dims or any(not isinstance(size, int) or size < 1 for _, size in dims):
        raise ShapeError(f"axes: sizes must be whole numbers of at least 1, got {shown(dims) or 'none'}")
    graph.order += [axis for axis, _ in dims if axis not in graph.order]
    if dims != _ordered(graph, dict(dims)):
        known = " ".join(axis for axis in graph.order if axis in dict(dims))
        raise ShapeError(f"axes: must have the order {known}, as elsewhere in the step, got {shown(dims)}")
    if x.dims or x.width != math.prod(size for _, size in dims):
        got = shown(x.dims) or (f"a width of {x.width}" if x.width else "one number per row")
        raise ShapeError(f"axes: the value must have a width that is the product of {shown(dims)}, got {got}")
    if x.op == "flat" and x.args[0].dims == dims:
        return x.args[0]
    if x.op == "expand":
        inner = x.args[0] if x.args[0].width is None else graph.apply("axes", x.args[0], dims=dims)
        # Made directly, as slices of an expansion are: a deliberate copy stays one.
        return graph._make("expand", (inner,), x.axes, x.width, {"dims": dims})
    if x.is_elementwise:
        return graph.apply(x.op, *(a if a.width is None else graph.apply("axes", a, dims=dims) for a in x.args))
    return graph._make(op, args, x.axes, x.width, {"dims": dims})


def flat(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a value's named axes as one feature axis, as they lie in memory."""
    (x,) = args
    if not x.dims:
        return x
    return x.args[0] if x.op == "axes" else graph._make(op, args, x.axes, x.width, {})


def total(graph: Graph, op: str, args: tuple[Value, ...], attrs: dict[str, Any]) -> Value:
    """Return a sum over a named axis. Raises ShapeError: the value does not have it."""
    (x,), axis = args, attrs["axis"]
    rest = tuple((name, size) for name, size in x.dims if name != axis)
    if len(rest) == len(x.dims):
        raise ShapeError(f"total: the value must have the axis {axis}, got {shown(x.dims) or 'no named axes'}")
    width = math.prod(size for _, size in rest) if rest else None
    return graph._make(op, args, x.axes, width, {"axis": axis, **attribute(rest)})
