"""The model of netra-transliterate (https://pypi.org/project/netra-transliterate/, MIT): Latin letters to Khmer.

A .keras file with a bidirectional GRU, a linear layer above it, a GRU that reads Khmer from zeros on, Keras' additive
attention with a scale between the two, and an output layer over [state; context] (_model.py of 1.0.1). A pickle beside
it has the vocabularies; it is read without running any of it. A source is filled up to one length; nothing is masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.vocabulary import Frame, Vocabulary
from nmt.errors import CheckpointError
from nmt.files import explain, read_small
from nmt.importing.imported import Imported, Params, Tensors, our_order
from nmt.importing.keras_file import KerasModel, Layer
from nmt.importing.torch_file import Inert, MalformedError, read_pickle

KIND = "netra-transliterate"
_ASSETS = "gru_transliteration_assets.pkl"
_MOST_BYTES = 2**26
_LONGEST = 10_000
_MOST_STEPS = 31
"""As many letters at most (`max_length` of its search counts the begin)."""
_FILL = "<fill>"
_LAYERS = {
    **{"InputLayer": 2, "Embedding": 2, "Bidirectional": 1, "GRU": 1, "TimeDistributed": 1, "AdditiveAttention": 1},
    **{"Concatenate": 1, "Dense": 1},
}
"""How many layers of each class there are."""
_GRU = {
    **{"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True, "reset_after": True},
    **{"return_sequences": True, "stateful": False, "unroll": False},
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "Embedding": {"mask_zero": False},
    "Bidirectional": {"merge_mode": "concat"},
    "GRU": _GRU | {"go_backwards": False},
    "AdditiveAttention": {"use_scale": True},
    "Concatenate": {"axis": -1},
    "Dense": {"activation": "softmax", "use_bias": True},
}
"""What the settings of each class must be for its computation to be ours."""


def knows(values: Any) -> bool:
    """Whether a file has these layers."""
    if not isinstance(values, KerasModel):
        return False
    kinds = [layer.kind for layer in values.layers.values()]
    return sorted(kinds) == sorted(kind for kind, count in _LAYERS.items() for _ in range(count))


def read(path: Path, model: KerasModel) -> Imported:
    """The model in a .keras file, with the pickle of its vocabularies beside it. Raises CheckpointError."""
    chain = _checked(path, model)
    tensors = Tensors(str(path), {k: v for k, v in model.weights.items() if "seed_generator" not in k})
    src_units, tgt_units, length = _vocabularies(path.parent / _ASSETS)
    src_order = [-1] * 4 + list(range(len(src_units)))
    specials = [tgt_units.index(unit) if unit in tgt_units else -1 for unit in ("\t", "\n")]
    if -1 in specials:
        raise CheckpointError(f"{path.parent / _ASSETS}: must have a begin and an end among its units, got none")
    tgt_order, tgt = our_order(tensors.place, tgt_units, 0, -1, *specials)
    forward, memory = f"{chain['Bidirectional']}/forward_layer/cell/vars", f"{chain['TimeDistributed']}/layer/vars"
    sizes = [tensors.shape(f"{chain[side]}/vars/0")[-1] for side in ("source", "target")]
    hidden, width = tensors.shape(f"{forward}/1")[0], tensors.shape(f"{chain['GRU']}/cell/vars/1")[0]
    params = Params(tensors)
    params.table("src_embeddings", f"{chain['source']}/vars/0", src_order, sizes[0])
    params.table("tgt_embeddings", f"{chain['target']}/vars/0", tgt_order, sizes[1])
    _gru(params, "encoder.0.forward", forward, sizes[0], hidden)
    backward = forward.replace("forward_layer", "backward_layer")
    _gru(params, "encoder.0.backward", backward, sizes[0], hidden)
    _gru(params, "decoder.cell.0", f"{chain['GRU']}/cell/vars", sizes[1], width)
    _attention(params, memory, f"{chain['AdditiveAttention']}/vars/0", 2 * hidden, width)
    # Their output layer reads [state; context], our readout is [context; state].
    weight = tensors.take(f"{chain['Dense']}/vars/0", 2 * width, len(tgt_units))
    swapped, bias = np.concatenate([weight[width:], weight[:width]]), tensors.take(f"{chain['Dense']}/vars/1")
    params.output_of(f"{chain['Dense']}/vars/0", swapped.T, bias, tgt_order, 2 * width, f"{chain['Dense']}/vars/1")
    tensors.finish()
    settings = {
        "model": _model(sizes, hidden, width),
        "data": {"src": {"lowercase": True}},
        "decoding": {
            **{"beam_size": 3, "length_penalty": "none", "max_length_ratio": 1e-6, "max_length_extra": _MOST_STEPS},
            "generate_unk": True,
        },
    }
    frame = Frame((), (), src_units[0], length)
    src = Vocabulary(src_units, split="characters", unknown="left_out", frame=frame)
    return Imported(KIND, settings, params.arrays, src, Vocabulary(tgt, split="characters"), params.lines)


def _model(sizes: list[int], hidden: int, width: int) -> dict[str, Any]:
    """The `model` section."""
    return {
        "encoder": {
            "rnn_type": "gru",
            "embeddings": {"embedding_dim": sizes[0]},
            "hidden_size": hidden,
            "boundaries": "none",
        },
        "decoder": {
            **{"rnn_type": "gru", "embeddings": {"embedding_dim": sizes[1]}, "hidden_size": width},
            **{"init_hidden": "zero", "input_feeding": False},
            **{"attention": "bahdanau", "attention_size": width, "attention_bias": True},
            **{"readout": "linear", "readout_size": 2 * width},
        },
    }


def _gru(params: Params, name: str, folder: str, inputs: int, hidden: int) -> None:
    """Keras' GRU (kernel [in, 3H], recurrent kernel [H, 3H], biases [2, 3H], gates z, r, h) as ours, r, z, n."""
    gates = np.arange(3 * hidden).reshape(3, hidden)[[1, 0, 2]].ravel()
    take = params.tensors.take
    params.give(f"{name}.W_x", take(f"{folder}/0", inputs, 3 * hidden)[:, gates], f"{folder}/0, gates z, r as r, z")
    params.give(f"{name}.W_h", take(f"{folder}/1", hidden, 3 * hidden)[:, gates], f"{folder}/1, the same")
    biases = take(f"{folder}/2", 2, 3 * hidden)[:, gates]
    params.give(f"{name}.b", biases[0], f"{folder}/2[0], the same")
    params.give(f"{name}.b_h", biases[1], f"{folder}/2[1], the same")


