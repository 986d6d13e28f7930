"""Extraction of the work that rows of a step have in common.

In search several rows read the same input (a frequent word) or continue the same row (hypotheses with one parent).
Products that depend only on the input, or only on the states, are moved into small separate steps, which run once per
different input or state; the step reads their results as arrays named `K_shared0`, ...
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.rnn.arrays.array_names import ArrayKind, Numbered
from nmt.rnn.compiler.trace import Trace, cut_out, small_step
from nmt.rnn.graph import Value, topological
from nmt.rnn.ops import OpKind


@dataclass
class Shared:
    """A step split in three: `of_inputs` and `of_states` (None where nothing is shared) compute the arrays that `step`
    reads under the names of their outputs. `gathered`: arrays of inputs and states that `step` itself still reads."""

    step: Trace
    of_inputs: Trace | None
    of_states: Trace | None
    gathered: set[str]


def cut_shared(whole: Trace) -> Shared:
    """Split a step without dropout; the results are bit-identical, since sums are not reordered."""
    frontier = _frontier([*whole.outputs.values(), *whole.new.values()])
    names = {ArrayKind.CONSTANT.of(Numbered.SHARED.of(n)): (v, of) for n, (v, of) in enumerate(frontier)}
    step = cut_out(whole, {k: v for k, (v, _) in names.items()})
    used = {v.id for v in topological([*step.outputs.values(), *step.new.values()])}
    gathered = {k for k, v in step.leaves.items() if v.op in ("input", "state") and v.id in used}

    def part(kind: str) -> Trace | None:
        values = {k: v for k, (v, of) in names.items() if of == kind}
        return small_step(whole, values, {kind}) if values else None

    return Shared(step, part("input"), part("state"), gathered)


def _frontier(roots: list[Value]) -> list[tuple[Value, str]]:
    """Return values computed by a product from inputs or states only and read by a value that needs more, or not at
    all.

    So no product of the step itself reads a shared value: a product reads rows in order, not by an index. For a view
    the whole is returned: a product's result in memory need not be copied in pieces.
    """
    sources: dict[int, set[str]] = {}
    multiplied: set[int] = set()
    found: dict[int, tuple[Value, str]] = {}
    for v in topological(roots):
        own = {v.op} if v.op in ("input", "state", "captured") else set[str]()
        sources[v.id] = own.union(*(sources[a.id] for a in v.args))
        if v.kind is OpKind.PRODUCT or any(a.id in multiplied for a in v.args):
            multiplied.add(v.id)
        for a in v.args:
            alone = sources[a.id]
            if a.id in multiplied and len(alone) == 1 and alone != sources[v.id] and "captured" not in alone:
                whole = a.span[0] if a.span[0].id in multiplied else a
                found[whole.id] = whole, next(iter(alone))
    for v in roots:
        if v.id in multiplied and len(sources[v.id]) == 1 and "captured" not in sources[v.id]:
            found[v.id] = v, next(iter(sources[v.id]))
    return list(found.values())
