"""Results that a run must compute besides its output: selected gradients, and recorded values.

A value that is not requested is never built: a pass that needs no gradient of a matrix has no product for it, and
stores nothing for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import ArrayKind, output
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import topological


@dataclass(frozen=True)
class Wanted:
    """Selected gradients and recorded values of a run.

    needs: leaves of the trace whose gradients are computed, by the names of their arrays, None for all; those of the
    initial states always are. receives: which outputs have an incoming gradient, `y` and recorded values by name; the
    final states always may. record: names of noted values (`Scope.note`) to store for every step.
    """

    needs: frozenset[str] | None = None
    receives: frozenset[str] = frozenset({"y"})
    record: tuple[str, ...] = ()

    @property
    def cotangents(self) -> frozenset[str]:
        """Return `receives` by the names of a trace's outputs."""
        return frozenset(map(output, self.receives))

    def through(self, invariants: Trace) -> frozenset[str]:
        """Return the values of the small step through which a wanted gradient flows."""
        needed = {v.id for name, v in invariants.leaves.items() if self.needs is None or name in self.needs}
        outputs = invariants.outputs.items()
        return frozenset(name for name, value in outputs if any(v.id in needed for v in topological([value])))


def wanted(
    cell: Cell, needs: Collection[str] | None, receives: Collection[str] | None, record: Iterable[str]
) -> Wanted:
    """Return what a scan of a cell must compute; `receives` None is `y`. Raises ShapeError: an unknown name."""
    where, record = type(cell).__name__, tuple(record)
    known = {"x": "x"} | {name: ArrayKind.SEQUENCE.of(name) for name in cell.sequences()}
    known |= {name: ArrayKind.CAPTURED.of(name) for name in cell.captured()}
    known |= {name: ArrayKind.PARAMETER.of(name) for name in cell.params()}
    _check(f"{where}: needs", needs, {*known})
    if "y" in record:
        raise ShapeError(
            f"{where}: record must name noted values other than the output y, got y; note it by another name"
        )
    _check(f"{where}: receives", receives, {"y", *record})
    return Wanted(
        None if needs is None else frozenset(known[name] for name in needs),
        frozenset({"y"} if receives is None else receives),
        record,
    )


def _check(where: str, names: Collection[str] | None, known: set[str]) -> None:
    unknown = set(names or ()) - known
    if isinstance(names, str) or unknown:
        got = names if isinstance(names, str) else ", ".join(sorted(unknown))
        raise ShapeError(f"{where} must be a collection of names among {', '.join(sorted(known))}, got {got}")
