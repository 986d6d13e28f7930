"""Beam search on the processor as one computation: the loop of `kernels.beam_loop` with its memory and tables.

The caller queues encoded sentences, runs the loop, and reads those that have ended; the interpreter is needed when new
sentences have to be encoded, not for every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.beam_state import BeamSettings
from nmt.rnn.arrays.device_operations import CandidateLists, OutputLayer
from nmt.rnn.arrays.weights import Quantised
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.kernels.loops.run_cpu import divisions
from nmt.rnn.kernels.memory.table_layout import NamedTable
from nmt.rnn.kernels.model.update import embedding_table, embedding_task
from nmt.rnn.kernels.products.packing import packed_output
from nmt.rnn.kernels.search.beam_loop import search_task
from nmt.rnn.kernels.search.beam_table import ALLOCATED, PARTS, SEARCH, STEP_PART, Status
from nmt.rnn.kernels.search.best_tokens import BestTokens, OutputTask
from nmt.rnn.kernels.search.candidates import BestCandidates
from nmt.rnn.kernels.search.search_rules import tokens_wanted
from nmt.rnn.kernels.threads.atomics import FLAT_BARRIER_THREADS, GROUPS_WORD
from nmt.rnn.kernels.threads.pool import address_of, group_counters, run_team
from nmt.rnn.stepping.prepared_step import StepCall, StepCalls, StepInputs
from nmt.rnn.stepping.stepper import Stepper

_TASKS_THAT_MEET = len(PARTS) + 1
"""The tasks of the parts of a step, and of the output layer."""


@dataclass(frozen=True)
class Ended:
    """A sentence that has ended: its number, its id with the decoder, and for each of its hypotheses, in the order in
    which they ended, tokens (including EOS if it is finished), sum, score, and whether EOS has ended it."""

    sentence: int
    sentence_id: int
    hypotheses: list[tuple[list[int], float, float, bool]]


class CompiledBeam:
    """The search of one decoder and output layer; call `begin` for each search."""

    def __init__(self, stepper: Stepper, layer: OutputLayer, threads: int) -> None:
        self._stepper, self._layer, self._threads = stepper, layer, threads
        self._capacity, self._room = 0, (0, 0)  # rows; slots, and places of each
        self._memory = NamedTable(SEARCH)
        self._joined: tuple[StepCall | OutputTask | None, ...] = ()  # the calls that the tables were made for
        self._embedding_of: tuple[np.ndarray | Quantised, float] | None = None  # the inputs of its table
        self._lines = group_counters(_TASKS_THAT_MEET) if threads > FLAT_BARRIER_THREADS else None

    @property
    def is_small(self) -> bool:
        """Return whether its memory is small enough to keep between searches."""
        return self._capacity <= tuning.KEPT_STEP_ROWS

    def begin(self, settings: BeamSettings, embedding: np.ndarray | Quantised, scale: float) -> None:
        """Start a search without sentences. embedding: the table of the tokens read, multiplied by `scale`."""
        self._settings = settings
        slots, K = 2 * settings.size, settings.beam_size
        if self._room != (slots, K):
            self._capacity, self._room = settings.size * K, (slots, K)
            self._make_memory(slots, K)
        memory = self._memory
        memory.clear(_AT_FIRST)
        memory.update(vars(settings))
        memory["free"][:], memory["num_free"] = np.arange(slots), slots
        quantised = isinstance(embedding, Quantised)
        self._search_task = search_task(self._x.dtype)
        self._embedding_task = embedding_task(self._x.dtype, quantised=quantised)
        if self._embedding_of is None or self._embedding_of[0] is not embedding or self._embedding_of[1] != scale:
            self._embedding = embedding_table(memory["distinct"], embedding, scale, self._x)
            self._embedding_of = embedding, scale
        memory["embedding_code"], memory["embedding_table"] = self._embedding_task.address, self._embedding.address
        self._states: dict[str, np.ndarray] = {}
        self._output: OutputTask | None = None  # the whole layer's task is made once no narrower layer is given

    @property
    def wants_more(self) -> bool:
        """Return whether no queued sentence is left."""
        return bool(self._memory["taken"] >= self._memory["num_waiting"])

    def wait(
        self,
        sentences: np.ndarray,
        sentence_ids: np.ndarray,
        states: dict[str, np.ndarray],
        tokens: np.ndarray,
        limits: np.ndarray,
    ) -> None:
        """Queue sentences [B], when no other one is queued. They are given by their ids with the stepper, the states
        and tokens before the first step, their maximum numbers of tokens, each at least one."""
        if not self.wants_more:
            raise RuntimeError("sentences must wait until none of the last ones does")
        count = len(sentences)
        columns = {"sentence": sentences, "sentence_id": sentence_ids, "list": np.zeros(count)}
        columns |= {"limit": limits, "token": tokens}
        self._memory.update({f"waiting.{name}": np.array(column, np.int64) for name, column in columns.items()})
        widths = self._stepper.scan.states
        self._states = {
            ArrayKind.STATE.of(k): np.ascontiguousarray(states[k]).reshape(count, int(n)) for k, n in widths.items()
        }
        self._memory.update({"taken": 0, "num_waiting": count})

    def narrow(self, layer: OutputLayer, lists: CandidateLists, sentence_ids: np.ndarray) -> None:
        """Restrict the search to these candidates from now on. sentence_ids [lists], rising: each list's sentence."""
        for group in ("slots", "waiting"):
            of = np.searchsorted(sentence_ids, self._memory[f"{group}.sentence_id"])
            self._memory[f"{group}.list"][:] = np.minimum(of, len(sentence_ids) - 1)
        self._use_layer(layer, lists)

    def abandon(self, sentences: Sequence[int]) -> None:
        """Cancel these sentences: those in progress end with the next step."""
        for sentence in sentences:
            self._memory["slots.limit"][self._memory["slots.sentence"] == sentence] = 1

    def run(self, *, more: bool, most_steps: int | None = None) -> bool:
        """Search until there is something to read or to queue, or for a limited time; return whether any sentence is in
        progress. more: whether other sentences would follow when some of those in progress have ended; most_steps: the
        number of steps after which it returns; it always returns after tuning.ROWS_BETWEEN_LOOKS rows."""
        memory = self._memory
        self._connect()
        budget = max(1, tuning.ROWS_BETWEEN_LOOKS // self._capacity)
        memory["more"], memory["budget"] = more, min(budget, most_steps or budget)
        while True:
            run_team(self._search_task.address, self._threads, memory.address, memory)
            if memory["status"] != Status.WANTS_WIDTH:
                break
            self._widen()
        self._stepper.prepared.forget_rows()
        return bool(memory["status"] != Status.DONE)

    def ended(self) -> list[Ended]:
        """Return the sentences that have ended since the last call."""
        memory, found = self._memory, []
        sentences, ids, counts = (memory[f"slots.{name}"] for name in ("sentence", "sentence_id", "num_ended"))
        numbers = [memory[f"hypotheses.{name}"] for name in ("steps", "sum", "score", "finished")]
        history, free = memory["hypotheses.history"], memory["free"]
        ended = memory["ended"][: memory["num_ended"]].tolist()
        for s in ended:
            count = int(counts[s])
            steps, sums, scores, finished = (array[s, :count].tolist() for array in numbers)
            tokens = [history[s, k, : steps[k]].tolist() for k in range(count)]
            hypotheses = list(zip(tokens, sums, scores, map(bool, finished), strict=True))
            found.append(Ended(int(sentences[s]), int(ids[s]), hypotheses))
        count = memory["num_free"]
        free[count : count + len(found)] = ended
        memory["num_free"], memory["num_ended"] = count + len(found), 0
        return found

    # ------------------------------------------------------------ memory

    def _make_memory(self, slots: int, K: int) -> None:
        """Allocate arrays for `slots` sentences of K hypotheses each; `begin` sets the numbers of a new search."""
        scan, C = self._stepper.scan, self._capacity
        V = len(self._layer.weights[self._layer.bias])
        sizes = {"room": C, "num_slots": slots, "width": tuning.FIRST_WIDTH, "beam_size": K, "vocab_size": V}
        self._memory = memory = NamedTable(SEARCH, sizes, F=scan.dtype)
        memory.allocate(*ALLOCATED, zeros=True)
        self._parts = [NamedTable(STEP_PART) for _ in PARTS]
        memory.update({name: part.address for name, part in zip(PARTS, self._parts, strict=True)})
        memory["numbering"][:] = -1
        memory["live.first_row"] = np.zeros(C + 1, np.int64)
        most = C * tokens_wanted(K)
        memory["tokens"], memory["scores"] = np.zeros(most, np.int32), np.zeros(most, scan.dtype)
        self._x = aligned((C, scan.cell.input_size), scan.dtype, zeros=True)
        widths = {ArrayKind.STATE.of(name): int(width) for name, width in scan.states.items()}
        indexed, places = self._stepper.prepared.shared.indexed, C + slots // 2
        self._halves = {name: aligned((2, places, widths.pop(name)), scan.dtype, zeros=True) for name in indexed}
        self._continued = {name: aligned((C, width), scan.dtype, zeros=True) for name, width in widths.items()}
        self._embedding_of = None
        self._whole: OutputTask | None = None  # the task of the whole output layer, which all searches use
        self._joined = ()

    def _widen(self) -> None:
        """Double the memory for the tokens of hypotheses."""
        for name in ("history", "hypotheses.history"):
            history = self._memory[name]
            self._memory[name] = np.pad(history, ((0, 0), (0, 0), (0, history.shape[2])))
        self._memory["width"] *= 2

    # ------------------------------------------------------------ tables

    def _use_layer(self, layer: OutputLayer, lists: CandidateLists | None = None) -> OutputTask:
        """Return the output layer's task: over the whole vocabulary, or for a narrowed layer over lists."""
        C, H, dtype, memory = self._capacity, self._stepper.scan.cell.output_size, self._x.dtype, self._memory
        weights = packed_output(layer, self._threads)
        places = min(tokens_wanted(self._settings.beam_size), memory["vocab_size"])
        output: OutputTask
        if lists is None:
            bias = layer.weights[layer.bias]
            output = self._whole or BestTokens(C, H, len(bias), places, self._threads, dtype, weights.dtype)
            self._whole = output
        else:
            bias, lists = lists.bias, replace(lists, row_lists=memory["rows.list"])
            output = BestCandidates(C, H, places, self._threads, weights, lists, dtype)
        output.give(self._settings.first_token, self._x, weights, bias, memory["tokens"], memory["scores"])
        self._output = output
        return output

    def _connect(self) -> None:
        """Update the tables after changes of the step's memory or of the sentences' positions."""
        prepared, C, memory = self._stepper.prepared, self._capacity, self._memory
        output = self._output or self._use_layer(self._layer)
        store = self._stepper.store
        prepared.sources = store.at(memory["rows.source"])
        inputs = StepInputs({"x": self._x}, self._continued, memory["rows.word"], memory["rows.parent"])
        calls = prepared.join(inputs, C, C, C)
        joined = *calls, output
        if len(self._joined) != len(joined) or any(a is not b for a, b in zip(self._joined, joined, strict=True)):
            self._joined = joined
            self._make_tables(calls, output)
        if self._lines is not None:  # another user of the step may have replaced them
            tables = [None if call is None else call.table.numbers for call in calls]
            for which, table in enumerate([*tables, output.table.words]):
                if table is not None:
                    table[GROUPS_WORD] = address_of(self._lines[which])
        memory["starts"], memory["first_id"] = store.starts, store.first_id
        memory["num_ids"] = len(memory["starts"])
        for before in prepared.shared.indexed.values():
            calls.step.replace_array(ArrayKind.INDEX.of(before), memory["rows.origin"])
        for group, count, of in (
            ("continued", "num_states", self._continued),
            ("indexed", "num_indexed", self._halves),
        ):
            waiting = [address_of(self._states[name]) if self._states else 0 for name in of]
            memory[count], memory[f"{group}.waiting"] = len(of), np.array(waiting, np.int64)

    def _make_tables(self, calls: StepCalls, output: OutputTask) -> None:
        """Make the tables of a step's parts that the loop reads: tasks, divisions by rows, and copies before a step."""
        memory, step, C = self._memory, calls[-1], self._capacity
        self._bounds = []
        for part, call in zip(self._parts, calls, strict=True):
            if call is None:
                part.update({"code": 0, "table": 0, "divisions": np.zeros((C + 1, 3), np.int64)})
                continue
            found, bounds = divisions(call.table.sharing, C)
            part.update({"code": call.function, "table": call.address, "divisions": found})
            self._bounds.append(bounds)
        shared, word = self._stepper.prepared.shared, step.table.word
        read = {name: self._x if name == "x" else self._continued[name] for name in shared.gathered}
        columns: dict[str, list[Any]] = {
            "continued.stepped": [address_of(step.arrays[name]) for name in self._continued],
            "continued.target": [address_of(a) for a in self._continued.values()],
            "continued.num_bytes": [a.shape[1] * a.itemsize for a in self._continued.values()],
            "gathered.source": [address_of(a) for a in read.values()],
            "gathered.target": [address_of(step.arrays[name]) for name in read],
            "gathered.num_bytes": [a.shape[1] * a.itemsize for a in read.values()],
            "gathered.by_word": [name == "x" for name in read],
            "indexed.half": [[address_of(half) for half in a] for a in self._halves.values()],
            "indexed.num_bytes": [a[0, 0].nbytes for a in self._halves.values()],
            "indexed.read": [word(step.places[shared.indexed[name]][0]) for name in self._halves],
            "indexed.written": [word(step.places[name][0]) for name in self._halves],
        }
        memory["num_gathered"] = len(read)
        memory.update({name: np.array(column, np.int64) for name, column in columns.items()})
        memory["output_code"], memory["output_table"] = output.code, output.table.address
        place = self._stepper.prepared.output
        array = step.arrays[place.name]
        memory["outputs"], memory["output_parts"] = address_of(array), output.parts
        memory["output_step"] = array.shape[2] * array.itemsize if place.kind is PlaceKind.AFTER else 0


_AT_FIRST = SEARCH.places_of(["num_waiting", *(field.name for field in SEARCH.fields if field.kind == "number")])
"""Numbers that are zero when a search begins."""
