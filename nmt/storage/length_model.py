"""How long translations are: what the training corpus says of target lengths, by source length."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.system.files import explain, remedy, write_bytes
from nmt.system.paths import is_file


@dataclass(frozen=True)
class LengthModel:
    """Target length = ratio * source length + extra, in subwords with the end of the sentence counted on both sides.

    deviation: the root of the mean squared error on the training corpus; pairs: how many there were.
    """

    ratio: float
    extra: float
    deviation: float
    pairs: int

    @classmethod
    def learn(cls, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> LengthModel:
        """Return the line of least squares through the lengths [N] of sentence pairs, ends not counted in them.

        With one source length only, or a line that falls, the line through the origin and the mean. At least one pair.
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
        """Expected lengths of translations of sources given without their end: float64 [N], at least 1."""
        lengths = np.array([len(ids) + 1 for ids in src_ids], np.float64)
        return np.maximum(self.ratio * lengths + self.extra, 1.0)

    def to_dict(self) -> dict[str, float]:
        """Return what JSON can hold."""
        return {"ratio": self.ratio, "extra": self.extra, "deviation": self.deviation, "pairs": self.pairs}

    @classmethod
    def from_dict(cls, values: Any, where: Path) -> LengthModel:
        """Return what `to_dict` gave. Raises CheckpointError, which names `where`."""
        try:
            numbers = {name: float(values[name]) for name in ("ratio", "extra", "deviation", "pairs")}
            usable = all(map(math.isfinite, numbers.values())) and numbers["ratio"] > 0
        except (KeyError, TypeError, ValueError, OverflowError):
            usable = False
        if not usable:
            raise CheckpointError(
                f"{where}: must hold how long translations are (ratio, extra, deviation, pairs), got something else; "
                "put back a copy"
            )
        return cls(numbers["ratio"], numbers["extra"], numbers["deviation"], int(numbers["pairs"]))


def save_length_model(path: Path, model: LengthModel) -> None:
    """Write `lengths.json`. Raises CheckpointError."""
    try:
        write_bytes(path, (json.dumps(model.to_dict()) + "\n").encode(), sync=True)
    except OSError as error:
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; {remedy(error)}") from error


def load_length_model(path: Path) -> LengthModel | None:
    """Read `lengths.json`; None where there is none. Raises CheckpointError."""
    if not is_file(path):
        return None
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        values = None
    return LengthModel.from_dict(values, path)
