"""What plans store is read."""

from collections import defaultdict

import pytest

from nmt.rnn.compiler.fuse import is_wide
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import PlaceKind, Product, memory_of
from nmt.rnn.compiler.trace import trace
from nmt.rnn.ops import OpKind
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases
from tests.rnn.random_cells import random_cell

CELLS = {
    **cases.CELLS,
    **{f"more_{name}": case[0] for name, case in more.CELLS.items()},
    **{f"random_{seed}": lambda seed=seed: random_cell(seed) for seed in range(30)},
}


def read_by(values, places, written=None):
    """Return the places that are read to compute values; `written`: where a value itself is written, if anywhere."""
    found, pending = set(), []
    for v in values:
        base, _ = memory_of(v, places)
        if base.id in places and places[base.id] != written:
            found.add(places[base.id])
        elif v.op == "flat":
            pending.append(v)
        else:
            pending += v.args
    while pending:
        v = pending.pop()
        base, _ = memory_of(v, places)
        if base.id in places:
            found.add(places[base.id])
        else:
            pending += v.args
    return found


def units_of(program):
    """Yield what each product and nest of a program reads, and what it writes."""
    for step in program.steps:
        if isinstance(step, Product):
            yield read_by([step.x], program.places), {program.places[step.out.id]}
            continue
        for nest in step.nests:
            reads = [read_by([e.value], program.places, e.place) for e in nest.entries]
            yield set().union(*reads), {e.place for e in nest.entries}


def programs(one):
    return [*one.programs.values(), *([one.again] if one.again else [])]


def plan_of(name, training):
    return make_plan(trace(CELLS[name](), training=training), training=training)


@pytest.mark.parametrize("name", CELLS)
def test_every_array_of_a_pass_is_read_or_a_result(name):
    for training in (False, True):
        plan = plan_of(name, training)
        reads = defaultdict(set)
        passes = {"forward": plan.forward} | ({"backward": plan.backward} if plan.backward else {})
        for key, one in passes.items():
            for program in programs(one):
                for read, _ in units_of(program):
                    reads[key] |= {place.name for place in read}
        sinks = {place.name for sink in plan.sinks for place in (sink.left, sink.right) if place is not None}
        results = {place.name for place in plan.outputs.values()}
        checkpoints = {place.name for place in plan.forward.checkpoints}
        assert set(plan.forward.arrays) <= results | reads["forward"] | reads["backward"] | sinks | checkpoints
        if plan.backward:
            gradients = {place.name for place in plan.d_inputs.values()}
            assert set(plan.backward.arrays) <= gradients | reads["backward"] | sinks | checkpoints


@pytest.mark.parametrize("name", CELLS)
def test_scratch_of_a_program_is_read_there(name):
    for training in (False, True):
        plan = plan_of(name, training)
        for program in [*programs(plan.forward), *(programs(plan.backward) if plan.backward else [])]:
            units = list(units_of(program))
            for at, (_, written) in enumerate(units):
                later = set().union(*(read for read, _ in units[at:]))
                scratch = {place for place in written if place.kind in (PlaceKind.ROWS, PlaceKind.ROW, PlaceKind.LOCAL)}
                assert scratch <= later


def expensive(entry, places):
    """Return the ids of the expensive values that are computed for an entry, without those of source positions."""
    found, pending = set(), [entry.value]
    while pending:
        v = pending.pop()
        base, _ = memory_of(v, places)
        if v.kind in (OpKind.LEAF, OpKind.PRODUCT) or base.id in places and (v is not entry.value or base is not v):
            continue
        if v is entry.value and places.get(v.id, entry.place) != entry.place:
            continue  # a copy
        found |= {v.id} if v.rule.expensive and not is_wide(v) else set()
        pending += v.args
    return found


@pytest.mark.parametrize("name", CELLS)
def test_no_two_nests_compute_the_same_expensive_value(name):
    for training in (False, True):
        plan = plan_of(name, training)
        for program in [*programs(plan.forward), *(programs(plan.backward) if plan.backward else [])]:
            nests = [nest for step in program.steps if not isinstance(step, Product) for nest in step.nests]
            found = [set().union(*(expensive(e, program.places) for e in nest.entries)) for nest in nests]
            assert sum(map(len, found)) == len(set().union(*found)), name
