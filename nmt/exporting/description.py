"""Describe what a translation runs, so that another program can do the same without Python: arrays, the functions that
are called with them, and their order.

All of it follows from the objects of the model, in a process whose level of processors is that of the other program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nmt.errors import CheckpointError
from nmt.exporting.page import check_recurrent
from nmt.exporting.plans import Json, Plans, on_processor
from nmt.exporting.subword_tables import obstacle_of
from nmt.model.translation import TranslationModel
from nmt.rnn.arrays.quantised import Quantised
from nmt.rnn.arrays.weights import QUADS
from nmt.rnn.cell import axes_of
from nmt.rnn.cells import AttentionProbe
from nmt.rnn.kernels.loops.emit_cpu import INTEGERS, NUMBERS
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS, TableLayout
from nmt.rnn.kernels.model import embedding
from nmt.rnn.kernels.products.packing import words_of
from nmt.rnn.kernels.products.product import product_task
from nmt.rnn.kernels.search import beam_table, best_tokens
from nmt.rnn.kernels.search.beam_loop import search_task
from nmt.rnn.scan.scan import Scan
from nmt.rnn.stepping.stepper import Stepper
from nmt.search_settings import MAX_SOURCE_SUBWORDS, ROWS, SearchValues, in_effect
from nmt.special_tokens import boundary_ids

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_FLOAT = np.dtype(np.float32)
EXPORTED = frozenset(
    {"beam_size", "length_penalty", "max_length_ratio", "max_length_extra", "n_best", "batch_size", "word_reward"}
    | {"generate_unk", "lm_weight", "glossary_bonus"}
)
"""Settings of the search that exported models follow, or that have no effect there; all others must be off."""
MOST_POSITIONS = -(-(MAX_SOURCE_SUBWORDS + 2) // 64) * 64
"""Source positions for which attention can be shown: those of the longest source, with its boundary tokens."""


class Description(Plans):
    """The description of a translation model: `facts`, which JSON can hold, `functions`, and `arrays`."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(model.weights, model.step_decoder.packed)
        self.model = model
        self.facts = self._facts()

    # ------------------------------------------------------------ the model

    def _facts(self) -> Json:
        model = self.model
        encoder, decoder = model.encoder.layers, model.step_decoder
        if not model.encoder.is_recurrent:
            raise TypeError("the encoder must be recurrent, got convolutions")
        before, after = boundary_ids(model.config.encoder.boundaries)
        layers = [
            [self.scan(scan, f"encoder.{n}.{direction}.") for direction in encoder.directions]
            for n, scan in enumerate(encoder.scans)
        ]
        return {
            "before": before,
            "after": after,
            "source": self._table("src"),
            "target": self._table("tgt"),
            "encoder": {"layers": layers, "residual": encoder.residual},
            "lexical": model.config.decoder.lexical,
            "bridge": self._bridge(),
            "decoder": self._decoder(decoder),
            "probe": self._probe(decoder),
            "output": self._output(),
            "search": {"code": self.function(search_task(_FLOAT)), "table": _layout(beam_table.SEARCH)},
            "part": _layout(beam_table.STEP_PART),
            "product": self.function(product_task(_FLOAT, self.packed_kind)),
            "quads": self.packed_kind == QUADS,
            "numbers": list(NUMBERS),
            "integers": list(INTEGERS),
            "first": COUNTER_WORDS,
            "packed": self.packed,
        }

    def _table(self, side: str) -> Json:
        table, scale = self.model.embedding(side)
        quantised = isinstance(table, Quantised)
        layout = embedding.QUANTISED if quantised else embedding.PLAIN
        return {
            "code": self.function(embedding.embedding_task(_FLOAT, quantised=quantised)),
            "table": _layout(layout),
            "scale": scale,
            "size": table.shape,
        } | self.matrix(self.model.table(side), by_rows=True)

    def _bridge(self) -> Json:
        bridge = self.model.bridge
        routes: Json = {}
        for name, (layer, state) in bridge.routes.items() if bridge.kind != "zero" else ():
            scan = bridge.scans[name] if bridge.kind == "bridge" else None
            layer = len(self.model.encoder.layers.scans) if layer < 0 else layer
            routes[f"cell.{name}"] = {
                "layer": layer,
                "state": state,
                "scan": scan and self.scan(scan, f"bridge.{name}.", single_step=True),
            }
        return {"mean": bridge.of_mean, "routes": routes}

    def _decoder(self, scan: Scan) -> Json:
        stepper = Stepper(scan, self.model.weights.view("decoder"), 1)
        compiled, (arrays, narrow) = stepper.compiled, stepper.stored
        parts = {"inputs": compiled.of_inputs, "states": compiled.of_states, "step": compiled.step}
        described = {name: self.plan(on_processor(part), "decoder.") for name, part in parts.items()}
        outer = scan.compiled(training=False)
        return {
            "parts": described,
            "gathered": sorted(compiled.shared.gathered),
            "constant": self.plan(on_processor(outer.constant), "decoder."),
            "captured": list(scan.captured),
            "stored": {
                name: [array.shape[1] if array.ndim > 1 else 1, name in narrow] for name, array in arrays.items()
            },
            "states": scan.states,
            "input": scan.cell.input_size,
            "size": scan.cell.output_size,
        }

    def _probe(self, scan: Scan) -> Json | None:
        """Describe the decoder over known targets, with its attention appended to its outputs."""
        if not self.model.attends:
            return None
        return self.scan(scan.around(AttentionProbe(scan.cell, MOST_POSITIONS)), "decoder.") | {
            "positions": MOST_POSITIONS
        }

    def _output(self) -> Json:
        layer, packed = self.model.output_layer, str(self.packed_kind)
        rows = layer.weights.shape(layer.matrix)[0]
        task = best_tokens.best_task(_FLOAT, self.packed_kind)
        y = ("float32 2" if packed == "float32" else f"{packed} 2", f"{packed} 1")
        return {
            "code": self.function(task),
            "table": _layout(best_tokens.BEST),
            "weight": self.weight(layer.matrix, 0, rows, layer.tied),
            "bias": self.array(layer.bias, layer.weights[layer.bias]),
            "words": words_of(self.model.step_decoder.cell.output_size, self.packed_kind),
            "chunk": best_tokens.chunk_columns(_FLOAT.itemsize),
            "round": self.kernel(best_tokens.round_share, "float32 2", f"{packed} 1", f"{packed} 2"),
            "store": self.kernel(best_tokens.store_chunks, *y, "float32 1", *("float32 2",) * 3),
            "normalise": self.kernel(best_tokens.normalise, *("float32 2",) * 3),
        }


