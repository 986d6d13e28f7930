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
from nmt.model.decoders import BlockDecoder, ModelDecoder
from nmt.model.encoder import make_encoder
from nmt.model.forced import force
from nmt.model.positions import embedding_deviation, make_positions
from nmt.rnn.cell import Param, under
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.device import Device, OutputGradients, OutputLayer, cpu
from nmt.rnn.kernels.threads import default_threads
from nmt.rnn.layered import LayeredScan
from nmt.rnn.profile import operation
from nmt.rnn.scan import Scan
from nmt.rnn.weights import Weights, initial_array
from nmt.rnn.workspace import Workspace

if TYPE_CHECKING:
    from nmt.data.batches import Batch

States = dict[str, np.ndarray]


@dataclass(frozen=True)
class LossStats:
    """Sums over the real target tokens of a batch: negative log-likelihood, smoothed loss, correct guesses."""

    nll: float
    loss: float
    tokens: int
    correct: int


@dataclass
class Source:
    """An encoded batch in its own row order: memory [S, B, M], real positions of each row, the decoder's first
    states."""

    memory: np.ndarray
    lengths: np.ndarray
    states: States


class TranslationModel:
    """Settings and parameters. Arrays of `params` may be written in place; call `changed()` afterwards.

    compute_dtype: of the products, "float32" or "bfloat16" (see `Scan`); None for `dtype`. recompute: what the
    backward pass computes again, "attention" or "gates" as well (see `Scan`). device: where parameters and all arrays
    lie and the work is done, None for the processor; batches, sentences and checkpoints are of the host everywhere.
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
        self.device = device or cpu()
        self.config, self.dtype = config, np.dtype(dtype)
        self.vocab_sizes = {"src": src_vocab_size, "tgt": tgt_vocab_size}
        self.joint = joint
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "recompute": recompute}
        options["device"] = self.device
        self.encoder = make_encoder(config, **options)
        self.bridge = Bridge(config, **options)
        # One step of the whole decoder, for search; and the decoder over known targets.
        self.step_decoder = Scan(decoder_cell(config), **options)
        self.decoder: Scan | LayeredScan = self.step_decoder
        if config.decoder.type == "conv":
            self.decoder = LayeredScan(decoder_layers(config), **options)
        self.positions = make_positions(config, self.device)
        self.shapes = self._shapes()
        xp = self.device.xp
        self.weights = Weights({name: xp.zeros(p.shape, dtype) for name, p in self.shapes.items()})
        self.output_layer = OutputLayer(
            self.weights, self.table("tgt") if self.tied else "output.W", "output.b", self.tied, self.decoder.packed
        )
        self._workspace = Workspace(xp)

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Parameters by name, on the device."""
        return dict(self.weights)

    @property
    def num_params(self) -> int:
        """How many numbers are learned."""
        return sum(a.size for a in self.weights.values())

    @property
    def workspace_taken(self) -> int:
        """Bytes of arrays that the last batch took from the workspace."""
        return self._workspace.taken

    def changed(self) -> None:
        """Parameters were written in place."""
        self.weights.changed()

    def initialize(self, seed: int, tgt_counts: np.ndarray | None = None) -> None:
        """Fresh parameters.

        Embeddings are standard normal, or, where they are the output layer too, normal with variance 1 /
        embedding_dim, as the
        output layer's rows are; small ones leave the first updates without a signal, unless what they go through keeps
        their variance (see `embedding_deviation`). The output bias is the log
        frequency
        of each token where `tgt_counts` [V] is given: nobody has to learn which words are common. Other matrices as
        the settings say.
        """
        rng = np.random.default_rng(seed)
        for name, param in self.shapes.items():
            self._set(name, self._first_values(name, param, rng))
        if tgt_counts is not None:
            frequency = (tgt_counts + 0.5) / (tgt_counts + 0.5).sum()
            self._set("output.b", np.log(frequency))
        self.changed()

    def _set(self, name: str, values: np.ndarray) -> None:
        self.weights[name][...] = self.device.upload(values.astype(self.dtype))

    def _first_values(self, name: str, param: Param, rng: np.random.Generator) -> np.ndarray:
        if name.endswith("embeddings"):
            output = self.tied and name == self.table("tgt")
            deviation = param.shape[1] ** -0.5 if output else 1.0
            return rng.standard_normal(param.shape) * (param.deviation or deviation)
        if name == "output.W":
            return rng.standard_normal(param.shape) * param.shape[0] ** -0.5
        if len(param.shape) == 2 and self.config.initializer == "uniform":
            return rng.uniform(-self.config.init_weight, self.config.init_weight, param.shape)
        array = initial_array(param, rng, self.dtype)
        return array * self.config.forget_bias if param.ones is not None else array

    # ------------------------------------------------------------ parameters

    def table(self, side: str) -> str:
        """Name of the embedding table of `src` or `tgt`."""
        return "embeddings" if self.config.tied_embeddings == "all" else f"{side}_embeddings"

    @property
    def tied(self) -> bool:
        """Whether the output layer is the target embedding."""
        return self.config.tied_embeddings != "none"

    def _shapes(self) -> dict[str, Param]:
        config = self.config
        shapes = {
            self.table("src"): Param(
                (self.vocab_sizes["src"], config.encoder.embeddings.embedding_dim),
                deviation=embedding_deviation(config.encoder),
            ),
            self.table("tgt"): Param(
                (self.vocab_sizes["tgt"], config.decoder.embeddings.embedding_dim),
                deviation=None if self.tied else embedding_deviation(config.decoder),
            ),
        }
        shapes |= {k: v for one in self.positions.values() for k, v in one.params().items()}
        shapes |= under("encoder", self.encoder.params()) | under("bridge", self.bridge.params())
        shapes |= under("decoder", self.decoder.params)
        if not self.tied:
            shapes["output.W"] = Param((config.decoder.hidden_size, self.vocab_sizes["tgt"]))
        shapes["output.b"] = Param((self.vocab_sizes["tgt"],))
        return shapes

    # ------------------------------------------------------------ forward

    def embed(self, side: str, ids: np.ndarray, threads: int, allocate: Any) -> np.ndarray:
        """ids [..., B] -> embeddings [..., B, E]."""
        out = allocate((*ids.shape, self.weights[self.table(side)].shape[1]), self.dtype)
        self.embed_into(side, self.device.upload(np.ascontiguousarray(ids).reshape(-1)), out, threads)
        return out

    def embed_sequence(self, side: str, ids: np.ndarray, threads: int, allocate: Any) -> np.ndarray:
        """ids [T, B] from the first position on -> embeddings [T, B, E], with those of positions where there are."""
        x = self.embed(side, ids, threads, allocate)
        if side in self.positions:
            self.positions[side].add(self.weights, x)
        return x

    def embed_into(self, side: str, ids: Any, out: Any, threads: int) -> None:
        """The same for ids [N] of the device, into an array of N * E numbers."""
        table = self.weights[self.table(side)]
        with operation(side, " embedding: lookup"):
            self.device.embedding_rows(ids, table, out.reshape(-1, table.shape[1]), self._scale(side), threads)

    def _scale(self, side: str) -> float:
        embeddings = (self.config.encoder if side == "src" else self.config.decoder).embeddings
        return float(embeddings.embedding_dim) ** 0.5 if embeddings.scale else 1.0

    def _use_threads(self, threads: int | None) -> int:
        threads = threads or default_threads()
        for scan in (*self.encoder.scans, *self.bridge.scans.values(), self.decoder, self.step_decoder):
            scan.threads = threads
        return threads

    def encode(self, src: np.ndarray, lengths: np.ndarray, threads: int | None = None) -> Source:
        """Encode src [S, B] for search; rows stay in their order."""
        threads = self._use_threads(threads)
        order = np.argsort(-lengths, kind="stable")
        back = np.argsort(order, kind="stable")
        allocate = Workspace(self.device.xp)
        x = self.embed_sequence("src", src[:, order], threads, allocate)
        encoded = self.encoder.forward(
            self.weights.view("encoder"), x, lengths[order], training=False, seed=0, allocate=allocate
        )
        take, place = self.device.take_rows, self.device.index(back)
        final = [{k: take(v, place) for k, v in layer.items()} for layer in encoded.final]
        states, _ = self.bridge.forward(self.weights.view("bridge"), final, training=False, allocate=allocate)
        return Source(take(encoded.memory, place), lengths, self._decoder_states(states))

    def search_decoder(self, threads: int | None = None, coverage_of: int = 0) -> ModelDecoder:
        """What search needs of the model. With coverage_of, the longest source in tokens with EOS, there is a state
        `coverage`: the attention each source position has got, -1 where there is none."""
        return ModelDecoder(self, self._use_threads(threads), coverage_of)

    def force(
        self,
        src_ids: Sequence[Sequence[int]],
        tgt_ids: Sequence[Sequence[int]],
        *,
        attention: bool = False,
        threads: int | None = None,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """See `nmt.model.forced.force`."""
        return force(self, src_ids, tgt_ids, attention, self._use_threads(threads))

    def block_decoder(self, src_ids: Sequence[Sequence[int]], K: int, first_token: int) -> BlockDecoder:
        """What search on a card needs of the model: these sentences encoded, with K rows each. Tokens below
        `first_token` are never produced."""
        return BlockDecoder(self, src_ids, K, first_token)

    def _decoder_states(self, states: States) -> States:
        return {f"cell.{name}": self.device.xp.ascontiguousarray(v) for name, v in states.items()}

    def loss(self, batch: Batch, threads: int | None = None) -> LossStats:
        """Loss without dropout and smoothing."""
        return self._run(batch, training=False, seed=0, label_smoothing=0.0, threads=threads, gradients=None)

    def loss_and_gradients(
        self,
        batch: Batch,
        *,
        seed: int,
        label_smoothing: float = 0.0,
        threads: int | None = None,
        into: dict[str, np.ndarray] | None = None,
    ) -> tuple[LossStats, dict[str, np.ndarray]]:
        """Loss of a batch, and gradients of smoothed loss / real target tokens for every parameter.

        `seed` decides the dropout. `into` may hold the arrays of an earlier call, which are then filled again.
        """
        gradients = into if into is not None else {k: self.device.xp.empty_like(v) for k, v in self.weights.items()}
        with operation("gradients: zeroing"):
            for g in gradients.values():
                g[...] = 0
        stats = self._run(
            batch, training=True, seed=seed, label_smoothing=label_smoothing, threads=threads, gradients=gradients
        )
        return stats, gradients

    def _run(
        self,
        batch: Batch,
        *,
        training: bool,
        seed: int,
        label_smoothing: float,
        threads: int | None,
        gradients: dict[str, np.ndarray] | None,
    ) -> LossStats:
        threads = self._use_threads(threads)
        self._workspace.reset()
        allocate = self._workspace
        weights = self.weights
        # The encoder wants its rows by source length, the decoder by target length (the batch's own order).
        order = np.argsort(-batch.src_lengths, kind="stable")
        back = np.argsort(order, kind="stable")
        src = batch.src[:, order]
        x = self.embed_sequence("src", src, threads, allocate)
        encoded = self.encoder.forward(
            weights.view("encoder"), x, batch.src_lengths[order], training=training, seed=2 * seed, allocate=allocate
        )
        take, index = self.device.take_rows, self.device.index(back)
        final = [{k: take(v, index) for k, v in layer.items()} for layer in encoded.final]
        first, bridge_tapes = self.bridge.forward(weights.view("bridge"), final, training=training, allocate=allocate)
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
        )
        real = np.arange(len(batch.tgt_out))[:, None] < batch.tgt_lengths[None, :]
        rows = np.flatnonzero(real.reshape(-1))
        sums, d_y = self._output(result.y, rows, batch, label_smoothing, threads, gradients)
        if gradients is None or d_y is None or result.tape is None:
            return self._stats(sums, len(rows))
        d = self.decoder.backward(result.tape, d_y, None, _below(gradients, "decoder"))
        d_first = {name.removeprefix("cell."): g for name, g in d.initial.items()}
        d_final = self.bridge.backward(bridge_tapes, d_first, final, _below(gradients, "bridge"))
        self._embedding_gradient("tgt", batch.tgt_in, d.x, threads, gradients)
        index = self.device.index(order)
        d_src = self.encoder.backward(
            encoded,
            take(d.captured["memory"], index),
            [{k: take(g, index) for k, g in layer.items()} for layer in d_final],
            _below(gradients, "encoder"),
        )
        self._embedding_gradient("src", src, d_src, threads, gradients)
        return self._stats(sums, len(rows))

    def _stats(self, sums: Any, tokens: int) -> LossStats:
        """Read last of all: on a card this waits for the whole batch."""
        nll, loss, correct = self.device.download(sums).tolist()
        return LossStats(nll, loss, tokens, int(correct))

    def _output(
        self,
        y: np.ndarray,
        rows: np.ndarray,
        batch: Batch,
        label_smoothing: float,
        threads: int,
        gradients: dict[str, np.ndarray] | None,
    ) -> tuple[Any, np.ndarray | None]:
        """Sums of the loss over the real positions `rows`, and its gradient with respect to y [T, B, H]."""
        device, layer, H = self.device, self.output_layer, y.shape[-1]
        with operation("output layer: gathering rows"):
            h = device.take_rows(y.reshape(-1, H), device.index(rows))
        into = None
        if gradients is not None:
            into = OutputGradients(device.xp.empty_like(h), gradients[layer.matrix], gradients[layer.bias])
        targets = batch.tgt_out.reshape(-1)[rows]
        scale = 1.0 / max(1, len(rows))
        sums = device.output_loss(h, layer, targets, label_smoothing, into, scale, threads)
        if into is None:
            return sums, None
        d_y = self._workspace(y.shape, self.dtype)
        with operation("output layer gradients: scattering rows"):
            device.spread_rows(into.h, rows, d_y.reshape(-1, H))
        return sums, d_y

    def _embedding_gradient(
        self, side: str, ids: np.ndarray, d: np.ndarray | None, threads: int, gradients: dict[str, np.ndarray]
    ) -> None:
        if d is None:
            raise RuntimeError("the embeddings received no gradient")
        if side in self.positions:
            self.positions[side].gradient(d, gradients, threads)
        flat = np.ascontiguousarray(ids).reshape(-1)
        table = gradients[self.table(side)]
        with operation(side, " embedding: gradient"):
            self.device.embedding_gradient(flat, d.reshape(-1, d.shape[-1]), table, self._scale(side), threads)


def _below(gradients: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k[len(prefix) + 1 :]: g for k, g in gradients.items() if k.startswith(f"{prefix}.")}
