"""Import recurrent models of JoeyNMT 1 and 2: a folder with a checkpoint (`model_state`), config.yaml and vocabularies.
The source ends with `</s>`. Every state of the decoder starts from one layer over h of the encoder's last layer
(`bridge`), from that h (`last`; its forward half if the encoder is twice as wide), or zero (decoders.py of 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import Imported, Params, Tensors, check_settings, our_order, read_settings
from nmt.importing.writing import read_units
from nmt.storage.trained_settings import flat_settings

KIND = "joeynmt"
NAMES = ("model_state",)
_SIDES = (("src", "src"), ("tgt", "trg"))
_ATTENTION = {"bahdanau": "bahdanau", "luong": "general"}
_SPECIAL = {"pad": (1, "<pad>"), "unk": (0, "<unk>"), "bos": (2, "<s>"), "eos": (3, "</s>")}
_MUST: dict[str, tuple[Any, ...]] = {
    **{f"model.{part}.type": ("recurrent",) for part in ("encoder", "decoder")},
    "model.decoder.activation": ("tanh",),
    **{f"model.{part}.rnn_type": ("gru", "lstm") for part in ("encoder", "decoder")},
    **{f"model.{part}.embeddings.scale": (False, True) for part in ("encoder", "decoder")},
    "model.encoder.bidirectional": (True,),
    "model.decoder.attention": tuple(_ATTENTION),
    "model.decoder.init_hidden": ("bridge", "last", "zero"),
    "model.decoder.input_feeding": (True, False),
    "data.special_symbols.sep_token": (None, ""),
    **{f"data.{side}.lowercase": (False, True) for side in ("src", "trg")},
}
"""Settings whose other values compute something that our models do not; the first value is the default."""


def read(path: Path, values: Mapping[str, Any]) -> Imported:
    """Return the model of a checkpoint and the files next to it. Raises CheckpointError: something
    is missing, damaged or not representable."""
    state = values["model_state"]
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: model_state must contain tensors, got something else")
    tensors = Tensors(path, {str(k): v for k, v in state.items()})
    keys = _settings(path.parent / "config.yaml")
    numbers = [keys.get(f"data.special_symbols.{name}_id", number) for name, (number, _) in _SPECIAL.items()]
    if any(type(n) is not int or not 0 <= n < 1000 for n in numbers):
        where = path.parent / "config.yaml"
        raise CheckpointError(f"{where}: special_symbols must be numbers of tokens, got {numbers!r:.60}")
    found = [_units(path.parent / f"{side}_vocab.txt") for side in ("src", "trg")]
    (src_order, src), (tgt_order, tgt) = (our_order(path.parent, units, *numbers) for units in found)
    params = Params(tensors)
    sizes = [tensors.shape(f"{side}_embed.lut.weight")[-1] for side in ("src", "trg")]
    params.table("src_embeddings", "src_embed.lut.weight", src_order, sizes[0])
    params.table("tgt_embeddings", "trg_embed.lut.weight", tgt_order, sizes[1])
    encoder, decoder = _encoder(params, keys, sizes[0]), _decoder(params, keys, sizes[1])
    output = "decoder.output_layer.weight"
    params.output(output, tensors.take(output), None, tgt_order, decoder["hidden_size"])
    tensors.finish()
    settings = {
        "model": {"encoder": encoder, "decoder": decoder},
        "data": {ours: {"lowercase": keys[f"data.{theirs}.lowercase"]} for ours, theirs in _SIDES},
        "decoding": {"generate_unk": True},
    }
    reads, writes = (_vocabulary(path.parent, keys, *side) for side in (("src", src), ("trg", tgt)))
    return Imported(KIND, settings, params.arrays, reads, writes, params.lines)


def _settings(where: Path) -> dict[str, Any]:
    """Return the settings by the names of JoeyNMT 2, with defaults. Raises CheckpointError for impossible ones."""
    values = read_settings(where)
    model = values.get("model")
    parts = [model.get(name) if isinstance(model, dict) else None for name in ("encoder", "decoder")]
    if not all(isinstance(section, dict) for section in (*parts, values.get("data"))):
        raise CheckpointError(f"{where}: must have sections data, model.encoder and model.decoder, got others")
    keys = {name: value for name, value in flat_settings(values) if value is not None}  # null counts as omitted
    for name in ("level", "lowercase"):  # version 1 has one for both sides
        if (both := keys.pop(f"data.{name}", None)) is not None:
            keys |= {f"data.{side}.{name}": both for _, side in _SIDES}
    check_settings(where, keys, _MUST)
    defaults = {name: allowed[0] for name, allowed in _MUST.items()}
    return defaults | {
        name: bool(value) if defaults.get(name) in (True, False) else value for name, value in keys.items()
    }


def _encoder(params: Params, keys: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Add the encoder's parameters, and return its settings."""
    kind, width = keys["model.encoder.rnn_type"], params.tensors.shape("encoder.rnn.weight_hh_l0")[-1]
    layers = params.tensors.count("encoder.rnn.weight_hh_l{}")
    params.torch_layers(kind, "encoder.rnn", (size, width, layers), bidirectional=True)
    return {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": size, "scale": keys["model.encoder.embeddings.scale"]},
        "hidden_size": width,
        "num_layers": layers,
    }


