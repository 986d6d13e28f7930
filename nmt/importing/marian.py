"""Import recurrent models of Marian (s2s, amun, nematus): an npz or bin file that includes its settings, with
vocabularies next to it.

A conditional cell reads the last word, queries attention, and continues from its state with the context as input; a
deep output layer reads the word's embedding, the state and the context; every state starts from one layer over the mean
of the encoder's outputs (src/models/s2s.h, src/rnn/cells.h and attention.h of Marian 1.12). Matrices are [in, out]; a
GRU's gates are r, z (`U`, `W`) and n (`Ux`, `Wx`), an LSTM's f, i, g, o. Models of type `amun` and `nematus` are
Nematus's under its names (src/models/amun.h).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokens.subwords import Subwords
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import Imported, Params, Tensors, check_settings, our_order, parse_settings, read_settings
from nmt.importing.writing import next_to, read_sentencepiece, read_units
from nmt.storage.tensor_file import MalformedError
from nmt.system.files import explain

KIND = "marian"
SETTINGS = "special:model.yml"
"""The array with the settings of a model, bytes of YAML, by which a file is recognised."""
_EOS, _UNK = 0, 1
_MUST: dict[str, tuple[Any, ...]] = {
    "type": ("s2s", "amun", "nematus"),
    "enc-type": ("bidirectional",),
    "enc-cell": ("gru", "lstm", "gru-nematus"),
    "dec-cell": ("gru", "lstm", "gru-nematus"),
    "enc-cell-depth": (1,),
    "dec-cell-base-depth": (2,),
    "dec-cell-high-depth": (1,),
    "layer-normalization": (False,),
    "right-left": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    "ulr": (False,),
}
_WHOLE_NAMES = {
    "Wemb": "encoder_Wemb",
    "Wemb_dec": "decoder_Wemb",
    "ff_logit_prev_W": "decoder_ff_logit_l1_W0",
    "ff_logit_prev_b": "decoder_ff_logit_l1_b0",
    "ff_logit_lstm_W": "decoder_ff_logit_l1_W1",
    "ff_logit_lstm_b": "decoder_ff_logit_l1_b1",
    "ff_logit_ctx_W": "decoder_ff_logit_l1_W2",
    "ff_logit_ctx_b": "decoder_ff_logit_l1_b2",
    "ff_logit_W": "decoder_ff_logit_l2_W",
    "ff_logit_b": "decoder_ff_logit_l2_b",
    "ff_state_W": "decoder_ff_state_W",
    "ff_state_b": "decoder_ff_state_b",
    "decoder_Wc": "decoder_cell2_W",
    "decoder_Wcx": "decoder_cell2_Wx",
} | {f"decoder_{part}_nl": f"decoder_cell2_{part}" for part in ("U", "Ux", "b", "bx")}
_CELL_PARTS = ("U", "Ux", "W", "Wx", "b", "bx")
NEMATUS_NAMES = (
    _WHOLE_NAMES
    | {f"decoder_{part}": f"decoder_cell1_{part}" for part in _CELL_PARTS}
    | {f"encoder_{part}": f"encoder_bi_{part}" for part in _CELL_PARTS}
    | {f"encoder_r_{part}": f"encoder_bi_r_{part}" for part in _CELL_PARTS}
)
"""Nematus's names, mapped to those of s2s for the same tensors."""


def read(path: Path, arrays: Mapping[str, Any]) -> Imported:
    """Return the model of such a file and the files next to it. Raises CheckpointError: something
    is missing, damaged or not representable."""
    given = arrays[SETTINGS]
    if not isinstance(given, np.ndarray):
        raise CheckpointError(f"{path}: {SETTINGS} must be bytes of YAML, got something else")
    options = parse_settings(path, given.tobytes().split(b"\0")[0])
    check_settings(path, options, _MUST)
    names = {} if options.get("type", "amun") == "s2s" else NEMATUS_NAMES
    tensors = _tensors(path, arrays, names)
    beside_it = path.parent / f"{path.name}.decoder.yml"
    own = read_settings(beside_it)
    found = own.get("vocabs")
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(name, str) for name in found):
        raise CheckpointError(
            f"{beside_it}: vocabs must be two files, of the source and of the target, got {found!r:.80}"
        )
    params = Params(tensors)
    tables = [_table(tensors, side) for side in ("encoder", "decoder")]
    (src_order, src), (tgt_order, tgt) = (
        _units(params, table, next_to(path.parent, name)) for table, name in zip(tables, found, strict=True)
    )
    sizes = [tensors.shape(table)[-1] for table in tables]
    params.table("src_embeddings", tables[0], src_order, sizes[0])
    params.table("tgt_embeddings", tables[1], tgt_order, sizes[1])
    encoder = _encoder(params, sizes[0])
    decoder = _decoder(params, sizes[1], 2 * encoder["hidden_size"])
    _output(params, tables[1], tgt_order, sizes[1])
    tensors.leave("decoder_c_tt")  # a number added to all attention scores alike changes nothing
    tensors.finish()
    residual = {"residual": options.get("skip") is True}  # layers above the first add their input to their output
    settings = {"model": {"encoder": encoder | residual, "decoder": decoder | residual}, "decoding": _decoding(own)}
    return Imported(KIND, settings, params.arrays, src, tgt, params.lines)


