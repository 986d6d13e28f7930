"""Import recurrent models of OpenNMT-py 2 and 3 (encoder_type rnn or brnn, decoder_type rnn; LSTM or GRU). A torch.save
file has `model`, `generator`, `vocab` and `opt`. The source has no EOS; every decoder layer starts from the encoder
layer of the same number; attention is `dot`, `general` or `mlp` (onmt/modules/global_attention.py of 3.5), the last
with a bias of the query and no tanh above the context."""

from __future__ import annotations

from collections.abc import Mapping
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


def read(path: Path, values: Mapping[str, Any]) -> Imported:
    """Return the model of such a file. Raises CheckpointError: damaged, or not representable."""
    tensors = _tensors(path, values)
    options = _options(path, values["opt"])
    kind = str(options.get("rnn_type", "LSTM")).lower()
    feeds = "decoder.rnn.layers.0.weight_ih" in tensors
    # PyTorch stores the decoder's cells in one of two ways.
    cells = "decoder.rnn.layers.{layer}.{part}" if feeds else "decoder.rnn.{part}_l{layer}"
    sizes = [tensors.shape(_TABLE.format(side))[-1] for side in ("encoder", "decoder")]
    hidden = tensors.shape(cells.format(layer=0, part="weight_hh"))[-1]
    vocab = values["vocab"]
    (src_order, src_units), (tgt_order, tgt_units) = (_vocabulary(path, vocab, side) for side in ("src", "tgt"))
    params = Params(tensors)
    params.table("src_embeddings", _TABLE.format("encoder"), src_order, sizes[0])
    params.table("tgt_embeddings", _TABLE.format("decoder"), tgt_order, sizes[1])
    both = "encoder.rnn.weight_hh_l0_reverse" in tensors
    encoder: dict[str, Any] = {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": sizes[0]},
        "hidden_size": hidden // (2 if both else 1),
        "num_layers": tensors.count("encoder.rnn.weight_hh_l{}"),
        "bidirectional": both,
        "boundaries": "none",
    }
    params.torch_layers(kind, "encoder.rnn", (sizes[0], encoder["hidden_size"], encoder["num_layers"]), both)
    layers = params.torch_cells(kind, cells, sizes[1] + hidden * feeds, hidden)
    attention = _ATTENTION[options.get("global_attention", "general")]
    decoder = {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": sizes[1]},
        "hidden_size": hidden,
        "num_layers": layers,
        "init_hidden": "last",
        "attention": attention,
        "attention_bias": attention == "bahdanau",
        "readout": "linear" if attention == "bahdanau" else "tanh",
        "input_feeding": feeds,
    }
    _attention(params, attention, hidden)
    weight = tensors.take("generator.weight")
    params.output("generator.weight", weight, tensors.take("generator.bias", len(weight)), tgt_order, hidden)
    tensors.finish()
    settings = {"model": {"encoder": encoder, "decoder": decoder}, "decoding": {"generate_unk": True}}
    return Imported(KIND, settings, params.arrays, Vocabulary(src_units), Vocabulary(tgt_units), params.lines)


def _tensors(path: Path, values: Mapping[str, Any]) -> Tensors:
    """Return the tensors of `model`, and those of `generator` with its name as a prefix; the log-softmax after it is a
    layer without parameters, which shifts the names in version 2."""
    model, generator = values["model"], values["generator"]
    if not isinstance(model, dict) or not isinstance(generator, dict):
        raise CheckpointError(f"{path}: must contain the tensors of model and generator, got something else")
    arrays = {str(k): v for k, v in model.items()}
    arrays |= {f"generator.{str(k).removeprefix('0.')}": v for k, v in generator.items()}
    return Tensors(path, arrays)


def _options(path: Path, opt: Any) -> dict[str, Any]:
    """Return the settings of the training. Raises CheckpointError for what our models cannot do."""
    found = opt.state if isinstance(opt, Inert) else opt
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: must contain the settings of its training (opt), got something else")
    check_settings(path, found, _MUST)
    for name in ("src_feats_vocab", "feat_merge_size"):
        if isinstance(found.get(name), dict) and found[name]:
            raise CheckpointError(f"{path}: {name} must be empty, got features of words; ours have none")
    return found


def _attention(params: Params, attention: str, hidden: int) -> None:
    """Add the score function, and the layer over [context; query]."""
    if attention == "general":
        # They multiply the query, (W q) . key; we multiply the key, q . (key W): the same numbers.
        theirs = "decoder.attn.linear_in.weight"
        params.give("decoder.W_k", params.tensors.take(theirs, hidden, hidden), theirs)
    if attention == "bahdanau":
        params.matrix("decoder.W_k", "decoder.attn.linear_context.weight", hidden, hidden)
        params.matrix("decoder.W_q", "decoder.attn.linear_query.weight", hidden, hidden)
        params.vector("decoder.b_q", "decoder.attn.linear_query.bias", hidden)
        params.give("decoder.v", params.tensors.take("decoder.attn.v.weight", 1, hidden)[0], "decoder.attn.v.weight")
    params.matrix("decoder.W_c", "decoder.attn.linear_out.weight", hidden, 2 * hidden)
    if attention == "bahdanau":
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
    return our_order(path, units, pad, unk, bos, eos)


def _torchtext_units(field: Inert) -> Any:
    """Return the tokens of a torchtext field, or of the first field of version 2's `TextMultiField`."""
    inner = field.get("fields")
    if isinstance(inner, list) and inner and isinstance(inner[0], tuple) and len(inner[0]) > 1:
        field = inner[0][1] if isinstance(inner[0][1], Inert) else field
    vocab = field.get("vocab")
    return vocab.get("itos") if isinstance(vocab, Inert) else None
