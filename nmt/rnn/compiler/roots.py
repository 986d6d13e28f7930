"""What each direction of a step must leave in memory (its roots) and what it finds there.

A root is a value and the place it is written to. A compiler without roots would compute nothing: all else is computed
because a root needs it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nmt.rnn.arrays import array_names
from nmt.rnn.compiler.differentiate import Sink, differentiate
from nmt.rnn.compiler.program import Entry, Place
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value


def leaf_places(trace: Trace) -> dict[int, Place]:
    """Return where a step's leaves lie, by value. Matrices have no place: only products read them, packed."""
    places: dict[int, Place] = {}
    for name, v in trace.leaves.items():
        wide = "S" in v.axes
        if v.op == "input":
            places[v.id] = Place("seq", name, wide, v.width)
        elif v.op == "state":
            places[v.id] = Place("before", name, False, v.width)
        elif v.op == "captured":
            places[v.id] = Place("inv", name, wide, v.width)
        elif v.op == "param" and "rows" not in v.attrs:
            places[v.id] = Place("param", name, False, v.width)
    return places


def cotangent_places(trace: Trace) -> dict[int, Place]:
    """Return where incoming gradients lie, by value: of outputs one entry per step, of states two slots that take
    turns."""
    places: dict[int, Place] = {}
    for v in trace.graph.values:
        if v.op == "cotangent":
            name = v.attrs["name"]
            kind = "carry" if name.startswith("D_") else "seq"
            places[v.id] = Place(kind, name, "S" in v.axes, v.width)
    return places


def forward_roots(trace: Trace) -> tuple[list[Entry], dict[str, Place]]:
    """Return what a step must write, and the places of its outputs by name: new states into the slot after the step,
    outputs into arrays of their own. An output that is a state has the state's place."""
    roots = [Entry(_written_by_row(v), Place("after", f"S_{name}", False, v.width)) for name, v in trace.new.items()]
    slots = {e.value.id: e.place for e in reversed(roots) if e.value.kind != "leaf"}
    outputs = {k: slots.get(v.id) or Place("seq", k, "S" in v.axes, v.width) for k, v in trace.outputs.items()}
    return roots + [Entry(v, outputs[k]) for k, v in trace.outputs.items() if v.id not in slots], outputs


def _written_by_row(v: Value) -> Value:
    """Return a product writes whole prefixes of rows; a state's slot may be written for active rows only, so it is
    copied."""
    return v.graph._make("expand", (v,), v.axes, v.width, {}) if v.kind == "product" else v


@dataclass
class Backward:
    """What the backward direction writes, the sums that are gradients of parameters, and the places of gradients of
    inputs and captured arrays by the arrays' names. `gradients` are values by the id of what they are the gradient
    of."""

    roots: list[Entry]
    sinks: list[Sink]
    d_inputs: dict[str, Place]
    d_captured: dict[str, Place]
    gradients: dict[int, Value]


def _cotangent(trace: Trace, name: str, v: Value) -> Value:
    """Return the incoming gradient of `v`; read through a copy, so that whoever needs it outside the loop gets it
    stored."""
    leaf = trace.graph.leaf("cotangent", name, v.axes or ("B",), v.width)
    return trace.graph._make("expand", (leaf,), leaf.axes, leaf.width, {})


def backward_roots(trace: Trace, needs: Collection[str] | None, receives: Collection[str]) -> Backward:
    """Differentiate a step, in its own graph: gradients of the states before it, and of the leaves named in `needs`
    (None: of all but masks), from the outputs named in `receives` and all new states."""
    graph = trace.graph
    masks = {array_names.mask(m.name, lasting=m.variational) for m in trace.masks}
    outputs = [(v, _cotangent(trace, f"d_{k}", v)) for k, v in trace.outputs.items() if k in receives]
    outputs += [(v, _cotangent(trace, f"D_{name}", v)) for name, v in trace.new.items()]
    needed = {k: v for k, v in trace.leaves.items() if k not in masks and (needs is None or k in needs)}
    captured = {k: v for k, v in needed.items() if v.op == "captured"}
    wanted = {v.id for v in (*trace.states.values(), *needed.values())}
    gradients, sinks = differentiate(outputs, wanted)
    back = Backward([], sinks, {}, {}, gradients)
    for name, v in trace.states.items():
        zero = graph.apply("expand", graph.const(0.0), axes=("B",), width=v.width)
        back.roots.append(Entry(gradients.get(v.id, zero), Place("carry_out", f"D_{name}", False, v.width)))
    for name, v in trace.inputs.items():
        if name in needed and v.id in gradients:
            back.d_inputs[name] = Place("seq", f"d_{name}", "S" in v.axes, v.width)
            back.roots.append(Entry(gradients[v.id], back.d_inputs[name]))
    for name, v in captured.items():
        if v.id in gradients:
            back.d_captured[name] = Place("inv", f"d{name}", "S" in v.axes, v.width)
            back.roots += [Entry(term, back.d_captured[name], add=True) for term in _terms(gradients[v.id])]
    return back


def _terms(v: Value) -> list[Value]:
    """Return the summands of a sum: each may be ready at another moment, and memory adds them up."""
    return [t for a in v.args for t in _terms(a)] if v.op == "add" else [v]
