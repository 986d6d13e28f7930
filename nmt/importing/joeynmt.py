"""Import recurrent models of JoeyNMT 1 and 2: a folder with a checkpoint (`model_state`), config.yaml and vocabularies.

The source ends with `</s>`. Every state of the decoder starts from one layer over h of the encoder's last layer
(`bridge`), from that h (`last`; its forward half if the encoder is twice as wide), or from zero (decoders.py of 2.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.yaml_text import parse_yaml
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import CELL_PARTS, Imported, Params, Tensors, our_order
from nmt.system.files import explain, read_small

KIND = "joeynmt"
NAMES = ("model_state",)
_MOST_TEXT_BYTES = 2**30
_ATTENTION = {"bahdanau": "bahdanau", "luong": "general"}
_SIDES = (("src", "src"), ("tgt", "trg"))
_SPECIAL = {"pad": (1, "<pad>"), "unk": (0, "<unk>"), "bos": (2, "<s>"), "eos": (3, "</s>")}


def read(path: Path, values: Mapping[str, Any]) -> Imported:
    """Return the model of a checkpoint and the files next to it. Raises CheckpointError if something is missing,
    damaged, or cannot be represented exactly."""
    state = values["model_state"]
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: model_state must contain tensors, got something else")
    tensors = Tensors.of_file(path, {str(k): v for k, v in state.items()})
    where = path.parent / "config.yaml"
    config = _section(where, _yaml(where))
    model, data = _section(where, config, "model"), _section(where, config, "data")
    encoder, decoder = _section(where, model, "encoder"), _section(where, model, "decoder")
    _check(where, model, encoder, decoder)
    numbers = _special(where, config)
    found = [_units(path.parent, data, side) for side in ("src", "trg")]
    (src_order, src), (tgt_order, tgt) = (our_order(str(path.parent), units, *numbers) for units in found)
    params = Params(tensors)
    sizes = [tensors.shape(f"{side}_embed.lut.weight")[-1] for side in ("src", "trg")]
    params.table("src_embeddings", "src_embed.lut.weight", src_order, sizes[0])
    params.table("tgt_embeddings", "trg_embed.lut.weight", tgt_order, sizes[1])
    parts = {
        "encoder": _encoder(params, encoder, sizes[0]),
        "decoder": _decoder(params, decoder, sizes[1]),
    }
    params.output("decoder.output_layer.weight", None, tgt_order, parts["decoder"]["hidden_size"])
    tensors.finish()
    settings = {
        "model": parts,
        "data": {ours: {"lowercase": bool(_side(data, theirs).get("lowercase", False))} for ours, theirs in _SIDES},
        "decoding": {"generate_unk": True},
    }
    reads = _vocabulary(where, data, "src", src)
    same = src == tgt and _level(data, "src") == _level(data, "trg")
    writes = reads if same else _vocabulary(where, data, "trg", tgt)
    return Imported(KIND, settings, params.arrays, reads, writes, params.lines)


def _encoder(params: Params, encoder: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Add the encoder's parameters, and return its settings."""
    kind, width = str(encoder.get("rnn_type", "gru")), params.tensors.shape("encoder.rnn.weight_hh_l0")[-1]
    layers = _layers(params.tensors, "encoder.rnn.weight_hh_l{}")
    params.torch_layers(kind, "encoder.rnn", (size, width, layers), bidirectional=True)
    return {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": size, "scale": _scale(encoder)},
        "hidden_size": width,
        "num_layers": layers,
    }


def _decoder(params: Params, decoder: Mapping[str, Any], embedding: int) -> dict[str, Any]:
    """Add the parameters of the decoder and of its first states, and return its settings."""
    tensors = params.tensors
    kind, hidden = str(decoder.get("rnn_type", "gru")), tensors.shape("decoder.rnn.weight_hh_l0")[-1]
    memory = 2 * tensors.shape("encoder.rnn.weight_hh_l0")[-1]
    layers, feeds = _layers(tensors, "decoder.rnn.weight_hh_l{}"), bool(decoder.get("input_feeding", True))
    size = embedding + hidden * feeds
    for layer in range(layers):
        names = [f"decoder.rnn.{part}_l{layer}" for part in CELL_PARTS]
        params.torch_cell(kind, f"decoder.cell.{layer}", names, size, hidden)
        size = hidden
    attention = _attention(params, decoder, hidden, memory)
    states = ("h", "c") if kind == "lstm" else ("h",)
    starts = [f"{layer}.{name}" for layer in range(layers) for name in states]
    return {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": embedding, "scale": _scale(decoder)},
        "hidden_size": hidden,
        "num_layers": layers,
        "attention": attention,
        "input_feeding": feeds,
        **_bridge(params, decoder, starts, hidden, memory),
    }


