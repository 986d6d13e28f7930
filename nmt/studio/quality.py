"""Judge a round in plain words: shares of sentences with their uncertainty, and the likely reason of a bad result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation
from typing import Any

NEAR, PARTLY = 75.0, 40.0
"""Sentence chrF2 from which a translation is nearly the same, and from which it is partly so."""
_Z = 1.959964
_SHORT, _MIDDLE = 5, 12
LEAST_JUDGED = 20
"""Judgements from which a person's count is the headline."""


def bucket(chrf: float, *, words: bool, same: bool) -> str:
    """Return how alike a translation and its reference are: near, partly or different. A word is right or not."""
    if words:
        return "near" if same else "different"
    return "near" if chrf >= NEAR else "partly" if chrf >= PARTLY else "different"


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, in percent (Wilson 1927)."""
    if not count:
        return 0.0, 100.0
    share, z2 = hits / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def quality_of(buckets: Sequence[str], *, words: bool) -> dict[str, Any]:
    """Return the shares of 100 with the interval of the first."""
    count = len(buckets)
    near, partly = (round(100 * buckets.count(name) / max(1, count)) for name in ("near", "partly"))
    partly = min(partly, 100 - near)
    low, high = wilson(buckets.count("near"), count)
    shares = {"near": near, "partly": partly, "different": 100 - near - partly if count else 0}
    return {**shares, "count": count, "low": round(low), "high": round(high), "words": words}


def judged(verdicts: Sequence[str]) -> dict[str, Any] | None:
    """Return what a person's verdicts say; None without any."""
    if not verdicts:
        return None
    counts = {name: verdicts.count(name) for name in ("right", "usable", "wrong")}
    low, high = wilson(counts["right"] + counts["usable"], len(verdicts))
    return {"count": len(verdicts), **counts, "low": round(low), "high": round(high)}


@dataclass(frozen=True)
class Facts:
    """The facts that rules look at.

    pairs: Those trained on. count: Test sentences. chrf: Score on them, and `shuffled` that of the same translations
    with other sentences' references. fit: See `fit`. overlap: Test sentences that are in the training text. passes,
    usual: Passes over the text, and usual ones. per_pass: Minutes of a pass. rise: Gain of the validation score in the
    last quarter of the run. unseen: Test sentences with a word that the text does not have. short, long: Percentages
    nearly the same of sentences of few and of many words, and `longs` the fewer of those. swapped: Whether columns seem
    exchanged. repeated: Percentage of rows that repeat others. worse: The earlier round that is better, 0 for none.
    words: Whether these are single words.
    """

    pairs: int
    count: int
    chrf: float
    shuffled: float
    fit: float = 0.0
    overlap: int = 0
    passes: float = 0.0
    usual: float = 0.0
    per_pass: float = 0.0
    rise: float = 0.0
    unseen: int = 0
    short: float = 0.0
    long: float = 0.0
    longs: int = 0
    swapped: bool = False
    repeated: float = 0.0
    worse: int = 0
    words: bool = False

    @property
    def minutes(self) -> int:
        """Return the minutes that usual passes would take beyond those that were made."""
        return math.ceil(max(0.0, self.usual - self.passes) * self.per_pass)


FITS = 0.3
"""Correlation of both sides' lengths below which rows do not fit: translations have 0.5 to 0.95, shifted rows 0."""


def fit(sources: Sequence[str], targets: Sequence[str]) -> float:
    """Return the correlation of the lengths of both sides, on a logarithmic scale; 0 if all are as long."""
    try:
        return correlation(*([math.log1p(len(line)) for line in side] for side in (sources, targets)))
    except StatisticsError:
        return 0.0


_ABOVE_CHANCE = 4.0
"""Points of chrF by which translations must be nearer to their own references than to others'."""
_MUCH_REPEATED, _RISING, _MANY_UNSEEN, _FEW_PAIRS, _TINY, _HIGH = 20.0, 1.0, 0.4, 2_000, 200, 60.0

_PASSES = {"n": "passes", "usual": "usual", "minutes": "minutes"}