def _attention(params: Params, layer: str, scale: str, memory: int, width: int) -> None:
    """scale . tanh(state + key) over keys that are values too, each a linear layer of the encoder's output: the layer
    is that of our keys, its bias the query's; and, as weights add up to 1, that of the context in the readout."""
    weight, bias = params.tensors.take(f"{layer}/0", memory, width), params.tensors.take(f"{layer}/1", width)
    same = np.eye(width, dtype=np.float32)
    params.give("decoder.W_k", weight, f"{layer}/0")
    params.give("decoder.W_q", same, "one to one")
    params.give("decoder.b_q", bias, f"{layer}/1")
    params.give("decoder.v", params.tensors.take(scale, width), scale)
    readout = np.zeros((memory + width, 2 * width), np.float32)
    readout[:memory, :width], readout[memory:, width:] = weight, same
    params.give("decoder.W_c", readout, f"{layer}/0 for the context, the state one to one")
    params.give("decoder.b_c", np.concatenate([bias, np.zeros(width, np.float32)]), f"{layer}/1, then zeros")


def _checked(path: Path, model: KerasModel) -> dict[str, str]:
    """The folder of weights of each layer that has a part: by class, embeddings as source and target. Raises
    CheckpointError: layers have other settings, or are joined otherwise."""

    def wrong(expected: str) -> CheckpointError:
        return CheckpointError(
            f"{path}: must be a model of netra-transliterate, {expected}, got another; it cannot be represented exactly"
        )

    for name, layer in model.layers.items():
        inner = layer.config.get("layer", {}).get("config", {}) if isinstance(layer.config.get("layer"), dict) else {}
        wanted = [(layer.config, _SETTINGS.get(layer.kind, {}))]
        if layer.kind == "Bidirectional":
            second = layer.config.get("backward_layer")
            reverse = second.get("config", {}) if isinstance(second, dict) else {}
            wanted += [(inner, _SETTINGS["GRU"]), (reverse, _GRU | {"go_backwards": True})]
        if layer.kind == "TimeDistributed":
            wanted.append((inner, {"activation": "linear", "use_bias": True}))
        for config, promised in wanted:
            for key, value in promised.items():
                if not isinstance(config, Mapping) or config.get(key) != value:
                    raise wrong(f"whose layer {name[:40]} has {key}: {value}")
    of_kind = {layer.kind: name for name, layer in model.layers.items()}

    def reads(kind: str, *expected: str) -> list[Layer]:
        found = [model.layers.get(name) for name in model.layers[of_kind[kind]].inputs]
        there = [layer for layer in found if layer is not None]
        if [layer.kind for layer in there] != list(expected) or len(found) != len(there):
            raise wrong(f"whose {kind} reads {' and '.join(expected)}")
        return there

    reads("Dense", "Concatenate")
    reads("Concatenate", "GRU", "AdditiveAttention")
    reads("AdditiveAttention", "GRU", "TimeDistributed")
    reads("TimeDistributed", "Bidirectional")
    (source,), (target,) = reads("Bidirectional", "Embedding"), reads("GRU", "Embedding")
    if source is target or model.outputs != [of_kind["Dense"]] or [*source.inputs, *target.inputs] != model.inputs:
        raise wrong("with source and target embeddings")
    folders = {layer.kind: layer.folder for layer in model.layers.values()}
    return folders | {"source": source.folder, "target": target.folder}


