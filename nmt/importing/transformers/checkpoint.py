"""Read a folder of the library transformers: settings, tokens, and the parts that all of its language models have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.importing.imported import NEVER, Imported, Params, Tensors, our_order, rows_of
from nmt.importing.settings_text import check_settings, read_settings
from nmt.importing.transformers import mamba, rwkv7
from nmt.importing.transformers.linear_attention import GLA, GatedDeltaNet
from nmt.importing.transformers.tokenizer import read_tokens
from nmt.system.paths import is_file

KIND = "transformers"
_LAYOUTS: dict[str, Any] = {"mamba": mamba, "rwkv7": rwkv7, "gla": GLA(), "gated_deltanet": GatedDeltaNet()}
"""The layouts of the kinds of models, by the names that transformers and fla give to them."""
_SETTINGS = "config.json"
_OUTPUT = "lm_head.weight"
_WITHOUT_MEANING = set(
    "_name_or_path architectures auto_map bos_token_id chunk_size_feed_forward dtype eos_token_id hidden_size id2label "
    "initializer_range intermediate_size is_encoder_decoder label2id max_position_embeddings model_type "
    "num_hidden_layers output_attentions output_hidden_states pad_token_id problem_type return_dict "
    "tie_word_embeddings torch_dtype transformers_version use_cache vocab_size".split()
)
"""Settings that change nothing that is computed, or that the tensors say as well."""


def knows(path: Path, values: Any) -> bool:
    """Return whether a file of tensors lies next to the settings of such a model."""
    return path.suffix == ".safetensors" and isinstance(values, dict) and is_file(path.parent / _SETTINGS)


def read(path: Path, values: Mapping[str, Any]) -> Imported:
    """Return the model of a folder, given the tensors of its file. Raises CheckpointError if something is missing,
    damaged, or cannot be represented exactly."""
    place = path.parent / _SETTINGS
    settings = read_settings(place)
    kind = settings.get("model_type")
    layout = _LAYOUTS.get(kind) if isinstance(kind, str) else None
    if not isinstance(kind, str) or layout is None:
        raise CheckpointError(
            f"{place}: model_type must be one of {', '.join(_LAYOUTS)}, got {kind!r:.40}; other models cannot be "
            "represented exactly"
        )
    check_settings(place, settings, layout.MUST)
    if unknown := sorted(set(settings) - _WITHOUT_MEANING - set(layout.MUST) - set(layout.KNOWN)):
        raise CheckpointError(
            f"{place}: must have only settings of {kind} that are known here, got {unknown[0]!r:.40}; remove it if it "
            "changes nothing"
        )
    tensors = Tensors.of_file(path, values)
    rows, hidden = tensors.matrix_shape(layout.TABLE)
    tokens = read_tokens(path.parent, rows, settings.get("eos_token_id"))
    order, units = our_order(str(path.parent), tokens.units, -1, -1, -1, tokens.eos)
    params, layers = Params(tensors), tensors.count(layout.LAYER)
    sizes = layout.read(params, layers, hidden)
    tied = _add_tables(params, layout.TABLE, layout.embedded(params, rows, hidden), order)
    tensors.finish()
    subwords = tokens.subwords(units)
    decoder = {
        "stack": layout.STACK,
        "stack_sizes": sizes,
        "num_layers": layers,
        "hidden_size": hidden,
        "embeddings": {"embedding_dim": hidden},
    }
    model = {"decoder": decoder, "tied_embeddings": "softmax" if tied else "none"}
    return Imported(kind, {"task": "lm", "model": model}, params.arrays, subwords, subwords, params.lines)


def _add_tables(params: Params, name: str, table: np.ndarray, order: Sequence[int]) -> bool:
    """Add embeddings [V, H] and output layer, and return whether they are one matrix. A token of ours that the model
    lacks is never produced."""
    tensors = params.tensors
    params.give("tgt_embeddings", rows_of(table, order), f"{name}, rows in our order")
    output = tensors.take(_OUTPUT, *table.shape) if _OUTPUT in tensors else table
    if np.array_equal(output, table):
        params.give("output.b", np.where(np.array(order) < 0, NEVER, 0.0), "zeros (no bias), in our order")
        return True
    params.output_of(_OUTPUT, output, None, order, table.shape[1])
    return False
