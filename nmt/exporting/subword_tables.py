"""The tables of a sentencepiece model, for a program without sentencepiece."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from nmt.data.tokens.extension import fields
from nmt.data.tokens.subwords import Subwords

_NORMAL = 1
_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def tables_of(subwords: Subwords, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the facts of a model and its arrays, whose names begin with `name`: of pieces the scores, types (as in
    sentencepiece_model.proto) and our ids; and the rules of the normalisation. Fields: pieces; kind, one of _TYPES;
    bytes, whether unknown characters become bytes; prefix, trims, escapes: of spaces."""
    pieces, scores, types = list[str](), list[float](), list[int]()
    trained, rules = dict[int, Any](), dict[int, Any]()
    content: Iterator[tuple[int, Any]] = fields(subwords.model_bytes)
    for field, value in content:
        if field == 1:
            piece: dict[int, Any] = {2: bytes(4), 3: _NORMAL, **dict(fields(value))}
            pieces.append(piece[1].decode("utf-8", "replace"))
            scores.append(struct.unpack("<f", piece[2])[0])
            types.append(piece[3])
        elif field == 2:
            trained = dict(fields(value))
        elif field == 3:
            rules = dict(fields(value))
    facts = {
        "name": name,
        "pieces": pieces,
        "kind": _TYPES[trained.get(3, 1)],
        "bytes": bool(trained.get(35, 0)),
        "prefix": bool(rules.get(3, 1)),
        "trims": bool(rules.get(4, 1)),
        "escapes": bool(rules.get(5, 1)),
    }
    arrays: dict[str, np.ndarray] = {
        "scores": np.array(scores, np.float32),
        "types": np.array(types, np.uint8),
        "ids": np.array([subwords.of_model(n) for n in range(len(pieces))], np.int32),
        "map": np.frombuffer(rules.get(2, b""), np.uint8),
    }
    return facts, {f"{name}.{key}": array for key, array in arrays.items()}


def obstacle_of(subwords: Subwords) -> str:
    """Return what a model has that the tables cannot express, in words; an empty string if there is nothing."""
    if type(subwords) is not Subwords:
        return f"a {type(subwords).__name__.lower()} without sentencepiece"
    content: Iterator[tuple[int, Any]] = fields(subwords.model_bytes)
    for field, value in content:
        found: dict[int, Any] = dict(fields(value)) if field in (2, 5) else {}
        if field == 2 and found.get(24, 0):
            return "spaces at the end of words"
        if field == 5 and found.get(2):
            return "rules for its output"
    return ""
