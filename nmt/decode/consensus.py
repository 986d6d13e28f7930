"""Minimum Bayes risk: the candidate that agrees best with all the others."""

from collections import Counter
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]
"""How well a candidate does if the second text is right."""


def expected_utilities(texts: Sequence[str], utility: Utility) -> list[float]:
    """The mean utility of each text against all of them, itself included, each counted as often as it is there (Eikema
    and Aziz 2020, section 5; with samples an estimate of the expectation under the model)."""
    counts = Counter(texts)
    known = {text: sum(count * utility(text, other) for other, count in counts.items()) / len(texts) for text in counts}
    return [known[text] for text in texts]
