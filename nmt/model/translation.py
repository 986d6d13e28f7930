"""The translation model: embeddings, encoder, bridge, attention decoder, output layer; loss and gradients of a
batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import ModelConfig
from nmt.model.bridge import Bridge
from nmt.model.cells import decoder_cell
from nmt.model.encoder import Encoder
from nmt.model.forced import force, pad_sources, positions, rounded_up
from nmt.rnn.cell import Param, under
from nmt.rnn.cells import CoverageCell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.kernels.output import output_loss
from nmt.rnn.kernels.search import best_tokens, log_probs
from nmt.rnn.kernels.threads import default_threads, run_parallel
from nmt.rnn.kernels.update import embedding_gradient, embedding_rows
from nmt.rnn.profile import operation
from nmt.rnn.scan import Scan
from nmt.rnn.stepper import Stepper
from nmt.rnn.weights import Weights, initial_array
from nmt.rnn.workspace import Fresh, Workspace
from nmt.special_tokens import BOS_ID, EOS_ID

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
    ) -> None:
        self.config, self.dtype = config, np.dtype(dtype)
        self.vocab_sizes = {"src": src_vocab_size, "tgt": tgt_vocab_size}
        self.joint = joint
        options = {"dtype": dtype, "compute_dtype": compute_dtype, "recompute": recompute}
        self.encoder = Encoder(config, **options)
        self.bridge = Bridge(config, **options)
        self.decoder = Scan(decoder_cell(config), **options)
        self.shapes = self._shapes()
        self.weights = Weights({name: np.zeros(p.shape, dtype) for name, p in self.shapes.items()})
        self._workspace = Workspace()

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Parameters by name."""
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
        output layer's rows are; small ones leave the first updates without a signal. The output bias is the log
        frequency
        of each token where `tgt_counts` [V] is given: nobody has to learn which words are common. Other matrices as
        the settings say.
        """
        rng = np.random.default_rng(seed)
        for name, param in self.shapes.items():
            self.weights[name][...] = self._first_values(name, param, rng)
        if tgt_counts is not None:
            frequency = (tgt_counts + 0.5) / (tgt_counts + 0.5).sum()
            self.weights["output.b"][...] = np.log(frequency)
        self.changed()

    def _first_values(self, name: str, param: Param, rng: np.random.Generator) -> np.ndarray:
        if name.endswith("embeddings"):
            output = self.tied and name == self.table("tgt")
            return rng.standard_normal(param.shape) * (param.shape[1] ** -0.5 if output else 1.0)
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
            self.table("src"): Param((self.vocab_sizes["src"], config.encoder.embeddings.embedding_dim)),
            self.table("tgt"): Param((self.vocab_sizes["tgt"], config.decoder.embeddings.embedding_dim)),
        }
        shapes |= under("encoder", self.encoder.params()) | under("bridge", self.bridge.params())
        shapes |= under("decoder", self.decoder.cell.params())
        if not self.tied:
            shapes["output.W"] = Param((config.decoder.hidden_size, self.vocab_sizes["tgt"]))
        shapes["output.b"] = Param((self.vocab_sizes["tgt"],))
        return shapes

    def output_weights(self, threads: int, gradients: bool) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """The output layer packed, its transpose packed (where gradients are wanted), and its bias."""
        name = self.table("tgt") if self.tied else "output.W"
        rows, dtype = self.weights[name].shape[0], self.decoder.packed
        packed = self.weights.packed(name, 0, rows, self.tied, threads, dtype)
        back = self.weights.packed(name, 0, rows, not self.tied, threads, dtype) if gradients else None
        return packed, back, self.weights["output.b"]

    # ------------------------------------------------------------ forward

    def embed(self, side: str, ids: np.ndarray, threads: int, allocate: Any) -> np.ndarray:
        """ids [..., B] -> embeddings [..., B, E]."""
        table = self.weights[self.table(side)]
        out = allocate((*ids.shape, table.shape[1]), self.dtype)
        flat = np.ascontiguousarray(ids).reshape(-1)
        with operation(side, " embedding: lookup"):
            run_parallel(embedding_rows, threads, flat, table, out.reshape(-1, table.shape[1]), self._scale(side))
        return out

    def _scale(self, side: str) -> float:
        embeddings = (self.config.encoder if side == "src" else self.config.decoder).embeddings
        return float(embeddings.embedding_dim) ** 0.5 if embeddings.scale else 1.0

    def _use_threads(self, threads: int | None) -> int:
        threads = threads or default_threads()
        for scan in (*self.encoder.scans, *self.bridge.scans.values(), self.decoder):
            scan.threads = threads
        return threads

    def encode(self, src: np.ndarray, lengths: np.ndarray, threads: int | None = None) -> Source:
        """Encode src [S, B] for search; rows stay in their order."""
        threads = self._use_threads(threads)
        order = np.argsort(-lengths, kind="stable")
        back = np.argsort(order, kind="stable")
        allocate = Workspace()
        x = self.embed("src", src[:, order], threads, allocate)
        encoded = self.encoder.forward(
            self.weights.view("encoder"), x, lengths[order], training=False, seed=0, allocate=allocate
        )
        final = [{k: v[back] for k, v in layer.items()} for layer in encoded.final]
        states, _ = self.bridge.forward(self.weights.view("bridge"), final, training=False, allocate=allocate)
        return Source(encoded.memory[:, back], lengths, self._decoder_states(states))

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

    def _decoder_states(self, states: States) -> States:
        return {f"cell.{name}": np.ascontiguousarray(v) for name, v in states.items()}

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
        gradients = into if into is not None else {k: np.empty_like(v) for k, v in self.weights.items()}
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
        x = self.embed("src", src, threads, allocate)
        encoded = self.encoder.forward(
            weights.view("encoder"), x, batch.src_lengths[order], training=training, seed=2 * seed, allocate=allocate
        )
        final = [{k: v[back] for k, v in layer.items()} for layer in encoded.final]
        first, bridge_tapes = self.bridge.forward(weights.view("bridge"), final, training=training, allocate=allocate)
        result = self.decoder.forward(
            weights.view("decoder"),
            self.embed("tgt", batch.tgt_in, threads, allocate),
            self._decoder_states(first),
            lengths=batch.tgt_lengths,
            captured={"memory": encoded.memory[:, back]},
            source_lengths=batch.src_lengths,
            training=training,
            seed=2 * seed + 1,
            allocate=allocate,
            label="decoder",
        )
        real = np.arange(len(batch.tgt_out))[:, None] < batch.tgt_lengths[None, :]
        stats, d_y = self._output(result.y, real, batch, label_smoothing, threads, gradients)
        if gradients is None or d_y is None or result.tape is None:
            return stats
        d = self.decoder.backward(result.tape, d_y, None, _below(gradients, "decoder"))
        d_first = {name.removeprefix("cell."): g for name, g in d.initial.items()}
        d_final = self.bridge.backward(bridge_tapes, d_first, final, _below(gradients, "bridge"))
        self._embedding_gradient("tgt", batch.tgt_in, d.x, threads, gradients)
        d_src = self.encoder.backward(
            encoded,
            d.captured["memory"][:, order],
            [{k: g[order] for k, g in layer.items()} for layer in d_final],
            _below(gradients, "encoder"),
        )
        self._embedding_gradient("src", src, d_src, threads, gradients)
        return stats

    def _output(
        self,
        y: np.ndarray,
        real: np.ndarray,
        batch: Batch,
        label_smoothing: float,
        threads: int,
        gradients: dict[str, np.ndarray] | None,
    ) -> tuple[LossStats, np.ndarray | None]:
        """Loss over the real positions, and its gradient with respect to y [T, B, H]."""
        packed, packed_back, bias = self.output_weights(threads, gradients is not None)
        rows = np.flatnonzero(real.reshape(-1))
        H = y.shape[-1]
        with operation("output layer: gathering rows"):
            h = np.ascontiguousarray(y.reshape(-1, H)[rows])
        d_h, d_W, d_b = None, None, None
        if gradients is not None:
            d_h, d_b = np.empty_like(h), gradients["output.b"]
            d_W = gradients[self.table("tgt") if self.tied else "output.W"]
        targets = batch.tgt_out.reshape(-1)[rows]
        scale = 1.0 / max(1, len(rows))
        nll, loss, correct = output_loss(
            h, packed, packed_back, bias, targets, label_smoothing, d_h, d_W, d_b, scale, threads, transposed=self.tied
        )
        stats = LossStats(float(nll), float(loss), len(rows), int(correct))
        if d_h is None:
            return stats, None
        d_y = self._workspace(y.shape, self.dtype)
        with operation("output layer gradients: scattering rows"):
            d_y[...] = 0
            d_y.reshape(-1, H)[rows] = d_h
        return stats, d_y

    def _embedding_gradient(
        self, side: str, ids: np.ndarray, d: np.ndarray | None, threads: int, gradients: dict[str, np.ndarray]
    ) -> None:
        if d is None:
            raise RuntimeError("the embeddings received no gradient")
        flat = np.ascontiguousarray(ids).reshape(-1)
        table = gradients[self.table(side)]
        with operation(side, " embedding: gradient"):
            run_parallel(embedding_gradient, threads, flat, d.reshape(-1, d.shape[-1]), table, self._scale(side))


class ModelDecoder:
    """The model's decoder, a step at a time, for sentences that come and go."""

    def __init__(self, model: TranslationModel, threads: int, coverage_of: int = 0) -> None:
        self.model, self.threads = model, threads
        self.eos_id = EOS_ID
        self._packed, _, self._bias = model.output_weights(threads, gradients=False)
        self._positions = rounded_up(coverage_of)
        scan = model.decoder.around(CoverageCell(model.decoder.cell, self._positions)) if coverage_of else model.decoder
        self._states = scan.states
        self._stepper = Stepper(scan, model.weights.view("decoder"))

    def admit(self, src_ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, States, np.ndarray]:
        """Encode sentences (ids without EOS). Returns their names [B], and the states and token before the first
        step, one row a sentence."""
        src, lengths = pad_sources(src_ids)
        source = self.model.encode(src, lengths, self.threads)
        captured = {"memory": source.memory}
        if self._positions:
            captured["positions"] = positions(source.memory, self._positions)
        names = self._stepper.admit(captured, source.lengths)
        zero = {name: np.zeros((len(names), width), self.model.dtype) for name, width in self._states.items()}
        if self._positions:
            zero["coverage"][np.arange(self._positions)[None] >= source.lengths[:, None]] = -1
        return names, zero | source.states, np.full(len(names), BOS_ID, np.int32)

    def release(self, names: np.ndarray) -> None:
        """These sentences are translated."""
        self._stepper.release(names)

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, names: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Rows tokens [R] continuing states[parent] of the sentences names [R] -> outputs [R, H] and states after."""
        words, word = np.unique(tokens, return_inverse=True)
        x = self.model.embed("tgt", words, self.threads, Fresh())
        return self._stepper.step(x, states, names, word=word, parent=parent)

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """The most probable tokens of each row [R, K] and their log-probabilities, best first; -1 where there are no
        more."""
        places = min(places, len(self._bias))
        return best_tokens(outputs, self._packed, self._bias, first_token, places, self.threads)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """The log-probabilities of all tokens [R, V], for rules that change them."""
        return log_probs(outputs, self._packed, self._bias, self.threads)


def _below(gradients: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k[len(prefix) + 1 :]: g for k, g in gradients.items() if k.startswith(f"{prefix}.")}
