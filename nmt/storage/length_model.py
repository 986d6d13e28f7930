"""Predict the length of translations from the source length, with statistics of the training corpus."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.system.files import write_bytes, writing
from nmt.system.paths import is_file


@dataclass(frozen=True)
class LengthModel:
    """A linear model: target length = ratio * source length + extra, in subwords with EOS counted on both sides.

    deviation: the root of the mean squared error on the training corpus; pairs: the number of pairs it was fitted to.
    """

    ratio: float
    extra: float
    deviation: float
    pairs: int

    @classmethod
    def learn(cls, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> LengthModel:
        """Return the least-squares line through the lengths [N] of sentence pairs, EOS not counted in them.

        If all source lengths are equal, or the line falls, it is the line through the origin and the mean. Needs at
        least one pair.
        """
        src, tgt = src_lengths.astype(np.float64) + 1, tgt_lengths.astype(np.float64) + 1
        spread = src - src.mean()
        variance = float(spread @ spread)
        ratio = float(spread @ tgt) / variance if variance else 0.0
        extra = float(tgt.mean()) - ratio * float(src.mean())
        if ratio <= 0:
            ratio, extra = float(tgt.mean() / src.mean()), 0.0
        error = ratio * src + extra - tgt
        return cls(ratio, extra, float(np.sqrt(error @ error / len(src))), len(src))

    def expected(self, src_ids: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the expected lengths of the translations of sources given without EOS: float64 [N], at least 1."""
        lengths = np.array([len(ids) + 1 for ids in src_ids], np.float64)
        return np.maximum(self.ratio * lengths + self.extra, 1.0)

    def to_dict(self) -> dict[str, float]:
        """Return the fields as values that JSON can represent."""
        return {"ratio": self.ratio, "extra": self.extra, "deviation": self.deviation, "pairs": self.pairs}

    @classmethod
    def from_dict(cls, values: Any, where: Path) -> LengthModel:
        """Return the model that `to_dict` described. Raises CheckpointError, which names `where`."""
        try:
            numbers = {name: float(values[name]) for name in ("ratio", "extra", "deviation", "pairs")}
            usable = all(map(math.isfinite, numbers.values())) and numbers["ratio"] > 0
        except (KeyError, TypeError, ValueError, OverflowError):
            usable = False
        if not usable:
            raise CheckpointError(
                f"{where}: must contain length statistics (ratio, extra, deviation, pairs), got something else; "
                "restore a copy"
            )
        return cls(numbers["ratio"], numbers["extra"], numbers["deviation"], int(numbers["pairs"]))


def save_length_model(path: Path, model: LengthModel) -> None:
    """Write `lengths.json`. Raises CheckpointError."""
    with writing(path):
        write_bytes(path, (json.dumps(model.to_dict()) + "\n").encode(), sync=True)


def load_length_model(path: Path) -> LengthModel | None:
    """Return the model in `lengths.json`, or None if the file does not exist. Raises CheckpointError."""
    if not is_file(path):
        return None
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        values = None
    return LengthModel.from_dict(values, path)
