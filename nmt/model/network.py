"""The base of a model: parameters by name, embeddings, the output layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.model.copying import EditActions
from nmt.model.parts.encoder import DEVIATION, NormalParam, make_positions
from nmt.rnn.arrays.device_operations import OutputLayer
from nmt.rnn.arrays.weights import QUADS, Quantised, Weights, initial_array, quantise
from nmt.rnn.arrays.workspace import Group, Idle, Workspace
from nmt.rnn.cell import Param
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.scan import Scan

_numbers = count()

OUTPUT_MATRIX, OUTPUT_BIAS = "output.W", "output.b"
"""The parameters of the output layer; the matrix is an embedding table instead if the two are tied."""


@dataclass(frozen=True)
class LossStats:
    """Sums over the real target tokens of a batch: negative log-likelihood, smoothed loss, correct guesses."""

    nll: float
    loss: float
    tokens: int
    correct: int


class Network:
    """Settings and parameters. Arrays of `params` may be written in place; call `changed()` afterwards. A subclass
    defines its `shapes` and `scans`. device: where parameters and all arrays are stored and computed, None for the
    processor; batches, sentences and checkpoints are always on the host."""

    decoder: Scan | LayeredScan
    """The decoder over known targets; its parameters are below `decoder.`."""
    factors: Any = None
    """The `SourceFactors` of source words, None if they have none."""
    actions: EditActions | None = None
    """The meaning of the ids of the target, if the decoder writes edit actions; None for tokens."""
    means: Sequence[tuple[str, int, np.ndarray]] = ()
    """Rows of embeddings that no batch of the training reads; see `means_of_unseen`."""
    step_decoder: Scan
    """One step of the whole decoder, for the search, with the same parameters."""

    def __init__(
        self, config: ModelConfig, vocab_sizes: dict[str, int], dtype: Any = np.float32, device: Device | None = None
    ) -> None:
        """Store the settings; `vocab_sizes` are by side, `src` and `tgt`. A subclass calls `_fill` afterwards."""
        self.device = device or cpu()
        self.config, self.dtype = config, np.dtype(dtype)
        self.number = next(_numbers)
        """One of its own, for these parameters, by which recordings tell models apart."""
        self.vocab_sizes = vocab_sizes
        self.positions = make_positions(config, self.device)

    def _fill(self, own: dict[str, Param]) -> None:
        """Make the parameters, all zero, with these between tables and output layer; the scans must exist."""
        self.shapes = self._table_shapes() | own | self._output_shapes()
        params = self.gradient_group()
        self.weights, self._whole = Weights(params), params.whole
        matrix = self.table("tgt") if self.tied else OUTPUT_MATRIX
        self.output_layer = OutputLayer(self.weights, matrix, OUTPUT_BIAS, self.tied, self.decoder.packed)
        self._idle_workspaces = Idle(partial(Workspace, self.device.xp))
        self.idle_steppers: dict[int, Idle[Any]] = {}  # by number of threads; see `ModelDecoder`

    def __repr__(self) -> str:
        sizes = ", ".join(f"{side} {size:,}" for side, size in self.vocab_sizes.items())
        how = f"{self.step_decoder.compute_dtype or self.dtype}, {self.device.name}"
        return f"{type(self).__name__}({self.num_params:,} parameters, vocabularies {sizes}, {how})"

    def gradient_group(self) -> Group:
        """Return zeros in the shapes of the parameters, for gradients."""
        return self.device.group({name: p.shape for name, p in self.shapes.items()}, self.dtype)

    @property
    def loop_obstacle(self) -> str:
        """Return why a search cannot be one compiled loop, in words; an empty string if it can. See `SearchModel`."""
        if self.positions.get("tgt"):
            return "the decoder reads an embedding of each position"
        if self.config.decoder.copy_source or self.config.decoder.edit_actions:
            return "the decoder copies source tokens"
        return "a cell of the decoder reads sequences" if self.step_decoder.checks.sequences else ""

    def written(self, ids: list[int]) -> list[int]:
        """Return the tokens of the target that the ids of a hypothesis write; see `SearchModel`."""
        return ids if self.actions is None else self.actions.written(ids)

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Return the parameters by name, on the device."""
        return Group(self.weights.items(), self._whole)

    @property
    def num_params(self) -> int:
        """Return the number of learned numbers."""
        return sum(math.prod(p.shape) for p in self.shapes.values())

    def changed(self) -> None:
        """Mark the packed forms of the parameters, which were written in place, as out of date."""
        self.weights.changed()

    @property
    def in_int8(self) -> bool:
        """Return whether products are computed in int8; then `adopt` keeps matrices in int8."""
        return self.decoder.packed == QUADS

    def channels_are_rows(self, name: str) -> bool:
        """Return whether the output channels of a matrix, each with a scale in int8, are its rows: true for embedding
        tables, those of factors too, and so for output layers tied to one."""
        factors = [] if self.factors is None else self.factors.names
        return name in [*(self.table(side) for side in self.vocab_sizes), *factors]

    def adopt(self, params: Mapping[str, np.ndarray | Quantised]) -> None:
        """Use host arrays as the parameters, without a copy on the processor: a memory map stays one. Their names and
        shapes are those of `params`. With int8 products, matrices become or stay int8; otherwise int8 arrays become
        `dtype`."""
        self._whole, self.number = None, next(_numbers)  # they are allocated separately
        for name, value in params.items():
            if self.in_int8 and len(value.shape) == 2:
                if not isinstance(value, Quantised):
                    value = quantise(value, by_rows=self.channels_are_rows(name))
                self.weights.hold_quantised(name, value)
            else:
                array = value.restored() if isinstance(value, Quantised) else value
                self.weights[name] = self.device.upload(np.ascontiguousarray(array, self.dtype))

    def initialize(self, seed: int, tgt_counts: np.ndarray | None = None) -> None:
        """Initialize the parameters. Embeddings are standard normal, or, if they are also the output layer, normal with
        variance 1 / embedding_dim, like the output layer's rows; small ones leave the first updates without a signal,
        unless the layers above keep their variance (see `DEVIATION`). The output bias is the log frequency of
        each token if `tgt_counts` [V] is given, so that it need not be learned; not that of actions. Other matrices
        follow the settings."""
        rng = np.random.default_rng(seed)
        for name, param in self.shapes.items():
            if len(param.shape) == 2 and self.config.initializer == "uniform" and not isinstance(param, NormalParam):
                values = rng.uniform(-self.config.init_weight, self.config.init_weight, param.shape)
            else:
                values = initial_array(param, rng, self.dtype)
                values = values * self.config.forget_bias if param.ones is not None else values
            self._set(name, values)
        if self.actions is not None:
            self.weights[self.table("tgt")][:, -1] = self.actions.moves()
        elif tgt_counts is not None:
            frequency = (tgt_counts + 0.5) / (tgt_counts + 0.5).sum()
            self._set(OUTPUT_BIAS, np.log(frequency))
        self.changed()

    def _set(self, name: str, values: np.ndarray) -> None:
        self.weights[name][...] = self.device.upload(values.astype(self.dtype))

    # ------------------------------------------------------------ parameters

    def table(self, side: str) -> str:
        """Return the name of the embedding table of `src` or `tgt`."""
        return "embeddings" if self.config.tied_embeddings == "all" else f"{side}_embeddings"

    def _table_shapes(self) -> dict[str, Param]:
        """Return the tables of all sides: words, then positions. The target's come last if sides share a table."""
        shapes = {}
        for side, size in self.vocab_sizes.items():
            part = self.config.encoder if side == "src" else self.config.decoder
            width = part.embeddings.embedding_dim
            usual = DEVIATION if part.type == "conv" else 1.0
            deviation = width**-0.5 if self.tied and side == "tgt" else usual
            shapes[self.table(side)] = NormalParam((size, width), deviation=deviation)
        return shapes | {one.name: one.param for one in self.positions.values()}

    def _output_shapes(self) -> dict[str, Param]:
        """Return the output layer's parameters."""
        hidden, vocab = self.config.decoder.output_size, self.vocab_sizes["tgt"]
        matrix = NormalParam((hidden, vocab), deviation=hidden**-0.5)
        return ({} if self.tied else {OUTPUT_MATRIX: matrix}) | {OUTPUT_BIAS: Param((vocab,))}

    @property
    def tied(self) -> bool:
        """Return whether the output layer is the target embedding."""
        return self.config.tied_embeddings != "none"

    # ------------------------------------------------------------ forward

    def embed(self, side: str, ids: np.ndarray, threads: int, allocate: Any) -> np.ndarray:
        """Return the embeddings [..., B, E] of ids [..., B]."""
        out = allocate((*ids.shape, self.shapes[self.table(side)].shape[1]), self.dtype)
        self.embed_into(side, self.device.upload(np.ascontiguousarray(ids).reshape(-1)), out, threads)
        return out

    def embed_sequence(self, side: str, ids: np.ndarray, threads: int, allocate: Any) -> np.ndarray:
        """Return the embeddings [T, B, E] of ids [T, B] from the first position on, with those of positions if any."""
        x = self.embed(side, ids, threads, allocate)
        if side in self.positions:
            self.positions[side].add(self.weights, x)
        return x

    def embed_into(self, side: str, ids: Any, out: Any, threads: int) -> None:
        """Write the embeddings of ids [N], which are on the device, to an array of N * E numbers."""
        table, scale = self.embedding(side)
        self.device.embedding_rows(ids, table, out.reshape(-1, table.shape[1]), scale, threads)

    def embedding(self, side: str) -> tuple[Any, float]:
        """Return a table as it is stored, a device array or `Quantised`, and the factor of its numbers."""
        name = self.table(side)
        return self.weights.quantised(name) or self.weights[name], self._scale(side)

    def _scale(self, side: str) -> float:
        embeddings = (self.config.encoder if side == "src" else self.config.decoder).embeddings
        return float(embeddings.embedding_dim) ** 0.5 if embeddings.scale else 1.0

    def embedding_gradient(
        self, side: str, ids: np.ndarray, d: np.ndarray | None, threads: int, gradients: Group
    ) -> None:
        """Add to the gradients of a side's tables: of words, ids [T, B], and of positions if there are any. d [T, B,
        E]: the gradient with respect to the result of `embed_sequence`."""
        if d is None:
            raise RuntimeError("the embeddings received no gradient")
        if side in self.positions:
            self.positions[side].gradient(d, gradients, threads)
        flat = np.ascontiguousarray(ids).reshape(-1)
        table = gradients[self.table(side)]
        self.device.embedding_gradient(flat, d.reshape(-1, d.shape[-1]), table, self._scale(side), threads)


def share(network: Network, base: Network, own: Mapping[str, np.ndarray]) -> None:
    """Make a network compute with arrays of its own, float32 on the processor, as the parameters of these names, and
    with those of `base` as all others. Both have the same settings and type of products. Packed forms are shared too
    (see `Weights.over`), so that the network takes little more memory than `own`; `base` must not be written to."""
    stored: dict[str, np.ndarray | Quantised] = {
        name: quantise(array, by_rows=network.channels_are_rows(name)) if base.in_int8 and array.ndim == 2 else array
        for name, array in own.items()
    }
    network.adopt({})  # the parameters are no longer one array
    network.weights = base.weights.over(stored)
    network.output_layer = replace(network.output_layer, weights=network.weights)