def _decoding(decoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return Marian's own decoding settings: the beam size, and the length normalisation if it is one that we have."""
    found: dict[str, Any] = {"generate_unk": False, "max_length_ratio": 3.0, "max_length_extra": 3}
    beam = decoder.get("beam-size", 12)
    if type(beam) is int and 1 <= beam <= 1000:
        found["beam_size"] = beam
    ways = {0: "none", 1: "average"}
    normalize = decoder.get("normalize", 0)
    if isinstance(normalize, int | float) and normalize in ways:
        found["length_penalty"] = ways[int(normalize)]
    return found


def _tensors(path: Path, arrays: Mapping[str, Any], names: Mapping[str, str]) -> Tensors:
    """Return tensors as s2s has them: by its names, given those of others in `names`, and with vectors as rows and
    columns. Raises CheckpointError if one has two names."""
    found: dict[str, Any] = {}
    for theirs, array in arrays.items():
        if (name := names.get(theirs, theirs)) in found:
            raise CheckpointError(f"{path}: must name each tensor once, got one by two names")
        is_vector = isinstance(array, np.ndarray) and array.ndim == 1
        found[name] = array if not is_vector else array[:, None] if name == "decoder_U_att" else array[None]
    del found[SETTINGS]
    return Tensors(path, found)


def _table(tensors: Tensors, side: str) -> str:
    """Return the name of the embeddings of a side: a separate table or the shared one."""
    own = f"{side}_Wemb"
    return next((name for name in (own, "Wemb", "encoder_Wemb") if name in tensors), own)


def _units(params: Params, table: str, path: Path) -> tuple[list[int], Subwords]:
    """Return the order of a table's rows, and the subwords of its language, from the file of a vocabulary. A model may
    use only the first tokens of a list. If it has more rows than the list has tokens, the extra rows still take part in
    the softmax, and get names that do not occur in text."""
    if path.suffix == ".fsv":
        raise CheckpointError(f"{path}: must be a vocabulary of words or pieces, got factors, which ours have none of")
    if (subwords := read_sentencepiece(path)) is not None:
        return subwords.own_ids, subwords
    found = read_units(path)
    count = params.tensors.shape(table)[0]
    if count < 2 or found[_EOS : _UNK + 1] not in (["</s>", "<unk>"], ["eos", "UNK"]):
        raise CheckpointError(
            f"{path}: must have </s> and <unk> as its first units, got {', '.join(found[:2])[:60]}; put the vocabulary "
            "of this model there"
        )
    if more := range(len(found), count):
        params.lines.append(f"rows {more[0]} to {more[-1]} of {table}: no unit of {path.name} -> <unused{more[0]}> ...")
    order, units = our_order(path, [*found[:count], *(f"<unused{n}>" for n in more)], -1, _UNK, -1, _EOS)
    return order, Vocabulary(units)


def _encoder(params: Params, embedding: int) -> dict[str, Any]:
    """Add the encoder's parameters, and return its settings. In Marian each direction is a separate stack; our layers
    read both directions, so the weights for the other one are zero."""
    tensors = params.tensors
    kind, hidden = _cell_of(tensors, "encoder_bi")
    layers = 1 + tensors.count("encoder_bi_l{}_cell1_U", first=2)
    for layer in range(layers):
        for n, (direction, end) in enumerate((("forward", ""), ("backward", "_r"))):
            theirs = f"encoder_bi{end}" + (f"_l{layer + 1}_cell1" if layer else "")
            own = slice(n * hidden, (n + 1) * hidden) if layer else None
            _cell(params, kind, f"encoder.{layer}.{direction}", theirs, hidden if layer else embedding, own=own)
    return {"rnn_type": kind, "embeddings": {"embedding_dim": embedding}, "hidden_size": hidden, "num_layers": layers}


def _decoder(params: Params, embedding: int, memory: int) -> dict[str, Any]:
    """Add the parameters of the decoder and of its first states, and return its settings."""
    tensors = params.tensors
    kind, hidden = _cell_of(tensors, "decoder_cell1")
    layers = 1 + tensors.count("decoder_l{}_cell1_U", first=2)
    _cell(params, kind, "decoder.cell.0", "decoder_cell1", embedding)
    _cell(params, kind, "decoder.second", "decoder_cell2", memory, final=True)
    for layer in range(1, layers):
        _cell(params, kind, f"decoder.cell.{layer}", f"decoder_l{layer + 1}_cell1", hidden)
    params.give("decoder.W_k", tensors.take("decoder_Wc_att", memory, memory), "decoder_Wc_att")
    params.give("decoder.W_q", tensors.take("decoder_W_comb_att", hidden, memory), "decoder_W_comb_att")
    params.give("decoder.b_q", tensors.take("decoder_b_att", 1, memory)[0], "decoder_b_att")
    params.give("decoder.v", tensors.take("decoder_U_att", memory, 1)[:, 0], "decoder_U_att")
    _readout(params, embedding, hidden, memory)
    for layer in range(layers):
        for state in ("h", "c")[: 1 + (kind == "lstm")]:
            name = "decoder_ff_state"
            params.give(f"bridge.{layer}.{state}.W", tensors.take(f"{name}_W", memory, hidden), f"{name}_W")
            params.give(f"bridge.{layer}.{state}.b", tensors.take(f"{name}_b", 1, hidden)[0], f"{name}_b")
    return {
        "rnn_type": kind,
        "embeddings": {"embedding_dim": embedding},
        "hidden_size": hidden,
        "num_layers": layers,
        "init_hidden": "bridge",
        "init_from": "mean",
        "conditional": True,
        "attention": "bahdanau",
        "attention_size": memory,
        "attention_bias": True,
        "readout": "deep",
        "input_feeding": False,
    }


def _readout(params: Params, embedding: int, hidden: int, memory: int) -> None:
    """Add the layer over embedding, state and context, which are three products in Marian."""
    take, name = params.tensors.take, "decoder_ff_logit_l1"
    parts = [take(f"{name}_W{n}", size, embedding) for n, size in ((2, memory), (1, hidden), (0, embedding))]
    params.give("decoder.W_c", np.concatenate(parts), f"{name}_W2, W1, W0 below one another")
    biases = [take(f"{name}_b{n}", 1, embedding)[0] for n in range(3)]
    params.give("decoder.b_c", biases[0] + biases[1] + biases[2], f"{name}_b0 + b1 + b2")


def _output(params: Params, table: str, order: list[int], embedding: int) -> None:
    """Add the output layer: [V, E], [E, V] in older files, or the target's embeddings."""
    tensors, name = params.tensors, "decoder_ff_logit_l2_{}"
    weight = next((name.format(end) for end in ("Wt", "W") if name.format(end) in tensors), table)
    found = tensors.take(weight)
    bias = tensors.take(name.format("b"))[0] if name.format("b") in tensors else None
    params.output(weight, found.T if weight.endswith("l2_W") else found, bias, order, embedding)


def _cell_of(tensors: Tensors, theirs: str) -> tuple[str, int]:
    """Return the type of the cell below a name, and its size."""
    hidden, gates = tensors.shape(f"{theirs}_U")[0], tensors.shape(f"{theirs}_U")[-1]
    return ("gru" if f"{theirs}_Ux" in tensors or gates == 2 * hidden else "lstm"), hidden


def _cell(
    params: Params, kind: str, name: str, theirs: str, input_size: int, *, final: bool = False, own: slice | None = None
) -> None:
    """Add a cell. final: the reset gate applies to n's bias, too. own: rows that it reads of an input twice as wide."""
    take = params.tensors.take
    hidden = params.tensors.shape(f"{theirs}_U")[0]
    if kind == "gru":
        W_h = np.hstack([take(f"{theirs}_U", hidden, 2 * hidden), take(f"{theirs}_Ux", hidden, hidden)])
        W_x = np.hstack([take(f"{theirs}_W", input_size, 2 * hidden), take(f"{theirs}_Wx", input_size, hidden)])
        gates, of_n = take(f"{theirs}_b", 1, 2 * hidden)[0], take(f"{theirs}_bx", 1, hidden)[0]
        nothing = np.zeros_like(of_n)
        biases = {"b": np.hstack([gates, nothing if final else of_n])}
        biases["b_h"] = np.hstack([np.zeros_like(gates), of_n if final else nothing])
        parts = "W, Wx", "U, Ux", "b, bx"
    else:
        W_h, W_x = take(f"{theirs}_U", hidden, 4 * hidden), take(f"{theirs}_W", input_size, 4 * hidden)
        of_gates = (np.split(array, 4, axis=1) for array in (W_h, W_x, take(f"{theirs}_b", 1, 4 * hidden)))
        W_h, W_x, both = (np.hstack([i, f, g, o]) for f, i, g, o in of_gates)
        biases = {"b": both[0]}
        parts = "W, gates i, f, g, o", "U, gates i, f, g, o", "b, gates i, f, g, o"
    if own is not None:
        whole = np.zeros((2 * input_size, W_x.shape[1]), np.float32)
        whole[own] = W_x
        W_x = whole
    params.give(f"{name}.W_x", W_x, f"{theirs}_{parts[0]}" + (" next to zeros" if own is not None else ""))
    params.give(f"{name}.W_h", W_h, f"{theirs}_{parts[1]}")
    for bias, array in biases.items():
        params.give(f"{name}.{bias}", array, f"{theirs}_{parts[2]}")


_VERSION = 1
START = struct.pack("<Q", _VERSION)
"""The first bytes of a binary file of Marian."""
_DTYPES = {0x0101: "i1", 0x0102: "<i2", 0x0104: "<i4", 0x0204: "<u4", 0x0402: "<f2", 0x0404: "<f4", 0x0408: "<f8"}
_MOST_ARRAYS = 100_000
_MOST_NAME_BYTES = 1000
_MOST_AXES = 8


def read_marian(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a binary file of Marian by name, views of one memory map. Raises CheckpointError if it
    cannot be read, is damaged, or is packed for one kind of processor."""
    try:
        content = np.memmap(path, np.uint8, "r")
        return _arrays(content, content.data)
    except MalformedError as error:
        raise CheckpointError(f"{path}: must be a model of Marian, got {error}; restore a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; restore a copy") from error
    except (struct.error, ValueError) as error:
        raise CheckpointError(f"{path}: must be a model of Marian, got a damaged one; restore a copy") from error


def _arrays(content: np.ndarray, view: memoryview) -> dict[str, np.ndarray]:
    """Return the arrays of a binary file by name; `view` is the same bytes, for the standard library."""
    version, count = struct.unpack("<QQ", view[:16])
    if version != _VERSION or count > _MOST_ARRAYS:
        raise MalformedError("another version or a damaged one")
    headers = [struct.unpack("<QQQQ", view[16 + 32 * n : 48 + 32 * n]) for n in range(count)]
    at = 16 + 32 * count
    names, shapes = [], []
    for name_size, _, _, _ in headers:
        if not 0 < name_size <= _MOST_NAME_BYTES or at + name_size > len(content):
            raise MalformedError("a damaged one")
        names.append(content[at : at + name_size].tobytes().rstrip(b"\0").decode())
        at += name_size
    for _, _, axes, _ in headers:
        if axes > _MOST_AXES or at + 4 * axes > len(content):
            raise MalformedError("a damaged one")
        shapes.append(struct.unpack(f"<{axes}i", view[at : at + 4 * axes]))
        at += 4 * axes
    (gap,) = struct.unpack("<Q", view[at : at + 8])
    at += 8 + gap
    found: dict[str, np.ndarray] = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        if kind not in _DTYPES:
            raise MalformedError(f"numbers of {name!r:.60} that are packed for one kind of processor (type {kind:#x})")
        dtype = np.dtype(_DTYPES[kind])
        if min(shape, default=0) < 0 or at + size > len(content) or math.prod(shape) * dtype.itemsize > size:
            raise MalformedError(f"fewer numbers of {name!r:.60} than it names")
        found[name] = np.frombuffer(content[at : at + math.prod(shape) * dtype.itemsize], dtype).reshape(shape)
        at += size
    if len(found) != len(names):
        raise MalformedError("an array twice")
    return found
