"""The language model: embeddings, layers of recurrent cells, output layer; its states go on from batch to batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import ModelConfig
from nmt.errors import DeviceError
from nmt.model.cells import language_cells
from nmt.model.decoders import LanguageDecoder
from nmt.model.forced import token_log_probs
from nmt.model.network import LossStats, Network, Run, real_positions
from nmt.rnn.cell import Param, strip, under
from nmt.rnn.cells import StackCell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.device import Device
from nmt.rnn.scan import Result, Scan
from nmt.rnn.workspace import Fresh
from nmt.special_tokens import EOS_ID

if TYPE_CHECKING:
    from nmt.data.streams import Segment

States = dict[str, np.ndarray]


class LanguageModel(Network):
    """What the settings call the decoder, without an encoder: P(token | all tokens before it in its stream).

    Training and `loss` go through segments in order: each starts from the states that the one before it ended with,
    without a gradient (truncated backpropagation; Mikolov et al. 2010, section 2). Options as of `TranslationModel`.
    """

    def __init__(
        self,
        config: ModelConfig,
        vocab_size: int,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        super().__init__(config, {"tgt": vocab_size}, dtype, device)
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "recompute": recompute, "device": self.device}
        cells = language_cells(config)
        # A scan a layer: what a layer reads of the one below is then multiplied for all steps at once.
        self.layers = [Scan(cell, **options) for cell in cells]
        # All layers in one step, for texts that grow.
        self.decoder = Scan(StackCell(cells), **options)
        self._fill(self._shapes(), self.decoder.packed)
        self._states: dict[bool, States] = {True: {}, False: {}}  # of training, and of `loss`

    @property
    def scans(self) -> list[Scan]:
        """See `Network`."""
        return [*self.layers, self.decoder]

    def runs(self, T: int, S: int) -> list[Run]:
        """See `Network`."""
        return [(f"decoder.{n}", scan, T, 1, 1) for n, scan in enumerate(self.layers)]

    @property
    def carried(self) -> States:
        """See `Network`: the states after the last segment, by name, [B, n]."""
        return {name: self.device.download(state) for name, state in self._states[True].items()}

    def carry(self, states: States) -> None:
        """See `Network`."""
        self._states[True] = {name: self.device.upload(state) for name, state in states.items()}

    def _shapes(self) -> dict[str, Param]:
        shapes = {self.table("tgt"): Param((self.vocab_sizes["tgt"], self.config.decoder.embeddings.embedding_dim))}
        shapes |= under("decoder", self.decoder.cell.params())
        return shapes | self._output_shapes()

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
    ) -> tuple[list[Result], States]:
        """Tokens [T, B] after `states` [B, n] by name (zero where missing) -> each layer's result, states after."""
        allocate = allocate or Fresh(self.device.xp)
        x = self.embed("tgt", tgt_in, threads, allocate)
        results: list[Result] = []
        for n, scan in enumerate(self.layers):
            result = scan.forward(
                self.weights.view(f"decoder.{n}"),
                x,
                strip(states or {}, str(n)),
                lengths=lengths,
                training=training,
                seed=seed * 64 + n,
                allocate=allocate,
                label=f"decoder.{n}",
            )
            results.append(result)
            x = result.y
        return results, {k: v for n, result in enumerate(results) for k, v in under(str(n), result.final).items()}

    def log_probs(
        self, tgt_in: np.ndarray, tgt_out: np.ndarray, lengths: np.ndarray, states: States, threads: int | None = None
    ) -> tuple[list[np.ndarray], States]:
        """Log-probabilities of the real tokens of tgt_out [T, B] after tgt_in, an array a row, and the states after.
        Raises DeviceError for a model on a card."""
        if self.device.name != "cpu":
            raise DeviceError(
                f"scoring: must run on the processor, got the device {self.device.name}; use --device cpu, every model "
                "runs there"
            )
        threads = self._use_threads(threads)
        results, after = self.read(tgt_in, lengths, states, threads=threads)
        return token_log_probs(self, results[-1].y, tgt_out, lengths, threads), after

    def search_decoder(self, threads: int | None = None, coverage_of: int = 0) -> LanguageDecoder:
        """What search needs of the model, the sources being texts to go on from. There is no coverage."""
        return LanguageDecoder(self, self._use_threads(threads))

    def continue_from(self, texts: Sequence[Sequence[int]], threads: int) -> States:
        """States after EOS and all tokens but the last of each text, which may be empty: [B, n] by name."""
        read = [[EOS_ID, *text][:-1] for text in texts]
        lengths = np.array([len(tokens) for tokens in read], np.int64)
        tgt_in = np.full((max(1, int(lengths.max(initial=0))), len(texts)), EOS_ID, np.int32)
        for b, tokens in enumerate(read):
            tgt_in[: len(tokens), b] = tokens
        return self.read(tgt_in, lengths, threads=threads)[1]

    def _run(
        self,
        batch: Segment,
        *,
        training: bool,
        seed: int,
        label_smoothing: float,
        threads: int | None,
        gradients: dict[str, np.ndarray] | None,
    ) -> LossStats:
        threads = self._use_threads(threads)
        self._workspace.reset()
        results, self._states[training] = self.read(
            batch.tgt_in,
            batch.tgt_lengths,
            None if batch.starts else self._states[training],
            threads=threads,
            training=training,
            seed=seed,
            allocate=self._workspace,
        )
        rows = real_positions(batch)
        sums, d_y = self._output(results[-1].y, rows, batch, label_smoothing, threads, gradients)
        if gradients is None or d_y is None:
            return self._stats(sums, len(rows))
        for n in reversed(range(len(self.layers))):
            tape = results[n].tape
            if tape is None or d_y is None:
                raise RuntimeError(f"layer {n} has no way back")
            d_y = self.layers[n].backward(tape, d_y, None, strip(gradients, f"decoder.{n}")).x
        self._embedding_gradient("tgt", batch.tgt_in, d_y, threads, gradients)
        return self._stats(sums, len(rows))
