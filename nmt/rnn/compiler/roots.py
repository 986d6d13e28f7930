"""The roots of each direction of a step, and the values that it finds in memory.

A root is a value and the place it is written to. Everything else is computed only because a root needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.compiler.differentiate import Sink, differentiate
from nmt.rnn.compiler.program import Place, PlaceKind, StoredValue
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value
from nmt.rnn.named_axes import attribute
from nmt.rnn.ops import OpKind


def leaf_places(trace: Trace, *, slots: bool = False) -> dict[int, Place]:
    """Return the places of a step's leaves, by value. Matrices have no place: only products read them, packed.

    slots: states with named axes are in two slots instead of a stack.
    """
    places: dict[int, Place] = {}
    for name, v in trace.leaves.items():
        wide = "S" in v.axes
        if v.op == "input":
            places[v.id] = Place(PlaceKind.SEQUENCE, name, wide, v.width)
        elif v.op == "state":
            places[v.id] = Place(PlaceKind.CARRY if slots and v.dims else PlaceKind.BEFORE, name, False, v.width)
        elif v.op == "captured":
            places[v.id] = Place(PlaceKind.CONSTANT, name, wide, v.width)
        elif v.op == "param" and "rows" not in v.attrs:
            places[v.id] = Place(PlaceKind.PARAMETER, name, False, v.width)
    return places


def cotangent_places(trace: Trace) -> dict[int, Place]:
    """Return the places of incoming gradients, by value: one entry per step for outputs, two alternating slots for
    states."""
    places: dict[int, Place] = {}
    for v in trace.graph.values:
        if v.op == "cotangent":
            name = v.attrs["name"]
            is_carried = parse(name).kind is ArrayKind.STATE_GRADIENT
            kind = PlaceKind.CARRY if is_carried else PlaceKind.SEQUENCE
            places[v.id] = Place(kind, name, "S" in v.axes, v.width)
    return places


def forward_roots(trace: Trace, *, slots: bool = False) -> tuple[list[StoredValue], dict[str, Place]]:
    """Return the roots of a step, and the places of its outputs by name; slots: see `leaf_places`.

    New states go into the slot after the step, outputs into separate arrays; an output that is a state has its place.
    """
    roots = []
    for name, v in trace.new.items():
        kind = PlaceKind.CARRY_OUT if slots and v.dims else PlaceKind.AFTER
        roots.append(StoredValue(_written_by_row(v), Place(kind, ArrayKind.STATE.of(name), False, v.width)))
    stacked = {
        e.value.id: e.place
        for e in reversed(roots)
        if e.value.kind is not OpKind.LEAF and e.place.kind is PlaceKind.AFTER
    }
    outputs = {
        k: stacked.get(v.id) or Place(PlaceKind.SEQUENCE, k, "S" in v.axes, v.width) for k, v in trace.outputs.items()
    }
    return roots + [StoredValue(v, outputs[k]) for k, v in trace.outputs.items() if v.id not in stacked], outputs


def _written_by_row(v: Value) -> Value:
    """Return the value, copied if it is a product.

    A product writes all rows up to the last active one, but a state's slot may be written for active rows only.
    """
    return v.graph._make("expand", (v,), v.axes, v.width, {}) if v.kind is OpKind.PRODUCT else v


@dataclass
class BackwardRoots:
    """The roots of the backward direction, the sums that are gradients of parameters, and the places of gradients of
    inputs and captured arrays by the arrays' names. `gradients` maps the id of a value to its gradient."""

    roots: list[StoredValue]
    sinks: list[Sink]
    d_inputs: dict[str, Place]
    d_captured: dict[str, Place]
    gradients: dict[int, Value]


def _cotangent(trace: Trace, name: str, v: Value) -> Value:
    """Return the incoming gradient of `v`, through a copy, so that it is stored for readers outside the loop."""
    leaf = trace.graph.leaf("cotangent", name, v.axes or ("B",), v.width, dims=v.dims)
    return trace.graph._make("expand", (leaf,), leaf.axes, leaf.width, attribute(leaf.dims))


def backward_roots(
    trace: Trace, needs: Collection[str] | None, receives: Collection[str], apart: Collection[str] = ()
) -> BackwardRoots:
    """Differentiate a step, in its own graph.

    Gradients of the states before it, and of the leaves named in `needs` (None: all but masks), from the outputs named
    in `receives` and all new states. apart: states with a loop of their own, whose gradients row work writes.
    """
    graph = trace.graph
    masks = {m.array for m in trace.masks}
    outputs = [(v, _cotangent(trace, ArrayKind.GRADIENT.of(k), v)) for k, v in trace.outputs.items() if k in receives]
    outputs += [(v, _cotangent(trace, ArrayKind.STATE_GRADIENT.of(name), v)) for name, v in trace.new.items()]
    needed = {k: v for k, v in trace.leaves.items() if k not in masks and (needs is None or k in needs)}
    captured = {k: v for k, v in needed.items() if v.op == "captured"}
    wanted = {v.id for v in (*trace.states.values(), *needed.values())}
    gradients, sinks = differentiate(outputs, wanted)
    back = BackwardRoots([], sinks, {}, {}, gradients)
    for name, v in trace.states.items():
        zero = graph.apply("expand", graph.const(0.0), axes=("B",), width=v.width, dims=v.dims)
        g = gradients.get(v.id, zero)
        g = _written_by_row(g) if name in apart else g
        back.roots.append(StoredValue(g, Place(PlaceKind.CARRY_OUT, ArrayKind.STATE_GRADIENT.of(name), False, v.width)))
    for name, v in trace.inputs.items():
        if name in needed and v.id in gradients:
            back.d_inputs[name] = Place(PlaceKind.SEQUENCE, ArrayKind.GRADIENT.of(name), "S" in v.axes, v.width)
            back.roots.append(StoredValue(gradients[v.id], back.d_inputs[name]))
    for name, v in captured.items():
        if v.id in gradients:
            back.d_captured[name] = Place(
                PlaceKind.CONSTANT, ArrayKind.CONSTANT_GRADIENT.of(name), "S" in v.axes, v.width
            )
            back.roots += [StoredValue(term, back.d_captured[name], add=True) for term in _terms(gradients[v.id])]
    return back


def _terms(v: Value) -> list[Value]:
    """Return the terms of a sum; each may be computed at another time, and memory accumulates them. A sum within it
    that is added more than once remains one term."""
    times, pending = Counter[int](), [v]
    while pending:
        one = pending.pop()
        if one.op == "add":
            pending += [a for a in set(one.args) if not times[a.id]]
            times.update(a.id for a in one.args)

    def divided(one: Value) -> list[Value]:
        return [t for a in one.args for t in divided(a)] if one.op == "add" and times[one.id] <= 1 else [one]

    return divided(v)
