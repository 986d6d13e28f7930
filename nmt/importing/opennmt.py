"""Import recurrent models of OpenNMT-py 2 and 3 (encoder_type rnn or brnn, decoder_type rnn; LSTM or GRU).

A torch.save file has `model`, `generator`, `vocab` and `opt`. The source has no EOS; every decoder layer starts from
the encoder layer of the same number; attention is `dot`, `general` or `mlp` (onmt/modules/global_attention.py of 3.5),
the last with a bias of the query and no tanh above the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import Imported, Params, Tensors, check_settings, our_order
from nmt.importing.torch_file import Inert

KIND = "opennmt-py"
NAMES = ("model", "generator", "vocab", "opt")
_TABLE = "{}.embeddings.make_embedding.emb_luts.0.weight"
_ATTENTION = {"dot": "dot", "general": "general", "mlp": "bahdanau"}
_SPECIAL = ("<blank>", "<unk>", "<s>", "</s>")
# Settings whose other values compute something that our models do not.
_MUST: dict[str, tuple[Any, ...]] = {
    "encoder_type": ("brnn", "rnn"),
    "decoder_type": ("rnn",),
    "rnn_type": ("LSTM", "GRU"),
    "global_attention": tuple(_ATTENTION),
    "global_attention_function": ("softmax",),
    "generator_function": ("softmax", None),
    "bridge": (False, None),
    "coverage_attn": (False, None),
    "copy_attn": (False, None),
    "context_gate": ("none", None),
    "position_encoding": (False, None),
    "lambda_coverage": (0, 0.0, None),
}


@dataclass(frozen=True)
class _Sizes:
    """The sizes and options of a model, from its tensors and settings."""

    kind: str
    bidirectional: bool
    attention: str
    feeds: bool
    layers: tuple[int, int]
    embedding: tuple[int, int]
    hidden: int


def read(path: Path, values: Mapping[str, Any]) -> Imported:
    """Return the model of such a file. Raises CheckpointError if it is damaged, or has parts that our models cannot
    have."""
    tensors = _tensors(path, values)
    options = _options(path, values["opt"])
    sizes = _sizes(tensors, options)
    orders = [_vocabulary(path, values["vocab"], side) for side in ("src", "tgt")]
    (src_order, src_units), (tgt_order, tgt_units) = orders
    params = Params(tensors)
    params.table("src_embeddings", _TABLE.format("encoder"), src_order, sizes.embedding[0])
    params.table("tgt_embeddings", _TABLE.format("decoder"), tgt_order, sizes.embedding[1])
    hidden = sizes.hidden
    shape = (sizes.embedding[0], hidden // (2 if sizes.bidirectional else 1), sizes.layers[0])
    params.torch_layers(sizes.kind, "encoder.rnn", shape, sizes.bidirectional)
    # PyTorch stores the decoder's cells in one of two ways.
    cells = "decoder.rnn.layers.{layer}.{part}" if sizes.feeds else "decoder.rnn.{part}_l{layer}"
    params.torch_cells(sizes.kind, cells, sizes.embedding[1] + hidden * sizes.feeds, hidden)
    _attention(params, sizes)
    params.output("generator.weight", "generator.bias", tgt_order, hidden)
    tensors.finish()
    src = Vocabulary(src_units)
    tgt = src if src_units == tgt_units else Vocabulary(tgt_units)
    settings = {"model": _model(sizes), "decoding": {"generate_unk": True}}
    return Imported(KIND, settings, params.arrays, src, tgt, params.lines)


def _tensors(path: Path, values: Mapping[str, Any]) -> Tensors:
    """Return the tensors of `model`, and those of `generator` with its name as a prefix; the log-softmax after it is a
    layer without parameters, which shifts the names in version 2."""
    model, generator = values["model"], values["generator"]
    if not isinstance(model, dict) or not isinstance(generator, dict):
        raise CheckpointError(f"{path}: must contain the tensors of model and generator, got something else")
    arrays = {str(k): v for k, v in model.items()}
    arrays |= {f"generator.{str(k).removeprefix('0.')}": v for k, v in generator.items()}
    return Tensors.of_file(path, arrays)


def _options(path: Path, opt: Any) -> dict[str, Any]:
    """Return the settings of the training. Raises CheckpointError if one of them requires something that our models
    cannot do."""
    found = opt.state if isinstance(opt, Inert) else opt
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: must contain the settings of its training (opt), got something else")
    check_settings(path, found, _MUST)
    for name in ("src_feats_vocab", "feat_merge_size"):
        if isinstance(found.get(name), dict) and found[name]:
            raise CheckpointError(f"{path}: {name} must be empty, got features of words; ours have none")
    return found


def _sizes(tensors: Tensors, options: Mapping[str, Any]) -> _Sizes:
    """Return the sizes, taken from the tensors where possible."""
    feeds = "decoder.rnn.layers.0.weight_ih" in tensors
    first = "decoder.rnn.layers.{}.weight_hh" if feeds else "decoder.rnn.weight_hh_l{}"
    kind = str(options.get("rnn_type", "LSTM")).lower()
    embedding = [tensors.shape(_TABLE.format(side))[-1] for side in ("encoder", "decoder")]
    return _Sizes(
        kind,
        "encoder.rnn.weight_hh_l0_reverse" in tensors,
        _ATTENTION[options.get("global_attention", "general")],
        feeds,
        (tensors.count("encoder.rnn.weight_hh_l{}"), tensors.count(first)),
        (embedding[0], embedding[1]),
        tensors.shape(first.format(0))[-1],
    )


def _attention(params: Params, sizes: _Sizes) -> None:
    """Add the score function, and the layer over [context; query]."""
    hidden = sizes.hidden
    if sizes.attention == "general":
        # They multiply the query, (W q) . key; we multiply the key, q . (key W): the same numbers.
        params.give(
            "decoder.W_k",
            params.tensors.take("decoder.attn.linear_in.weight", hidden, hidden),
            "decoder.attn.linear_in.weight",
        )
    if sizes.attention == "bahdanau":
        params.matrix("decoder.W_k", "decoder.attn.linear_context.weight", hidden, hidden)
        params.matrix("decoder.W_q", "decoder.attn.linear_query.weight", hidden, hidden)
        params.vector("decoder.b_q", "decoder.attn.linear_query.bias", hidden)
        params.give("decoder.v", params.tensors.take("decoder.attn.v.weight", 1, hidden)[0], "decoder.attn.v.weight")
    params.matrix("decoder.W_c", "decoder.attn.linear_out.weight", hidden, 2 * hidden)
    if sizes.attention == "bahdanau":
        params.vector("decoder.b_c", "decoder.attn.linear_out.bias", hidden)
    else:
        params.zeros("decoder.b_c", hidden, why="linear_out has no bias")


def _vocabulary(path: Path, vocab: Any, side: str) -> tuple[list[int], list[str]]:
    """Return the order of a side's rows, and its tokens. Raises CheckpointError."""
    units = vocab.get(side) if isinstance(vocab, dict) else None
    if isinstance(units, Inert):
        units = _torchtext_units(units)
    if not isinstance(units, list) or not all(isinstance(unit, str) for unit in units):
        raise CheckpointError(f"{path}: must contain the vocabulary of {side} as a list of words, got something else")
    if isinstance(vocab, dict) and vocab.get("decoder_start_token", "<s>") != "<s>":
        raise CheckpointError(f"{path}: decoder_start_token must be <s>, got {vocab['decoder_start_token']!r:.40}")
    places = {unit: n for n, unit in enumerate(units)}
    pad, unk, bos, eos = (places.get(name, -1) for name in _SPECIAL)
    return our_order(str(path), units, pad, unk, bos, eos)


