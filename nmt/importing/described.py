"""Import models of unknown systems: a YAML file says which tensor is which of our parameters (docs/migration.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import NEVER, Imported, Params, Tensors, our_order, read_settings, rows_of
from nmt.importing.writing import units_of
from nmt.system.files import explain, read_small

KIND = "described"
SUFFIXES = (".yaml", ".yml")
_MOST_BYTES = 2**30
_KEYS = {"file", "below", "model", "decoding", "source", "target", "tensors", "ignore"}
_SIDE_KEYS = {"units", "split", "unknown", "lowercase", "special"}
_SPECIAL = ("pad", "unk", "bos", "eos")
_TERM = re.compile(r"(?P<name>\S+?)(?:\[(?P<low>\d+):(?P<high>\d+)\])?(?P<turned>\.T)?")
_BY_SOURCE, _BY_TARGET = {"src_embeddings"}, {"tgt_embeddings", "output.W", "output.b"}


def read_description(path: Path) -> dict[str, Any]:
    """Return the description in a file. Raises CheckpointError if it is not a description, or has other keys."""
    values = read_settings(path)
    _check_keys(path, "", values, _KEYS, {"file", "model", "source", "target", "tensors"})
    for side in ("source", "target"):
        _check_keys(path, f"{side}.", values[side], _SIDE_KEYS, {"units", "special"})
    if not isinstance(values["file"], str):
        raise CheckpointError(
            f"{path}: file must be a path, from the folder of this file on, got {values['file']!r:.40}"
        )
    return values


def tensors_below(path: Path, values: Any, below: Any) -> Mapping[str, Any]:
    """Return the tensors of a file: all of its content, or the part below the path of names `below`, `a/b`."""
    for name in str(below).split("/") if below else []:
        values = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(values, Mapping):
        raise CheckpointError(
            f"{path}: must contain tensors by name{f' below {below}' if below else ''}, got none there"
        )
    return {str(k): v for k, v in values.items()}


def read(path: Path, description: Mapping[str, Any], tensors: Tensors) -> Imported:
    """Return the model that a description builds from tensors. Raises CheckpointError."""
    sides = {name: _side(path, name, description[name]) for name in ("source", "target")}
    given, ignored = description["tensors"], description.get("ignore", [])
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise CheckpointError(f"{path}: tensors must have an expression for each of our parameters, got other values")
    if not isinstance(ignored, list):
        raise CheckpointError(f"{path}: ignore must be a list of tensors, got {ignored!r:.40}")
    params = Params(tensors)
    for name, text in given.items():
        array = _value(path, tensors, text)
        order = sides["source"][0] if name in _BY_SOURCE else sides["target"][0] if name in _BY_TARGET else None
        params.give(name, array if order is None else _in_order(path, name, array, order), text)
    tensors.leave(*map(str, ignored))
    tensors.finish("name the parameter that it is under tensors, or list it under ignore if the model does not use it")
    settings = {
        "model": description["model"],
        "decoding": {"generate_unk": True} | dict(description.get("decoding") or {}),
        "data": {
            ours: {"lowercase": bool(description[theirs].get("lowercase", False))}
            for ours, theirs in (("src", "source"), ("tgt", "target"))
        },
    }
    return Imported(KIND, settings, params.arrays, sides["source"][1], sides["target"][1], params.lines)


def _check_keys(path: Path, where: str, values: Any, allowed: set[str], needed: set[str]) -> None:
    """Raise CheckpointError if a section is not a mapping, or has other keys than the allowed or needed ones."""
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: {where or 'it '}must be a section of settings, got {values!r:.40}")
    if unknown := sorted(map(str, set(values) - allowed)):
        raise CheckpointError(f"{path}: {where}{unknown[0]:.40} is unknown; known are {', '.join(sorted(allowed))}")
    if missing := sorted(needed - set(values)):
        raise CheckpointError(f"{path}: {where}{missing[0]} must be given; docs/migration.md has an example")


def _side(path: Path, name: str, values: Mapping[str, Any]) -> tuple[list[int], Vocabulary]:
    """Return the order of the rows of a language, and its vocabulary."""
    units = values["units"]
    if isinstance(units, str):
        try:
            units = units_of(read_small(path.parent / units, _MOST_BYTES).decode())
        except OSError as error:
            raise CheckpointError(
                f"{path}: {name}.units must be a list, or a file of one unit a line, got {explain(error)}"
            ) from error
        except ValueError:
            raise CheckpointError(f"{path}: {name}.units must be a file in UTF-8, got other bytes") from None
    special, split = values["special"], values.get("split", "words")
    unknown = values.get("unknown", "token")
    if not isinstance(units, list) or not all(isinstance(unit, str) for unit in units):
        raise CheckpointError(f"{path}: {name}.units must be a list of texts, got other values; quote numbers")
    if split not in ("words", "characters") or unknown not in ("token", "left_out"):
        raise CheckpointError(
            f"{path}: {name}.split must be words or characters and {name}.unknown token or left_out, got {split!r:.40} "
            f"and {unknown!r:.40}"
        )
    _check_keys(path, f"{name}.special.", special, set(_SPECIAL), set())
    numbers = [special.get(one, -1) for one in _SPECIAL]
    if any(type(n) is not int or not -1 <= n < len(units) for n in numbers):
        raise CheckpointError(f"{path}: {name}.special must be numbers of units, or -1 for none, got {numbers!r:.60}")
    order, ours = our_order(path, units, *numbers)
    return order, Vocabulary(ours, split=split, unknown=unknown)


def _value(path: Path, tensors: Tensors, text: str) -> np.ndarray:
    """Return the array of an expression: `A.T`, `A[0:256]`, sums `A + B`, and `A | B`, joined along the last axis."""
    parts = []
    for part in text.split(" | "):
        terms = []
        for term in part.split(" + "):
            if (match := _TERM.fullmatch(term.strip())) is None:
                raise CheckpointError(
                    f"{path}: tensors must be made of NAME, NAME[0:9], NAME.T, + and |, got {text!r:.60}"
                )
            array = tensors.take(match["name"])
            array = array if match["low"] is None else array[int(match["low"]) : int(match["high"])]
            terms.append(array.T if match["turned"] else array)
        if len({array.shape for array in terms}) > 1:
            raise CheckpointError(f"{path}: what is added must have one shape, got {text!r:.60}")
        parts.append(np.sum(terms, axis=0) if len(terms) > 1 else terms[0])
    if len({array.shape[:-1] for array in parts}) > 1 or not parts[0].ndim:
        raise CheckpointError(f"{path}: what stands side by side must have as many rows, got {text!r:.60}")
    return np.concatenate(parts, axis=-1)


def _in_order(path: Path, name: str, array: np.ndarray, order: list[int]) -> np.ndarray:
    """Return the rows of a table, or the columns of the output layer, in our order of tokens."""
    axis, count = (0 if name.endswith("embeddings") else array.ndim - 1), sum(n >= 0 for n in order)
    if array.shape[axis] != count or max(order) >= count:
        what = "rows" if axis == 0 and array.ndim > 1 else "columns"
        raise CheckpointError(f"{path}: {name} must have {count} {what}, one for each unit, got {list(array.shape)}")
    found = np.moveaxis(rows_of(np.moveaxis(array, axis, 0), order), 0, axis)
    if name == "output.b":
        found[np.array(order) < 0] = NEVER
    return found
