"""The program of a translation: everything that a model runs from ids to hypotheses, without Python; and its runs
from Python, for short sentences, which take less time than the calls around them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nmt.model.network import Network
from nmt.model.parts.encoder import Bridge, Encoder
from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.beam_state import BeamSettings
from nmt.rnn.arrays.weights import Quantised
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.cell import axes_of
from nmt.rnn.cells import AttentionProbe
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.kernels.memory.moves import add, copy_columns
from nmt.rnn.kernels.memory.table_layout import NamedTable
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.products.packing import packed_weight, words_of
from nmt.rnn.kernels.program.run_program import (
    PROGRAM,
    Phase,
    Section,
    Step,
    add_places,
    digits,
    mean,
    read_sources,
    run_program,
    store_rows,
    unit_rows,
)
from nmt.rnn.kernels.search import best_tokens
from nmt.rnn.kernels.search.beam_loop import search_task
from nmt.rnn.kernels.search.beam_table import ALLOCATED, RULES, SEARCH, STEP_PART, Status
from nmt.rnn.kernels.search.choose import BUCKETS
from nmt.rnn.kernels.search.ruled_tokens import RULED, RULED_OWN, ruled_task, sample_keys
from nmt.rnn.kernels.search.search_rules import tokens_wanted
from nmt.rnn.kernels.search.token_rules import TokenRules
from nmt.rnn.kernels.threads.atomics import WORD
from nmt.rnn.kernels.threads.pool import address_of, run_team
from nmt.rnn.program.plans import FLOAT, Named, Plans, RowsOf, on_processor
from nmt.rnn.program.program import Array, Number, Value, Word, pieces, product
from nmt.rnn.stepping.stepper import Stepper
from nmt.search_settings import MAX_SOURCE_SUBWORDS
from nmt.special_tokens import BOS_ID, EOS_ID, boundary_ids

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


MOST_POSITIONS = -(-(MAX_SOURCE_SUBWORDS + 2) // 64) * 64
"""Source positions for which attention can be shown: those of the longest source, with its boundary tokens."""


def program_obstacle(network: Network, encoder: Encoder) -> str:
    """Return why a translation model has no program, in words; an empty string if it has one."""
    if why := network.loop_obstacle:
        return why
    if not network.device.is_cpu or network.dtype != FLOAT:
        return "it is not of float32 on the processor"
    scans = [*encoder.layers.scans, network.step_decoder]
    shaped = [name for scan in scans for name, width in scan.states.items() if len(axes_of(width)) > 1]
    return f"its state {shaped[0]} is a matrix" if shaped else ""


class TranslationProgram(Plans):
    """The program of a model.

    threads: those that run it. boundaries: the words that say which ids are read with each sentence. forced: whether it
    predicts known translations. Then `forced` has the numbers of an output, of an output with its attention (the same
    if the model has none), and of tokens.
    """

    def __init__(self, model: Network, encoder: Encoder, bridge: Bridge, threads: int, *, forced: bool) -> None:
        super().__init__(model.weights, model.step_decoder.packed, threads)
        self.encoder, self.bridge = encoder.layers, bridge
        self.model = model
        self.first, self.rows, self.steps, self.start = map(self.field, ("first", "rows", "steps", "start"))
        self.stepper = Stepper(model.step_decoder, model.weights.view("decoder"), 1)
        self.initial: Named = {}
        self.starts, self.lengths = self.new_word(), self.new_word()
        self.stored, self.waiting = Named(), Named()
        self._begin()
        self._encode()
        self._admit()
        self.forced = self._forced() if forced else {}
        before, after = (ids[0] if ids else -1 for ids in boundary_ids(model.config.encoder.boundaries))
        self.boundaries = {"before": before, "after": after, "boundaries": (before >= 0) + (after >= 0)}
        self.states = model.step_decoder.states
        del self.model  # it keeps programs, which would keep it

    def pack(self) -> None:
        """Write the section that packs all weights, for a caller that has them as they are."""
        super().pack()
        for name, value in self.boundaries.items():
            self.set(name, value)
        self.set("search_code", self.function(search_task(FLOAT)))

    # ------------------------------------------------------------ encoding

    def _embedding(self, side: str, ids: Word, rows: Number, out: Word) -> Named:
        """Return the code and the table of a task that looks up embeddings of words."""
        table, scale = self.model.embedding(side)
        return self._lookup(self.model.table(side), table, scale, ids, rows, out)

    def _lookup(self, name: str, table: Any, scale: float, ids: Word, rows: Number, out: Word) -> Named:
        """Return the code and the table of a task that looks up rows of a table."""
        quantised = isinstance(table, Quantised)
        held = {"numbers": self.model_array(name, table.numbers if quantised else table)}
        if quantised:
            held["scales"] = self.model_array(f"{name}.scales", table.scales)
        values = {"rows": rows, "width": table.shape[1], "vocab_size": table.shape[0], "ids": ids, "out": out}
        layout = update.QUANTISED if quantised else update.PLAIN
        task = update.embedding_task(FLOAT, quantised=quantised)
        return {"code": self.function(task), "table": self.table(layout, {**values, **held, "scale": scale})}

    def _embedded(self, side: str, ids: Word, rows: Number) -> Word:
        out = self.floats(rows, self.model.embedding(side)[0].shape[1])
        self.call(**self._embedding(side, ids, rows, out))
        return out

    def _encode(self) -> None:
        """Write the section that encodes B sentences of S positions."""
        self.begin(Section.ENCODE)
        model, S, B = self.model, self.steps, self.rows
        ids, ends = self.buffer(product(8, S, B)), [self.field("before"), self.field("after")]
        all_ids = ("int32", self.field("ids"), 1), ("int64", self.field("sizes"), 1)
        self.kernel(read_sources, *all_ids, self.first, *ends, ("int64", ids, S, B))
        x, width = words = self._source_words(ids)
        layers, final = self.encoder, list[Named]()
        for n, (scan, delay) in enumerate(zip(layers.scans, layers.delays, strict=True)):
            if delay:
                given, x = x, self.floats(S + delay, B, width, zeros=True)
                self.beside([(given, width)], product(S, B), into=x)
            names = [f"encoder.{name}." for name in layers.names(n)]
            sides = [self.scan(scan, name, x, RowsOf(S + delay, B, reverse=k > 0)) for k, name in enumerate(names)]
            size = scan.cell.output_size
            y = [(side + product(4 * size * delay, B), size) for side, _ in sides]
            above = self.beside(y, product(S, B))
            if n and layers.residual:
                above = above if len(y) > 1 else self.beside(y, product(S, B), into=self.floats(S, B, size))
                count = product(S, B, size * len(y))
                self.kernel(add, ("float32", above, count), ("float32", x, count))
            x, width = above, size * len(y)
            widths = scan.states.items()
            final.append({k: self.beside([(last[k], width) for _, last in sides], B) for k, width in widths})
        bridge, width = self.bridge, model.config.encoder.output_size
        if bridge.of_mean:
            average = self.floats(B, width)
            every = product(B, width)
            self.kernel(mean, ("float32", x, S, every), ("float32", average, every))
            final.append({"mean": average})
        for name, (layer, state) in bridge.routes.items():
            first = final[layer][state]
            if name in bridge.scans:
                first, _ = self.scan(bridge.scans[name], f"bridge.{name}.", first, RowsOf(1, B), single_step=True)
            self.initial[f"cell.{name}"] = first
        both = [(x, width)]
        if model.config.decoder.lexical:
            both.append(words)
        self.memory, self.memory_width = self.beside(both, product(S, B)), sum(n for _, n in both)

    def _source_words(self, ids: Word) -> tuple[Word, int]:
        """Return the embeddings of source words, with those of their factors and positions, and their width."""
        model, count = self.model, product(self.steps, self.rows)
        factors, units, parts = model.factors, ids, list[tuple[Word, int]]()
        if factors is not None:
            units, step = self._digits(ids, 1, model.vocab_sizes["src"]), model.vocab_sizes["src"]
            for name, size, width in factors.tables:
                out, numbers = self.floats(count, width), self._digits(ids, step, size)
                table = model.weights.quantised(name) or model.weights[name]
                self.call(**self._lookup(name, table, 1.0, numbers, count, out))
                parts.append((out, width))
                step *= size
        x, width = self._embedded("src", units, count), model.embedding("src")[0].shape[1]
        if (places := model.positions.get("src")) is not None:
            rows = "float32", self.model_array(places.name, model.weights[places.name]), places.count, width
            self.kernel(add_places, ("float32", x, self.steps, self.rows, width), rows)
        return self.beside([(x, width), *parts], count), width + sum(n for _, n in parts)

    def _digits(self, ids: Word, divisor: int, size: int) -> Word:
        count = product(self.steps, self.rows)
        out = self.buffer(product(8, count))
        self.kernel(digits, ("int64", ids, count), divisor, size, ("int64", out, count))
        return out

    def _admit(self) -> None:
        """Write the section that lets encoded sentences wait."""
        self.begin(Section.ADMIT)
        S, B = self.steps, self.rows
        decoder = self.model.step_decoder
        self.fill(self.starts + product(8, self.first), B, self.start, S)
        self.fill(self.lengths + product(8, self.start), product(S, B), S, stride=S)
        captured = {"memory": self.memory} if decoder.captured else {}
        found = self.constants(decoder, "decoder.", captured, RowsOf(1, B, S))
        for name, (width, narrow) in self._stored().items():
            rows = "float32", found[name], 1 if narrow else S, B, width
            self.kernel(store_rows, rows, ("float32", self.stored[name], 1, width), self.start, S)
        for name, first in self.initial.items():
            width = int(decoder.states[name])
            self.beside([(first, width)], B, into=self.waiting[name] + product(4 * width, self.first))

    def _stored(self) -> dict[str, tuple[int, bool]]:
        """Return the width of each array in which sentences are stored, and whether it has one row for each."""
        arrays, narrow = self.stepper.store.arrays, self.stepper.store.narrow
        return {name: (array.shape[1] if array.ndim > 1 else 1, name in narrow) for name, array in arrays.items()}

    # ------------------------------------------------------------ search

    def _begin(self) -> None:
        """Write the section that makes the memory and the tables of a search."""
        self.begin(Section.BEGIN)
        model, decoder = self.model, self.model.step_decoder
        N, K, positions = self.field("sentences"), self.field("beam_size"), self.field("positions")
        C, V = product(self.field("size"), K), len(model.weights[model.output_layer.bias])
        settings = ("size", "beam_size", "n_best", "first_token", "word_reward", "width", "ruled", "sampling")
        values: dict[str, Any] = {name: self.field(name) for name in (*settings, *(one.name for one in RULES))}
        values |= {"room": C, "num_slots": N, "num_free": N, "num_waiting": N, "vocab_size": V}
        values |= {"eos_id": EOS_ID, "never": BOS_ID, "divisors": self.field("divisors")}
        values |= self.arrays_of(SEARCH, values, ALLOCATED)
        self.buffer(8 * N, into=self.starts)
        self.buffer(8 * positions, into=self.lengths)
        for name, (width, _) in self._stored().items():
            self.stored[name] = self.floats(positions, width)
        for name, width in decoder.states.items():
            self.waiting[name] = self.floats(N, int(width), zeros=True)
        numbers = self.filled(N, 0, 1)
        values |= {"waiting.sentence": numbers, "waiting.sentence_id": numbers}
        values |= {"waiting.list": self.buffer(8 * N, zeros=True), "waiting.token": self.filled(N, BOS_ID)}
        values |= {"waiting.limit": self.field("limits"), "starts": self.starts}
        values |= {"num_ids": N if decoder.captured else 0, "live.first_row": self.buffer(8 * (C + 1), zeros=True)}
        for name in ("tokens", "scores", "plain"):
            values[name] = self.floats(C, tokens_wanted(K), zeros=True)
        values["keys"] = self.buffer(product(8, N, self.field("sampling")))
        keys = "uint64", values["keys"], product(N, self.field("sampling"))
        given = ("int64", self.field("sizes"), N), ("int32", self.field("ids"), 1)
        self.kernel(sample_keys, keys, *given, self.field("seed"), temporary=pieces(64, 128, 128))
        self.fill(values["numbering"], V, -1)
        self.fill(values["free"], N, 0, 1)
        x, y, step = self._step(values, C)
        read = self._embedding("tgt", values["distinct"], C, x)
        values |= {f"embedding_{name}": value for name, value in read.items()}
        output = self._output(values, C, y)
        search = self.table(SEARCH, {**values, **step, **output})
        self.set("search", search)
        place = RULED.places["search"]  # the other table is made first
        self.fill(self.ruled, place + 1, search, first=place)

    def _step(self, values: Mapping[str, Any], C: Number) -> tuple[Word, Word, dict[str, Value]]:
        """Return the inputs [C, E] and the outputs of a step, and the values of a search's table that are about it."""
        decoder, compiled = self.model.step_decoder, self.stepper.compiled
        of_states = {ArrayKind.STATE.of(name): int(width) for name, width in decoder.states.items()}
        E, parts, at, shared = decoder.cell.input_size, dict[str, Value](), Named(self.stored), Named()
        x = self.floats(C, E, zeros=True)
        continued = {name: self.floats(C, width, zeros=True) for name, width in of_states.items()}
        for part, executable, index in (
            ("inputs", compiled.of_inputs, values["rows.word"]),
            ("states", compiled.of_states, values["rows.parent"]),
        ):
            made = Named()
            if executable is not None:
                own = {name: x if name == "x" else continued[name] for name in executable.plan.trace.inputs}
                made = self.single(executable, "decoder.", own, RowsOf(1, C))
                for name, place in executable.plan.outputs.items():
                    at[name], shared[name] = own[place.name], index
            parts[part] = self.table(STEP_PART, made)
        at |= {name: self.floats(2, C, width, zeros=True) for name, width in of_states.items()}
        copies: list[list[Value]] = []
        for name in sorted(compiled.shared.gathered):
            source, width = (x, E) if name == "x" else (continued[name], of_states[name])
            if name not in at:
                at[name] = self.floats(C, width, zeros=True)
            copies.append([source, at[name], 4 * width, name == "x"])
        shared |= {"owner": values["rows.source"], "source_lengths": self.lengths}
        rows = RowsOf(1, C, self.field("longest"), captured=1, shared=shared)
        made = self.single(compiled.step, "decoder.", at, rows)
        parts["step"] = self.table(STEP_PART, made)
        y = on_processor(compiled.step).plan.outputs["y"]
        moved: list[list[Value]] = [
            [at[stack], self.waiting[name], continued[stack], 4 * width]
            for name, (stack, width) in zip(decoder.states, of_states.items(), strict=True)
        ]
        columns = {"num_states": len(moved), "num_gathered": len(copies)}
        return (
            x,
            at[y.name],
            {
                **parts,
                **columns,
                **self._columns("continued", ("stepped", "waiting", "target", "num_bytes"), moved),
                **self._columns("gathered", ("source", "target", "num_bytes", "by_word"), copies),
                "outputs": at[y.name],
                "output_step": 4 * decoder.cell.output_size if y.kind is PlaceKind.AFTER else 0,
            },
        )

    def _columns(self, group: str, names: Sequence[str], rows: list[list[Value]]) -> Named:
        return {f"{group}.{name}": self.words([row[n] for row in rows]) for n, name in enumerate(names)}

    def _output(self, values: Mapping[str, Any], C: Number, x: Word) -> dict[str, Value]:
        """Return the values of a search's table that are about the output layer."""
        V, ruled = values["vocab_size"], self.field("ruled")
        inputs = self.model.step_decoder.cell.output_size
        places = self.computed(Step.LEAST, self.field("beam_size") + 1, V)
        chunks = -(-V // best_tokens.chunk_columns(FLOAT.itemsize))
        parts = min(self.threads, chunks)
        sizes: dict[str, Value] = {**best_tokens.output_sizes(0, inputs, V, 0, parts, FLOAT, self.packed_kind)}
        sizes |= {"y": x, "weights": self._output_weights(), "bias": self._bias(), "chunks": chunks, "places": places}
        sizes |= {name: values[name] for name in ("first_token", "tokens", "scores")}
        self.note_temporary(self._chunk(C))
        self.note_temporary(pieces(8 * BUCKETS, 4 * V, 4 * V))
        found: Number = 0
        tables: Number = 0
        for layout, own, task, rows in (
            (best_tokens.BEST, best_tokens.OWN, best_tokens.best_task, product(C, ruled * -1 + 1)),
            (RULED, RULED_OWN, ruled_task, product(C, ruled)),
        ):
            given: dict[str, Value] = {**sizes, "rows": rows}
            given |= self.arrays_of(layout, given, own)
            if layout is RULED:
                given["plain"] = values["plain"]
            is_used = ruled if layout is RULED else ruled * -1 + 1
            found = product(self.function(task(FLOAT, self.packed_kind)), is_used) + found
            self.ruled = self.table(layout, given)
            tables = product(self.ruled, is_used) + tables
        return {"output_code": found, "output_table": tables, "output_parts": parts}

    def _output_weights(self) -> Word:
        layer = self.model.output_layer
        return self.weight(layer.matrix, 0, layer.weights.shape(layer.matrix)[0], layer.tied)

    def _bias(self) -> Word:
        layer = self.model.output_layer
        return self.model_array(layer.bias, layer.weights[layer.bias])

    def _chunk(self, rows: Number) -> Number:
        """Return the bytes that the output layer takes for so many rows."""
        return pieces(
            product(4, best_tokens.chunk_columns(FLOAT.itemsize), self.computed(Step.LEAST, rows, best_tokens.ROWS)), 4
        )

    # ------------------------------------------------------------ known translations

    def _forced(self) -> dict[str, int]:
        """Write the section that predicts the tokens of a known translation of one sentence."""
        self.begin(Section.FORCED)
        model, S, T = self.model, self.steps, self.field("targets")
        scan, captured = model.step_decoder, dict[str, Word]()
        if model.config.decoder.attention != "none":
            scan = scan.around(AttentionProbe(scan.cell, MOST_POSITIONS))
            places = self.floats(S, MOST_POSITIONS)
            self.kernel(unit_rows, ("float32", places, S, MOST_POSITIONS))
            captured = {"memory": self.memory, "positions": places}
        given = self.constants(scan, "decoder.", captured, RowsOf(1, 1, S))
        x = self._embedded("tgt", self.field("target_ids"), T)
        y, _ = self.scan(scan, "decoder.", x, RowsOf(T, 1, S), given=given, initial=self.initial)
        size, inputs, V = scan.cell.output_size, model.step_decoder.cell.output_size, model.vocab_sizes["tgt"]
        outputs: Array = "float32", self.floats(T, inputs), T, inputs
        self.kernel(copy_columns, ("float32", y, T, size), 0, outputs, 0, inputs)
        weights = str(self.packed_kind), self._output_weights(), 1
        if self.packed_kind != FLOAT:
            words = words_of(inputs, self.packed_kind)
            rounded = str(self.packed_kind), self.floats(T, words), T, words
            self.kernel(best_tokens.round_share, outputs, weights, rounded)
            outputs = rounded
        chunks = -(-V // best_tokens.chunk_columns(FLOAT.itemsize))
        found, tops, totals = (("float32", self.floats(T, n), T, n) for n in (V, chunks, chunks))
        store, bias = best_tokens.store_chunks, ("float32", self._bias(), V)
        self.kernel(store, outputs, weights, bias, found, tops, totals, temporary=self._chunk(T))
        self.kernel(best_tokens.normalise, found, tops, totals, temporary=pieces(4))
        self.set("outputs", y)
        self.set("log_probs", found[1])
        return {"inputs": inputs, "width": size, "columns": V}
