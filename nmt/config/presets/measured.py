"""Quality that the plain command was measured to reach with so much text, for people who ask before they train."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_NEIGHBOUR = 2.5
"""The factor of pairs within which a measured point is a neighbour."""


@dataclass(frozen=True)
class Point:
    """One row of `python recipes/four_sizes.py`: means over its seeds.

    kind: Name of the text. minutes: Of one core. bleu, chrf: Of sentences that were not read; held_out: of the 5 % that
    training holds out; elsewhere: of another kind of text, None where there was none. right: Percentage of right words,
    for lists of words.
    """

    kind: str
    pairs: int
    minutes: int
    seeds: int = 1
    bleu_held_out: float | None = None
    chrf_held_out: float | None = None
    bleu: float | None = None
    chrf: float | None = None
    bleu_elsewhere: float | None = None
    chrf_elsewhere: float | None = None
    right: float | None = None


@cache
def measured() -> tuple[Point, ...]:
    """Return all points, those of few pairs first."""
    rows = json.loads((Path(__file__).parent / "measured.json").read_text("utf-8"))
    return tuple(sorted((Point(**row) for row in rows), key=lambda one: one.pairs))


def near(pairs: int, of_words: bool = False) -> list[Point]:
    """Return the points with about so many pairs of sentences, or of words: of each kind of text the nearest."""

    def far(one: Point) -> float:
        return max(pairs, one.pairs) / max(1, min(pairs, one.pairs))

    close = [one for one in measured() if (one.right is not None) is of_words and far(one) <= _NEIGHBOUR]
    return list({one.kind: one for one in sorted(close, key=far, reverse=True)}.values())


def expectation(pairs: int, of_words: bool = False) -> str | None:
    """Return a line that says what to expect of so much text; None where nothing like it was measured."""
    points = near(pairs, of_words)
    if not points:
        return None
    name = "of 100 words right" if of_words else "BLEU"
    said = " or ".join(
        f"{one.right if of_words else one.bleu:.0f} {name} (as {one.pairs:,} pairs of {one.kind})" for one in points
    )
    elsewhere = [one.bleu_elsewhere for one in points if one.bleu_elsewhere is not None]
    other = f", and at most {max(elsewhere):.1f} on another kind of text" if elsewhere else ""
    return f"expect about {said} on text like this{other}; docs/quality.md says what that is good for"
