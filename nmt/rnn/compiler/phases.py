"""Passes 3 and 4, hoist and sink: which values leave the time loop.

`before`  products that need no carried value: one product over all steps.
`after`   products that no carried value depends on, and what is computed from them.
`loop`    the rest. Cheap arithmetic stays in the loop even where it could leave: it costs nothing there and would
cost memory outside.

The same rules serve forward (states are carried) and backward (gradients of states are carried).
"""

from __future__ import annotations

from nmt.rnn.compiler.fuse import is_wide
from nmt.rnn.graph import Value, topological


def assign_phases(
    roots: list[Value], carried_in: set[int], carried_out: list[Value], known: set[int], *, leave_loop: bool = True
) -> dict[int, str]:
    """Return the phase of every value the roots need; values with `known` ids are in memory and are not traversed.

    A single step has no other steps to combine with: without `leave_loop` all of it is one function.
    """
    order = topological([*roots, *carried_out], stop=known)
    moving: set[int] = set()
    for v in order:
        if v.id in carried_in or any(a.id in moving for a in v.args if v.id not in known):
            moving.add(v.id)
    awaited = {v.id for v in topological(carried_out, stop=known)}
    phases: dict[int, str] = {}
    for v in order:
        if v.kind == "leaf" or v.id in known:
            continue
        if not leave_loop:
            phases[v.id] = "loop"
        elif any(phases.get(a.id) == "after" for a in v.args):
            phases[v.id] = "after"
        elif v.kind != "product":
            phases[v.id] = "loop"
        elif v.id not in moving:
            phases[v.id] = "before"
        else:
            phases[v.id] = "loop" if v.id in awaited else "after"
    for v in order:
        if phases.get(v.id) == "before":  # the operands of a hoisted product are hoisted with it
            _hoist(v, phases, known)
    for v in order:  # a value too large to store for every step stays in the phase of its readers
        if phases.get(v.id) == "loop" and v.id not in moving:
            if any(is_wide(a) and phases.get(a.id) == "before" for a in v.args):
                _hoist(v, phases, known)
    return phases


def _hoist(v: Value, phases: dict[int, str], known: set[int]) -> None:
    for a in topological([v], stop=known):
        if a.kind != "leaf" and a.id not in known:
            phases[a.id] = "before"