def _decoder(params: Params, keys: Mapping[str, Any], embedding: int) -> dict[str, Any]:
    """Add the parameters of the decoder and of its first states, and return its settings."""
    tensors, feeds = params.tensors, keys["model.decoder.input_feeding"]
    kind, hidden = keys["model.decoder.rnn_type"], tensors.shape("decoder.rnn.weight_hh_l0")[-1]
    memory = 2 * tensors.shape("encoder.rnn.weight_hh_l0")[-1]
    layers = params.torch_cells(kind, "decoder.rnn.{part}_l{layer}", embedding + hidden * feeds, hidden)
    attention = _attention(params, _ATTENTION[keys["model.decoder.attention"]], hidden, memory)
    states = ("h", "c") if kind == "lstm" else ("h",)
    starts = [f"{layer}.{name}" for layer in range(layers) for name in states]
    return {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": embedding, "scale": keys["model.decoder.embeddings.scale"]},
        "hidden_size": hidden,
        "num_layers": layers,
        "attention": attention,
        "input_feeding": feeds,
        **_bridge(params, keys["model.decoder.init_hidden"], starts, hidden, memory),
    }


def _attention(params: Params, attention: str, hidden: int, memory: int) -> str:
    """Add the score function and the layer above the context, and return the type of the score; their layer reads
    [query; context], ours [context; query]."""
    params.matrix("decoder.W_k", "decoder.attention.key_layer.weight", hidden, memory)
    if attention == "bahdanau":
        params.matrix("decoder.W_q", "decoder.attention.query_layer.weight", hidden, hidden)
        energy = params.tensors.take("decoder.attention.energy_layer.weight", 1, hidden)
        params.give("decoder.v", energy[0], "decoder.attention.energy_layer.weight")
    both = params.tensors.take("decoder.att_vector_layer.weight", hidden, hidden + memory)
    turned = np.concatenate([both[:, hidden:], both[:, :hidden]], axis=1).T
    params.give("decoder.W_c", turned, "decoder.att_vector_layer.weight, context first, transposed")
    params.vector("decoder.b_c", "decoder.att_vector_layer.bias", hidden)
    return attention


def _bridge(params: Params, kind: str, starts: list[str], hidden: int, memory: int) -> dict[str, str]:
    """Add the parameters of the decoder's first states, and return the settings that say where these come from."""
    if kind == "zero":
        return {"init_hidden": "zero"}
    if kind == "bridge":
        for name in starts:
            params.matrix(f"bridge.{name}.W", "decoder.bridge_layer.weight", hidden, memory)
            params.vector(f"bridge.{name}.b", "decoder.bridge_layer.bias", hidden)
        return {"init_hidden": "bridge", "init_from": "top"}
    if hidden == memory:
        return {"init_hidden": "last", "init_from": "top"}
    for name in starts:
        params.give(
            f"bridge.{name}.W", np.eye(memory, hidden), "the forward half of the last state (init_hidden: last)"
        )
        params.zeros(f"bridge.{name}.b", hidden, why="nothing is added")
    return {"init_hidden": "bridge", "init_from": "top", "bridge_activation": "linear"}


def _units(path: Path) -> list[str]:
    """Return a vocabulary from a file next to the checkpoint, one token per line. Raises CheckpointError."""
    units = read_units(path)
    names = [name for _, name in sorted(_SPECIAL.values())]
    # Version 1 wrote its special tokens, too; if a list lacks them, they come first, as JoeyNMT itself reads it.
    return units if set(names) <= set(units) else [*names, *(unit for unit in units if unit not in names)]


def _vocabulary(folder: Path, keys: Mapping[str, Any], side: str, units: list[str]) -> Vocabulary:
    """Return the vocabulary of a language, which says how its text is tokenized. Raises CheckpointError for
    sentencepiece or codes that are applied while reading."""
    level, kind = keys.get(f"data.{side}.level", "word"), keys.get(f"data.{side}.tokenizer_type", "basic")
    if level == "char":
        return Vocabulary(units, split="characters")
    has_settings = any(name.startswith(f"data.{side}.tokenizer_cfg.") for name in keys)
    if level != "word" and kind in ("sentencepiece", "subword-nmt") and has_settings:
        raise CheckpointError(
            f"{folder / 'config.yaml'}: data.{side}.tokenizer_type must be basic, got {kind}; import it as words "
            "(level: word) and cut texts before, as that tokenizer does"
        )
    return Vocabulary(units)
