"""The translation model: embeddings, encoder, bridge, attention decoder, output layer; loss and gradients of a
batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import ModelConfig
from nmt.model.bridge import Bridge
from nmt.model.cells import decoder_cell, decoder_layers
from nmt.model.decoders import BlockDecoder, ModelDecoder, translation_block
from nmt.model.encoder import make_encoder
from nmt.model.forced import force
from nmt.model.network import LossStats, Network, Run, real_positions
from nmt.rnn import tuning
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cell import Param, strip, under
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.scan import Scan

if TYPE_CHECKING:
    from nmt.data.batches import Batch

States = dict[str, np.ndarray]


@dataclass
class Source:
    """An encoded batch in its own row order: memory [S, B, M], real positions of each row, the decoder's first
    states."""

    memory: np.ndarray
    lengths: np.ndarray
    states: States


class TranslationModel(Network):
    """An encoder, a bridge and an attention decoder.

    compute_dtype: of the products, "float32", "bfloat16" or "int8" (see `Scan`); None for `dtype`. recompute: what the
    backward pass computes again, "attention" or "gates" as well (see `Scan`).
    """

    def __init__(
        self,
        config: ModelConfig,
        src_vocab_size: int,
        tgt_vocab_size: int,
        joint: bool,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        super().__init__(config, {"src": src_vocab_size, "tgt": tgt_vocab_size}, dtype, device)
        self.joint = joint
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "recompute": recompute, "device": self.device}
        self.encoder = make_encoder(config, **options)
        self.bridge = Bridge(config, **options)
        self.step_decoder = Scan(decoder_cell(config), **options)
        self.decoder = self.step_decoder
        if config.decoder.type == "conv":
            self.decoder = LayeredScan(decoder_layers(config), **options)
        self._fill(self._shapes())

    def runs(self, T: int, S: int) -> list[Run]:
        """See `Network`."""
        of_encoder, of_decoder = self.encoder.runs(S), self.decoder.runs(T)
        runs: list[Run] = [(f"encoder.{name}", scan, steps, 1, late) for name, scan, steps, late in of_encoder]
        if self.config.decoder.init_hidden == "bridge":
            runs += [("bridge", scan, 1, 1, 0) for scan in self.bridge.scans.values()]
        return runs + [(f"decoder.{name}".rstrip("."), scan, steps, S, late) for name, scan, steps, late in of_decoder]

    def _shapes(self) -> dict[str, Param]:
        shapes = self._table_shapes()
        shapes |= under("encoder", self.encoder.params()) | under("bridge", self.bridge.params())
        return shapes | under("decoder", self.decoder.params) | self._output_shapes()

    def encode(self, src: np.ndarray, lengths: np.ndarray, threads: int | None = None) -> Source:
        """Encode src [S, B] for search; rows stay in their order."""
        threads = threads or default_threads()
        order = np.argsort(-lengths, kind="stable")
        back = np.argsort(order, kind="stable")
        allocate = Workspace(self.device.xp, tuning.SENTENCE_BYTES)
        x = self.embed_sequence("src", src[:, order], threads, allocate)
        encoded = self.encoder.forward(
            self.weights.view("encoder"), x, lengths[order], training=False, seed=0, allocate=allocate, threads=threads
        )
        take, place = self.device.take_rows, self.device.index(back)
        final = [{k: take(v, place) for k, v in layer.items()} for layer in encoded.final]
        states, _ = self.bridge.forward(
            self.weights.view("bridge"), final, training=False, allocate=allocate, threads=threads
        )
        return Source(take(encoded.memory, place), lengths, self._decoder_states(states))

    def search_decoder(self, threads: int | None = None, coverage_of: int = 0) -> ModelDecoder:
        """What search needs of the model. With coverage_of, the longest source in tokens with EOS, there is a state
        `coverage`: the attention each source position has got, -1 where there is none."""
        return ModelDecoder(self, threads or default_threads(), coverage_of)

    def force(
        self,
        src_ids: Sequence[Sequence[int]],
        tgt_ids: Sequence[Sequence[int]],
        *,
        attention: bool = False,
        threads: int | None = None,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """See `nmt.model.forced.force`."""
        return force(self, src_ids, tgt_ids, attention, threads or default_threads())

    def block_decoder(self, src_ids: Sequence[Sequence[int]], K: int, coverage_of: int = 0) -> BlockDecoder:
        """What search on a card needs of the model: these sentences encoded, with K rows each."""
        return translation_block(self, src_ids, K, coverage_of)

    def _decoder_states(self, states: States) -> States:
        return {f"cell.{name}": self.device.xp.ascontiguousarray(v) for name, v in states.items()}

    def _run(
        self,
        batch: Batch,
        *,
        training: bool,
        seed: int,
        label_smoothing: float,
        threads: int,
        gradients: dict[str, np.ndarray] | None,
        allocate: Workspace,
    ) -> LossStats:
        weights = self.weights
        # The encoder wants its rows by source length, the decoder by target length (the batch's own order).
        order = np.argsort(-batch.src_lengths, kind="stable")
        back = np.argsort(order, kind="stable")
        src = batch.src[:, order]
        x = self.embed_sequence("src", src, threads, allocate)
        encoded = self.encoder.forward(
            weights.view("encoder"),
            x,
            batch.src_lengths[order],
            training=training,
            seed=2 * seed,
            allocate=allocate,
            threads=threads,
        )
        take, index = self.device.take_rows, self.device.index(back)
        final = [{k: take(v, index) for k, v in layer.items()} for layer in encoded.final]
        first, bridge_tapes = self.bridge.forward(
            weights.view("bridge"), final, training=training, allocate=allocate, threads=threads
        )
        result = self.decoder.forward(
            weights.view("decoder"),
            self.embed_sequence("tgt", batch.tgt_in, threads, allocate),
            self._decoder_states(first),
            lengths=batch.tgt_lengths,
            captured={"memory": take(encoded.memory, index)},
            source_lengths=batch.src_lengths,
            training=training,
            seed=2 * seed + 1,
            allocate=allocate,
            label="decoder",
            threads=threads,
        )
        rows = real_positions(batch)
        sums, d_y = self._output(result.y, rows, batch, label_smoothing, threads, gradients, allocate)
        if gradients is None or d_y is None or result.tape is None:
            return self._stats(sums, len(rows))
        d = self.decoder.backward(result.tape, d_y, None, strip(gradients, "decoder"))
        d_first = {name.removeprefix("cell."): g for name, g in d.initial.items()}
        d_final = self.bridge.backward(bridge_tapes, d_first, final, strip(gradients, "bridge"))
        self._embedding_gradient("tgt", batch.tgt_in, d.x, threads, gradients)
        index = self.device.index(order)
        d_src = self.encoder.backward(
            encoded,
            take(d.captured["memory"], index),
            [{k: take(g, index) for k, g in layer.items()} for layer in d_final],
            strip(gradients, "encoder"),
        )
        self._embedding_gradient("src", src, d_src, threads, gradients)
        return self._stats(sums, len(rows))
