"""The translation model: embeddings, encoder, bridge, attention decoder, output layer; loss and gradients of a
batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import proxy

import numpy as np

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model import batch_pass
from nmt.model.batch_pass import BatchPass, GradientTarget, Objective, RealTargets, SentencePairs, SortedSource
from nmt.model.copying import EditActions, check_device
from nmt.model.decoders import BlockDecoder, ModelDecoder
from nmt.model.forced import ForcedScores, TokenIds, forced_log_probs
from nmt.model.network import LossStats, Network
from nmt.model.output_heads import AttentionLossHead, CopyingHead, EditsHead, PlainHead
from nmt.model.parts.cells import decoder_cell, decoder_layers
from nmt.model.parts.encoder import Bridge, Encoder
from nmt.model.source_encoder import EncodedRows, Source, SourceEncoder, SourceFactors
from nmt.model.translation_program import Found, ProgramRun, TranslationProgram, program_obstacle
from nmt.rnn import tuning
from nmt.rnn.arrays.beam_state import BeamSettings
from nmt.rnn.arrays.pass_numbers import PassNumbers, Seed, frozen
from nmt.rnn.arrays.workspace import Group, Idle, Workspace, pieces_of
from nmt.rnn.cell import Param, under
from nmt.rnn.cells import AttentionProbe
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.kernels.program.run_program import MOST_ROWS
from nmt.rnn.kernels.search.token_rules import TokenRules
from nmt.rnn.kernels.threads.atomics import FLAT_BARRIER_THREADS
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.passes import Tape
from nmt.rnn.scan.scan import Scan
from nmt.special_tokens import boundary_ids

_PARTS = 8
"""Parts of all positions. The output layer computes whole parts in a pass that may be recorded, at least the real
positions: so batches with other numbers of tokens share a recording."""

_MOST_IDLE = 8
"""Programs that are kept while no caller uses them, for each number of threads."""


class TranslationModel(Network):
    """An encoder, a bridge and an attention decoder. compute_dtype: the type of products, "float32", "bfloat16" or
    "int8" (see `Scan`); None for `dtype`. recompute: what the backward pass computes again, "attention" or "gates" as
    well (see `Scan`). src_factor_sizes: the number of values of each source factor (see `SourceFactors`)."""

    def __init__(
        self,
        config: ModelConfig,
        src_vocab_size: int,
        tgt_vocab_size: int,
        *,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
        src_factor_sizes: Sequence[int] = (),
    ) -> None:
        outputs = tgt_vocab_size
        if config.decoder.edit_actions:
            self.actions = EditActions(tgt_vocab_size)
            outputs = self.actions.count
        super().__init__(config, {"src": src_vocab_size, "tgt": outputs}, dtype, device)
        check_device(config, self.device)
        self.copies = config.decoder.copy_source
        self._probes: dict[int, Scan] = {}  # by the source positions that they record
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "recompute": recompute, "device": self.device}
        self.encoder = Encoder(config, **options)
        if src_factor_sizes:
            self.factors = SourceFactors(src_vocab_size, src_factor_sizes, config.encoder.factors)
        self._source = SourceEncoder(self, self.encoder, self.factors)
        self.bridge = Bridge(config, **options)
        self.step_decoder = Scan(decoder_cell(config), **options)
        self.decoder = self.step_decoder
        if config.decoder.type == "conv":
            self.decoder = LayeredScan(decoder_layers(config), **options)
        own: dict[str, Param] = {} if self.factors is None else self.factors.params()
        own |= under("encoder", self.encoder.layers.params) | under("bridge", self.bridge.params())
        self._fill(own | under("decoder", self.decoder.params))
        self._has_program = not program_obstacle(self, self.encoder)
        self._programs: dict[int, tuple[object, Idle[ProgramRun]]] = {}  # by threads: for a version of the weights
        self.head: Any = (EditsHead if self.actions is not None else CopyingHead if self.copies else PlainHead)(self)

    def pad_sources(self, src_ids: TokenIds) -> tuple[np.ndarray, np.ndarray]:
        """Return source ids as the encoder reads them, [S, B], with boundary tokens, and lengths [B]."""
        return batch_pass.pad_sources(src_ids, self.config.encoder.boundaries)

    def encode(
        self, src: np.ndarray, lengths: np.ndarray, threads: int | None = None, memory: Workspace | None = None
    ) -> Source:
        """Encode src [S, B] for a search; the rows stay in order. The result lies in `memory` if that is given."""
        threads = threads or default_threads()
        if self._is_short(len(src), len(lengths)) and lengths.min() == len(src):
            idle = self._runs(threads)
            run = idle.take()
            encoded, states = run.encode(np.ascontiguousarray(src.T))
            idle.give(run)
            return Source(src, encoded, lengths, states)
        allocate = memory or Workspace(self.device.xp, tuning.SENTENCE_BYTES)
        how = BatchPass(allocate, threads, is_transient=memory is not None)
        return self._encode(src, lengths, how)[0]

    def _encode(
        self, src: np.ndarray, lengths: np.ndarray, how: BatchPass
    ) -> tuple[Source, EncodedRows, dict[str, Tape | None]]:
        """Encode src [S, B] and compute the initial states of the decoder; also return what the encoder and the bridge
        need for the backward pass."""
        rows = self._source.forward(src, lengths, how)
        rows.final = self.bridge.with_mean(rows.final, rows.memory, lengths)
        states, tapes = self.bridge.forward(self.weights.view("bridge"), rows.final, how)
        initial = {f"cell.{name}": self.device.contiguous(v) for name, v in states.items()}
        return Source(src, self._read_memory(rows, src, how), lengths, initial), rows, tapes

    def _read_memory(self, rows: EncodedRows, src: np.ndarray, how: BatchPass) -> np.ndarray:
        """Return the memory that the decoder reads: the encoder's outputs, and behind them the embeddings of the source
        if the decoder has a lexical output model, then positions and tokens if it writes edit actions."""
        memory = rows.memory
        parts = [memory] if rows.words is None else [memory, rows.words]
        if self.actions is not None:
            places = np.broadcast_to(np.arange(len(src))[:, None], src.shape)
            parts.append(np.stack([places, src], axis=-1).astype(memory.dtype))
        if len(parts) == 1:
            return memory
        width = sum(part.shape[2] for part in parts)
        joined = how.lasting(self.device, (*memory.shape[:2], width), memory.dtype)
        self.device.join_columns(parts, joined, how.threads)
        return joined

    def _split(self, d_memory: np.ndarray, rows: EncodedRows, how: BatchPass) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the gradients of what `_read_memory` joins."""
        if d_memory.shape == rows.memory.shape:
            return d_memory, None
        d_outputs = how.allocate(rows.memory.shape, rows.memory.dtype)
        self.device.take_columns(d_memory, 0, d_outputs, how.threads)
        if rows.words is None:
            return d_outputs, None
        d_words = how.allocate(rows.words.shape, rows.words.dtype)
        self.device.take_columns(d_memory, d_outputs.shape[2], d_words, how.threads)
        return d_outputs, d_words

    def search_decoder(self, threads: int | None = None, longest: int = 0) -> ModelDecoder:
        """Return a decoder for the search; see `SearchModel`."""
        width = 0
        if self.copies and longest:  # the positions of the longest source as the encoder reads it
            before, after = boundary_ids(self.config.encoder.boundaries)
            width = max(1, longest - 1 + len(before) + len(after))
        return ModelDecoder(self, self._encode_ids, threads or default_threads(), width)

    def search_short(
        self,
        src_ids: TokenIds,
        limits: np.ndarray,
        settings: BeamSettings,
        threads: int,
        rules: TokenRules | None = None,
    ) -> list[Found] | None:
        """Return the hypotheses of short sentences of one length; None if others are given; see `SearchModel`."""
        length, count = len(src_ids[0]), len(src_ids)
        is_alike = length > 0 and limits[0] > 0 and [*map(len, src_ids)] == [length] * count
        if not is_alike or not self._is_short(length, count):
            return None
        if rules is not None:
            rules.check(self.vocab_sizes["tgt"])
        idle = self._runs(threads)
        run = idle.take()
        found = run.search(src_ids, limits, settings, rules)
        idle.give(run)
        return found

    def _is_short(self, steps: int, rows: int) -> bool:
        """Return whether a program takes rows of so many steps."""
        fits = 0 < steps * rows <= tuning.SHORT_ROWS and rows <= MOST_ROWS
        return fits and self._has_program

    def _runs(self, threads: int) -> Idle[ProgramRun]:
        """Return the programs for the weights as they are."""
        threads = min(threads, FLAT_BARRIER_THREADS)
        version, idle = self._programs.get(threads) or (None, None)
        if idle is None or version is not self.weights.version:
            version, own = self.weights.version, proxy(self)  # no circle, which would keep a former model for a while
            idle = Idle(lambda: ProgramRun(own.program(threads)), _MOST_IDLE)
            self._programs[threads] = version, idle
        return idle

    def program(self, threads: int = 1, *, forced: bool = False) -> TranslationProgram:
        """Return the program of a translation for the weights as they are; see `program_obstacle`."""
        return TranslationProgram(self, self.encoder, self.bridge, threads, forced=forced)

    def _encode_ids(self, src_ids: TokenIds, threads: int, memory: Workspace | None = None) -> Source:
        """Encode sentences; the rows stay in order."""
        return self.encode(*self.pad_sources(src_ids), threads, memory)

    def forced_log_probs(
        self, src_ids: TokenIds, tgt_ids: TokenIds, *, attention: bool = False, threads: int | None = None
    ) -> ForcedScores:
        """Return the log-probabilities [T] of the given target tokens (with EOS if it is to be scored) for each source
        (without EOS). With `attention`, also return the attention weights [T, S] of each pair, none if the model has no
        attention; see `nmt.model.forced`. Raises ConfigError for a model that writes edit actions."""
        if self.actions is not None:
            raise ConfigError(
                "scores of translations: must be of a model without model.decoder.edit_actions, got one with; the "
                "search has the scores of what it writes"
            )
        threads = threads or default_threads()
        source = self._encode_ids(src_ids, threads)
        return forced_log_probs(self, source, tgt_ids, self._probe, attention=attention, threads=threads)

    def block_decoder(self, src_ids: TokenIds, K: int) -> BlockDecoder:
        """Encode these sentences and return a GPU decoder for them, with K rows per sentence."""
        return BlockDecoder(self, self.encode(*self.pad_sources(src_ids)), K)

    def _probe(self, count: int) -> Scan:
        """Return the decoder that appends its attention to `count` positions to its outputs."""
        if count not in self._probes:
            self._probes[count] = self.step_decoder.around(AttentionProbe(self.decoder.cell, count))
        return self._probes[count]

    def loss(self, batch: SentencePairs, threads: int | None = None) -> LossStats:
        """Return the loss of a batch without dropout and smoothing."""
        return self._run_batch(batch, threads)

    def loss_and_gradients(
        self,
        batch: SentencePairs,
        *,
        seed: int,
        label_smoothing: float = 0.0,
        threads: int | None = None,
        into: Group | None = None,
        tokens: int | None = None,
        ready: Callable[..., None] = batch_pass.ready_for_nobody,
        objective: Objective = batch_pass.LIKELIHOOD,
    ) -> tuple[LossStats, Group]:
        """Return the loss of a batch, and the gradients of smoothed loss / real target tokens for every parameter.
        `seed` determines the dropout. `into`: the arrays of an earlier call, to be overwritten. `tokens`: the total of
        all batches whose gradients are added up, None for a single batch. `ready`: see `GradientTarget`. `objective`:
        other terms to minimise."""
        gradients = into if into is not None else self.gradient_group()
        tokens = int(batch.tgt_lengths.sum()) if tokens is None else tokens
        target = GradientTarget(gradients, max(1, tokens), ready)
        with self.device.in_one_call():
            settings = {"seed": seed, "label_smoothing": label_smoothing, "objective": objective}
            stats = self._run_batch(batch, threads, target=target, **settings)
        return stats, gradients

    def _run_batch(self, batch: Any, threads: int | None, **settings: Any) -> LossStats:
        """Call `_run` with a workspace that no other call uses. After an error or an interruption the workspace is not
        reused: parts of it might still be referenced."""
        workspace, threads = self._idle_workspaces.take(), threads or default_threads()
        workspace.reset()
        how, numbers = BatchPass(workspace, threads, **settings), None
        gradients = pieces_of(how.target.arrays) if how.target else []
        if gradients and not self.device.is_cpu:
            batch, how, numbers = self._with_numbers(batch, how)

        def launch() -> Any:
            workspace.reset()
            if numbers is not None:
                self.changed()  # so that a recording makes derived forms of the parameters
            for g in gradients:
                self.device.clear(g, threads)
            return self._run(batch, how)

        memory = [*workspace.chunks, *gradients, *pieces_of(self.params)] if numbers is not None else []
        nll, loss, correct = self.device.download(self.device.run_pass(numbers, memory, launch)).tolist()
        self._idle_workspaces.give(workspace)
        return LossStats(nll, loss, int(batch.tgt_lengths.sum()), int(correct))

    def _with_numbers(self, batch: Any, how: BatchPass) -> tuple[Any, BatchPass, PassNumbers | None]:
        """Return the batch and the pass with what is derived from it, and their numbers if it may be a recording."""
        if how.target is None or how.objective is not batch_pass.LIKELIHOOD or self.factors or self.positions:
            return batch, how, None  # more of them is computed from the batch
        if batch.tgt_out.max(initial=0) >= self.vocab_sizes["tgt"]:
            return batch, how, None  # a launch refuses it, a replay would not
        lengths = {side: frozen(getattr(batch, f"{side}_lengths"), np.int64) for side in ("src", "tgt")}
        source = SortedSource(*map(frozen, SortedSource.of(batch.src, lengths["src"])))
        tgt_in, real = frozen(batch.tgt_in), RealTargets.of(batch, _PARTS)
        target = replace(how.target, ready=batch_pass.ready_for_nobody)  # all gradients are ready after the pass
        numbers = PassNumbers(
            (self.number, how.label_smoothing, source.src.shape, tgt_in.shape, len(real.rows)),
            (tgt_in, *lengths.values(), *source, *real),
            ((lengths["src"], len(source.src)), (lengths["tgt"], len(tgt_in))),
            ((source.src, self.vocab_sizes["src"]), (tgt_in, self.vocab_sizes["tgt"])),
            how.seed,
            target.scale,
        )
        batch = replace(batch, tgt_in=tgt_in, src_lengths=lengths["src"], tgt_lengths=lengths["tgt"])
        return batch, replace(how, target=target, seed=Seed(how.seed), real=real, source=source), numbers

    def _run(self, batch: SentencePairs, how: BatchPass) -> Any:
        """Return the sums of a batch's loss (see `Device.output_loss`); add to the gradients of its target, if any.
        Encoder and decoder draw their dropout from different seeds."""
        of_source = replace(how, seed=2 * how.seed)
        source, encoded, bridge_tapes = self._encode(batch.src, batch.src_lengths, of_source)
        head = self.head
        if how.training and how.objective.reads_attention:
            head = AttentionLossHead(self.head)
        decoder, captured = self.decoder, {"memory": source.memory}
        if head.shows_attention:
            count = batch_pass.rounded_up(max(len(source.memory), how.objective.widest_source))
            decoder = self._probe(count)
            captured["positions"] = batch_pass.positions(self.device, source.memory, count)
        result = decoder.forward(
            self.weights.view("decoder"),
            self.embed_sequence("tgt", batch.tgt_in, how.threads, how.allocate),
            source.states,
            lengths=batch.tgt_lengths,
            captured=captured,
            source_lengths=source.lengths,
            training=how.training,
            seed=2 * how.seed + 1,
            allocate=how.allocate,
            threads=how.threads,
            final=(),
            lasting=partial(how.lasting, self.device),
        )
        sums, d_y = head.loss(result.y, batch, how)
        target = how.target
        if target is None or result.tape is None:
            return sums
        gradients = target.arrays
        d = decoder.backward(result.tape, d_y, None, gradients.view("decoder"), initial=source.states)
        target.ready("decoder")
        d_first = {name.removeprefix("cell."): g for name, g in d.initial.items()}
        d_final = self.bridge.backward(bridge_tapes, d_first, encoded.final, gradients.view("bridge"), how)
        target.ready("bridge")
        self.embedding_gradient("tgt", batch.tgt_in, d.x, how.threads, gradients)
        if self.actions is not None:
            self.device.host(gradients[self.table("tgt")])[:, -1] = 0  # whether an action moves is not learned
        if self.table("tgt") != self.table("src"):
            target.ready(self.table("tgt"))
        # A decoder without attention does not read the memory.
        reads = self.config.decoder.attention != "none" or self.actions is not None
        d_memory = d.captured["memory"] if reads else self.device.xp.zeros_like(encoded.memory)
        d_memory, d_words = self._split(d_memory, encoded, how)
        d_memory = self.bridge.add_mean_gradient(d_memory, d_final, source.lengths)
        self._source.backward(encoded, d_memory, d_final, gradients, of_source, d_words)
        return sums
