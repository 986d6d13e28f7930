"""Running the engine one step at a time: for search, and wherever the last output decides the next input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import ArrayKind, Arrays, shaped
from nmt.rnn.arrays.weights import Weights, check_params
from nmt.rnn.arrays.workspace import Fresh, Workspace
from nmt.rnn.cell import axes_of
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.device import Executable
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.rows import Rows
from nmt.rnn.scan.scan import Scan
from nmt.rnn.stepping.prepared_step import PreparedStep, StepInputs, compile_step
from nmt.rnn.stepping.source_store import Sources, SourceStore


class Stepper:
    """A cell run one step at a time, without a tape, for rows that come, share and go.

    `admit` takes in sentences (captured arrays, from which it computes once the values that depend only on them); any
    number of rows may read a sentence until `release`. A cell without captured arrays has no
    sentences: its rows are only continued. Work that rows have in common is done once: see `compiler.share`. A stepper
    serves one caller; any number of steppers may share a scan and weights."""

    def __init__(self, scan: Scan, weights: Weights, threads: int | None = None) -> None:
        """Prepare steps of a scan with these weights. threads: None for those of the scan."""
        self.threads = threads or scan.threads
        check_params(scan.name, scan.params, weights, scan.dtype)
        self.scan, self.weights = scan, weights
        self.compiled = compile_step(scan.traced, scan.device, scan.dtype, scan.packed)
        leaves = self.compiled.shared.step.leaves
        shared = {k for part in (self.compiled.of_inputs, self.compiled.of_states) if part for k in part.plan.outputs}
        shared |= {*self.compiled.shared.indexed.values()}
        captured = {k: v for k, v in leaves.items() if v.op == "captured" and k not in shared}
        narrow = {k for k, v in captured.items() if "S" not in v.axes}
        self.store = SourceStore({k: v.width for k, v in captured.items()}, narrow, scan.dtype, scan.device.xp)
        self._shaped = {k: n for k, n in scan.states.items() if len(axes_of(n)) > 1}
        self._memory = Workspace(scan.device.xp)
        self._prepared: PreparedStep | None = None
        if scan.device.is_cpu:
            self._prepared = PreparedStep(scan, weights, self.compiled, self.threads)

    def admit(self, captured: Mapping[str, np.ndarray], source_lengths: Any = None) -> np.ndarray:
        """Take in captured arrays [S, B, n], real positions [B]; return sentence ids, int64 [B]. Raises ShapeError."""
        scan = self.scan
        count = next((captured[k].shape[int(c.source_axis)] for k, c in scan.captured.items() if k in captured), 0)
        rows = scan.rows(1, count, captured=captured, source_lengths=source_lengths, threads=self.threads)
        own = scan.checks.all_captured(captured, rows.S, rows.B)
        arrays: Arrays = {ArrayKind.CAPTURED.of(k): a for k, a in own.items()}
        invariants = scan.invariants(scan.compiled(training=False), self.threads)
        invariants.forward(arrays, self.weights, rows, Fresh(scan.device.xp))
        return self.store.add(arrays, rows.source_lengths)

    def release(self, sentence_ids: np.ndarray) -> None:
        """Release these sentences; their memory is reused."""
        self.store.remove(sentence_ids)

    @property
    def prepared(self) -> PreparedStep:
        """Return the prepared step of the processor. Raises RuntimeError on another device."""
        if self._prepared is None:
            raise RuntimeError(f"steps are prepared on the processor alone, not on {self.scan.device.name}")
        return self._prepared

    def rest(self) -> None:
        """Free, when a search has ended, the memory that grew with its sentences and rows. A prepared step of up to
        tuning.KEPT_STEP_ROWS rows stays."""
        self.store = self.store.emptied()
        self._memory.release()
        if self._prepared is not None:
            self._prepared.rest()

    def step(
        self,
        x: np.ndarray,
        states: Arrays,
        sentence: np.ndarray | None = None,
        *,
        word: np.ndarray | None = None,
        parent: np.ndarray | None = None,
        sequences: Mapping[str, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, Arrays]:
        """Run one step: row r continues states[parent[r]] with the input x[word[r]] and reads the sentence sentence[r].

        x [U, D]; sequences [U, n] by name, further inputs of the cell at this step; states [P, n] by name; sentence,
        word, parent int64 [R], the last two 0, 1, ... where None. `sentence` is ignored for a cell without captured
        arrays and may then be None. Returns the output [R, n] and the new states, valid until the next call. Raises
        ShapeError."""
        R = self._count(x, sentence, word, parent)
        scan = self.scan
        word = identity(R) if word is None else word
        parent = identity(R) if parent is None else parent
        checks = scan.checks
        given = {"x": checks.array("x", x, (None,), scan.cell.input_size)}
        for name, array in checks.all_sequences(sequences or {}, len(x)).items():
            given[ArrayKind.SEQUENCE.of(name)] = array
        states = states | {k: checks.array(f"state {k}", states[k], (None,), n) for k, n in self._shaped.items()}
        sources = None
        if sentence is not None and scan.captured:
            sources = self.store.of(sentence)
        inputs = StepInputs(given, {ArrayKind.STATE.of(k): a for k, a in states.items()}, word, parent)
        arrays = (self._launch if self._prepared is None else self._prepared.run)(inputs, sources)
        place = self.compiled.step.plan.outputs["y"]
        y = arrays[place.name][1 if place.kind is PlaceKind.AFTER else 0]
        new = {name: arrays[ArrayKind.STATE.of(name)][-1] for name in scan.states}
        for name, width in self._shaped.items():
            new[name] = shaped(new[name], width)
        return shaped(y, scan.cell.output_size), new

    def _count(
        self, x: np.ndarray, sentence: np.ndarray | None, word: np.ndarray | None, parent: np.ndarray | None
    ) -> int:
        """Return how many rows take the step."""
        name = self.scan.name
        if sentence is None and self.scan.captured:
            raise ShapeError(f"{name}: sentence must be the id of each row's sentence, got None; ids come from admit")
        counts = {len(array) for array in (sentence, word, parent) if array is not None} or {len(x)}
        if len(counts) > 1:
            raise ShapeError(f"{name}: sentence, word and parent must be of one length, got {sorted(counts)}")
        return counts.pop()

    def _launch(self, inputs: StepInputs, sources: Sources | None) -> Arrays:
        """Run a step as `PreparedStep.run` does, on any device, part by part."""
        given, states, word, parent = inputs.given, inputs.states, inputs.word, inputs.parent
        self._memory.reset()
        compiled, scan, R = self.compiled, self.scan, len(word)
        index = scan.device.index
        arrays: Arrays = {} if sources is None else dict(sources.arrays)
        arrays |= self._shared(compiled.of_inputs, given, word)
        arrays |= self._shared(compiled.of_states, states, parent)
        for name, array in given.items():
            arrays[name] = (array[index(word)] if name in compiled.shared.gathered else array)[None]
        for name, width in scan.states.items():
            stacked = ArrayKind.STATE.of(name)
            if (before := compiled.shared.indexed.get(stacked)) is not None:
                arrays[before] = states[stacked][index(parent)]
                arrays[ArrayKind.INDEX.of(before)] = index(identity(R))
                continue
            arrays[stacked] = stack = self._memory((2, R, width), scan.dtype)
            if stacked in compiled.shared.gathered:
                scan.device.xp.take(states[stacked], index(parent), axis=0, out=stack[0])
        starts, of_sources = identity(R), dict[str, Any]()
        if sources is not None:
            starts, of_sources = sources.starts, {"S": sources.longest, "source_lengths": sources.lengths}
        rows = Rows.of_one_step(starts, self.threads, division=scan.division, ragged=True, **of_sources)
        compiled.step.forward(arrays, self.weights, rows, self._memory)
        return arrays

    def _shared(self, part: Executable | None, given: Mapping[str, np.ndarray], index: np.ndarray) -> Arrays:
        """Run a part shared by rows and return its results, with the index by which rows read them."""
        if part is None:
            return {}
        count = len(next(iter(given.values())))
        rows = Rows.of_one_step(identity(count), self.threads)
        arrays: Arrays = {name: given[name][None] for name in part.plan.trace.inputs}
        part.forward(arrays, self.weights, rows, self._memory)
        found: Arrays = {}
        for name, place in part.plan.outputs.items():
            found |= {name: arrays[place.name][0], ArrayKind.INDEX.of(name): self.scan.device.index(index)}
        return found


class FixedStepper:
    """A cell run without a tape; the caller writes its next input into `x` [N * K, D]."""

    def __init__(
        self,
        scan: Scan,
        weights: Weights,
        captured: Mapping[str, Any],
        source_lengths: np.ndarray,
        states: Mapping[str, Any],
        K: int,
    ) -> None:
        """Allocate arrays for N sentences of K rows. captured [S, N, n] or [N, n] and states [N, n] by name, on the
        device; missing states are zero. source_lengths [N], of the host. Every row of a sentence starts with its
        states. Raises ShapeError."""
        check_params(scan.name, scan.params, weights, scan.dtype)
        self.scan, self.weights, xp = scan, weights, scan.device.xp
        self._compiled = scan.compiled(training=False, single_step=True)
        N, D = len(source_lengths), scan.cell.input_size
        one = scan.rows(1, N, captured=captured, source_lengths=source_lengths)
        own = scan.checks.all_captured(captured, one.S, N)
        self._arrays: Arrays = {ArrayKind.CAPTURED.of(k): a for k, a in own.items()}
        scan.invariants(self._compiled, scan.threads).forward(self._arrays, weights, one, Fresh(xp))
        R = N * K
        owner = np.repeat(np.arange(N), K)
        more = {"S": one.S, "source_lengths": one.source_lengths, "division": scan.division}
        self._rows = Rows.of_one_step(owner, scan.threads, **more)
        self.x = xp.zeros((R, D), scan.dtype)
        first = scan.device.index(owner)
        start = scan.start(weights, states, N)
        for name, width in scan.states.items():
            stack = self._arrays[ArrayKind.STATE.of(name)] = xp.zeros((2, R, width), scan.dtype)
            if name in start:
                stack[0] = scan.device.take_rows(start[name], first)
        self._memory = Workspace(xp)

    def step(self) -> Any:
        """Return the output [N * K, n] for the input `x`. It is overwritten by the next step."""
        arrays = {**self._arrays, "x": self.x[None]}
        self._memory.reset()  # the same addresses in every step
        self._compiled.step.forward(arrays, self.weights, self._rows, self._memory)
        place = self._compiled.step.plan.outputs["y"]
        return arrays[place.name][1 if place.kind is PlaceKind.AFTER else 0]

    def state(self, name: str) -> Any:
        """Return a state [N * K, n] after the last step, until `follow`."""
        return self._arrays[ArrayKind.STATE.of(name)][1]

    def follow(self, parents: Any) -> None:
        """Continue row r from the state of row parents[r] after the last step (int64 [N * K], of the device)."""
        for name in self.scan.states:
            stack = self._arrays[ArrayKind.STATE.of(name)]
            self.scan.device.take_rows(stack[1], parents, stack[0])
