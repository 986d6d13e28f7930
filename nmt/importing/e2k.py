"""Import the models of e2k (https://pypi.org/project/e2k/, Unlicense): English spelling or phonemes to katakana.

The model is a bidirectional GRU with a layer above it, a GRU over the katakana so far, attention with four heads
between the two, and a second GRU over [state; context] (inference.py of 0.8.1). A safetensors file has tensors with
PyTorch's names, and the vocabularies in its metadata, with tokens separated by NUL.
"""

from __future__ import annotations

from collections.abc import Mapping

from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import CELL_PARTS, Imported, Params, Tensors, our_order

KIND = "e2k"
NAMES = {"e_emb.weight", "k_emb.weight", "pre_decoder.weight_ih_l0", "post_decoder.weight_ih_l0", "attn.in_proj_weight"}
"""The tensor names by which a file is recognised."""
_HEADS = 4
_MOST_STEPS = 16
_SPACE = "<space>"
"""The written form of a token that is a space, since spaces separate tokens."""


def from_tensors(tensors: Tensors, metadata: Mapping[str, str]) -> Imported:
    """Return the model of these arrays. Raises CheckpointError if the arrays or the metadata are not those of e2k."""
    place = tensors.place
    src_units, tgt_units = _units(place, metadata, "in_table"), _units(place, metadata, "out_table")
    bos, eos = _number(place, metadata, "sos_idx"), _number(place, metadata, "eos_idx")
    src_order, src = our_order(place, src_units, 0, -1, bos, eos)
    tgt_order, tgt = our_order(place, tgt_units, 0, -1, bos, eos)
    size, hidden = tensors.shape("e_emb.weight")[-1], tensors.shape("encoder.weight_hh_l0")[-1]
    width = tensors.shape("encoder_fc.0.weight")[0]
    params = Params(tensors)
    params.table("src_embeddings", "e_emb.weight", src_order, size)
    params.table("tgt_embeddings", "k_emb.weight", tgt_order, width)
    params.torch_layers("gru", "encoder", (size, hidden, 1), bidirectional=True)
    params.matrix("decoder.W_m", "encoder_fc.0.weight", width, 2 * hidden)
    params.vector("decoder.b_m", "encoder_fc.0.bias", width)
    params.torch_gru("decoder.cell.0", _gru("pre_decoder"), width, width)
    _attention(params, width)
    params.torch_gru("decoder.readout", _gru("post_decoder"), 2 * width, width)
    params.output("fc.weight", "fc.bias", tgt_order, width)
    tensors.finish()
    characters = all(len(unit) == 1 for unit in src)
    src = src if characters else [_SPACE if unit == " " else unit for unit in src]
    settings = {
        "model": _model(size, hidden, width),
        "data": {"src": {"lowercase": characters}},
        "decoding": {"beam_size": 1, "max_length_ratio": 1e-6, "max_length_extra": _MOST_STEPS, "generate_unk": True},
    }
    reads = Vocabulary(src, split="characters" if characters else "words", unknown="left_out")
    return Imported(KIND, settings, params.arrays, reads, Vocabulary(tgt, split="characters"), params.lines)


def _model(size: int, hidden: int, width: int) -> dict[str, object]:
    """Return the `model` section."""
    return {
        "encoder": {
            "rnn_type": "gru",
            "embeddings": {"embedding_dim": size},
            "hidden_size": hidden,
            "boundaries": "bos_eos",
            "projection": width,
        },
        "decoder": {
            "rnn_type": "gru",
            "embeddings": {"embedding_dim": width},
            "hidden_size": width,
            "init_hidden": "zero",
            "attention": "multi_head",
            "attention_heads": _HEADS,
            "readout": "recurrent",
            "input_feeding": False,
        },
    }


def _attention(params: Params, width: int) -> None:
    """Add the parameters of PyTorch's MultiheadAttention, whose one matrix has queries, keys and values below one
    another."""
    inside, bias = params.tensors.take("attn.in_proj_weight", 3 * width, width), "attn.in_proj_bias"
    biases = params.tensors.take(bias, 3 * width)
    for n, name in enumerate("qkv"):
        rows = slice(n * width, (n + 1) * width)
        where = f"[{n * width}:{(n + 1) * width}]"
        params.give(f"decoder.W_{name}", inside[rows].T, f"attn.in_proj_weight{where} transposed")
        params.give(f"decoder.b_{name}", biases[rows], bias + where)
    params.matrix("decoder.W_o", "attn.out_proj.weight", width, width)
    params.vector("decoder.b_o", "attn.out_proj.bias", width)


def _gru(name: str) -> list[str]:
    return [f"{name}.{part}_l0" for part in CELL_PARTS]


def _units(place: str, metadata: Mapping[str, str], name: str) -> list[str]:
    """Return a vocabulary from the metadata. Raises CheckpointError."""
    text = metadata.get(name)
    if not isinstance(text, str):
        raise CheckpointError(f"{place}: must have a vocabulary {name} in its metadata, got none")
    return text.split("\0")


def _number(place: str, metadata: Mapping[str, str], name: str) -> int:
    """Return a token's id from the metadata. Raises CheckpointError."""
    text = metadata.get(name)
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 9:
        raise CheckpointError(f"{place}: must have a number {name} in its metadata, got {text!r:.40}")
    return int(text)
