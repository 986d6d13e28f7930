"""Score translations, with confidence intervals, and test whether one system is better than another."""

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
