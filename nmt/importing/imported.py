"""The result of an import: our settings, parameters and vocabularies, and a list of what was mapped to what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.yaml_text import parse_yaml
from nmt.data.tokens.subwords import Subwords
from nmt.errors import CheckpointError
from nmt.system.files import explain, read_small

CELL_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""PyTorch's names of a recurrent layer's parameters."""
NEVER = -1e9
"""The output bias of a token that the foreign vocabulary lacks: its probability is 0 in float32."""


@dataclass
class Imported:
    """An imported model in our terms. settings: the section `model`, and those settings of `data` and `decoding` that
    differ from the defaults. params: float32, by our names. lines: what was mapped to what, as text."""

    kind: str
    settings: dict[str, Any]
    params: dict[str, np.ndarray]
    src: Subwords
    tgt: Subwords
    lines: list[str]

    @property
    def is_joint(self) -> bool:
        """Return whether the languages share their vocabulary."""
        return self.src.model_bytes == self.tgt.model_bytes


@dataclass
class Tensors:
    """The tensors of a foreign model, taken by name and shape; any that is not taken is a part that would be lost."""

    path: Path
    arrays: Mapping[str, Any]
    taken: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def count(self, name: str, first: int = 0) -> int:
        """Return the number of layers: of tensors named `name` with `first`, `first` + 1, ... in the place of {}."""
        return next(n for n in count() if name.format(first + n) not in self)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor. Raises CheckpointError if it is missing."""
        return tuple(self._array(name).shape)

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Return a tensor in float32. Raises CheckpointError if it is missing, of another shape, or not finite."""
        array = self._array(name)
        if shape and tuple(array.shape) != shape:
            raise CheckpointError(
                f"{self.path}: {name} must be {list(shape)}, as the other tensors require, got {list(array.shape)}; "
                "this is another kind of model"
            )
        if array.dtype.kind not in "fiu":
            raise CheckpointError(f"{self.path}: {name} must contain numbers, got {array.dtype}")
        self.taken.add(name)
        found = np.ascontiguousarray(array, np.float32)
        if not np.isfinite(found).all():
            raise CheckpointError(f"{self.path}: {name} must contain finite numbers, got others; restore a copy")
        return found

    def leave(self, *names: str) -> None:
        """Ignore tensors that contain no information."""
        self.taken.update(name for name in names if name in self.arrays)

    def finish(self, advice: str = "") -> None:
        """Raise CheckpointError if a tensor was not taken: the model computes something that ours would not."""
        if rest := sorted(set(self.arrays) - self.taken):
            more = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
            raise CheckpointError(
                f"{self.path}: must contain only what can be represented exactly, got {rest[0]!r:.80}{more}, which "
                f"has no counterpart here{advice and '; ' + advice}"
            )

    def _array(self, name: str) -> np.ndarray:
        array = self.arrays.get(name)
        if not isinstance(array, np.ndarray):
            raise CheckpointError(f"{self.path}: must contain the tensor {name}, got none of that name")
        return array


