"""Identity of cells: cells whose steps compute the same share a program.

A program depends only on the traced step, so the traced step is the cache key. A class or its name would not do: they
stay the same when a notebook defines the cell again, when a method is patched, or when a helper, a constant that the
step uses or a parent class is edited; and attributes need not be hashable. Two cells made alike, in whatever way, share
one program.

It costs a trace or two for each scan, about 0.1 ms for an LSTM and half a millisecond for a decoder with attention;
loading a model takes a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from nmt.rnn.cell import Cell
from nmt.rnn.compiler.trace import Trace, ready, trace_step
from nmt.rnn.graph import Value


class TracedStep:
    """A cell's step as it was traced, even if the cell changes later; compared by identity, see `traced`."""

    def __init__(self, name: str, inference: Trace, training: Trace) -> None:
        self.name = name
        self._whole = {False: inference, True: training}

    @property
    def has_named_axes(self) -> bool:
        """Return whether any value of the step has them."""
        return any(v.dims for whole in self._whole.values() for v in whole.graph.values)

    def trace(self, *, training: bool, record: Collection[str] = (), named: Collection[str] = ()) -> Trace:
        """Return the step for a kind of run, in a new graph; see `ready`. Raises ShapeError."""
        return ready(self.name, _copied(self._whole[training]), record=record, named=named)


def traced(cell: Cell) -> TracedStep:
    """Trace a cell's step as it is now; equal computations get one object while it is referenced. Raises ShapeError."""
    name = type(cell).__name__
    training = trace_step(cell, training=True)
    # Kinds of run differ only by dropout.
    inference = trace_step(cell, training=False) if training.masks else training
    content = name, content_of(inference), content_of(training)
    with _lock:
        found = _known.get(content)
        if found is None:
            _known[content] = found = TracedStep(name, inference, training)
    return found


_lock = Lock()
_known: WeakValueDictionary[tuple[Any, ...], TracedStep] = WeakValueDictionary()


def computed(values: Iterable[Value]) -> tuple[Any, ...]:
    """Return what each value computes of which others, by their ids, as a comparable value. A constant is its bits: 0.0
    == -0.0, and NaN differs from itself."""

    def attrs(v: Value) -> Any:
        return v.attrs["value"].hex() if v.op == "const" else tuple(sorted(v.attrs.items()))

    return tuple((v.op, tuple(a.id for a in v.args), v.axes, v.width, attrs(v)) for v in values)


_PARTS = "inputs", "states", "outputs", "new", "leaves", "noted"
"""The values by name of a `Trace`."""


def content_of(whole: Trace) -> tuple[Any, ...]:
    """Return a traced step as a comparable value."""

    def ids(values: dict[str, Value]) -> tuple[tuple[str, int], ...]:
        return tuple((name, v.id) for name, v in values.items())

    return (computed(whole.graph.values), *(ids(getattr(whole, part)) for part in _PARTS), tuple(whole.masks))


def _copied(whole: Trace) -> Trace:
    """Return the same step in a new graph."""
    graph = whole.graph.copied()

    def of(values: dict[str, Value]) -> dict[str, Value]:
        return {name: graph.values[v.id] for name, v in values.items()}

    parts: dict[str, Any] = {part: of(getattr(whole, part)) for part in _PARTS}
    return replace(whole, graph=graph, **parts)
