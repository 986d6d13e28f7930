"""Names, operations and shapes of a plan's values, as people write them.

A value has the name that the cell gives it (a leaf, a state, an output, a noted value); or, if it is a gradient, `d`
and the name of the value it is the gradient of; or its number in the graph, `v12`, which is also its name in the
generated source. A state after the step has a prime: `h'`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value
from nmt.rnn.ops import OpKind

COPIES = frozenset({"expand", "slice", "axes", "flat"})
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_REDUCTIONS = {
    "sum_last": "sum over features of {}",
    "sum_s": "sum over S of {}",
    "total": "sum over {axis} of {}",
    "softmax": "softmax over S of {}",
}


def leaf_name(v: Value) -> str:
    """Return the author's name of a leaf: `x`, `W_x`, `W_x[3:7]`, a number; incoming gradients are `dy`, `dh_next`."""
    if v.op == "const":
        return f"{v.attrs['value']:g}"
    name = str(v.attrs["name"])
    if v.op == "rows_of":
        return f"{name}[{v.attrs['start']}:{v.attrs['start'] + v.attrs['rows']}]"
    if v.op == "cotangent":
        kind, name = parse(name)
        shown = gradient_name(output_name(name))
        return f"{shown}_next" if kind is ArrayKind.STATE_GRADIENT else shown
    return parse(name).base if v.op in ("input", "state", "captured") else name


def output_name(name: str) -> str:
    """Return the name of an output of a step, as its author or the compiler named it."""
    kind, base = parse(name)
    return base if kind in (ArrayKind.NOTED, ArrayKind.CONSTANT) else name


def gradient_name(name: str) -> str:
    """Return `dh'` for `h'`, with brackets if the name is a path."""
    return f"d({name})" if "." in name else f"d{name}"


def shape(v: Value, lead: str = "") -> str:
    """Return the axes as text: `[B, 4]`, `[S, B]`; a matrix `[3, 16]`; empty for a number. lead: an axis before all
    others."""
    rows = [str(v.attrs["rows"])] if v.kind is OpKind.LEAF and "rows" in v.attrs else []
    features = [f"{axis}={size}" for axis, size in v.dims] or ([str(v.width)] if v.width is not None else [])
    axes = [*([lead] if lead else []), *rows, *v.axes, *features]
    return f"[{', '.join(axes)}]" if axes else ""


class Naming:
    """The names of one traced step's values."""

    def __init__(self, trace: Trace, gradients: Mapping[int, Value] | None = None) -> None:
        """Name the values of a trace; gradients: those of a differentiated trace, by the id of the value they belong
        to."""
        self.trace, gradients = trace, gradients or {}
        self._names: dict[int, str] = {}
        self._taken: set[str] = {leaf_name(v) for v in trace.leaves.values()}
        for name, v in trace.new.items():
            self._give(v, f"{name}'")
        for name, v in trace.outputs.items():
            self._give(v, output_name(name))
        for name, v in trace.noted.items():
            self._give(v, name)
        forward = [*self._names.items()]
        leaves = [(v.id, leaf_name(v)) for v in trace.leaves.values() if v.op != "param"]
        for i, name in [*leaves, *forward]:
            if i in gradients:
                self._give(gradients[i], gradient_name(name))

    def _give(self, v: Value, name: str) -> None:
        """Name a value, unless it already has a name or the name is taken."""
        inner = through(v)
        if inner.kind is OpKind.LEAF or inner.id in self._names or name in self._taken or re.fullmatch(r"v\d+", name):
            return
        self._names[inner.id] = name
        self._taken.add(name)

    def name(self, v: Value) -> str:
        """Return a value's name as an operand; a slice is named by the value it is a slice of."""
        v = through(v)
        if v.op == "slice":
            start, size = v.attrs["start"], v.attrs["size"]
            return f"{self.name(v.args[0])}[{start}:{start + size}]"
        return leaf_name(v) if v.kind is OpKind.LEAF else self._names.get(v.id, f"v{v.id}")

    def operation(self, v: Value) -> str:
        """Return the operation that computes a value, in terms of its operands' names."""
        args = [self.name(a) for a in v.args]
        if v.op in _SIGNS:
            return f"{args[0]} {_SIGNS[v.op]} {args[1]}"
        if v.op == "matmul":
            return f"{args[0]} @ {args[1]}{'.T' if v.attrs['transposed'] else ''}"
        if v.op in _REDUCTIONS:
            return _REDUCTIONS[v.op].format(args[0], **v.attrs)
        if v.op == "concat":
            return f"[{' | '.join(args)}]"
        if v.op == "positive":
            return f"1 if {args[0]} > 0 else 0"
        if v.op == "neg":
            return f"-{args[0]}"
        if v.op in COPIES:
            return f"copy of {self.name(v)}" if v.op == "slice" else f"copy of {args[0]}"
        return f"{v.op}({', '.join(args)})"


def through(v: Value) -> Value:
    """Return the value that this one is a copy of, by rows or features, or shows with other axes; itself if it is
    computed."""
    while v.op in COPIES and v.op != "slice":
        v = v.args[0]
    return v
