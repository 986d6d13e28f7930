"""Pass 3b, loops apart: states whose recurrence has no product and reads no other state, as a short convolution's.

If a product reads such a state and what it computes is carried, the product would be in the time loop, one step at a
time, although the state is known for all steps before the loop begins. So the state gets a time loop of its own, in
row work before the main loop; in the backward pass its gradient gets one after the main loop. The product is computed
for all steps at once. This is loop distribution by the strongly connected parts of a step's states.
"""

from __future__ import annotations

from nmt.rnn.compiler.direction import carried_apart, phases_of
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.roots import forward_roots, leaf_places
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import topological
from nmt.rnn.ops import OpKind


def states_apart(trace: Trace) -> frozenset[str]:
    """Return the states with loops of their own; none where that takes no product out of the main loop."""
    reads, multiplied = _dependencies(trace)
    apart = {name for name, v in trace.states.items() if not v.dims and not _multiplies(name, reads, multiplied)}
    while left := {name for name in apart if not reads[name] <= apart}:
        apart -= left
    if not apart or not _looped_products(trace, frozenset()):
        return frozenset()
    names = frozenset(apart)
    return names if _looped_products(trace, names) < _looped_products(trace, frozenset()) else frozenset()


def _dependencies(trace: Trace) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return, for each state, the states its next value reads, and those it reads through a product."""
    reads: dict[int, set[str]] = {v.id: {name} for name, v in trace.states.items()}
    multiplied: dict[int, set[str]] = {}
    for v in topological(list(trace.new.values())):
        own = reads.get(v.id, set())
        reads[v.id] = own.union(*(reads[a.id] for a in v.args))
        through = set[str]().union(*(multiplied[a.id] for a in v.args))
        multiplied[v.id] = reads[v.id] if v.kind is OpKind.PRODUCT else through
    new = trace.new.items()
    return {name: reads[v.id] for name, v in new}, {name: multiplied[v.id] for name, v in new}


def _multiplies(name: str, reads: dict[str, set[str]], multiplied: dict[str, set[str]]) -> bool:
    """Return whether a state comes back to itself through a product."""

    def reached(of: set[str]) -> set[str]:
        found = set(of)
        while more := set[str]().union(*(reads[one] for one in found)) - found:
            found |= more
        return found

    around = {one for one in reached({name}) if name in reached({one})} | {name}
    return any(multiplied[one] & around for one in around)


def _looped_products(trace: Trace, apart: frozenset[str]) -> int:
    """Return how many products the main loop has if these states have loops of their own."""
    states, _ = carried_apart(apart)
    phases = phases_of(forward_roots(trace)[0], leaf_places(trace), states)
    values = trace.graph.values
    return sum(phase is Phase.LOOP and values[i].kind is OpKind.PRODUCT for i, phase in phases.items())
