"""A step for search on the processor: all its parts in one call of the team, prepared once for a number of rows.

What a call needs besides its numbers (memory, the tables of generated functions, who divides what) depends on the
number of rows alone. Where rows are few, finding it out takes longer than some of the products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from nmt.rnn.compiler.share import Shared
from nmt.rnn.kernels.row_writer import INDEX
from nmt.rnn.kernels.run_cpu import Executable, Rows, Table, single_steps
from nmt.rnn.kernels.runs import identity
from nmt.rnn.kernels.team import TaskSequence
from nmt.rnn.profile import operation
from nmt.rnn.ragged import Sources
from nmt.rnn.scan import Scan
from nmt.rnn.weights import Weights
from nmt.rnn.workspace import Allocate, Fresh, Workspace

Arrays = dict[str, np.ndarray]

FEW = 16
"""Rows up to which what was prepared is kept; with more the numbers themselves take far longer."""

_SOURCE_STEP = 32
"""Source positions for which memory is prepared are a multiple of this: longer sentences rarely prepare anew."""


@dataclass
class _Call:
    """A part of the step, ready for a number of rows: its function and table, and the arrays it fills."""

    function: int
    table: Table
    address: int  # of the table
    multiply_adds: Callable[[], int]
    arrays: Arrays
    places: dict[str, list[int]]  # where in the table arrays are that change from call to call
    _given: Arrays = field(default_factory=dict)  # what is there now

    def exchange(self, name: str, array: np.ndarray) -> None:
        """Read another array under this name."""
        if self._given.get(name) is array:
            return
        self._given[name] = array
        for place in self.places.get(name, ()):
            self.table.exchange(place, array)

    @property
    def task(self) -> tuple[int, int, int]:
        """See `TaskSequence`."""
        return self.function, self.table.parts, self.address


class PreparedStep:
    """The parts of a step (see `compiler.share`), whose executables hold a single function each."""

    def __init__(
        self,
        scan: Scan,
        weights: Weights,
        shared: Shared,
        step: Executable,
        of_inputs: Executable | None,
        of_states: Executable | None,
    ) -> None:
        self.scan, self.weights, self.shared = scan, weights, shared
        self._step, self._of_inputs, self._of_states = step, of_inputs, of_states
        self._kept: dict[tuple[str, int], _Call] = {}
        self._version = weights.version
        self._memory = Workspace()
        self._sequence = TaskSequence(3)
        self._sources = Sources({}, identity(1), identity(1), 1)
        self._longest = 0
        self._names = {k for part in (of_inputs, of_states) if part for k in part.plan.outputs}

    def run(
        self,
        given: Mapping[str, np.ndarray],
        states: Mapping[str, np.ndarray],
        word: np.ndarray,
        parent: np.ndarray,
        sources: Sources | None = None,
    ) -> Arrays:
        """Arrays as `Executable.forward` leaves them, in memory that the next call uses again.

        given: inputs [U, n] by name, row r reads word[r]; states [P, n], row r continues parent[r]; both int64 [R].
        sources: None for a cell without captured arrays.
        """
        R = len(word)
        self._memory.reset()
        self._sources = sources or self._sources
        if self._sources.longest > self._longest or self.weights.version is not self._version:
            self._longest = max(self._longest, -(-self._sources.longest // _SOURCE_STEP) * _SOURCE_STEP)
            self._version, self._kept = self.weights.version, {}
        step = self._call("step", R)
        calls, arrays = [], step.arrays
        for kind, part, values, index in (
            ("inputs", self._of_inputs, given, word),
            ("states", self._of_states, states, parent),
        ):
            if part is None:
                continue
            call = self._call(kind, len(next(iter(values.values()))))
            for name in part.plan.trace.inputs:
                call.exchange(name, values[name])
            for name, place in part.plan.outputs.items():
                step.exchange(f"C_{name}", call.arrays[place.name])
                step.exchange(f"{INDEX}C_{name}", index)
            calls.append(call)
        for name in self.shared.gathered:
            if name in states:
                np.take(states[name], parent, axis=0, out=arrays[f"S_{name}"][0])
            else:
                np.take(given[name], word, axis=0, out=arrays[name][0])
        if sources is not None:
            for name, array in sources.arrays.items():
                step.exchange(name, array)
            step.exchange("source_lengths", sources.lengths)
            step.exchange("owner", sources.starts)
        calls.append(step)
        with operation("step", multiply_adds=lambda: sum(call.multiply_adds() for call in calls)):
            self._sequence.run([call.task for call in calls], calls)
        return arrays

    def rest(self) -> None:
        """Let the memory of many rows, and of sentences, go."""
        self._memory.release()
        self._sources = Sources({}, identity(1), identity(1), 1)

    def _call(self, kind: str, count: int) -> _Call:
        if count > FEW:
            return self._prepare(kind, count, self._memory)
        call = self._kept.get((kind, count))
        if call is None:
            call = self._kept[kind, count] = self._prepare(kind, count, Fresh())
        return call

    def _prepare(self, kind: str, count: int, allocate: Allocate) -> _Call:
        """What runs a part on so many rows; what changes from call to call is still to be exchanged."""
        scan = self.scan
        part = {"inputs": self._of_inputs, "states": self._of_states, "step": self._step}[kind]
        if part is None:
            raise RuntimeError(f"a step without a part for its {kind} cannot prepare one")
        ones, bounds = single_steps(count, scan.threads)
        lengths, arrays = ones, dict[str, np.ndarray]()
        if kind == "step":
            arrays |= self._arrays(count, allocate)
            lengths = self._sources.lengths
        else:
            arrays |= dict.fromkeys(part.plan.trace.inputs, _UNKNOWN)
        longest = self._longest if kind == "step" else 1
        rows = Rows(1, count, longest, ones, lengths, identity(count), bounds, False, scan.division, ragged=True)
        launches = part.prepare(arrays, self.weights, rows, allocate)
        if len(launches) != 1:
            raise RuntimeError(f"a part of a prepared step must be one function, got {len(launches)}")
        function, _, address, table = launches[0].args
        places: dict[str, list[int]] = {}
        shared = {f"{INDEX}C_{name}" for name in self._names}
        for place, name in enumerate(table.names):
            own = name in shared or not name.startswith(INDEX)
            places.setdefault(name if own else "owner", []).append(place)
        size = launches[0].multiply_adds
        return _Call(function, table, address, size if callable(size) else lambda: size, arrays, places)

    def _arrays(self, R: int, allocate: Allocate) -> Arrays:
        """The step's own: state stacks, and what it reads itself of its inputs; memory of others is a stand-in."""
        scan, gathered = self.scan, self.shared.gathered
        arrays = dict(self._sources.arrays)
        arrays |= {f"C_{name}": _UNKNOWN for name in self._names}
        arrays |= {f"S_{name}": allocate((2, R, width), scan.dtype) for name, width in scan.states.items()}
        widths = {name: v.width or 1 for name, v in self.shared.step.inputs.items()}
        return arrays | {name: allocate((1, R, n), scan.dtype) for name, n in widths.items() if name in gathered}


_UNKNOWN = np.zeros(1)
