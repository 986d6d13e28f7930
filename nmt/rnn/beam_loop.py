"""Beam search on the processor as one computation: the loop of `kernels.beam_loop` with its memory and tables.

Whoever searches lets encoded sentences wait, runs the loop, and reads those that have ended; the interpreter is
needed when new sentences have to be encoded, not from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmt.rnn.aligned import aligned
from nmt.rnn.device import CandidateLists, OutputLayer
from nmt.rnn.kernels import beam_loop as loop
from nmt.rnn.kernels.candidates import BestCandidates
from nmt.rnn.kernels.run_cpu import divisions
from nmt.rnn.kernels.search import BestTokens
from nmt.rnn.kernels.team import address_of
from nmt.rnn.kernels.threads import run_parallel
from nmt.rnn.prepared_step import Call
from nmt.rnn.profile import moment, record_parts
from nmt.rnn.quantised import Quantised
from nmt.rnn.stepper import Stepper

_ROWS_BETWEEN_LOOKS = 4096
"""Rows of all steps together after which the interpreter looks whether somebody wants the search to stop."""

_FIRST_WIDTH = 64
"""Tokens of a hypothesis for which there is memory to begin with."""


@dataclass(frozen=True)
class BeamSettings:
    """What a search is asked for.

    size: most sentences in work; beam: places of each; n_best: translations wanted. eos ends a hypothesis; `never` and
    tokens below first_token are never produced. divisors: float64, what a sum over 0, 1, ... tokens is divided by;
    word_reward: added for each token, with `bounded` for no more than are expected.
    """

    size: int
    beam: int
    n_best: int
    eos: int
    never: int
    first_token: int
    divisors: np.ndarray
    word_reward: float = 0.0
    bounded: bool = False


@dataclass(frozen=True)
class Ended:
    """A sentence that has ended: its number, its name with the decoder, and of its hypotheses, in the order in which
    they ended, tokens (EOS counted where it is finished), sum, score, and whether EOS has ended it."""

    sentence: int
    name: int
    hypotheses: list[tuple[list[int], float, float, bool]]


class BeamLoop:
    """The search of one decoder and output layer; `begin` it anew for each search, and `close` it after."""

    def __init__(self, stepper: Stepper, layer: OutputLayer, threads: int) -> None:
        self._stepper, self._layer, self._threads = stepper, layer, threads
        self._capacity = 0  # rows
        self._calls: list[Call | None] = []
        self._counter, self._moments = np.zeros(8, np.int64), np.zeros(3, np.int64)

    @property
    def capacity(self) -> int:
        """Rows for which there is memory."""
        return self._capacity

    def begin(self, settings: BeamSettings, embedding: np.ndarray | Quantised, scale: float) -> None:
        """Nobody is in work. embedding: the table of the tokens read, times `scale`."""
        self._settings = settings
        slots, K = 2 * settings.size, settings.beam
        if self._capacity < settings.size * K or len(self._slots.room) < slots or self._slots.end_words.shape[1] != K:
            self._capacity = settings.size * K
            self._make_memory(slots, K)
        self._n[:] = 0
        for name in ("size", "beam", "n_best", "eos", "never", "first_token"):
            self._n[getattr(loop, name.upper())] = getattr(settings, name)
        self._n[loop.VOCAB] = len(self._layer.weights[self._layer.bias])
        self._slots.free[:slots] = np.arange(slots)
        self._n[loop.FREE] = slots
        if isinstance(embedding, Quantised):
            parts = np.zeros((0, 0), self._x.dtype), embedding.numbers, embedding.scales
        else:
            parts = embedding, np.zeros((0, 0), np.int8), np.zeros(0, np.float32)
        self._embedding = loop.Embedding(*parts, scale, self._x, np.full(self._n[loop.VOCAB], -1, np.int32))
        self._scoring = loop.Scoring(settings.divisors, float(settings.word_reward), settings.bounded)
        self._waiting = loop.Waiting(*(np.zeros(0, kind) for kind in _WAITING))
        self._states: list[np.ndarray] = []
        self._use_layer()

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
        lengths = np.zeros(count) if expected is None else expected
        columns = sentences, names, np.zeros(count), limits, lengths, tokens
        self._waiting = loop.Waiting(*(np.array(a, kind) for a, kind in zip(columns, _WAITING, strict=True)))
        self._states = [np.ascontiguousarray(states[k]).reshape(count, -1) for k in self._stepper.scan.states]
        self._n[loop.TAKEN], self._n[loop.WAITING] = 0, count

    def narrow(self, layer: OutputLayer, lists: CandidateLists, names: np.ndarray) -> None:
        """From now on only these candidates; `names` [lists], rising, are of the sentences that have them."""
        for there in (self._slots, self._waiting):
            there.list[:] = np.minimum(np.searchsorted(names, there.name), len(names) - 1)
        self._use_layer(layer, lists)

    def run(self, *, more: bool) -> bool:
        """Search on until there is something to read or to wait for, or for a while; whether anyone is in work still.
        more: whether other sentences would come if some of those in work have ended."""
        n, prepared = self._n, self._stepper.prepared
        starts, n[loop.FIRST_NAME] = self._stepper.starts()
        self._connect()
        began = moment()
        n[loop.MORE], n[loop.BUDGET] = more, max(1, _ROWS_BETWEEN_LOOKS // self._capacity)
        n[loop.TIMED] = began is not None
        n[loop.STEP_TIME : loop.NUMBERS] = 0
        while True:
            self._counter[0] = 0
            tables = self._tables
            memory = self._rows, self._slots, self._waiting, starts, tables, self._moves, self._embedding
            found = self._scoring, self._tokens, self._scores
            run_parallel(loop.beam_loop, self._threads, self._counter, n, self._moments, *memory, *found)
            if n[loop.STATUS] != loop.WANTS_WIDTH:
                break
            self._widen()
        prepared.forget_rows()
        if began is not None:
            self._record(began)
        return bool(n[loop.STATUS] != loop.DONE)

    def ended(self) -> list[Ended]:
        """The sentences that have ended since the last call."""
        n, slots, found = self._n, self._slots, []
        for s in slots.ended[: n[loop.ENDED]].tolist():
            count = int(slots.ends[s])
            of = [a[s, :count].tolist() for a in (slots.end_sums, slots.end_scores, slots.end_steps, slots.end_finished)]
            words = (slots.end_words[s, k, :steps].tolist() for k, steps in enumerate(of[2]))
            hypotheses = [(ids, *rest) for ids, *rest in zip(words, of[0], of[1], map(bool, of[3]), strict=True)]
            found.append(Ended(int(slots.sentence[s]), int(slots.name[s]), hypotheses))
            slots.free[n[loop.FREE]] = s
            n[loop.FREE] += 1
        n[loop.ENDED] = 0
        return found

    # ------------------------------------------------------------ memory

    def _make_memory(self, slots: int, K: int) -> None:
        scan, C = self._stepper.scan, self._capacity
        V = len(self._layer.weights[self._layer.bias])
        self._places = min(K + 1, V)
        self._n = np.zeros(loop.NUMBERS, np.int64)
        self._x = aligned((C, scan.cell.input_size), scan.dtype, zeros=True)
        self._continued = {k: aligned((C, int(w)), scan.dtype, zeros=True) for k, w in scan.states.items()}
        self._tokens, self._scores = np.zeros(C * self._places, np.int32), np.zeros(C * self._places, scan.dtype)

        def whole(size: int, *rest: int) -> np.ndarray:
            return np.zeros((size, *rest), np.int64)

        def real(size: int, *rest: int) -> np.ndarray:
            return np.zeros((size, *rest), np.float64)

        def words(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.int32)

        self._rows = loop.Rows(
            tokens=words(C),
            sums=real(C),
            **{k: whole(C) for k in ("slots", "word", "parent", "owner", "lists", "origin", "used", "of", "room")},
            bounds=whole(C + 1),
            chosen_parents=whole(C),
            chosen_tokens=words(C),
            chosen_sums=real(C),
            distinct=words(C),
            words=words(2, C, _FIRST_WIDTH),
        )
        by_slot = ("sentence", "name", "list", "steps", "limit", "room", "ends", "free", "ended")
        self._slots = loop.Slots(
            **{k: whole(slots) for k in by_slot},
            **{k: real(slots) for k in ("expected", "to_beat")},
            **{k: real(slots, K) for k in ("end_sums", "end_scores")},
            **{k: whole(slots, K) for k in ("end_steps", "end_finished")},
            end_words=words(slots, K, _FIRST_WIDTH),
        )
        self._calls = []

    def _widen(self) -> None:
        """Twice the memory for the tokens of hypotheses."""

        def wider(words: np.ndarray) -> np.ndarray:
            return np.pad(words, ((0, 0), (0, 0), (0, words.shape[2])))

        self._rows = self._rows._replace(words=wider(self._rows.words))
        self._slots = self._slots._replace(end_words=wider(self._slots.end_words))

    # ------------------------------------------------------------ tables

    def _use_layer(self, layer: OutputLayer | None = None, lists: CandidateLists | None = None) -> None:
        """The output layer's task: over the whole vocabulary, or a narrowed layer over lists."""
        layer = layer or self._layer
        C, H, dtype = self._capacity, self._stepper.scan.cell.output_size, self._x.dtype
        weights = layer.in_products(self._threads)
        if lists is None:
            bias = layer.weights[layer.bias]
            self._output = BestTokens(C, H, len(bias), self._places, self._threads, dtype, weights.dtype)
        else:
            bias, lists = lists.bias, replace(lists, row_lists=self._rows.lists)
            self._output = BestCandidates(C, H, self._places, self._threads, weights, lists, dtype)
        self._columns = layer.weights[layer.bias].size
        self._output.give(self._settings.first_token, (self._x, weights, bias, self._tokens, self._scores))
        self._calls = []

    def _connect(self) -> None:
        """Bring the tables up to date: other memory for the step, sentences that lie elsewhere."""
        prepared, C = self._stepper.prepared, self._capacity
        prepared.read(self._stepper.sources(self._rows.owner))
        calls = prepared.join({"x": self._x}, self._continued, self._rows.word, self._rows.parent, C, C, C)
        if len(self._calls) != len(calls) or any(a is not b for a, b in zip(self._calls, calls, strict=True)):
            self._calls = calls
            self._make_tables(calls)
        itemsize, states = self._x.itemsize, self._continued.items()
        step = calls[-1]
        came = [address_of(a) for a in self._states] or [0] * len(self._continued)
        continued = [
            (address_of(step.arrays[f"S_{k}"]), other, address_of(a), a.shape[1] * itemsize)
            for (k, a), other in zip(states, came, strict=True)
        ]
        self._moves = loop.Moves(np.array(continued, np.int64).reshape(-1, 4), self._gathered)

    def _make_tables(self, calls: Sequence[Call | None]) -> None:
        prepared, C, itemsize = self._stepper.prepared, self._capacity, self._x.itemsize
        step = calls[-1]
        given = {"x": self._x}
        gathered = []
        for name in prepared.shared.gathered:
            of_word = name in given
            source, target = (given if of_word else self._continued)[name], step.arrays[name if of_word else f"S_{name}"]
            gathered.append((address_of(source), address_of(target), source.shape[1] * itemsize, int(of_word)))
        self._gathered = np.array(gathered, np.int64).reshape(-1, 4)
        tasks, shared = np.zeros((4, 2), np.int64), np.zeros((3, C + 1, 3), np.int64)
        tables, self._kept = [], []
        for n, call in enumerate(calls):
            tables.append(np.zeros(0, np.int64) if call is None else call.table.numbers)
            if call is not None:
                tasks[n] = call.function, call.address
                shared[n], bounds = divisions(call.table.sharing, C)
                self._kept.append(bounds)
        tasks[3] = self._output.code, self._output.address
        place = prepared.output
        array = step.arrays[place.name]
        outputs = np.array([address_of(array), array.shape[2] * itemsize if place.kind == "after" else 0], np.int64)
        self._tables = loop.Tables(*tables, self._output.table, tasks, shared, self._output.parts, outputs)

    def _record(self, began: Any) -> None:
        """What a profile wants to know of a run."""
        n = self._n
        runs = zip(self._calls, n[loop.INPUTS_RUN : loop.NUMBERS].tolist(), strict=True)
        step = sum(count * call.table.sharing.row_size for call, count in runs if call is not None)
        output = int(n[loop.STEPS_RUN]) * self._stepper.scan.cell.output_size * self._columns
        names = ("step", "output layer: best tokens", "search")
        times = n[[loop.STEP_TIME, loop.OUTPUT_TIME, loop.SEARCH_TIME]].tolist()
        record_parts(began, list(zip(names, times, (step, output, 0), strict=True)))


_WAITING = (np.int64, np.int64, np.int64, np.int64, np.float64, np.int32)
