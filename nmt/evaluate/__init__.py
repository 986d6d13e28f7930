"""Score translations, with confidence intervals, and test whether one system is better than another.

The package can be called: `nmt.evaluate(...)` is `score_translations`.
"""

from nmt.evaluate.scores import (
    ALL_METRICS,
    HIGHER_IS_BETTER,
    METRICS,
    TOKENIZERS,
    References,
    Score,
    Utility,
    bleu_interval,
    expected_utilities,
    format_table,
    reference_texts,
    score_translations,
    sentence_utility,
    split_references,
)
from nmt.system.callable_package import make_callable

__all__ = [
    "ALL_METRICS",
    "HIGHER_IS_BETTER",
    "METRICS",
    "TOKENIZERS",
    "References",
    "Score",
    "Utility",
    "bleu_interval",
    "expected_utilities",
    "format_table",
    "reference_texts",
    "score_translations",
    "sentence_utility",
    "split_references",
]

make_callable(__name__, "nmt.evaluate.scores", "score_translations")
