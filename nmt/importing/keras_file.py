"""A .keras file of Keras 3: a zip of config.json, which says how layers are joined, and of their weights in HDF5.

No layer is made and no code run: classes are names, and an importer says which ones it knows (saving_lib.py of 3.10).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.files import explain
from nmt.importing.hdf5_file import read_hdf5
from nmt.importing.torch_file import MalformedError

SUFFIX = ".keras"
_MOST_BYTES = 2**30
_MOST_LAYERS = 1000


@dataclass
class Layer:
    """A layer: its class, settings, the layers that it reads, and the folder of its weights."""

    kind: str
    config: Mapping[str, Any]
    folder: str
    inputs: list[str] = field(default_factory=list)


@dataclass
class KerasModel:
    """What a file holds: layers by name in their order, the names of inputs and outputs, weights by path."""

    layers: dict[str, Layer]
    inputs: list[str]
    outputs: list[str]
    weights: dict[str, np.ndarray]


def read_keras(path: Path) -> KerasModel:
    """The layers and weights in a file. Raises CheckpointError: it cannot be read, is damaged, or something else."""
    problem = f"{path}: must be a file that Keras 3 wrote, got "
    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(_member(archive, "config.json"))
            weights = read_hdf5(_member(archive, "model.weights.h5"), "layers")
        return _model(config, weights)
    except MalformedError as error:
        raise CheckpointError(f"{problem}{error}; put back a copy") from None
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; put back a copy") from error
    except Exception as error:  # noqa: BLE001 - what zipfile and zlib raise for broken bytes is not documented
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); put back a copy") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes. Raises MalformedError: it is not there, or too large."""
    found = {info.filename: info for info in archive.infolist()}
    if name not in found:
        raise MalformedError(f"a zip without {name}")
    if found[name].file_size > _MOST_BYTES:
        raise MalformedError(f"{name} of more than a gigabyte")
    return archive.read(name)


def _model(config: Any, weights: dict[str, np.ndarray]) -> KerasModel:
    """The layers of a Functional model. Raises MalformedError."""
    if not isinstance(config, dict) or config.get("class_name") != "Functional":
        raise MalformedError("another model than a Functional one")
    content = config["config"]
    if len(content["layers"]) > _MOST_LAYERS:
        raise MalformedError(f"more than {_MOST_LAYERS:,} layers")
    layers: dict[str, Layer] = {}
    counts: dict[str, int] = {}
    for one in content["layers"]:
        kind, name = str(one["class_name"]), str(one["name"])
        if not isinstance(one["config"], dict) or name in layers:
            raise MalformedError("layers without settings, or twice")
        stem = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", kind).lower() if kind != "GRU" else "gru"
        number = counts[stem] = counts.get(stem, -1) + 1
        layer = Layer(kind, one["config"], f"layers/{stem}_{number}" if number else f"layers/{stem}")
        nodes = one["inbound_nodes"]
        if len(nodes) > 1:
            raise MalformedError("a layer that is used twice")
        layer.inputs = _read_by(nodes[0]["args"]) if nodes else []
        layers[name] = layer
    ends = [[str(end[0]) for end in content[side]] for side in ("input_layers", "output_layers")]
    return KerasModel(layers, ends[0], ends[1], weights)


def _read_by(arguments: Any) -> list[str]:
    """The names of the layers that a call reads, the first output of each. Raises MalformedError."""
    found: list[str] = []
    for one in arguments:
        if isinstance(one, list):
            found += _read_by(one)
            continue
        name, node, tensor = one["config"]["keras_history"]
        if (node, tensor) != (0, 0):
            raise MalformedError("a layer that reads another output than the first")
        found.append(str(name))
    return found
