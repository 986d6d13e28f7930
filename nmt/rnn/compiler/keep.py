"""Pass 5, keep or recompute: which forward values the backward pass finds in memory.

Expensive values (activations, results of products, reductions) are stored once per step; cheap arithmetic on what is
there is done again; values with one number per source position and feature are always computed again. On request
(`gates`) activations and their products are computed again as well, from states and inputs: nothing but the states is
stored for each step, for the time of the forward products once more (Chen et al. 2016, Training Deep Nets with
Sublinear Memory Cost; Gruslys et al. 2016, section 3).
"""

from __future__ import annotations

from typing import Literal

from nmt.rnn.compiler.fuse import is_wide
from nmt.rnn.graph import Value, topological

Recompute = Literal["attention", "gates"]
"""What the backward pass computes again: values of source positions x features alone, or activations too."""


def choose_kept(
    backward_roots: list[Value], operands: list[Value], num_forward: int, available: set[int], recompute: Recompute
) -> list[Value]:
    """Forward values (ids below `num_forward`) to store.

    `operands` are those that products over all steps read, so they must be in memory as they are.
    """
    again = recompute == "gates"
    kept: dict[int, Value] = {}

    def there(v: Value) -> bool:
        return v.kind == "leaf" or v.id in available or v.id in kept

    def reachable(v: Value) -> bool:
        if there(v):
            return True
        if again and v.kind == "product":
            return reachable(v.args[0])
        cheap = v.kind in ("elementwise", "layout") and (again or not v.rule.expensive) and v.op != "concat"
        return cheap and all(reachable(a) for a in v.args)

    def ensure(v: Value) -> None:
        if there(v) or reachable(v):
            return
        if is_wide(v):
            for a in v.args:
                ensure(a)
        elif v.op == "slice" and v.args[0].kind != "product":
            ensure(v.args[0])
        else:
            kept[v.id] = v

    for v in operands:
        if v.id < num_forward and not there(v) and not (again and reachable(v)):
            kept[v.id] = v
    needed: dict[int, Value] = {}
    stop = set(available)
    for v in topological(backward_roots, stop=stop):
        for a in v.args if v.id >= num_forward and v.id not in stop else ():
            if a.id < num_forward and a.kind != "leaf":
                needed[a.id] = a
    for root in backward_roots:
        if root.id < num_forward and root.kind != "leaf":
            needed[root.id] = root
    for v in sorted(needed.values(), key=lambda v: (not v.rule.expensive, v.id)):
        ensure(v)
    return list(kept.values())
