"""What a run is asked for besides its output: gradients of some things alone, and values to look at.

What nobody asks for is never built: a pass that needs no gradient of a matrix has no product for it, and keeps
nothing for the sake of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import NOTED, SEQUENCE
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import topological


@dataclass(frozen=True)
class Wanted:
    """needs: leaves of the trace whose gradients are computed, None for all. Those of the
    states before the first step always are. receives: which outputs have a gradient of their own, `y` and recorded
    values by name; the states after the last step always may. record: names of noted values (`Scope.note`) to keep
    for every step."""

    needs: frozenset[str] | None = None
    receives: frozenset[str] = frozenset({"y"})
    record: tuple[str, ...] = ()

    @property
    def cotangents(self) -> frozenset[str]:
        """`receives` by the names of a trace's outputs."""
        return frozenset(name if name == "y" else NOTED + name for name in self.receives)

    def through(self, invariants: Trace) -> frozenset[str]:
        """The values of the small step that some wanted gradient runs through."""
        return frozenset(
            name
            for name, value in invariants.outputs.items()
            if self.needs is None or any(v.attrs.get("name") in self.needs for v in topological([value]))
        )


def wanted(
    cell: Cell, needs: Collection[str] | None, receives: Collection[str] | None, record: Iterable[str]
) -> Wanted:
    """What a scan of a cell is asked for; `receives` None is `y`. Raises ShapeError: an unknown name."""
    where, record = type(cell).__name__, tuple(record)
    known = {"x", *cell.sequences(), *cell.captured(), *cell.params()}
    _check(f"{where}: needs", needs, known)
    _check(f"{where}: receives", receives, {"y", *record})
    sequences = cell.sequences()
    return Wanted(
        None if needs is None else frozenset(SEQUENCE + k if k in sequences else k for k in needs),
        frozenset({"y"} if receives is None else receives),
        record,
    )


def _check(where: str, names: Collection[str] | None, known: set[str]) -> None:
    unknown = set(names or ()) - known
    if isinstance(names, str) or unknown:
        got = names if isinstance(names, str) else ", ".join(sorted(unknown))
        raise ShapeError(f"{where} must be a collection of names among {', '.join(sorted(known))}, got {got}")