def _vocabularies(path: Path) -> tuple[list[str], list[str], int]:
    """Units of both sides by their numbers, the first one the fill, and the length of a source. Raises
    CheckpointError."""
    try:
        found = read_pickle(read_small(path, _MOST_BYTES))
        length = found["max_eng_len"]
        if type(length) is not int or not 0 < length <= _LONGEST:
            raise MalformedError(f"a length of {length!r:.40}")
        return _units(found["eng_tokenizer"]), _units(found["khm_tokenizer"]), length
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the vocabularies beside the model, got {explain(error)}; copy them there"
        ) from error
    except MalformedError as error:
        raise CheckpointError(
            f"{path}: must have the vocabularies of the model, got {error}; put back a copy"
        ) from None
    except Exception as error:  # noqa: BLE001 - what the parser of pickles raises for broken bytes is not documented
        said = explain(error)[:80]
        raise CheckpointError(
            f"{path}: must have the vocabularies of the model, got a damaged file ({said}); put back a copy"
        ) from error


def _units(tokenizer: Any) -> list[str]:
    """The characters of one of Keras' tokenizers by number; it gives no number 0. Raises MalformedError."""
    numbers = tokenizer.get("word_index") if isinstance(tokenizer, Inert) else None
    if not isinstance(numbers, dict) or tokenizer.get("char_level") is not True:
        raise MalformedError("a tokenizer that is none of characters")
    if sorted(map(repr, numbers.values())) != sorted(map(repr, range(1, len(numbers) + 1))):
        raise MalformedError("units without numbers from 1 on")
    units = {number: unit for unit, number in numbers.items()}
    return [_FILL, *(units[n] for n in range(1, len(units) + 1))]
