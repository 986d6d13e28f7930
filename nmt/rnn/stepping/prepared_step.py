"""A step for search on the processor: all its parts in one call of the team, prepared once for up to so many rows.

What a call needs besides its numbers (memory, the tables of generated functions) stays where it is; fewer rows use the
first part of it. Finding it anew at every step would take longer than some of the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays import array_names
from nmt.rnn.arrays.array_names import INDEX, Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.compiler.program import Place
from nmt.rnn.compiler.share import Shared
from nmt.rnn.division import single_steps
from nmt.rnn.kernels.run_cpu import Executable
from nmt.rnn.kernels.runs import identity
from nmt.rnn.kernels.tables import Table
from nmt.rnn.kernels.team import TaskSequence
from nmt.rnn.profile import operation
from nmt.rnn.rows import Rows
from nmt.rnn.scan.scan import Scan
from nmt.rnn.stepping.source_store import Sources


@dataclass
class Call:
    """A part of the step, ready for up to `capacity` rows: its function and table, and the arrays it fills."""

    function: int
    table: Table
    address: int  # of the table
    arrays: Arrays  # with room for all these rows
    places: dict[str, list[int]]  # where in the table arrays are that change from call to call
    capacity: int
    rows: int = 0
    _given: Arrays = field(default_factory=dict)  # what is there now

    def resize(self, rows: int) -> None:
        """Run on so many rows from now on."""
        if rows != self.rows:
            self.table.resize(rows)
            self.rows = rows

    def array(self, name: str) -> np.ndarray:
        """The array [slots, rows, n] of this name as it lies with the present number of rows."""
        whole = self.arrays[name]
        slots, _, width = whole.shape
        return whole.reshape(-1)[: slots * self.rows * width].reshape(slots, self.rows, width)

    @property
    def multiply_adds(self) -> int:
        """Of a run."""
        return self.rows * self.table.sharing.row_size

    def exchange(self, name: str, array: np.ndarray) -> None:
        """Read another array under this name."""
        if self._given.get(name) is array:
            return
        for place in self.places.get(name, ()):
            self.table.exchange(place, array)
        self._given[name] = array

    @property
    def task(self) -> tuple[int, int, int]:
        """See `TaskSequence`."""
        return self.function, self.table.parts, self.address


class PreparedStep:
    """The parts of a step (see `compiler.share`), whose executables hold a single function each. For one caller at a
    time, and a number of threads that stays as it is: tables are divided for it."""

    def __init__(
        self,
        scan: Scan,
        weights: Weights,
        shared: Shared,
        step: Executable,
        of_inputs: Executable | None,
        of_states: Executable | None,
        threads: int,
    ) -> None:
        self.scan, self.weights, self.shared, self.threads = scan, weights, shared, threads
        self._step, self._of_inputs, self._of_states = step, of_inputs, of_states
        self._calls: dict[str, Call] = {}
        self._version = weights.version
        self._sequence = TaskSequence(3)
        self._sources = Sources({}, identity(1), identity(1), 1)
        self._longest = 0
        self._filled = {*(array_names.state(name) for name in scan.states), step.plan.outputs["y"].name}
        self._names = {k for part in (of_inputs, of_states) if part for k in part.plan.outputs}

    def run(
        self,
        given: Mapping[str, np.ndarray],
        states: Mapping[str, np.ndarray],
        word: np.ndarray,
        parent: np.ndarray,
        sources: Sources | None = None,
    ) -> Arrays:
        """The states' stacks and the array of the output, as `Executable.forward` leaves them, in memory that the next
        call uses again.

        given: inputs [U, n] by name, row r reads word[r]; states [P, n], row r continues parent[r]; both int64 [R].
        sources: None for a cell without captured arrays.
        """
        if sources is not None:
            self.read(sources)
        counts = (len(next(iter(given.values()))), len(next(iter(states.values()), parent)), len(word))
        *parts, step = self.join(given, states, word, parent, *counts)
        arrays = {name: step.array(name) for name in self._filled}
        for name in self.shared.gathered:
            if name in states:
                np.take(states[name], parent, axis=0, out=arrays[array_names.state(name)][0])
            else:
                np.take(given[name], word, axis=0, out=step.array(name)[0])
        calls = [call for call in (*parts, step) if call is not None]
        with operation("step", multiply_adds=lambda: sum(call.multiply_adds for call in calls)):
            self._sequence.run([call.task for call in calls], calls)
        return arrays

    def read(self, sources: Sources) -> None:
        """Rows read these sentences from the next call on."""
        self._sources = sources

    def join(
        self,
        given: Mapping[str, np.ndarray],
        states: Mapping[str, np.ndarray],
        word: np.ndarray,
        parent: np.ndarray,
        U: int,
        P: int,
        R: int,
    ) -> tuple[Call | None, Call | None, Call]:
        """The parts, of inputs, of states and the step, ready for so many rows and reading these arrays (see `run`)
        and one another; those that are not there are None. What is gathered is the caller's business."""
        step = self.call("step", R)
        found: list[Call | None] = []
        for kind, part, values, index, count in (
            ("inputs", self._of_inputs, given, word, U),
            ("states", self._of_states, states, parent, P),
        ):
            if part is None:
                found.append(None)
                continue
            call = self.call(kind, count)
            for name in part.plan.trace.inputs:
                call.exchange(name, values[name])
            for name, place in part.plan.outputs.items():
                step.exchange(array_names.captured(name), call.arrays[place.name])
                step.exchange(array_names.captured_index(name), index)
            found.append(call)
        for name, array in self._sources.arrays.items():
            step.exchange(name, array)
        if self._sources.arrays:
            step.exchange("source_lengths", self._sources.lengths)
            step.exchange("owner", self._sources.starts)
        return found[0], found[1], step

    @property
    def output(self) -> Place:
        """Where the step puts its output."""
        return self._step.plan.outputs["y"]

    def forget_rows(self) -> None:
        """Somebody else has written numbers of rows into the tables."""
        for call in self._calls.values():
            call.rows = 0

    def rest(self) -> None:
        """Let the memory of many rows, and of sentences, go."""
        self._calls = {kind: call for kind, call in self._calls.items() if call.capacity <= tuning.KEPT_STEP_ROWS}
        self._sources = Sources({}, identity(1), identity(1), 1)

    def call(self, kind: str, rows: int) -> Call:
        """A part of the step, "inputs", "states" or "step", with memory for so many rows and set to them."""
        if self.weights.version is not self._version:
            self._version, self._calls = self.weights.version, {}
        if self._sources.longest > self._longest:
            self._longest = -(-self._sources.longest // tuning.SOURCE_STEP) * tuning.SOURCE_STEP
            self._calls.pop("step", None)
        call = self._calls.get(kind)
        if call is None or rows > call.capacity:
            call = self._calls[kind] = self._prepare(kind, 1 << max(3, (rows - 1).bit_length()))
        call.resize(rows)
        return call

    def _prepare(self, kind: str, count: int) -> Call:
        """What runs a part on up to so many rows; what changes from call to call is still to be exchanged."""
        allocate = Fresh()
        scan = self.scan
        part = {"inputs": self._of_inputs, "states": self._of_states, "step": self._step}[kind]
        if part is None:
            raise RuntimeError(f"a step without a part for its {kind} cannot prepare one")
        ones, bounds = single_steps(count, self.threads)
        lengths, arrays = ones, dict[str, np.ndarray]()
        if kind == "step":
            arrays |= self._arrays(count)
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
        shared = {array_names.captured_index(name) for name in self._names}
        for place, name in enumerate(table.names):
            own = name in shared or not name.startswith(INDEX)
            places.setdefault(name if own else "owner", []).append(place)
        return Call(function, table, address, arrays, places, count)

    def _arrays(self, R: int) -> Arrays:
        """The step's own: state stacks, and what it reads itself of its inputs; memory of others is a stand-in."""
        scan, gathered, allocate = self.scan, self.shared.gathered, Fresh()
        arrays = dict(self._sources.arrays)
        arrays |= {array_names.captured(name): _UNKNOWN for name in self._names}
        arrays |= {array_names.state(name): allocate((2, R, width), scan.dtype) for name, width in scan.states.items()}
        widths = {name: v.width or 1 for name, v in self.shared.step.inputs.items()}
        return arrays | {name: allocate((1, R, n), scan.dtype) for name, n in widths.items() if name in gathered}


_UNKNOWN = np.zeros(1)
