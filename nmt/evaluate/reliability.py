"""Compare the confidence of a model with what became of its translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

BINS = 10


@dataclass(frozen=True)
class Bin:
    """The lines whose confidence is in a range: mean confidence, the share that was kept, their number."""

    low: float
    high: float
    confidence: float
    kept: float
    lines: int


@dataclass(frozen=True)
class Reliability:
    """The fit of a model's confidence with its translations.

    Attributes:
        bins: Ranges of confidence that have lines.
        error: Expected calibration error: the mean distance of confidence and share kept over the bins, by lines.
        worse: Of the half of lines with the least confidence, the share in the worse half by chrF.
        kept: The share of all lines that was kept: at least `least` chrF.
    """

    bins: list[Bin]
    error: float
    worse: float
    kept: float
    least: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, numbers rounded."""
        return {
            name: [{key: round(number, 4) for key, number in one.items()} for one in value]
            if name == "bins"
            else round(value, 4)
            for name, value in asdict(self).items()
        }

    def table(self) -> str:
        """Return the bins and figures as text."""
        same = "the same as the reference" if self.least >= 100 else f"chrF of {self.least:g} or more"
        rows = [f"{'confidence':<12}{'mean':>6}{'kept':>7}{'lines':>8}   kept: {same}"]
        rows += [
            f"{one.low:>4.0%} to {one.high:>4.0%}{one.confidence:>6.0%}{one.kept:>7.0%}{one.lines:>8,}"
            for one in self.bins
        ]
        return "\n".join(
            [
                *rows,
                f"kept in all: {self.kept:.1%}; expected calibration error: {self.error:.1%}",
                f"in the worse half by chrF, of the half with the least confidence: {self.worse:.0%} (by chance 50 %)",
            ]
        )


def reliability(confidences: Sequence[float], scores: Sequence[float], least: float) -> Reliability:
    """Return how confidences, 0 to 1, fit the sentence chrF of lines, of which those of `least` are kept."""
    import numpy as np

    sure, chrf = np.asarray(confidences, np.float64), np.asarray(scores, np.float64)
    kept, places = chrf >= least, np.minimum((sure * BINS).astype(int), BINS - 1)
    bins = []
    for number in range(BINS):
        here = places == number
        if here.any():
            ends = number / BINS, (number + 1) / BINS
            bins.append(Bin(*ends, float(sure[here].mean()), float(kept[here].mean()), int(here.sum())))
    error = sum(one.lines * abs(one.confidence - one.kept) for one in bins) / len(sure)
    return Reliability(bins, error, _worse(sure, chrf), float(kept.mean()), least)


def _worse(sure: Any, chrf: Any) -> float:
    """Return how much of the half with the least confidence is in the worse half by chrF. Of lines that are equal at
    the border of a half, each belongs to it in part."""
    import numpy as np

    half = len(sure) / 2

    def part(values: Any) -> Any:
        border = np.sort(values)[int(half)] if half >= 1 else values[0]
        below, equal = values < border, values == border
        return below + equal * ((half - below.sum()) / equal.sum())

    return float(part(sure) @ part(chrf) / max(half, 1))
