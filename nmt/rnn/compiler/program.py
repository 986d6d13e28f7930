"""The interface between passes and emitters: programs of row work and products, over places in memory.

A program runs over all rows of one step (inside the time loop) or of all steps (before and after it). It alternates
`RowWork`, loops over the features of one row at a time, with `Product`, a matrix product over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property

from nmt.rnn.graph import Value, reached
from nmt.rnn.named_axes import Dims


class PlaceKind(Enum):
    """Kinds of places, and the shapes of the values there."""

    SEQUENCE = auto()
    """[T, (S,) B, width]: one entry per step."""
    BLOCK = auto()
    """[steps, (S,) B, width]: the same for the steps of one block of time; not read outside a pass."""
    BEFORE = auto()
    """The state stack [T + 1, B, width], the slot before the step."""
    AFTER = auto()
    """The state stack, the slot after the step."""
    CARRY = auto()
    """[2, B, width]: gradient of a state, or a state without a stack, the slot that is read."""
    CARRY_OUT = auto()
    """The other slot, which is written."""
    CHECKPOINT = auto()
    """[T / tuning.CHECKPOINT_STEPS, B, width]: a state without a stack, before every few steps."""
    AGAIN = auto()
    """[tuning.CHECKPOINT_STEPS + 1, width]: states of one row between two checkpoints, the one before the step."""
    AGAIN_NEXT = auto()
    """States of one row between two checkpoints, the one after the step."""
    CONSTANT = auto()
    """[(S,) B, width]: constant over time; also its gradient, which is accumulated."""
    PARAMETER = auto()
    """[width]."""
    ROWS = auto()
    """[rows, width]: scratch of one step."""
    ROW = auto()
    """[(S,) width]: scratch of one row."""
    LOCAL = auto()
    """One number of one row."""


@dataclass(frozen=True)
class Place:
    """The place where a value is stored."""

    kind: PlaceKind
    name: str
    source_axis: bool
    width: int | None


@dataclass(frozen=True)
class StoredValue:
    """Write `value` to `place`, from column `offset` on; `add`: accumulate instead of overwriting."""

    value: Value
    place: Place
    offset: int = 0
    add: bool = False


@dataclass
class Nest:
    """One loop nest over source positions (if `source_axis`) and features (if `width`) of one row; a loop for each of
    `dims`, if the features have named axes."""

    stage: int
    source_axis: bool
    width: int | None
    dims: Dims = ()
    entries: list[StoredValue] = field(default_factory=list)


@dataclass(frozen=True)
class Product:
    """out = x @ weight (or its transpose), for all rows."""

    out: Value
    x: Value

    @property
    def weight(self) -> Value:
        """Return the weight: a parameter, or some rows of it."""
        return self.out.args[1]

    @property
    def transposed(self) -> bool:
        """Return whether the weight is used transposed."""
        return bool(self.out.attrs["transposed"])


@dataclass
class RowWork:
    """Loop nests for each row, in order."""

    nests: list[Nest]


@dataclass
class Program:
    """Steps in order and the place of every value that has one."""

    steps: list[RowWork | Product]
    places: dict[int, Place]

    @property
    def products(self) -> list[Product]:
        """Return its products, in order."""
        return [step for step in self.steps if isinstance(step, Product)]

    @property
    def entries(self) -> list[StoredValue]:
        """Return what its row work writes, in order."""
        return [e for step in self.steps if isinstance(step, RowWork) for nest in step.nests for e in nest.entries]

    @cached_property
    def row_size(self) -> int:
        """Return the multiply-adds of its products for one row; first read when it is finished."""
        return sum((step.x.width or 0) * (step.out.width or 0) for step in self.products)


def memory_of(v: Value, places: Mapping[int, Place]) -> tuple[Value, int]:
    """Return the value in whose memory `v` lies and its first column there: the last of a chain of views that is in
    memory; `v` itself and 0 if none is."""
    found, start, one = (v, 0), 0, v
    while one.is_view:
        start += one.attrs.get("start", 0)
        one = one.args[0]
        if one.id in places:
            found = one, start
    return found


def memory_read(values: Iterable[Value], places: Mapping[int, Place]) -> Iterator[tuple[Value, Value, int]]:
    """Yield what is read from memory to compute values, once each: with the value in whose memory it lies, and its
    first column there (see `memory_of`). A value in no memory is computed from its arguments."""
    for v in reached(values, lambda v: memory_of(v, places)[0].id not in places).values():
        base, start = memory_of(v, places)
        if base.id in places:
            yield v, base, start


def with_places(program: Program, move: Callable[[Place], Place]) -> Program:
    """Return the program with its values in other places."""

    def moved(nest: Nest) -> Nest:
        return replace(nest, entries=[replace(e, place=move(e.place)) for e in nest.entries])

    steps = [RowWork(list(map(moved, s.nests))) if isinstance(s, RowWork) else s for s in program.steps]
    return Program(steps, {i: move(place) for i, place in program.places.items()})