class Params:
    """Our parameters as they are added, with a line of text for each."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.arrays: dict[str, np.ndarray] = {}
        self.lines: list[str] = []

    def give(self, name: str, array: np.ndarray, origin: str) -> None:
        """Add our parameter `name`; `origin` says what it was made from."""
        self.arrays[name] = np.ascontiguousarray(array, np.float32)
        self.lines.append(f"{origin} -> {name} {list(array.shape)}")

    def matrix(self, name: str, theirs: str, rows: int, columns: int) -> None:
        """Add PyTorch's matrix [out, in] as ours, [in, out]; its shape there is `rows` x `columns`."""
        self.give(name, self.tensors.take(theirs, rows, columns).T, f"{theirs} transposed")

    def vector(self, name: str, theirs: str, size: int) -> None:
        """Add a bias."""
        self.give(name, self.tensors.take(theirs, size), theirs)

    def zeros(self, name: str, *shape: int, why: str) -> None:
        """Add a parameter that the foreign model does not have, with zeros, which change nothing."""
        self.give(name, np.zeros(shape), f"zeros ({why})")

    def torch_layers(self, kind: str, prefix: str, sizes: Sequence[int], bidirectional: bool) -> None:
        """Add the encoder from PyTorch's nn.LSTM or nn.GRU below `prefix`; sizes: of input, of state, of layers."""
        input_size, hidden_size, num_layers = sizes
        directions = {"forward": "", "backward": "_reverse"} if bidirectional else {"forward": ""}
        for layer in range(num_layers):
            for direction, end in directions.items():
                names = [f"{prefix}.{part}_l{layer}{end}" for part in CELL_PARTS]
                self.torch_cell(kind, f"encoder.{layer}.{direction}", names, input_size, hidden_size)
            input_size = hidden_size * len(directions)

    def torch_cell(self, kind: str, name: str, names: Sequence[str], input_size: int, hidden_size: int) -> None:
        """Add a GRU or LSTM with PyTorch's gates, which are ours, an LSTM's biases added. `names`: of CELL_PARTS."""
        size = hidden_size * (3 if kind == "gru" else 4)
        self.matrix(f"{name}.W_x", names[0], size, input_size)
        self.matrix(f"{name}.W_h", names[1], size, hidden_size)
        if kind == "gru":
            self.vector(f"{name}.b", names[2], size)
            self.vector(f"{name}.b_h", names[3], size)
        else:
            both = [self.tensors.take(one, size) for one in names[2:]]
            self.give(f"{name}.b", both[0] + both[1], f"{names[2]} + {names[3]}")

    def torch_cells(self, kind: str, theirs: str, input_size: int, hidden_size: int) -> int:
        """Add the decoder's layers, return their number; `theirs` has the places `part`, of CELL_PARTS, and `layer`."""
        layers = self.tensors.count(theirs.replace("{part}", "weight_hh").replace("{layer}", "{}"))
        for layer in range(layers):
            names = [theirs.format(part=part, layer=layer) for part in CELL_PARTS]
            self.torch_cell(kind, f"decoder.cell.{layer}", names, hidden_size if layer else input_size, hidden_size)
        return layers

    def table(self, name: str, theirs: str, order: Sequence[int], size: int) -> None:
        """Add an embedding table with its rows in our order; -1 stands for a row of zeros."""
        found = self.tensors.take(theirs)
        self._check_rows(theirs, found, order, size)
        self.give(name, rows_of(found, order), f"{theirs}, rows in our order")

    def output(self, name: str, weight: np.ndarray, bias: np.ndarray | None, order: Sequence[int], size: int) -> None:
        """Add output layer [V, H] and bias [V] of `name`, rows in our order; tokens it lacks are never produced."""
        self._check_rows(name, weight, order, size)
        self.give("output.W", rows_of(weight, order).T, f"{name}, rows in our order, transposed")
        known = np.zeros(len(weight), np.float32) if bias is None else bias
        if known.shape != weight.shape[:1]:
            raise CheckpointError(
                f"{self.tensors.path}: the bias of {name} must have {len(weight)} numbers, got {list(known.shape)}"
            )
        given = np.where(np.array(order) < 0, NEVER, known[np.maximum(order, 0)])
        self.give("output.b", given, f"{'zeros (no bias)' if bias is None else f'the bias of {name}'}, in our order")

    def _check_rows(self, name: str, found: np.ndarray, order: Sequence[int], size: int) -> None:
        """Raise CheckpointError if a table does not have one row of this size for each token of its vocabulary."""
        # Several of our tokens may share a row: a row may be used twice, or never.
        count = max(order) + 1
        if tuple(found.shape) != (count, size):
            raise CheckpointError(
                f"{self.tensors.path}: {name} must be [{count}, {size}], as vocabulary and other tensors require, got "
                f"{list(found.shape)}"
            )


def rows_of(table: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Return the rows of a table in this order, zeros for -1."""
    found = table[np.maximum(order, 0)].copy()
    found[np.array(order) < 0] = 0
    return found


def our_order(place: Path, units: Sequence[str], pad: int, unk: int, bos: int, eos: int) -> tuple[list[int], list[str]]:
    """Return the foreign index of each of our ids, -1 for none, and our tokens from id 4 on. pad, unk, bos, eos: The
    foreign ids of the special tokens, -1 for none. Raises CheckpointError for other tokens than different strings."""
    special = [pad, unk, bos, eos]
    rest = [n for n in range(len(units)) if n not in special]
    ours = [units[n] for n in rest]
    if wrong := [unit for unit in ours if not isinstance(unit, str) or not unit]:
        raise CheckpointError(f"{place}: a vocabulary must contain texts, got {wrong[0]!r:.40}")
    if len(set(ours)) != len(ours):
        twice = next(unit for n, unit in enumerate(ours) if unit in ours[:n])
        raise CheckpointError(f"{place}: a vocabulary must contain every unit once, got {twice!r:.40} twice")
    return special + rest, ours


_MOST_BYTES = 2**26


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a file. Raises CheckpointError if it is missing, or something else."""
    try:
        content = read_small(path, _MOST_BYTES)
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the settings next to the model, got {explain(error)}; put them there"
        ) from error
    return parse_settings(path, content)


def parse_settings(path: Path, content: bytes) -> dict[str, Any]:
    """Return the settings in bytes of YAML, or of JSON, which may have tabs, by the name. Raises CheckpointError."""
    name, parse = ("JSON", json.loads) if path.suffix == ".json" else ("YAML", parse_yaml)
    try:
        values = parse(content.decode())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: must have settings in {name}, got {explain(error)[:80]}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: must have a section of settings, got {values!r:.40}")
    return values


def check_settings(where: Path, values: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise CheckpointError if a setting is not one of its `allowed` values, the first of which is the default."""
    for name, promised in allowed.items():
        value = values.get(name, promised[0])
        if not isinstance(value, str | int | float | None) or value not in promised:
            texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in promised if v is not None)
            shown = " or ".join(dict.fromkeys(texts)) or "omitted"
            raise CheckpointError(
                f"{where}: {name} must be {shown}, got {value!r:.40}; it cannot be represented exactly"
            )
