"""Passes 3 and 4, hoist and sink: which values leave the time loop.

The same rules serve forward (states are carried) and backward (gradients of states are carried).
"""

from __future__ import annotations

from enum import StrEnum

from nmt.rnn.compiler.fuse import is_wide
from nmt.rnn.graph import Value, topological
from nmt.rnn.ops import OpKind


class Phase(StrEnum):
    """Parts of a pass, in order."""

    BEFORE = "before"
    """Products that need no carried value: one product over all steps."""
    LOOP = "loop"
    """The rest. Cheap arithmetic stays in the loop: it costs nothing there and would cost memory outside."""
    AFTER = "after"
    """Products that no carried value depends on, and what is computed from them."""


def assign_phases(
    roots: list[Value],
    carried_in: set[int],
    carried_out: list[Value],
    known: set[int],
    *,
    late: set[int] | frozenset[int] = frozenset(),
    leave_loop: bool = True,
) -> dict[int, Phase]:
    """Return the phase of every value the roots need; values with `known` ids are in memory and are not traversed.
    late: ids of leaves that exist only after the loop. A single step has no other steps to combine with: without
    `leave_loop` all of it is one function."""
    order = topological([*roots, *carried_out], stop=known)
    moving: set[int] = set()
    for v in order:
        if v.id in carried_in or any(a.id in moving for a in v.args if v.id not in known):
            moving.add(v.id)
    awaited = {v.id for v in topological(carried_out, stop=known)}
    phases: dict[int, Phase] = {}
    for v in order:
        if v.kind is OpKind.LEAF or v.id in known:
            continue
        if not leave_loop:
            phases[v.id] = Phase.LOOP
        elif any(a.id in late or phases.get(a.id) is Phase.AFTER for a in v.args):
            phases[v.id] = Phase.AFTER
        elif v.kind is not OpKind.PRODUCT:
            phases[v.id] = Phase.LOOP
        elif v.id not in moving:
            phases[v.id] = Phase.BEFORE
        else:
            phases[v.id] = Phase.LOOP if v.id in awaited else Phase.AFTER
    for v in order:
        if phases.get(v.id) is Phase.BEFORE:  # the operands of a hoisted product are hoisted with it
            hoist(v, phases, known)
    for v in order:  # a value too large to store for every step stays in the phase of its readers
        if phases.get(v.id) is Phase.LOOP and v.id not in moving:
            if any(is_wide(a) and phases.get(a.id) is Phase.BEFORE for a in v.args):
                hoist(v, phases, known)
    return phases


def hoist(v: Value, phases: dict[int, Phase], known: set[int]) -> None:
    """Move a value and everything it is computed from before the loop."""
    for a in topological([v], stop=known):
        if a.kind is not OpKind.LEAF and a.id not in known:
            phases[a.id] = Phase.BEFORE
