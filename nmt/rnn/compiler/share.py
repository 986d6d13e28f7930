"""What rows of a step have in common, taken out of it.

In search several rows read the same input (a frequent word) or continue the same row (hypotheses with one parent).
Products that depend on the input alone, or on the states alone, are cut into small steps of their own, which run
once per different input or state; the step reads their results as captured arrays named `shared0`, ...
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.rnn.compiler.trace import Trace, rebuild
from nmt.rnn.graph import Graph, Value, topological


@dataclass
class Shared:
    """A step cut in three: `of_inputs` and `of_states` (None where there is nothing to share) compute the captured
    arrays of `step` with the names of their outputs. `gathered`: inputs and states that `step` itself still reads."""

    step: Trace
    of_inputs: Trace | None
    of_states: Trace | None
    gathered: set[str]


def cut_shared(whole: Trace) -> Shared:
    """Cut a step without dropout; bits of the results stay what they were, for sums are not reordered."""
    roots = [*whole.outputs.values(), *whole.new.values()]
    frontier = _frontier(topological(roots))
    graph, known = Graph(), {}
    names = {f"shared{n}": v for n, (v, _) in enumerate(frontier)}
    for name, v in names.items():
        known[v.id] = graph.leaf("captured", name, v.axes, v.width)
    new_roots = rebuild(roots, graph, known)
    used = {v.id for v in topological(new_roots)}
    always = {*whole.inputs, *whole.states}
    leaves = {k: rebuild([v], graph, known)[0] for k, v in whole.leaves.items()}
    leaves = {k: v for k, v in leaves.items() if v.id in used or k in always}
    leaves |= {name: known[v.id] for name, v in names.items()}
    named = dict(zip([*whole.outputs, *whole.new], new_roots, strict=True))
    step = Trace(
        graph,
        {k: leaves[k] for k in whole.inputs},
        {k: leaves[k] for k in whole.states},
        {k: named[k] for k in whole.outputs},
        {k: named[k] for k in whole.new},
        leaves,
    )
    parts = {
        kind: {k: v for (v, of), k in zip(frontier, names, strict=True) if of == kind} for kind in ("input", "state")
    }
    gathered = {k for k, v in (step.inputs | step.states).items() if v.id in used}
    return Shared(step, _small_step(whole, parts["input"]), _small_step(whole, parts["state"]), gathered)


def _frontier(order: list[Value]) -> list[tuple[Value, str]]:
    """Values made by a product from inputs alone or states alone and read by something that needs more."""
    sources: dict[int, set[str]] = {}
    multiplied: set[int] = set()
    found: dict[int, tuple[Value, str]] = {}
    for v in order:
        own = {v.op} if v.op in ("input", "state", "captured") else set[str]()
        sources[v.id] = own.union(*(sources[a.id] for a in v.args))
        if v.kind == "product" or any(a.id in multiplied for a in v.args):
            multiplied.add(v.id)
        for a in v.args:
            alone = sources[a.id]
            if a.id in multiplied and len(alone) == 1 and alone != sources[v.id] and "captured" not in alone:
                found[a.id] = a, next(iter(alone))
    return list(found.values())


def _small_step(whole: Trace, outputs: dict[str, Value]) -> Trace | None:
    """A step without states that computes `outputs`; what it reads are its inputs, under their own names."""
    if not outputs:
        return None
    graph, known, inputs, leaves = Graph(), {}, {}, {}
    needed = {v.id for v in topological(list(outputs.values()))}
    for name, v in whole.leaves.items():
        if v.id in needed and v.op in ("input", "state"):
            known[v.id] = inputs[name] = leaves[name] = graph.leaf("input", name, v.axes, v.width)
    made = dict(zip(outputs, rebuild(list(outputs.values()), graph, known), strict=True))
    for name, v in whole.leaves.items():
        if v.id in needed and v.op == "param":
            leaves[name] = known[v.id]
    return Trace(graph, inputs, {}, made, {}, leaves)
