"""Which cells are one: those whose steps compute the same.

A program is made from a traced step and from nothing else, so the traced step is what programs are remembered by: not
a class or its name, which stay when a notebook defines the cell again, when a method is patched, a helper or a
constant that the step names is edited, or a parent class; nor attributes, which need not be hashable. Two cells made
alike, in whatever way, share one program.

It costs a trace or two for each scan, some 0.1 ms for an LSTM and half a millisecond for a decoder with attention,
where loading a model takes a second.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from nmt.rnn.cell import Cell
from nmt.rnn.compiler.trace import Trace, ready, trace_step
from nmt.rnn.graph import Value


class TracedStep:
    """A cell's step as it was when it was traced, whatever becomes of the cell; compared by identity, see `traced`."""

    def __init__(self, name: str, inference: Trace, training: Trace) -> None:
        self.name = name
        self._whole = {False: inference, True: training}

    def trace(self, *, training: bool, record: Collection[str] = (), named: Collection[str] = ()) -> Trace:
        """Return the step for a kind of run, in a graph of its own; see `ready`. Raises ShapeError."""
        return ready(self.name, _copied(self._whole[training]), record=record, named=named)


def traced(cell: Cell) -> TracedStep:
    """Trace a cell's step as it is now; the same object for cells that compute the same, while anybody holds it.
    Raises ShapeError."""
    name = type(cell).__name__
    training = trace_step(cell, training=True)
    # Kinds of run differ by dropout alone.
    inference = trace_step(cell, training=False) if training.masks else training
    content = name, _content(inference), _content(training)
    with _lock:
        found = _known.get(content)
        if found is None:
            _known[content] = found = TracedStep(name, inference, training)
    return found


_lock = Lock()
_known: WeakValueDictionary[tuple[Any, ...], TracedStep] = WeakValueDictionary()


def _content(whole: Trace) -> tuple[Any, ...]:
    """Return a traced step as a value to compare."""

    def ids(values: dict[str, Value]) -> tuple[tuple[str, int], ...]:
        return tuple((name, v.id) for name, v in values.items())

    parts = whole.inputs, whole.states, whole.outputs, whole.new, whole.leaves, whole.noted
    return (whole.graph.content, *map(ids, parts), tuple(whole.masks))


def _copied(whole: Trace) -> Trace:
    """Return the same step in a graph of its own."""
    graph = whole.graph.copied()

    def of(values: dict[str, Value]) -> dict[str, Value]:
        return {name: graph.values[v.id] for name, v in values.items()}

    return replace(
        whole,
        graph=graph,
        inputs=of(whole.inputs),
        states=of(whole.states),
        outputs=of(whole.outputs),
        new=of(whole.new),
        leaves=of(whole.leaves),
        noted=of(whole.noted),
    )
