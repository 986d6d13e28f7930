"""Training pairs that are left out by the rules of `data.filter`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.quality.faults import FaultFinder
from nmt.data.quality.overlap import OverlapIndex

if TYPE_CHECKING:
    from nmt.config import FilterConfig

Lines = Sequence[Sequence[str]]
"""Of each side."""


class LineFilter:
    """Says of block after block of one text which pairs, or lines of a language model, stay.

    Args:
        settings: The rules.
        held_out: Cleaned source lines (or lines) that `overlap` keeps out of training.
    """

    def __init__(self, settings: FilterConfig, held_out: Iterable[str] = ()) -> None:
        self._settings = settings
        names = [name for name in ("encoding", "control", "markup", "script", "same") if getattr(settings, name)]
        ratio = settings.max_length_ratio
        names += [] if ratio is None else ["ratio"]
        self._finder = FaultFinder(names, 1.0 if ratio is None else ratio) if names else None
        lines = list(held_out) if settings.overlap != "none" else []
        self._overlap = OverlapIndex(lines, every=True) if lines else None
        self.counts: dict[str, int] = {}
        """Pairs left out so far by each rule; one that breaks several counts for the first."""

    @property
    def is_on(self) -> bool:
        """Return whether any rule is set."""
        return self._settings.is_on

    @property
    def drops_duplicates(self) -> bool:
        """Return whether the caller is to drop duplicates, by `first_of_each`, when all is read."""
        return self._settings.duplicates

    def learn(self, raw: Lines) -> None:
        """See what is usual in the first block of a text, where `keep` will be asked about later ones alone."""
        if self._finder is not None:
            self._finder.learn(raw)

    def keep(self, raw: Lines, clean: Lines) -> np.ndarray:
        """bool [N]: which of the pairs stay, by all rules but `duplicates`.

        Args:
            raw: Lines as they were read, of each side.
            clean: The same, cleaned.
        """
        keep = np.ones(len(clean[0]), dtype=bool)
        if self._finder is not None:
            for name, masks in self._finder.find(raw, clean).items():
                self._drop("max_length_ratio" if name == "ratio" else name, keep, masks.max(axis=0))
        if self._overlap is not None:
            met = np.zeros(len(keep), dtype=bool)
            met[[match.number for match in self._overlap.look(clean[0], near=self._settings.overlap == "near")]] = True
            self._drop("overlap", keep, met)
        return keep

    def first_of_each(self, hashes: np.ndarray) -> np.ndarray:
        """bool [N]: the first of equal pairs, given by their `pair_hashes` in the order of the text."""
        keep = np.zeros(len(hashes), dtype=bool)
        keep[np.unique(hashes, return_index=True)[1]] = True
        self.counts["duplicates"] = int((~keep).sum())
        return keep

    def add_up(self, counts: Sequence[dict[str, int]]) -> None:
        """Take for the counts those of several filters, each of which has seen another part of the text."""
        total: dict[str, int] = {}
        for of_one in counts:
            for name, count in of_one.items():
                total[name] = total.get(name, 0) + count
        self.counts = total

    def told(self) -> str:
        """Return how many pairs which rule left out: `12 duplicates, 3 markup`; empty where no rule is set."""
        if not self.is_on:
            return ""
        return ", ".join(f"{count:,} {name}" for name, count in self.counts.items()) or "none"

    def _drop(self, name: str, keep: np.ndarray, faulty: np.ndarray) -> None:
        self.counts[name] = self.counts.get(name, 0) + int((keep & faulty).sum())
        keep &= ~faulty
