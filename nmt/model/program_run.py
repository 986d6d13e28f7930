"""Run the program of a model from Python: short sentences, which take less time than the calls around them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nmt.model.translation_program import TranslationProgram
from nmt.rnn import tuning
from nmt.rnn.arrays.beam_state import BeamSettings
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.memory.table_layout import NamedTable
from nmt.rnn.kernels.products.packing import packed_weight
from nmt.rnn.kernels.program.run_program import PROGRAM, Phase, run_program
from nmt.rnn.kernels.search.beam_loop import search_task
from nmt.rnn.kernels.search.beam_table import SEARCH, Status
from nmt.rnn.kernels.search.token_rules import TokenRules
from nmt.rnn.kernels.threads.atomics import WORD
from nmt.rnn.kernels.threads.pool import address_of, run_team
from nmt.rnn.program.plans import FLOAT
from nmt.rnn.program.program import Word

Found = list[tuple[list[int], float, float, bool]]
"""The hypotheses of a sentence in the order in which they ended: tokens (including EOS if it is finished), sum, score,
whether EOS has ended it."""


class ProgramRun:
    """A program with memory of its own, for one caller at a time, and for the weights as they are now."""

    def __init__(self, program: TranslationProgram) -> None:
        self._threads = threads = program.threads
        self._memory, self._table = aligned((0,), np.uint8), NamedTable(PROGRAM, more=program.size)
        self._table["code"] = program.code
        self._boundaries = np.array([program.boundaries[name] for name in _BOUNDARIES], np.int64)
        self._table["search_code"] = search_task(FLOAT).address
        self._table["temporary_room"] = 1 << 62  # functions take it from the system
        arrays = {place: program.arrays_by_name[name] for place, name in program.arrays.items()}
        for weight, word in program.packed.items():
            arrays[word.place] = packed_weight(program.weights, *weight, threads=threads, dtype=program.packed_kind)
        self._program, self._held, self._code = program, arrays, run_program.address
        for place, array in arrays.items():
            self._table.words[place] = address_of(array)
        for place, native in program.functions.items():
            self._table.words[place] = native.address

    def _run(self, phase: Phase) -> int:
        """Run a phase and return its status."""
        words = self._table.words
        words[_PHASE] = phase
        run_team(self._code, self._threads, self._table.address, self)
        return int(words[_STATUS])

    def _begin(self, phase: Phase) -> None:
        """Run a phase, with more memory if it needs more."""
        while self._run(phase) == Status.WANTS_MEMORY:
            self._memory = aligned((self._table["most"] // 4 * 5,), np.uint8)
            self._table["memory"], self._table["room"] = address_of(self._memory), len(self._memory)

    def search(
        self,
        src_ids: Sequence[Sequence[int]],
        limits: np.ndarray,
        settings: BeamSettings,
        rules: TokenRules | None = None,
    ) -> list[Found]:
        """Return the hypotheses of sentences of one length, each with a translation of at most `limits` tokens."""
        count, K = len(src_ids), settings.beam_size
        sizes, ids = np.full(count, len(src_ids[0]), np.int64), np.array(src_ids, np.int32)
        budget = max(1, tuning.ROWS_BETWEEN_LOOKS // (count * K))
        numbers = count, count, K, settings.n_best, settings.first_token, budget
        self._table.words[_ENDS] = self._boundaries
        self._table.words[_NUMBERS] = *numbers, *map(address_of, (sizes, limits, ids, settings.divisors))
        self._table["word_reward"] = settings.word_reward
        self._give(rules)
        self._begin(Phase.BEGIN)
        while self._run(Phase.ADVANCE) != Status.DONE:
            pass
        return self._read(count, K)

    def _give(self, rules: TokenRules | None) -> None:
        """Set the rules of a search, or that there are none."""
        if rules is None:
            self._table.words[_RULES] = 0
            return
        for name in ("numbers", "reals", "lists"):
            self._table[f"rule_{name}"] = getattr(rules, name)
        self._table["prefix_starts"] = np.cumsum([0, *map(len, rules.prefixes)])
        self._table["prefixes"] = np.array([token for one in rules.prefixes for token in one], np.int32)
        if not rules.prefixes:
            self._table.words[PROGRAM.places["prefix_starts"]] = 0

    def encode(self, ids: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the memory [S, B, M] of B sentences of one length, with ids int32 [B, S] that have boundary tokens,
        and the initial states of the decoder [B, n]."""
        (count, length), program = ids.shape, self._program
        sizes = np.full(count, length, np.int64)
        self._table.update({"sentences": count, "sizes": sizes, "limits": sizes, "ids": ids})
        self._table.words[_ENDS] = -1, -1, 0
        self._begin(Phase.ENCODE)
        start = self._table["memory"]
        reals, words = self._memory.view(np.float32), self._table.words

        def array(word: Word, *shape: int) -> np.ndarray:
            first = (int(words[word.place]) - start) // reals.itemsize
            return reals[first : first + math.prod(shape)].reshape(shape).copy()

        initial = {name: array(word, count, int(program.states[name])) for name, word in program.initial.items()}
        return array(program.memory, length, count, program.memory_width), initial

    def _read(self, count: int, K: int) -> list[Found]:
        """Return the hypotheses of all sentences."""
        memory = self._memory
        words, tokens, reals = memory.view(np.int64), memory.view(np.int32), memory.view(np.float64)
        start, search, width = self._table.words[_RESULTS].tolist()
        columns = words[(search - start) // WORD + _COLUMNS]
        a, b, c, d, e, f, g = ((columns - start) // WORD).tolist()
        sentences, ended = words[a : a + count].tolist(), words[b : b + count].tolist()
        steps, finished = words[c : c + count * K].tolist(), words[d : d + count * K].tolist()
        sums, scores, first = reals[e : e + count * K].tolist(), reals[f : f + count * K].tolist(), 2 * g
        found: list[Found] = [[] for _ in range(count)]
        for slot, sentence in enumerate(sentences):
            for n in range(slot * K, slot * K + ended[slot]):
                ids = tokens[first + n * width : first + n * width + steps[n]].tolist()
                found[sentence].append((ids, sums[n], scores[n], finished[n] != 0))
        if len(memory) > tuning.KEPT_SOURCE_BYTES:
            self._memory, self._table["room"] = memory[:0].copy(), 0
        return found


_NUMBERS = PROGRAM.places_of(
    ["sentences", "size", "beam_size", "n_best", "first_token", "budget", "sizes", "limits", "ids", "divisors"]
)
_RULES = PROGRAM.places_of(["rule_numbers", "prefix_starts"])
_BOUNDARIES = ("before", "after", "boundaries")
_ENDS = PROGRAM.places_of(_BOUNDARIES)
_PHASE, _STATUS = PROGRAM.places["phase"], PROGRAM.places["status"]
_RESULTS = PROGRAM.places_of(["memory", "search", "width"])
_HYPOTHESES = [f"hypotheses.{name}" for name in ("steps", "finished", "sum", "score", "history")]
_COLUMNS = SEARCH.places_of(["slots.sentence", "slots.num_ended", *_HYPOTHESES])
