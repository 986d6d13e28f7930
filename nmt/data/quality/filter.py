"""Drop training pairs by the rules of `data.filter`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.quality.faults import FaultFinder
from nmt.data.quality.overlap import OverlapIndex

if TYPE_CHECKING:
    from nmt.config import FilterConfig


Lines = Sequence[Sequence[str]]
"""The lines of each side."""


class LineFilter:
    """Decides which pairs, or lines of a language model, to keep, for one block of a text after another. `held_out`:
    cleaned source lines (or lines) that `overlap` keeps out of training."""

    def __init__(self, settings: FilterConfig, held_out: Iterable[str] = ()) -> None:
        self._settings = settings
        names = [name for name in ("encoding", "control", "markup", "script", "same") if getattr(settings, name)]
        ratio = settings.max_length_ratio
        names += [] if ratio is None else ["ratio"]
        self._finder = FaultFinder(names, 1.0 if ratio is None else ratio) if names else None
        lines = list(held_out) if settings.overlap != "none" else []
        self._overlap = OverlapIndex(lines, every=True) if lines else None
        self.counts: dict[str, int] = {}
        """The number of pairs dropped so far by each rule; a pair that breaks several rules counts for the first."""

    @property
    def is_on(self) -> bool:
        """Return whether any rule is set."""
        return self._settings.is_on

    @property
    def drops_duplicates(self) -> bool:
        """Return whether the caller must drop duplicates, by `first_of_each`, after reading everything."""
        return self._settings.duplicates

    def learn(self, raw: Lines) -> None:
        """Learn what is usual from the first block of a text, for a filter whose `keep` gets later blocks only."""
        if self._finder is not None:
            self._finder.learn(raw)

    def keep(self, raw: Lines, clean: Lines) -> np.ndarray:
        """Return which of the pairs to keep, by all rules except `duplicates`: bool [N]. `raw`: the lines of each side
        as they were read; `clean`: the same lines, cleaned."""
        keep = np.ones(len(clean[0]), dtype=bool)
        if self._finder is not None:
            for name, masks in self._finder.find(raw, clean).items():
                self._drop("max_length_ratio" if name == "ratio" else name, keep, masks.max(axis=0))
        if self._overlap is not None:
            met = np.zeros(len(keep), dtype=bool)
            met[[match.number for match in self._overlap.find(clean[0], near=self._settings.overlap == "near")]] = True
            self._drop("overlap", keep, met)
        return keep

    def first_of_each(self, hashes: np.ndarray) -> np.ndarray:
        """Return which pairs are the first of equal ones, bool [N], given `pair_hashes` in order."""
        keep = np.zeros(len(hashes), dtype=bool)
        keep[np.unique(hashes, return_index=True)[1]] = True
        self.counts["duplicates"] = int((~keep).sum())
        return keep

    def add_up(self, counts: Sequence[dict[str, int]]) -> None:
        """Set the counts to the sums over filters that each read a part of the text."""
        total: dict[str, int] = {}
        for of_one in counts:
            for name, count in of_one.items():
                total[name] = total.get(name, 0) + count
        self.counts = total

    def summary(self) -> str:
        """Return how many pairs each rule removed: `12 duplicates, 3 markup`; empty if no rule is set."""
        if not self.is_on:
            return ""
        names = {"overlap": "held out for validation or test (overlap)"}
        return ", ".join(f"{count:,} {names.get(name, name)}" for name, count in self.counts.items()) or "none"

    def _drop(self, name: str, keep: np.ndarray, faulty: np.ndarray) -> None:
        self.counts[name] = self.counts.get(name, 0) + int((keep & faulty).sum())
        keep &= ~faulty