def _layout(layout: TableLayout) -> Json:
    """Return the place of each field's word, those of reals as negative numbers."""
    return {one.name: layout.places[one.name] * (-1 if one.kind == "real" else 1) for one in layout.fields}


def check_exported(saved: SavedModel, goal: str) -> None:
    """Raise CheckpointError if a model has parts or settings that no description has; `goal`: what it is for."""
    decoding = SearchValues(**{name: getattr(saved.config.decoding, name) for name in ROWS})
    check_recurrent(saved, goal)
    for side, subwords in (("source", saved.src_subwords), ("target", saved.tgt_subwords)):
        if why := obstacle_of(subwords):
            raise CheckpointError(
                f"{saved.path}: the {side}'s subwords must be a sentencepiece model for {goal}, got {why}"
            )
    if asked := [name for name in in_effect(decoding) if name not in EXPORTED]:
        name = asked[0]
        default, value = ROWS[name].default, getattr(decoding, name)
        raise CheckpointError(
            f"{saved.path}: decoding.{name} must be {default} for {goal}, got {value}; change it in a copy"
        )
    _check_described(saved.build("float32"), str(saved.path))


def _check_described(model: TranslationModel, where: str) -> None:
    """Raise CheckpointError if a model has parts that cannot be described."""
    if why := model.loop_obstacle:
        raise CheckpointError(f"{where}: must have steps that are one compiled loop, got a model where {why}")
    scans = [*model.encoder.layers.scans, model.step_decoder]
    shaped = [name for scan in scans for name, width in scan.states.items() if len(axes_of(width)) > 1]
    if shaped or "src" in model.positions:
        got = f"the matrix {shaped[0]}" if shaped else "embeddings of positions"
        raise CheckpointError(f"{where}: must have a recurrent encoder whose states are vectors, got {got}")
