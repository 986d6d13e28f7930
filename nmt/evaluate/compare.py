"""Compare two systems: paired tests by sacrebleu, and the sentences that differ most.

Paired bootstrap: Koehn 2004, as sacrebleu computes it (Post 2018); approximate randomisation: Riezler and Maxwell 2005.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import DataError
from nmt.evaluate.scores import (
    METRICS,
    NOTHING,
    References,
    Score,
    checked_evaluation,
    make_metric,
)
from nmt.system.arguments import checked_texts

Texts = Sequence[Sequence[str | None]]
"""Several references; each is one text."""

_TOKENISED = re.compile(r" [.,!?;:](?= |$)|&(?:apos|quot|amp|#\d+);|@-@|@@(?= |$)")
_MUCH, _LITTLE = 0.3, 0.05
_TRIALS, _TOLERANCE = 10_000, 1e-9
"""The number of trials of approximate randomisation, and the tolerance for scores summed in another order."""


@dataclass(frozen=True)
class PairedScore:
    """The scores of two systems by one metric, on the same lines.

    `p_bootstrap` and `p_randomisation` are the probabilities of a difference at least this large in absolute value if
    the systems were equally good: 1 for equal texts.
    """

    a: Score
    b: Score
    p_bootstrap: float
    p_randomisation: float

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "a": self.a.to_dict(), "b": self.b.to_dict()}


def compare(
    a: Sequence[str],
    b: Sequence[str],
    references: References,
    *,
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, PairedScore]:
    """Compute each metric for the translations of two systems and test whether their difference is significant, as
    `nmt-evaluate --compare` does.

    Args:
        a, b: Translations of the same lines.
        references, metrics, lowercase, tokenize: As in `nmt.evaluate`.

    Returns:
        Both scores and the p-values of each metric by its name, in the order of `metrics`.

    Raises:
        DataError: The texts differ in length, are not tokenised alike, there is nothing to score, or a metric or
            tokenizer is unknown.
        TypeError: An argument is one string or contains something other than texts.
    """
    both = {name: checked_texts("compare", name.lower(), lines) for name, lines in (("A", a), ("B", b))}
    metrics, texts = checked_evaluation("compare", references, metrics, tokenize)
    for hypotheses in both.values():
        for text in texts:
            if len(hypotheses) != len(text):
                raise DataError(
                    f"evaluation: both systems and the references must have the same number of lines, got {len(a)}, "
                    f"{len(b)} and "
                    f"{len(text)}; give translations of the same test set"
                )
    if not both["A"]:
        raise DataError(NOTHING)
    check_tokenised_alike({**both, "the references": [line for text in texts for line in text if line]})
    found = {}
    for name in metrics:
        metric = make_metric(name, lowercase, tokenize)
        signature, (first, second) = _bootstrapped(name, metric, both, texts)
        scores = [Score(signature[0], float(one.score), signature[1], float(one.ci)) for one in (first, second)]
        statistics = [np.array(metric._extract_corpus_statistics(lines, texts)) for lines in both.values()]
        is_same = np.array_equal(statistics[0], statistics[1])
        p_values = 1.0 if is_same else float(second.p_value), _randomised(metric, statistics[0], statistics[1])
        found[name] = PairedScore(scores[0], scores[1], *p_values)
    return found


def check_tokenised_alike(texts: Mapping[str, Sequence[str]]) -> None:
    """Raise DataError if one text looks tokenised and another does not: their scores mean different things."""
    shares = {name: _tokenised_share(lines) for name, lines in texts.items()}
    most, least = max(shares, key=lambda name: shares[name]), min(shares, key=lambda name: shares[name])
    if shares[most] >= _MUCH and shares[least] <= _LITTLE:
        raise DataError(
            f"evaluation: all texts must be tokenised alike, got signs of tokenisation in {shares[most]:.0%} of the "
            f"lines of {most} and in {shares[least]:.0%} of {least}; detokenise {most}"
        )


def differences(
    a: Sequence[str], b: Sequence[str], references: Texts, most: int, metric: str = "chrf"
) -> list[tuple[int, float, float]]:
    """Return the lines on which B gains or loses most against A: number from 0, score of A and of B, largest difference
    first."""
    scorer = make_metric(metric, False, "13a")
    found = []
    for number, (one, other) in enumerate(zip(a, b, strict=True)):
        if one != other:
            refs = [text[number] or "" for text in references if text[number] is not None]
            first, second = (float(scorer.sentence_score(line, refs).score) for line in (one, other))
            found.append((number, first, second))
    return sorted(found, key=lambda row: (-abs(row[2] - row[1]), row[0]))[:most]


def _bootstrapped(
    name: str, metric: Any, both: Mapping[str, Sequence[str]], references: Texts
) -> tuple[tuple[str, str], list[Any]]:
    """Return the name and signature of a metric, and sacrebleu's paired bootstrap results for both systems."""
    from sacrebleu.significance import PairedTest

    systems: Any = [(system, list(lines)) for system, lines in both.items()]
    texts: Any = [list(text) for text in references]
    signatures, scores = PairedTest(systems, {name: metric}, texts, test_type="bs")()
    (own_name,) = signatures
    return (own_name, str(signatures[own_name])), scores[own_name]


def _randomised(metric: Any, a: np.ndarray, b: np.ndarray) -> float:
    """Return the probability of at least the observed difference if the translations of each line are swapped at
    random, from statistics [lines, numbers] of both systems. Uses the same random numbers as sacrebleu; but sacrebleu
    counts only larger differences, so that equal texts, or texts that differ in few lines, would be significant.
    """
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    swapped = np.random.default_rng(None if seed.lower() == "none" else int(seed)).integers(
        2, size=(_TRIALS, len(a)), dtype=bool
    )
    sums = swapped @ a + ~swapped @ b, swapped @ b + ~swapped @ a
    first, second = ([metric._aggregate_and_compute(row).score for row in rows[:, None]] for rows in sums)
    found = abs(metric._aggregate_and_compute(a).score - metric._aggregate_and_compute(b).score)
    as_large = np.abs(np.array(first) - np.array(second)) >= found - _TOLERANCE
    return float((as_large.sum() + 1) / (_TRIALS + 1))


def _tokenised_share(lines: Sequence[str]) -> float:
    return sum(bool(_TOKENISED.search(line)) for line in lines) / max(1, len(lines))