def _check(where: Path, model: Mapping[str, Any], encoder: Mapping[str, Any], decoder: Mapping[str, Any]) -> None:
    """Raise CheckpointError if a setting requires something that our models cannot do."""
    must = [
        ("model.encoder.type", encoder.get("type", "recurrent"), ("recurrent",)),
        ("model.decoder.type", decoder.get("type", "recurrent"), ("recurrent",)),
        ("model.encoder.rnn_type", encoder.get("rnn_type", "gru"), ("gru", "lstm")),
        ("model.decoder.rnn_type", decoder.get("rnn_type", "gru"), ("gru", "lstm")),
        ("model.encoder.bidirectional", encoder.get("bidirectional", True), (True,)),
        ("model.decoder.attention", decoder.get("attention", "bahdanau"), tuple(_ATTENTION)),
        ("model.decoder.init_hidden", decoder.get("init_hidden", "bridge"), ("bridge", "last", "zero")),
        ("model.decoder.activation", decoder.get("activation", "tanh"), ("tanh",)),
    ]
    for name, value, allowed in must:
        if not isinstance(value, str | bool) or value not in allowed:
            raise CheckpointError(
                f"{where}: {name} must be {' or '.join(map(str, allowed))}, got {value!r:.40}; it cannot be "
                "represented exactly"
            )


def _attention(params: Params, decoder: Mapping[str, Any], hidden: int, memory: int) -> str:
    """Add the score function and the layer above the context, and return the type of the score; their layer reads
    [query; context], ours [context; query]."""
    attention = _ATTENTION[decoder.get("attention", "bahdanau")]
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


def _bridge(params: Params, decoder: Mapping[str, Any], starts: list[str], hidden: int, memory: int) -> dict[str, str]:
    """Add the parameters of the decoder's first states, and return the settings that say where these come from."""
    kind = decoder.get("init_hidden", "bridge")
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


def _layers(tensors: Tensors, name: str) -> int:
    """Return the number of layers that have a tensor of this name."""
    count = 0
    while name.format(count) in tensors:
        count += 1
    return count


def _scale(part: Mapping[str, Any]) -> bool:
    """Return whether embeddings are multiplied by the square root of their size."""
    embeddings = part.get("embeddings")
    return bool(embeddings.get("scale", False)) if isinstance(embeddings, dict) else False


def _yaml(path: Path) -> Any:
    """Return the settings in a YAML file. Raises CheckpointError."""
    try:
        return parse_yaml(read_small(path, _MOST_TEXT_BYTES).decode())
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the settings next to the checkpoint, got {explain(error)}; put them there"
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{path}: must be YAML, got {explain(error)[:80]}") from error


def _section(where: Path, values: Any, name: str | None = None) -> dict[str, Any]:
    """Return a section of settings. Raises CheckpointError."""
    found = values if name is None else values.get(name)
    if not isinstance(found, dict):
        raise CheckpointError(f"{where}: must have a section {name or 'of settings'}, got none")
    return found


def _side(data: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    """Return the settings of a language; in version 1 they are part of `data` itself."""
    found = data.get(side)
    return found if isinstance(found, dict) else data


def _level(data: Mapping[str, Any], side: str) -> str:
    return str(_side(data, side).get("level", "word"))


def _special(where: Path, config: Mapping[str, Any]) -> list[int]:
    """Return the ids of padding, unknown, BOS and EOS. Raises CheckpointError."""
    data = config.get("data")
    special = data.get("special_symbols") if isinstance(data, dict) else None
    given = special if isinstance(special, dict) else {}
    numbers = [given.get(f"{name}_id", number) for name, (number, _) in _SPECIAL.items()]
    if any(type(n) is not int or not 0 <= n < 1000 for n in numbers):
        raise CheckpointError(f"{where}: special_symbols must be numbers of tokens, got {numbers!r:.60}")
    if given.get("sep_token"):
        raise CheckpointError(f"{where}: special_symbols.sep_token must be empty, got one; ours have no prompts")
    return numbers


def _units(folder: Path, data: Mapping[str, Any], side: str) -> list[str]:
    """Return a vocabulary from a file with one token per line next to the checkpoint, where training puts it. Raises
    CheckpointError."""
    path = folder / f"{side}_vocab.txt"
    try:
        lines = read_small(path, _MOST_TEXT_BYTES).decode().split("\n")
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the vocabulary next to the checkpoint, got {explain(error)}; copy it there"
        ) from error
    except ValueError:
        raise CheckpointError(f"{path}: must be text in UTF-8, got other bytes; restore a copy") from None
    units = lines[:-1] if lines[-1] == "" else lines
    names = [name for _, name in sorted(_SPECIAL.values())]
    # Version 1 wrote its special tokens, too; if a list lacks them, they come first, as JoeyNMT itself reads it.
    return units if set(names) <= set(units) else [*names, *(unit for unit in units if unit not in names)]


def _vocabulary(where: Path, data: Mapping[str, Any], side: str, units: list[str]) -> Vocabulary:
    """Return the vocabulary of a language, which says how its text is tokenized. Raises CheckpointError for
    sentencepiece or codes that are applied while reading."""
    level, options = _level(data, side), _side(data, side)
    if level == "char":
        return Vocabulary(units, split="characters")
    kind = options.get("tokenizer_type", "basic")
    if level != "word" and kind in ("sentencepiece", "subword-nmt") and options.get("tokenizer_cfg"):
        raise CheckpointError(
            f"{where}: data.{side}.tokenizer_type must be basic, got {kind}; import it as words (level: word) and cut "
            "texts before, as that tokenizer does"
        )
    return Vocabulary(units)
