"""Find nests that may share the loop over their first axis, which are independent of each other at different positions
of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nmt.rnn.compiler.program import Nest, Place, PlaceKind, memory_read
from nmt.rnn.graph import Value
from nmt.rnn.named_axes import Dims

_SLOTS = {PlaceKind.BEFORE: 0, PlaceKind.CARRY: 0, PlaceKind.AGAIN: 0}
_SLOTS |= {PlaceKind.AFTER: 1, PlaceKind.CARRY_OUT: 1, PlaceKind.AGAIN_NEXT: 1}
"""Kinds of places in the two slots of an array: a step reads the one and writes the other."""


@dataclass(frozen=True)
class _Access:
    """Numbers of a place, from `start` to `stop`, that a nest reads or writes, by its axes."""

    place: Place
    start: int
    stop: int
    dims: Dims
    is_write: bool

    def conflicts(self, other: _Access, axis: Dims) -> bool:
        """Return whether a position of the axis may meet numbers of another position, and one of both writes them."""
        if not (self.is_write or other.is_write) or self.place.name != other.place.name:
            return False
        if {_SLOTS.get(one.place.kind) for one in (self, other)} == {0, 1}:
            return False
        if self.stop <= other.start or other.stop <= self.start:
            return False
        alike = (self.start, self.stop) == (other.start, other.stop)
        return not (alike and self.dims[:1] == axis and other.dims[:1] == axis)


def groups_of(nests: Iterable[Nest], places: Mapping[int, Place]) -> list[list[Nest]]:
    """Return the nests in order, in groups that may share the loop over their first axis. Others are alone."""
    groups, found = list[list[Nest]](), list[_Access]()
    for nest in nests:
        axis, more = nest.dims[:1], list(_accesses(nest, places))
        follows = bool(groups) and bool(axis) and groups[-1][0].dims[:1] == axis
        if follows and not any(one.conflicts(other, axis) for one in found for other in more):
            groups[-1].append(nest)
            found += more
        else:
            groups.append([nest])
            found = more
    return groups


def _accesses(nest: Nest, places: Mapping[int, Place]) -> Iterator[_Access]:
    for entry in nest.entries:
        yield _access(entry.value, entry.place, entry.offset, is_write=True)
        computes = not entry.add and places.get(entry.value.id) == entry.place
        for v, base, start in memory_read(entry.value.args if computes else [entry.value], places):
            yield _access(v, places[base.id], start, is_write=False)


def _access(v: Value, place: Place, start: int, *, is_write: bool) -> _Access:
    return _Access(place, start, start + (v.width or 1), v.dims, is_write)
