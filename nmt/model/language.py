"""The language model: embeddings, layers of recurrent cells, output layer; its states carry over from batch to
batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nmt.config import ModelConfig
from nmt.model.batch_pass import BatchPass, Targets, pad_targets
from nmt.model.decoders import BlockDecoder, LanguageDecoder, language_block
from nmt.model.forced import token_log_probs
from nmt.model.network import Network
from nmt.model.output_heads import PlainHead
from nmt.model.parts.cells import language_cells
from nmt.overriding import override
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.cell import under
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.passes import Result
from nmt.rnn.scan.scan import Scan
from nmt.special_tokens import EOS_ID

States = dict[str, np.ndarray]


class StreamSegment(Targets, Protocol):
    """A segment of several streams of tokens."""

    @property
    def starts(self) -> bool:
        """Return whether the streams begin here."""

    @property
    def part(self) -> int:
        """Return the index of the group of streams; states are carried separately for each group."""


class LanguageModel(Network):
    """The decoder of the settings without an encoder: P(token | all previous tokens of its stream). Training and `loss`
    process segments in order: each starts from the final states of the previous one, without a gradient (truncated
    backpropagation; Mikolov et al. 2010, section 2). The options are those of `TranslationModel`."""

    def __init__(
        self,
        config: ModelConfig,
        vocab_size: int,
        *,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        super().__init__(config, {"tgt": vocab_size}, dtype, device)
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "recompute": recompute, "device": self.device}
        cells = language_cells(config)
        # Layer by layer: the input of a layer is then multiplied for all steps at once.
        self.decoder: LayeredScan = LayeredScan(cells, **options)
        self.step_decoder = Scan(self.decoder.cell, **options)
        self._fill(self._table_shapes() | under("decoder", self.decoder.params) | self._output_shapes())
        self.head = PlainHead(self)
        # The states after the last segment of each part, by whether it was training or `loss`.
        self._states: dict[bool, dict[int, States]] = {True: {}, False: {}}

    @property
    def carried(self) -> States:
        """Return the states after the last segment, [B, n] by name, those of part p > 0 of the streams below `p/`; see
        `Network`."""
        return {
            f"{part}/{name}" if part else name: self.device.download(state)
            for part, states in self._states[True].items()
            for name, state in states.items()
        }

    @override
    def carry(self, states: States) -> None:
        self._states[True] = {}
        for key, state in states.items():
            part, _, name = key.rpartition("/")
            self._states[True].setdefault(int(part or 0), {})[name] = self.device.upload(state)

    def read(
        self,
        tgt_in: np.ndarray,
        lengths: np.ndarray,
        states: States | None = None,
        *,
        threads: int,
        training: bool = False,
        seed: int = 0,
        allocate: Any = None,
    ) -> Result:
        """Read tokens [T, B], starting from `states` [B, n] by name (zero if missing); return the outputs and the final
        states."""
        allocate = allocate or Fresh(self.device.xp)
        return self.decoder.forward(
            self.weights.view("decoder"),
            self.embed("tgt", tgt_in, threads, allocate),
            states,
            lengths=lengths,
            training=training,
            seed=seed,
            allocate=allocate,
            threads=threads,
        )

    def log_probs(
        self, tgt_in: np.ndarray, tgt_out: np.ndarray, lengths: np.ndarray, states: States, threads: int | None = None
    ) -> tuple[list[np.ndarray], States]:
        """Return the log-probabilities of the real tokens of tgt_out [T, B] given tgt_in, one host array per row, and
        the final states."""
        threads = threads or default_threads()
        result = self.read(tgt_in, lengths, states, threads=threads)
        return token_log_probs(self, result.y, tgt_out, lengths, threads), result.final

    def line_log_probs(self, lines: Sequence[Sequence[int]], threads: int | None = None) -> list[np.ndarray]:
        """Return the log-probabilities [T] of the tokens of each line, scored independently of the other lines; a final
        EOS is scored too."""
        return self.log_probs(*pad_targets(lines, first=EOS_ID), {}, threads)[0]

    def search_decoder(self, threads: int | None = None, longest: int = 0) -> LanguageDecoder:
        """Return a decoder for the search, which begins a line for each source."""
        return LanguageDecoder(self, self.line_starts, threads or default_threads())

    def block_decoder(self, src_ids: Sequence[Sequence[int]], K: int) -> BlockDecoder:
        """Return a GPU decoder that begins a line for each source, with K rows per line."""
        return language_block(self, self.line_starts(len(src_ids), 1), len(src_ids), K)

    def line_starts(self, count: int, threads: int) -> States:
        """Return the states at the beginning of `count` lines: [B, n] by name."""
        return self.read(np.full((1, count), EOS_ID, np.int32), np.zeros(count, np.int64), threads=threads).final

    def _run(self, batch: StreamSegment, how: BatchPass) -> Any:
        """Run a segment, starting from the final states of the previous segment of its part; training and `loss` keep
        separate states. See `Network._run`."""
        result = self.read(
            batch.tgt_in,
            batch.tgt_lengths,
            None if batch.starts else self._states[how.training].get(batch.part, {}),
            threads=how.threads,
            training=how.training,
            seed=how.seed,
            allocate=how.allocate,
        )
        self._states[how.training][batch.part] = result.final
        sums, d_y = self.head.loss(result.y, batch, how)
        target = how.target
        if target is None or d_y is None:
            return sums
        gradients = target.arrays
        d = self.decoder.backward(result.tape, d_y, None, gradients.view("decoder"))
        target.ready("decoder")
        self.embedding_gradient("tgt", batch.tgt_in, d.x, how.threads, gradients)
        return sums
