"""Pass 5, keep or recompute: which forward values the backward pass finds in memory.

Expensive values (activations, results of products, reductions) are stored once per step; cheap arithmetic on stored
values is repeated; values with one number per source position and feature, and those that broadcasting over named axes
makes large, are always recomputed. On request (`gates`) activations and their products are recomputed as well, from
states and inputs: only the states are stored for each step, at the cost of repeating the forward products (Chen et al.
2016, Training Deep Nets with Sublinear Memory Cost; Gruslys et al. 2016, section 3). Values that the cell's author has
named may be decided individually (`Keep`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from nmt.errors import NMTError
from nmt.rnn.compiler.fuse import is_wide
from nmt.rnn.graph import Value, topological
from nmt.rnn.ops import OpKind

Recompute = Literal["attention", "gates"]
"""The values that the backward pass recomputes: only those of source positions x features, or activations too."""

Keep = tuple[tuple[str, bool], ...]
"""Names of noted values (`Scope.note`), and whether each is kept for the backward pass; a value with False is
recomputed, together with the values it needs that are not kept."""


def choose_kept(
    backward_roots: list[Value],
    operands: list[Value],
    num_forward: int,
    available: set[int],
    recompute: Recompute,
    named: Mapping[str, tuple[Value, bool]],
) -> list[Value]:
    """Return the forward values (ids below `num_forward`) to store. `operands` are the values that products over all
    steps read, so they must be in memory as they are. `named`: values with an explicit decision, and that decision.
    Raises NMTError where one of them cannot be recomputed."""
    kept = {v.id: v for v, keep in named.values() if keep and v.kind is not OpKind.LEAF and v.id not in available}
    recomputed = {v.id: name for name, (v, keep) in named.items() if not keep}

    def there(v: Value) -> bool:
        return v.kind is OpKind.LEAF or v.id in available or v.id in kept

    @cache  # until more is kept
    def reachable(v: Value, again: bool = recompute == "gates") -> bool:
        if there(v):
            return True
        again = again or v.id in recomputed
        if again and v.kind is OpKind.PRODUCT:
            return reachable(v.args[0], again)
        cheap = v.kind in (OpKind.ELEMENTWISE, OpKind.LAYOUT) and v.op != "concat"
        cheap = cheap and (again or not v.rule.expensive or _is_spread(v))
        return cheap and all(reachable(a, again) for a in v.args)

    @cache
    def ensure(v: Value) -> None:
        if there(v) or reachable(v):
            return
        if is_wide(v):
            for a in v.args:
                ensure(a)
        elif v.is_view and (v.op != "slice" or v.args[0].kind is not OpKind.PRODUCT):
            ensure(v.args[0])
        else:
            store(v)

    def store(v: Value) -> None:
        if v.id in recomputed:
            name = recomputed[v.id]
            promise = f"{name} must be True, for it reads a sum over units or positions"
            raise NMTError(f"keep: {promise}, got False; leave it out")
        kept[v.id] = v
        reachable.cache_clear()

    for v in operands:
        if v.id < num_forward and not there(v) and not ((recompute == "gates" or v.id in recomputed) and reachable(v)):
            store(v)
    for v in sorted(_read_backward(backward_roots, num_forward, available), key=lambda v: (not v.rule.expensive, v.id)):
        ensure(v)
    return list(kept.values())


def _is_spread(v: Value) -> bool:
    """Return whether a value has more numbers for each row than any value in memory it is computed from: one of named
    axes, broadcast against each other, is recomputed like one of source positions and features."""

    @cache
    def widest(of: Value) -> int:
        if of.kind is OpKind.ELEMENTWISE:
            return max((widest(a) for a in of.args), default=0)
        return (of.width or 1) if "B" in of.axes else 0

    return bool(v.dims) and widest(v) < (v.width or 1)


def _read_backward(backward_roots: list[Value], num_forward: int, available: set[int]) -> list[Value]:
    """Return the forward values that the backward direction reads or returns, each once, up to available values."""
    own = [v for v in topological(backward_roots, stop=available) if v.id >= num_forward and v.id not in available]
    read = [a for v in own for a in v.args] + backward_roots
    return list({v.id: v for v in read if v.id < num_forward and v.kind is not OpKind.LEAF}.values())
