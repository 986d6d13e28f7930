"""Error rates for tasks in which each line is a word, such as grapheme-to-phoneme conversion. They are metrics of
sacrebleu, so that its intervals and tests work with them. Of several references the one with the fewest edits
counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score, Signature

NAMES = {"wer": "WER", "per": "PER", "accuracy": "accuracy"}


class ErrorRateSignature(Signature):
    """The signature of an error rate."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self._abbr |= {"case": "c", "unit": "u"}
        self.info |= {"case": "lc" if args["lowercase"] else "mixed", "unit": args["unit"]}


class ErrorRate(Metric):
    """`wer`: the percentage of lines that equal no reference; `accuracy`: 100 minus that. `per`: the edits (Levenshtein
    1966) that turn the tokens of all lines into those of the references, per 100 of these."""

    _SIGNATURE_TYPE = ErrorRateSignature

    def __init__(self, name: str, lowercase: bool = False) -> None:
        super().__init__()
        self.name, self.lowercase = name, lowercase
        self.unit = "token" if name == "per" else "line"

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join((sent.lower() if self.lowercase else sent).split())

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"refs": list(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        """Return the number of errors, and the number that they are divided by."""
        refs = ref_kwargs["refs"]
        if self.name != "per":
            return [int(hypothesis not in refs), 1]
        words = hypothesis.split()
        costs = [[edit_distance(words, ref.split()), len(ref.split())] for ref in refs]
        return min(costs, key=lambda cost: cost[0] / max(1, cost[1]))

    def _aggregate_and_compute(self, stats: list[list[int]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats: Any) -> Score:
        rate = 100.0 * float(stats[0]) / max(1.0, float(stats[1]))
        return Score(NAMES[self.name], 100.0 - rate if self.name == "accuracy" else rate)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the least number of insertions, deletions and substitutions between two sequences."""
    row = list(range(len(other) + 1))
    for count, item in enumerate(one, start=1):
        before, row[0] = row[0], count
        for place, there in enumerate(other, start=1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (item != there))
    return row[-1]