def _torchtext_units(field: Inert) -> Any:
    """Return the tokens of a torchtext field: version 2 keeps a `TextMultiField`; the tokens are `vocab.itos` of its
    first field."""
    inner = field.get("fields")
    if isinstance(inner, list) and inner and isinstance(inner[0], tuple) and len(inner[0]) > 1:
        field = inner[0][1] if isinstance(inner[0][1], Inert) else field
    vocab = field.get("vocab")
    return vocab.get("itos") if isinstance(vocab, Inert) else None


def _model(sizes: _Sizes) -> dict[str, Any]:
    """Return the `model` section."""
    additive = sizes.attention == "bahdanau"
    return {
        "encoder": {
            "rnn_type": sizes.kind,
            "embeddings": {"embedding_dim": sizes.embedding[0]},
            "hidden_size": sizes.hidden // (2 if sizes.bidirectional else 1),
            "num_layers": sizes.layers[0],
            "bidirectional": sizes.bidirectional,
            "boundaries": "none",
        },
        "decoder": {
            "rnn_type": sizes.kind,
            "embeddings": {"embedding_dim": sizes.embedding[1]},
            "hidden_size": sizes.hidden,
            "num_layers": sizes.layers[1],
            "init_hidden": "last",
            "attention": sizes.attention,
            "attention_bias": additive,
            "readout": "linear" if additive else "tanh",
            "input_feeding": sizes.feeds,
        },
    }
