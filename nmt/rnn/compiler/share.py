"""Extraction of the work that rows of a step have in common.

In search several rows read the same input (a frequent word) or continue the same row (hypotheses with one parent).
Products that depend only on the input, or only on the states, are moved into small separate steps, which run once per
different input or state; the step reads their results as arrays named `K_shared0`, ...

A state with named axes is too large to be copied to each row that continues it. The step reads it in place, by the
number of its row, as an array named `K_S_name`, and its new value is an output of the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nmt.rnn.arrays.array_names import ArrayKind, Numbered
from nmt.rnn.compiler.trace import Trace, cut_out, small_step
from nmt.rnn.graph import Value, derived, topological
from nmt.rnn.ops import OpKind


@dataclass
class Shared:
    """A step split in three: `of_inputs` and `of_states` (None where nothing is shared) compute the arrays that `step`
    reads under the names of their outputs. `gathered`: arrays of inputs and states that `step` itself still reads.
    `indexed`: the arrays of states that it reads by index, with the names under which it does."""

    step: Trace
    of_inputs: Trace | None
    of_states: Trace | None
    gathered: set[str]
    indexed: dict[str, str]


def cut_shared(whole: Trace) -> Shared:
    """Split a step without dropout; the results are bit-identical, since sums are not reordered."""
    frontier = _frontier([*whole.outputs.values(), *whole.new.values()])
    names = {ArrayKind.CONSTANT.of(Numbered.SHARED.of(n)): (v, of) for n, (v, of) in enumerate(frontier)}
    cut = {k: v for k, (v, _) in names.items()}
    indexed = _indexed(cut_out(whole, cut), [v for v, of in names.values() if of == "state"])
    step = cut_out(whole, cut | {name: whole.leaves[state] for state, name in indexed.items()})
    if indexed:
        step = _with_outputs(step, indexed)
    used = {v.id for v in topological([*step.outputs.values(), *step.new.values()])}
    gathered = {k for k, v in step.leaves.items() if v.op in ("input", "state") and v.id in used}

    def part(kind: str) -> Trace | None:
        values = {k: v for k, (v, of) in names.items() if of == kind}
        return small_step(whole, values, {kind}) if values else None

    return Shared(step, part("input"), part("state"), gathered, indexed)


def _indexed(step: Trace, shared: list[Value]) -> dict[str, str]:
    """Return the arrays of the states with named axes that only row work of the step reads, with their names as arrays
    read by index: products, and the part that computes the values `shared` by states, read rows in order."""
    values = topological([*step.outputs.values(), *step.new.values()])
    multiplied = {v.args[0].span[0].id for v in values if v.kind is OpKind.PRODUCT}
    ordered = {v.attrs["name"] for v in topological(shared) if v.op == "state"}
    read = {v.id for v in values} - multiplied
    states = {ArrayKind.STATE.of(name): v for name, v in step.states.items() if v.dims and v.id in read}
    return {name: ArrayKind.CONSTANT.of(name) for name in states if name not in ordered}


def _with_outputs(step: Trace, indexed: dict[str, str]) -> Trace:
    """Return the step with the new values of these states as outputs, under the names of the states' arrays."""
    new = {ArrayKind.STATE.of(name): v for name, v in step.new.items()}
    return replace(
        step,
        states={name: v for name, v in step.states.items() if ArrayKind.STATE.of(name) not in indexed},
        new={name: v for name, v in step.new.items() if ArrayKind.STATE.of(name) not in indexed},
        outputs=step.outputs | {name: new[name] for name in indexed},
        leaves={name: v for name, v in step.leaves.items() if name not in indexed},
    )


def _frontier(roots: list[Value]) -> list[tuple[Value, str]]:
    """Return values computed by a product from inputs or states only and read by a value that needs more, or not at
    all. So no product of the step itself reads a shared value: a product reads rows in order, not by an index. For a
    view the whole is returned: a product's result in memory need not be copied in pieces."""
    sources: dict[int, set[str]] = {}
    order, found = topological(roots), dict[int, tuple[Value, str]]()
    multiplied = derived(order, lambda v: v.kind is OpKind.PRODUCT)
    for v in order:
        own = {v.op} if v.op in ("input", "state", "captured") else set[str]()
        sources[v.id] = own.union(*(sources[a.id] for a in v.args))
        for a in v.args:
            alone = sources[a.id]
            if a.id in multiplied and len(alone) == 1 and alone != sources[v.id] and "captured" not in alone:
                whole = a.span[0] if a.span[0].id in multiplied else a
                found[whole.id] = whole, next(iter(alone))
    for v in roots:
        if v.id in multiplied and len(sources[v.id]) == 1 and "captured" not in sources[v.id]:
            found[v.id] = v, next(iter(sources[v.id]))
    return list(found.values())
