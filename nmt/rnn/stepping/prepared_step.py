"""A step for search on the processor: all its parts in one call of the thread team, prepared once for a number of rows.

Its memory and the tables of generated functions stay in place; fewer rows use the first part of it. Preparing it at
every step would take longer than some of the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind, Arrays, parse
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.compiler.identity import TracedStep
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import Place
from nmt.rnn.compiler.share import Shared, cut_shared
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.device import Device, Executable
from nmt.rnn.kernels.loops.run_cpu import Table
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.kernels.threads.pool import TaskSequence
from nmt.rnn.rows import Rows
from nmt.rnn.scan.scan import Scan
from nmt.rnn.stepping.source_store import Sources


@dataclass
class CompiledStep:
    """A compiled step and the parts of it that rows share (see `compiler.share`); None for those it lacks."""

    shared: Shared
    step: Executable
    of_inputs: Executable | None
    of_states: Executable | None


@lru_cache(maxsize=64)
def compile_step(step: TracedStep, device: Device, dtype: np.dtype, packed: np.dtype) -> CompiledStep:
    """Return the compiled parts of a step, cached by what the step computes."""
    shared = cut_shared(step.trace(training=False))

    def executable(part: Trace) -> Executable:
        return device.executable(make_plan(part, training=False, single_step=True), dtype, packed)

    parts = [None if part is None else executable(part) for part in (shared.of_inputs, shared.of_states)]
    return CompiledStep(shared, executable(shared.step), *parts)


@dataclass
class StepCall:
    """A part of the step, ready for up to `capacity` rows: its function and table, and the arrays it fills."""

    function: int
    table: Table
    address: int  # of the table
    arrays: Arrays  # with room for all these rows
    places: dict[str, list[int]]  # positions in the table of arrays that change from call to call
    capacity: int
    rows: int = 0
    _given: Arrays = field(default_factory=dict)  # the arrays now in the table

    def resize(self, rows: int) -> None:
        """Set the number of rows of the next runs."""
        if rows != self.rows:
            self.table.resize(rows)
            self.rows = rows

    def array(self, name: str) -> np.ndarray:
        """Return the array [slots, rows, n] of this name for the present number of rows."""
        whole = self.arrays[name]
        slots, _, width = whole.shape
        return whole.reshape(-1)[: slots * self.rows * width].reshape(slots, self.rows, width)

    def replace_array(self, name: str, array: np.ndarray) -> None:
        """Read another array under this name."""
        if self._given.get(name) is array:
            return
        for place in self.places.get(name, ()):
            self.table.replace_array(place, array)
        self._given[name] = array

    @property
    def task(self) -> tuple[int, int, int]:
        """Return the part as a task of a `TaskSequence`."""
        return self.function, self.table.parts, self.address


@dataclass(frozen=True)
class StepInputs:
    """The inputs of a step: inputs [U, n] and states [P, n] by the names of their arrays. Row r reads the input word[r]
    and continues the states parent[r], both int64 [R]."""

    given: Mapping[str, np.ndarray]
    states: Mapping[str, np.ndarray]
    word: np.ndarray
    parent: np.ndarray


class StepCalls(NamedTuple):
    """The parts of a step, in the order they run; parts that a step does not have are None."""

    inputs: StepCall | None
    states: StepCall | None
    step: StepCall


class PreparedStep:
    """The parts of a step (see `compiler.share`), each compiled to a single function. For one caller at a time, and a
    fixed number of threads, for which the tables are divided."""

    def __init__(self, scan: Scan, weights: Weights, compiled: CompiledStep, threads: int) -> None:
        self.scan, self.weights, self.shared, self.threads = scan, weights, compiled.shared, threads
        self._compiled = compiled
        self._parts = {"inputs": compiled.of_inputs, "states": compiled.of_states, "step": compiled.step}
        self._calls: dict[str, StepCall] = {}
        self._version = weights.version
        self._sequence = TaskSequence(3)
        self.sources = Sources({}, identity(1), identity(1), 1)
        """The sentences that rows read from the next call on."""
        self._longest = 0
        self._filled = {*(ArrayKind.STATE.of(name) for name in scan.states), self.output.name}
        shared = self._parts["inputs"], self._parts["states"]
        self._names = {k for part in shared if part for k in part.plan.outputs} | {*self.shared.indexed.values()}

    def run(self, inputs: StepInputs, sources: Sources | None = None) -> Arrays:
        """Return the states' stacks and the array of the output, as `CPUExecutable.forward` leaves them. Their memory
        is reused by the next call. sources: None for a cell without captured arrays."""
        if sources is not None:
            self.sources = sources
        given, states, word, parent = inputs.given, inputs.states, inputs.word, inputs.parent
        U, P = len(next(iter(given.values()))), len(next(iter(states.values()), parent))
        parts = self.join(inputs, U, P, len(word))
        step = parts.step
        arrays = {name: step.array(name) for name in self._filled}
        for name, before in self.shared.indexed.items():
            state = np.ascontiguousarray(states[name])
            own = np.may_share_memory(state, arrays[name])  # the result of the last step, which this one overwrites
            step.replace_array(before, state.copy() if own else state)
            step.replace_array(ArrayKind.INDEX.of(before), parent)
        for name in self.shared.gathered:
            if name in given:
                np.take(given[name], word, axis=0, out=step.array(name)[0])
            else:
                np.take(states[name], parent, axis=0, out=arrays[name][0])
        calls = [call for call in parts if call is not None]
        self._sequence.run([call.task for call in calls], calls)
        return arrays

    def join(self, inputs: StepInputs, U: int, P: int, R: int) -> StepCalls:
        """Return the parts ready for U inputs, P states and R rows, connected to these arrays and to one another. The
        caller must gather what the step reads by row."""
        step = self.call("step", R)
        of_inputs = self._shared(step, "inputs", inputs.given, inputs.word, U)
        of_states = self._shared(step, "states", inputs.states, inputs.parent, P)
        for name, array in self.sources.arrays.items():
            step.replace_array(name, array)
        if self.sources.arrays:
            step.replace_array("source_lengths", self.sources.lengths)
            step.replace_array("owner", self.sources.starts)
        return StepCalls(of_inputs, of_states, step)

    def _shared(
        self, step: StepCall, kind: str, values: Mapping[str, np.ndarray], index: np.ndarray, count: int
    ) -> StepCall | None:
        """Prepare and return the part shared by `kind`, "inputs" or "states", to be read by `index`."""
        part = self._parts[kind]
        if part is None:
            return None
        call = self.call(kind, count)
        for name in part.plan.trace.inputs:
            call.replace_array(name, values[name])
        for name, place in part.plan.outputs.items():
            step.replace_array(name, call.arrays[place.name])
            step.replace_array(ArrayKind.INDEX.of(name), index)
        return call

    @property
    def output(self) -> Place:
        """Return the place of the step's output."""
        return self._compiled.step.plan.outputs["y"]

    def forget_rows(self) -> None:
        """Forget the numbers of rows after a compiled search has changed them in the tables; the next call sets them.
        States that are read by index are in this step's own memory again."""
        for call in self._calls.values():
            call.rows = 0
        if "step" in self._calls:
            step, indexed = self._calls["step"], self.shared.indexed
            for place in (place for names in indexed.items() for name in names for place in step.places[name]):
                step.table.restore(place)

    def rest(self) -> None:
        """Free the memory of many rows and of sentences; keep parts of up to tuning.KEPT_STEP_ROWS rows."""
        self._calls = {kind: call for kind, call in self._calls.items() if call.capacity <= tuning.KEPT_STEP_ROWS}
        self.sources = Sources({}, identity(1), identity(1), 1)

    def call(self, kind: str, rows: int) -> StepCall:
        """Return a part of the step, "inputs", "states" or "step", with its memory set to this number of rows."""
        if self.weights.version is not self._version:
            self._version, self._calls = self.weights.version, {}
        if self.sources.longest > self._longest:
            self._longest = -(-self.sources.longest // tuning.SOURCE_STEP) * tuning.SOURCE_STEP
            self._calls.pop("step", None)
        call = self._calls.get(kind)
        if call is None or rows > call.capacity:
            call = self._calls[kind] = self._prepare(kind, 1 << max(3, (rows - 1).bit_length()))
        call.resize(rows)
        return call

    def _prepare(self, kind: str, count: int) -> StepCall:
        """Return a part prepared for up to `count` rows; the arrays that change from call to call are not yet set."""
        allocate = Fresh()
        scan = self.scan
        part = self._parts[kind]
        if part is None:
            raise RuntimeError(f"a step without a part for its {kind} cannot prepare one")
        how: dict[str, Any] = {"division": scan.division, "ragged": True}
        if kind == "step":
            arrays = self._arrays(count)
            how |= {"S": self._longest, "source_lengths": self.sources.lengths}
        else:
            arrays = dict.fromkeys(part.plan.trace.inputs, _UNKNOWN)
        rows = Rows.of_one_step(identity(count), self.threads, **how)
        launches = part.prepare(arrays, self.weights, rows, allocate)
        if len(launches) != 1:
            raise RuntimeError(f"a part of a prepared step must be one function, got {len(launches)}")
        function, _, address, table = launches[0].args
        places: dict[str, list[int]] = {}
        shared = {ArrayKind.INDEX.of(name) for name in self._names}
        for place, name in enumerate(table.names):
            own = name in shared or parse(name).kind is not ArrayKind.INDEX
            places.setdefault(name if own else "owner", []).append(place)
        return StepCall(function, table, address, arrays, places, count)

    def _arrays(self, R: int) -> Arrays:
        """Return the step's arrays: state stacks, inputs it reads itself, and placeholders for what each call gives."""
        scan, gathered, allocate = self.scan, self.shared.gathered, Fresh()
        arrays = dict(self.sources.arrays)
        arrays |= dict.fromkeys(self._names, _UNKNOWN)
        slots = {name: 1 if name in self.shared.indexed else 2 for name in map(ArrayKind.STATE.of, scan.states)}
        widths = dict(zip(slots, scan.states.values(), strict=True))
        arrays |= {name: allocate((count, R, int(widths[name])), scan.dtype) for name, count in slots.items()}
        widths = {name: v.width or 1 for name, v in self.shared.step.inputs.items()}
        return arrays | {name: allocate((1, R, n), scan.dtype) for name, n in widths.items() if name in gathered}


_UNKNOWN = np.zeros(1)
