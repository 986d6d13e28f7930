"""Compare two systems: paired tests by sacrebleu, scores by length and by word frequency, and the sentences that differ
most.

Paired bootstrap: Koehn 2004, as sacrebleu computes it (Post 2018); approximate randomisation: Riezler and Maxwell 2005.
Buckets: after compare-mt (Neubig et al. 2019).
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    score_translations,
)
from nmt.system.arguments import checked_texts

Texts = Sequence[Sequence[str | None]]
"""Several references; each is one text."""

LENGTHS = (0, 11, 21, 31, 41)
"""The lower bounds of the buckets of reference length, in words."""
FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)
"""The lower bounds of the buckets of word frequency."""
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


@dataclass(frozen=True)
class Bucket:
    """A part of a test set, with the systems' scores on it.

    name: `11-20 words`, or `5-9 times`. size: The number of lines, or of words of the references. scores: One for each
    system, in percent; NaN if the metric is undefined.
    """

    name: str
    size: int
    scores: tuple[float, ...]


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


def check_same_signatures(a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str]) -> None:
    """Raise DataError if the scores of two files of `nmt-evaluate --json` were not computed alike.

    Args:
        a, b: Scores by metric, as `Score.to_dict` returns them.
        names: The names of the files.
    """
    if a.keys() != b.keys():
        raise DataError(
            f"{names[0]}, {names[1]}: must have the same metrics to be compared, got {', '.join(a)} and "
            f"{', '.join(b)}; evaluate both with the same --metric"
        )
    for name in a:
        one, other = (_settings_of(str(scores[name]["signature"])) for scores in (a, b))
        if one != other:
            differ = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
            facts = ["|".join(f"{key}:{found[key]}" for key in differ if key in found) for found in (one, other)]
            raise DataError(
                f"{names[0]}, {names[1]}: scores must be computed in the same way to be compared, got {name} with "
                f"{facts[0] or 'nothing'} and with {facts[1] or 'nothing'}; evaluate both in the same way"
            )


def by_length(systems: Sequence[Sequence[str]], references: Texts, lowercase: bool, tokenize: str) -> list[Bucket]:
    """Return the systems' chrF in buckets of lines, by the number of space-separated words in the first reference.
    (BLEU is undefined for lines of fewer than four words.)"""
    places: dict[int, list[int]] = {}
    for number, line in enumerate(references[0]):
        places.setdefault(bisect_right(LENGTHS, len((line or "").split())) - 1, []).append(number)
    buckets = []
    for start in sorted(places):
        lines = places[start]
        texts = [[text[number] for number in lines] for text in references]
        scores = [
            score_translations(
                [system[number] for number in lines], texts, lowercase=lowercase, tokenize=tokenize, metrics=("chrf",)
            )["chrf"].score
            for system in systems
        ]
        buckets.append(Bucket(f"{_range(LENGTHS, start)} words", len(lines), tuple(scores)))
    return buckets


def by_frequency(
    systems: Sequence[Sequence[str]], references: Texts, text: Iterable[str] | None, lowercase: bool, tokenize: str
) -> list[Bucket]:
    """Return the systems' F1 for the words in each bucket of frequency in a text: the words of a line, in any order,
    compared with those of its first reference.

    Args:
        systems, references: Translations and references of the same lines.
        text: The text in which words are counted, such as the training text; None for the references.
        lowercase, tokenize: How words are tokenized, as for BLEU.
    """
    words = _words(lowercase, tokenize)
    first = [words(line or "") for line in references[0]]
    frequency: Counter[str] = Counter()
    for line in first if text is None else map(words, text):
        frequency.update(line)
    matched, proposed, wanted = [[Counter[int]() for _ in systems] for _ in range(3)]

    def add(counter: Counter[int], line: Counter[str]) -> None:
        for word, count in line.items():
            counter[bisect_right(FREQUENCIES, frequency[word]) - 1] += count

    for number, ref in enumerate(first):
        for place, system in enumerate(systems):
            hyp, there = Counter(words(system[number])), Counter(ref)
            add(matched[place], hyp & there)
            add(proposed[place], hyp)
            add(wanted[place], there)
    buckets = []
    for start in range(len(FREQUENCIES)):
        if size := wanted[0][start]:
            sums = [(m[start], p[start] + w[start]) for m, p, w in zip(matched, proposed, wanted, strict=True)]
            f1 = tuple(200.0 * match / total if total else math.nan for match, total in sums)
            buckets.append(Bucket(f"{_range(FREQUENCIES, start)} times", size, f1))
    return buckets


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


def _settings_of(signature: str) -> dict[str, str]:
    """Return the parts of a signature that say how a score was computed, without those of its interval."""
    parts = dict(part.partition(":")[::2] for part in signature.split("|"))
    return {key: value for key, value in parts.items() if key not in ("bs", "ar", "seed")}


def _range(starts: Sequence[int], start: int) -> str:
    """Return `5-9` for the start 5 of (..., 5, 10, ...), or `1000 or more` for the last."""
    if start + 1 == len(starts):
        return f"{starts[start]:,} or more"
    first, last = starts[start], starts[start + 1] - 1
    return str(first) if first == last else f"{first}-{last}"


def _words(lowercase: bool, tokenize: str) -> Callable[[str], list[str]]:
    """Return the tokenizer that splits a line into the words that BLEU counts."""
    metric = make_metric("bleu", lowercase, tokenize)
    return lambda line: list(metric._preprocess_segment(line).split())
