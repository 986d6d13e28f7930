"""Beam search on the processor as one computation: the loop of `kernels.beam_loop` with its memory and tables.

Whoever searches lets encoded sentences wait, runs the loop, and reads those that have ended; the interpreter is
needed when new sentences have to be encoded, not from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays import array_names
from nmt.rnn.arrays.aligned import aligned
from nmt.rnn.arrays.quantised import Quantised
from nmt.rnn.device import CandidateLists, OutputLayer
from nmt.rnn.kernels import beam_loop as loop
from nmt.rnn.kernels.ahead import offer
from nmt.rnn.kernels.barrier import FLAT, LINES_WORD
from nmt.rnn.kernels.candidates import BestCandidates
from nmt.rnn.kernels.packed_weights import packed_output
from nmt.rnn.kernels.pool import run_team
from nmt.rnn.kernels.search import BestTokens, best_task
from nmt.rnn.kernels.tables import divisions
from nmt.rnn.kernels.team import MeetingLines, address_of, task_table
from nmt.rnn.profile import moment, record_parts
from nmt.rnn.stepping.beam_settings import BeamSettings
from nmt.rnn.stepping.prepared_step import Call, Calls, StepInputs
from nmt.rnn.stepping.stepper import Stepper

_TASKS_THAT_MEET = 4
"""Of inputs, states and the step, and of the output layer."""


@dataclass(frozen=True)
class Ended:
    """A sentence that has ended: its number, its name with the decoder, and of its hypotheses, in the order in which
    they ended, tokens (EOS counted where it is finished), sum, score, and whether EOS has ended it."""

    sentence: int
    name: int
    hypotheses: list[tuple[list[int], float, float, bool]]


class CompiledBeam:
    """The search of one decoder and output layer; `begin` it anew for each search."""

    def __init__(self, stepper: Stepper, layer: OutputLayer, threads: int) -> None:
        self._stepper, self._layer, self._threads = stepper, layer, threads
        self._capacity, self._room = 0, (0, 0)  # rows; slots, and places of each
        self._n, self._arrays = np.zeros(0, np.int64), dict[str, np.ndarray]()
        self._calls: tuple[Call | None, ...] = ()
        self._lines = MeetingLines(_TASKS_THAT_MEET) if threads > FLAT else None

    @property
    def is_small(self) -> bool:
        """Whether its memory is worth keeping when nobody searches."""
        return self._capacity <= tuning.KEPT_STEP_ROWS

    def begin(self, settings: BeamSettings, embedding: np.ndarray | Quantised, scale: float) -> None:
        """Nobody is in work. embedding: the table of the tokens read, times `scale`."""
        self._settings = settings
        slots, K = 2 * settings.size, settings.beam
        if self._room != (slots, K):
            self._capacity, self._room = settings.size * K, (slots, K)
            self._make_memory(slots, K)
        n, arrays = self._n, self._arrays
        n[: loop.ROOM] = 0
        for name in ("size", "beam", "n_best", "eos", "never", "first_token", "bounded"):
            n[getattr(loop, name.upper())] = getattr(settings, name)
        n[loop.VOCAB] = len(self._layer.weights[self._layer.bias])
        arrays["slots"][loop.FREE_SLOT], n[loop.FREE] = np.arange(slots), slots
        steps = np.arange(len(settings.divisors))
        arrays |= {"divisors": settings.divisors, "rewards": settings.word_reward * steps.astype(np.float64)}
        quantised = isinstance(embedding, Quantised)
        self._search_task = loop.search_task(self._x.dtype)
        if self._threads > 1:
            types = self._stepper.scan.dtype, self._stepper.scan.packed
            offer(lambda: [best_task(*types), loop.search_task(types[0])])
        self._embedding_task = loop.embedding_task(self._x.dtype, quantised=quantised)
        ids = arrays["rows"][loop.DISTINCT]
        arrays["embed"], self._embedding = loop.embedding_table(ids, embedding, scale, self._x)
        self._states: list[np.ndarray] = []
        self._output: BestTokens | None = None  # the whole layer's is made when it is known that none is narrower

    @property
    def wants_more(self) -> bool:
        """Whether no sentence waits."""
        return bool(self._n[loop.TAKEN] >= self._n[loop.WAITING])

    def wait(
        self,
        sentences: np.ndarray,
        names: np.ndarray,
        states: dict[str, np.ndarray],
        tokens: np.ndarray,
        limits: np.ndarray,
        expected: np.ndarray | None = None,
    ) -> None:
        """Let sentences [B] wait, when no other one does: their names with the stepper, the states and tokens before
        the first step, their most tokens, each at least one."""
        if not self.wants_more:
            raise RuntimeError("sentences must wait until none of the last ones does")
        count = len(sentences)
        columns = sentences, names, np.zeros(count), limits, tokens
        self._arrays["waiting"] = np.array(columns, np.int64).reshape(loop.WAITING_FIELDS, count)
        lengths = np.zeros(count) if expected is None else expected
        self._arrays["expected"] = np.stack([lengths, self._settings.word_reward * lengths])
        widths = self._stepper.scan.states
        self._states = [np.ascontiguousarray(states[k]).reshape(count, int(n)) for k, n in widths.items()]
        self._n[loop.TAKEN], self._n[loop.WAITING], self._n[loop.LINE] = 0, count, count

    def narrow(self, layer: OutputLayer, lists: CandidateLists, names: np.ndarray) -> None:
        """From now on only these candidates; `names` [lists], rising, are of the sentences that have them."""
        slots, waiting = self._arrays["slots"], self._arrays["waiting"]
        for array, name, which in (
            (slots, loop.NAME, loop.CANDIDATES),
            (waiting, loop.WAITS_NAME, loop.WAITS_LIST),
        ):
            array[which] = np.minimum(np.searchsorted(names, array[name]), len(names) - 1)
        self._use_layer(layer, lists)

    def run(self, *, more: bool) -> bool:
        """Search on until there is something to read or to wait for, or for a while; whether anyone is in work still.
        more: whether other sentences would come if some of those in work have ended."""
        n = self._n
        self._connect()
        began = moment()
        n[loop.MORE], n[loop.BUDGET] = more, max(1, tuning.ROWS_BETWEEN_LOOKS // self._capacity)
        n[loop.TIMED] = began is not None
        n[loop.STEP_TIME : loop.NUMBERS] = 0
        while True:
            table = task_table((), [self._arrays[name] for name in loop.ARRAYS])
            run_team(self._search_task.address, self._threads, address_of(table), (table, self._arrays))
            if n[loop.STATUS] != loop.WANTS_WIDTH:
                break
            self._widen()
        self._stepper.prepared.forget_rows()
        if began is not None:
            self._record(began)
        return bool(n[loop.STATUS] != loop.DONE)

    def ended(self) -> list[Ended]:
        """The sentences that have ended since the last call."""
        n, arrays, found = self._n, self._arrays, []
        slots, ends, reals, words = arrays["slots"], arrays["ends"], arrays["end_reals"], arrays["end_words"]
        for s in slots[loop.ENDED_SLOT, : n[loop.ENDED]].tolist():
            count = int(slots[loop.ENDS, s])
            steps, finished = ends[:, s, :count].tolist()
            sums, scores = reals[:, s, :count].tolist()
            tokens = [words[s, k, : steps[k]].tolist() for k in range(count)]
            hypotheses = list(zip(tokens, sums, scores, map(bool, finished), strict=True))
            found.append(Ended(int(slots[loop.SENTENCE, s]), int(slots[loop.NAME, s]), hypotheses))
            slots[loop.FREE_SLOT, n[loop.FREE]] = s
            n[loop.FREE] += 1
        n[loop.ENDED] = 0
        return found

    # ------------------------------------------------------------ memory

    def _make_memory(self, slots: int, K: int) -> None:
        """Arrays for so many slots of K places each: of a search that begins, numbers are set by `begin`."""
        scan, C, W = self._stepper.scan, self._capacity, tuning.FIRST_WIDTH
        V = len(self._layer.weights[self._layer.bias])
        self._n = n = np.zeros(loop.NUMBERS, np.int64)
        n[loop.ROOM], n[loop.SLOTS], n[loop.WIDTH] = C, slots, W
        self._x = aligned((C, scan.cell.input_size), scan.dtype, zeros=True)
        self._continued = {k: aligned((C, int(w)), scan.dtype, zeros=True) for k, w in scan.states.items()}
        self._arrays = {name: np.zeros(1, np.int64) for name in loop.ARRAYS} | {
            "n": n,
            "rows": np.zeros((loop.ROW_FIELDS, C + 1), np.int64),
            "sums": np.zeros((2, C)),
            "words": np.zeros((2, C, W), np.int32),
            "slots": np.zeros((loop.SLOT_FIELDS, slots), np.int64),
            "slot_reals": np.zeros((3, slots)),
            "ends": np.zeros((2, slots, K), np.int64),
            "end_reals": np.zeros((2, slots, K)),
            "end_words": np.zeros((slots, K, W), np.int32),
            "tokens": np.zeros(C * (K + 1), np.int32),
            "scores": np.zeros(C * (K + 1), scan.dtype),
            "numbering": np.full(V, -1, np.int64),
            "moments": np.zeros(3, np.int64),
        }
        self._calls = ()

    def _widen(self) -> None:
        """Twice the memory for the tokens of hypotheses."""
        for name in ("words", "end_words"):
            words = self._arrays[name]
            self._arrays[name] = np.pad(words, ((0, 0), (0, 0), (0, words.shape[2])))
        self._n[loop.WIDTH] *= 2

    # ------------------------------------------------------------ tables

    def _use_layer(self, layer: OutputLayer, lists: CandidateLists | None = None) -> BestTokens:
        """The output layer's task: over the whole vocabulary, or a narrowed layer over lists."""
        C, H, dtype = self._capacity, self._stepper.scan.cell.output_size, self._x.dtype
        weights, rows = packed_output(layer, self._threads), self._arrays["rows"]
        places = min(self._settings.beam + 1, int(self._n[loop.VOCAB]))
        output: BestTokens
        if lists is None:
            bias = layer.weights[layer.bias]
            output = BestTokens(C, H, len(bias), places, self._threads, dtype, weights.dtype)
        else:
            bias, lists = lists.bias, replace(lists, row_lists=rows[loop.LIST])
            output = BestCandidates(C, H, places, self._threads, weights, lists, dtype)
        self._columns = layer.weights[layer.bias].size
        given = self._x, weights, bias, self._arrays["tokens"], self._arrays["scores"]
        output.give(self._settings.first_token, given)
        self._output, self._calls = output, ()
        return output

    def _connect(self) -> None:
        """Bring the tables up to date: other memory for the step, sentences that lie elsewhere."""
        prepared, C, n, arrays = self._stepper.prepared, self._capacity, self._n, self._arrays
        rows, output = arrays["rows"], self._output or self._use_layer(self._layer)
        prepared.read(self._stepper.sources(rows[loop.OWNER]))
        inputs = StepInputs({"x": self._x}, self._continued, rows[loop.WORD], rows[loop.PARENT])
        calls = prepared.join(inputs, C, C, C)
        if len(self._calls) != len(calls) or any(a is not b for a, b in zip(self._calls, calls, strict=True)):
            self._calls = calls
            self._make_tables(calls, output)
        starts, n[loop.FIRST_NAME] = self._stepper.starts()
        n[loop.NAMES], arrays["starts"] = len(starts), starts
        came = [address_of(a) for a in self._states] or [0] * len(self._continued)
        continued = [
            (address_of(calls[-1].arrays[array_names.state(k)]), other, address_of(a), a.shape[1] * a.itemsize)
            for (k, a), other in zip(self._continued.items(), came, strict=True)
        ]
        n[loop.CONTINUED], arrays["continued"] = len(continued), _matrix(continued)

    def _make_tables(self, calls: Calls, output: BestTokens) -> None:
        """What the loop reads of the parts of a step: tasks, divisions by rows, what is copied where before a step."""
        prepared, n, arrays = self._stepper.prepared, self._n, self._arrays
        step, given, gathered = calls[-1], {"x": self._x}, []
        for name in prepared.shared.gathered:
            of_word = name in given
            source, target = (given if of_word else self._continued)[name], name if of_word else array_names.state(name)
            size = source.shape[1] * source.itemsize
            gathered.append((address_of(source), address_of(step.arrays[target]), size, int(of_word)))
        n[loop.GATHERED], arrays["gathered"] = len(gathered), _matrix(gathered)
        tasks, shared = np.zeros((5, 2), np.int64), np.zeros((3, self._capacity + 1, 3), np.int64)
        self._kept = []
        parts = (loop.INPUTS, "inputs"), (loop.STATES, "states"), (loop.STEP, "step")
        for (which, name), call in zip(parts, calls, strict=True):
            if call is not None:
                tasks[which], arrays[name] = (call.function, call.address), call.table.numbers
                shared[which], bounds = divisions(call.table.sharing, self._capacity)
                self._kept.append(bounds)
        tasks[loop.OUTPUT], arrays["output"] = (output.code, output.address), output.table
        tasks[loop.EMBED] = self._embedding_task.address, address_of(arrays["embed"])
        if self._lines is not None:
            for which in range(_TASKS_THAT_MEET):
                arrays[loop.TABLES[which]][LINES_WORD] = self._lines.address(which)
        arrays |= {"tasks": tasks, "divisions": shared}
        place = prepared.output
        array = step.arrays[place.name]
        n[loop.OUTPUTS], n[loop.OUTPUT_PARTS] = address_of(array), output.parts
        n[loop.OUTPUT_STEP] = array.shape[2] * array.itemsize if place.kind == "after" else 0

    def _record(self, began: Any) -> None:
        """What a profile wants to know of a run."""
        n = self._n
        runs = zip(self._calls, n[loop.INPUTS_RUN :].tolist(), strict=True)
        step = sum(count * call.table.sharing.row_size for call, count in runs if call is not None)
        output = int(n[loop.STEPS_RUN]) * self._stepper.scan.cell.output_size * self._columns
        names = ("step", "output layer: best tokens", "search")
        times = n[[loop.STEP_TIME, loop.OUTPUT_TIME, loop.SEARCH_TIME]].tolist()
        record_parts(began, list(zip(names, times, (step, output, 0), strict=True)))


def _matrix(rows: list[tuple[int, int, int, int]]) -> np.ndarray:
    return np.array(rows or [(0, 0, 0, 0)], np.int64)