Rule = tuple[str, Callable[[Facts], bool], str, dict[str, str]]
RULES: list[Rule] = [
    ("overlap", lambda f: f.overlap > 0.02 * f.count, "see", {"n": "overlap", "count": "count"}),
    ("swapped", lambda f: f.swapped, "swap", {}),
    ("few-pairs", lambda f: f.pairs < _TINY, "add", {"pairs": "pairs"}),
    ("shifted", lambda f: _is_chance(f), "see", {"chrf": "chrf", "shuffled": "shuffled"}),
    ("worse", lambda f: f.worse > 0, "add", {"round": "worse"}),
    ("duplicates", lambda f: f.repeated >= _MUCH_REPEATED, "see", {"percent": "repeated"}),
    ("high", lambda f: f.chrf > _HIGH and not f.words, "see", {"chrf": "chrf"}),
    ("few-passes", lambda f: f.passes < 0.5 * f.usual, "train", _PASSES),
    ("rising", lambda f: f.rise >= _RISING, "train", {"points": "rise"}),
    ("unseen", lambda f: f.unseen >= _MANY_UNSEEN * f.count, "add", {"n": "unseen", "count": "count"}),
    ("long", lambda f: f.longs >= 10 and f.short - f.long >= 20, "add", {"short": "short", "long": "long"}),
    ("few-pairs", lambda f: f.pairs < _FEW_PAIRS, "add", {"pairs": "pairs"}),
    ("plain", lambda f: True, "try", {}),
]
"""Second sentences of a report, of which the first that holds is shown: code, condition, advice, and its numbers."""


def _is_chance(facts: Facts) -> bool:
    enough = facts.count >= LEAST_JUDGED and facts.passes >= 0.5 * facts.usual
    return enough and facts.fit < FITS and facts.chrf - facts.shuffled < _ABOVE_CHANCE


def sentences(facts: Facts) -> list[dict[str, Any]]:
    """Return all rules that hold, in order, once each; `plain` only by itself."""
    found: dict[str, dict[str, Any]] = {}
    for code, holds, action, words in RULES:
        if code not in found and holds(facts) and not (code == "plain" and found):
            numbers = {name: max(1, round(getattr(facts, field))) for name, field in words.items()}
            found[code] = {"code": code, "words": numbers, "do": action}
    return list(found.values())


def groups(lengths: Sequence[int], unseen: Sequence[bool], buckets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the share nearly the same of sentences of few, some and many words, and of those with unseen words."""
    kinds = ["short" if length <= _SHORT else "middle" if length <= _MIDDLE else "long" for length in lengths]
    found = []
    for code in ("short", "middle", "long", "unseen"):
        of_code = unseen if code == "unseen" else [kind == code for kind in kinds]
        if here := [name for name, is_in in zip(buckets, of_code, strict=True) if is_in]:
            found.append({"code": code, "near": round(100 * here.count("near") / len(here)), "count": len(here)})
    return found


def short_and_long(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts that `groups` gives about short and long sentences."""
    known = {one["code"]: one for one in found}
    short, long = (known.get(code, {"near": 0, "count": 0}) for code in ("short", "long"))
    return {"short": short["near"], "long": long["near"], "longs": min(short["count"], long["count"])}


def compared(own: dict[str, str], former: dict[str, str]) -> dict[str, Any] | None:
    """Return how a round compares with a former one on the sentences of both tests, by the buckets of their sentences:
    McNemar's difference of shares with its 95 % interval. None without common sentences."""
    count = len(both := own.keys() & former.keys())
    if not count:
        return None
    gained, lost = (sum(a[one] == "near" != b[one] for one in both) for a, b in ((own, former), (former, own)))
    mean = (gained - lost) / count
    half = _Z * math.sqrt(max(0.0, (gained + lost) / count - mean * mean) / count)
    better = "surely" if mean - half > 0 else "worse" if mean + half < 0 else "perhaps" if mean > 0 else "no"
    return {"better": better, "low": round(100 * (mean - half)), "high": round(100 * (mean + half)), "count": count}
