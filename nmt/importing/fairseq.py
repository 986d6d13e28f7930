"""Import recurrent models of fairseq (`lstm` and architectures derived from it): a checkpoint with dict.LANG.txt next
to it. The source ends with `</s>`, with which the target begins, too. Decoder layer n starts from encoder layer n,
through one linear layer for h and one for c if the sizes differ; attention is general, with tanh above [context; h]
without bias (fairseq/models/lstm.py and fairseq/data/dictionary.py of 0.12)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import Imported, Params, Tensors, our_order
from nmt.importing.torch_file import Inert
from nmt.importing.writing import next_to, read_units

KIND = "fairseq"
_KNOWN_BY = ("encoder.embed_tokens.weight", "encoder.lstm.weight_ih_l0", "decoder.layers.0.weight_ih")
_BOS, _PAD, _EOS, _UNK = range(4)
_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
_MOST_TOKENS = 200
"""The default maximum of words in a translation (`--max-len-b`)."""


def knows(values: Any) -> bool:
    """Return whether the content of a torch.save file is such a checkpoint."""
    model = values.get("model") if isinstance(values, dict) else None
    return isinstance(model, dict) and all(name in model for name in _KNOWN_BY)


def read(path: Path, values: Mapping[str, Any]) -> Imported:
    """Return the model of a checkpoint and the files next to it. Raises CheckpointError: something
    is missing, damaged or not representable."""
    model = values.get("model")
    if not isinstance(model, dict):
        raise CheckpointError(f"{path}: model must contain tensors, got something else")
    tensors = Tensors(path, {str(k): v for k, v in model.items()})
    found = [_units(path, values, side) for side in ("source_lang", "target_lang")]
    (src_order, src), (tgt_order, tgt) = (our_order(path.parent, units, _PAD, _UNK, _BOS, _EOS) for units in found)
    params = Params(tensors)
    tables = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    sizes = [tensors.shape(table)[-1] for table in tables]
    params.table("src_embeddings", tables[0], src_order, sizes[0])
    # Our target begins with BOS, theirs with the EOS of the previous sentence: BOS gets the embedding of EOS.
    params.table("tgt_embeddings", tables[1], [*tgt_order[:2], _EOS, *tgt_order[3:]], sizes[1])
    parts = {"encoder": _encoder(params, sizes[0]), "decoder": _decoder(params, sizes[1])}
    _output(params, tgt_order, parts["decoder"]["hidden_size"])
    tensors.leave("encoder.version", "decoder.version")
    tensors.finish()
    settings = {
        "model": parts,
        "decoding": {
            "length_penalty": "average",
            "max_length_ratio": 1e-6,
            "max_length_extra": _MOST_TOKENS,
            "generate_unk": True,
        },
    }
    return Imported(KIND, settings, params.arrays, Vocabulary(src), Vocabulary(tgt), params.lines)


def _encoder(params: Params, embedding: int) -> dict[str, Any]:
    """Add the encoder's parameters, and return its settings."""
    tensors = params.tensors
    layers = tensors.count("encoder.lstm.weight_hh_l{}")
    hidden, both = tensors.shape("encoder.lstm.weight_hh_l0")[-1], "encoder.lstm.weight_hh_l0_reverse" in tensors
    params.torch_layers("lstm", "encoder.lstm", (embedding, hidden, layers), bidirectional=both)
    return {
        "rnn_type": "lstm",
        "embeddings": {"embedding_dim": embedding},
        "hidden_size": hidden,
        "num_layers": layers,
        "bidirectional": both,
    }


def _decoder(params: Params, embedding: int) -> dict[str, Any]:
    """Add the parameters of the decoder and of its first states, and return its settings."""
    tensors = params.tensors
    hidden = tensors.shape("decoder.layers.0.weight_hh")[-1]
    memory = tensors.shape("encoder.lstm.weight_hh_l0")[-1] * (1 + ("encoder.lstm.weight_hh_l0_reverse" in tensors))
    layers = params.torch_cells("lstm", "decoder.layers.{layer}.{part}", embedding + hidden, hidden)
    learned = "decoder.encoder_hidden_proj.weight" in tensors
    for layer in range(layers) if learned else ():
        for state, theirs in (("h", "hidden"), ("c", "cell")):
            params.matrix(f"bridge.{layer}.{state}.W", f"decoder.encoder_{theirs}_proj.weight", hidden, memory)
            params.vector(f"bridge.{layer}.{state}.b", f"decoder.encoder_{theirs}_proj.bias", hidden)
    attends = "decoder.attention.input_proj.weight" in tensors
    if attends:
        # They multiply the query, (W q) . key; we multiply the key, q . (key W): the same numbers.
        theirs = "decoder.attention.input_proj.weight"
        params.give("decoder.W_k", tensors.take(theirs, memory, hidden), theirs)
        params.matrix("decoder.W_c", "decoder.attention.output_proj.weight", hidden, memory + hidden)
        params.zeros("decoder.b_c", hidden, why="output_proj has no bias")
    settings = {
        "rnn_type": "lstm",
        "embeddings": {"embedding_dim": embedding},
        "hidden_size": hidden,
        "num_layers": layers,
        "attention": "general" if attends else "none",
        "init_hidden": "bridge" if learned else "last",
    }
    return settings | ({"bridge_activation": "linear"} if learned else {})


def _output(params: Params, order: list[int], hidden: int) -> None:
    """Add the output layer, its own or the target's embeddings; a linear layer before it is multiplied into it."""
    tensors = params.tensors
    own = "decoder.fc_out.weight" in tensors
    name = "decoder.fc_out.weight" if own else "decoder.embed_tokens.weight"
    weight = tensors.take(name)
    bias = tensors.take("decoder.fc_out.bias", len(weight)) if own else np.zeros(len(weight), np.float32)
    before = "decoder.additional_fc"
    if f"{before}.weight" in tensors:
        bias = bias + weight @ tensors.take(f"{before}.bias", weight.shape[-1]).astype(np.float64)
        weight = weight @ tensors.take(f"{before}.weight", weight.shape[-1], hidden).astype(np.float64)
        name = f"{name} times {before}.weight"
    params.output(name, weight.astype(np.float32), bias.astype(np.float32), order, hidden)


def _units(path: Path, values: Mapping[str, Any], side: str) -> list[str]:
    """Return a side's vocabulary from dict.LANG.txt, lines of a word and its frequency. Raises CheckpointError."""
    args = values.get("args")  # in older checkpoints
    lang = _entry(args if isinstance(args, Inert) else _entry(values.get("cfg"), "task"), side)
    if not isinstance(lang, str) or not lang:
        raise CheckpointError(f"{path}: {side} must be in its settings (args or cfg), got {lang!r:.40}")
    where = next_to(path.parent, f"dict.{lang}.txt")
    lines = [line.removesuffix(" #fairseq:overwrite") for line in read_units(where)]
    words = [line.rpartition(" ") for line in lines]
    if wrong := [n for n, (word, _, count) in enumerate(words, start=1) if not word or not count.isdecimal()]:
        raise CheckpointError(f"{where}: line {wrong[0]} must be a word and a number, got {lines[wrong[0] - 1]!r:.40}")
    return [*_SPECIAL, *(word for word, _, _ in words)]


def _entry(values: Any, name: str) -> Any:
    """Return the entry of a dictionary, or the attribute in the state of an object, that has this name."""
    return values.get(name) if isinstance(values, Mapping | Inert) else None
