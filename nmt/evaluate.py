"""Scores of translations against references: BLEU, chrF and TER as sacrebleu computes them.

BLEU: Papineni et al. 2002; chrF: Popović 2015; TER: Snover et al. 2006; signatures: Post 2018. A
score without its signature cannot be compared with another, so the two travel together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.errors import DataError

METRICS = ("bleu", "chrf", "ter")
Utility = Callable[[str, str], float]
"""How well a candidate does if the second text is right."""
TOKENIZERS = ("13a", "intl", "char", "zh", "none")


@dataclass(frozen=True)
class Score:
    """One metric over a whole test set, in percent."""

    name: str
    """As papers print it: `BLEU`, `chrF2`, `TER`."""
    score: float
    signature: str
    """What sacrebleu needs to compute the same figure again."""

    def to_dict(self) -> dict[str, Any]:
        """Return the three fields under their names."""
        return {"name": self.name, "score": self.score, "signature": self.signature}


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    metrics: Sequence[str] = METRICS,
) -> dict[str, Score]:
    """Score detokenised translations against one reference each.

    Args:
        hypotheses: One translation a line, in the order of the references.
        references: What a person wrote.
        lowercase: Compare without regard to case. (sacrebleu's TER never regards it.)
        tokenize: The words BLEU counts: one of TOKENIZERS.
        metrics: Which of METRICS to compute; TER is slow on long lines.

    Returns:
        Metric name (as in METRICS) to its score, in the order asked for.

    Raises:
        DataError: The two differ in length, or there is nothing to score.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"evaluation: hypotheses and references must have as many lines, got {len(hypotheses)} "
            f"and {len(references)}; give the two sides of the same test set"
        )
    if not references:
        raise DataError("evaluation: the references must have at least one line, got an empty file")
    return {name: _score(name, hypotheses, references, lowercase, tokenize) for name in metrics}


def sentence_utility(name: str) -> Utility:
    """A measure of one sentence against another, in percent: `chrf`, or `bleu` with effective order."""
    from sacrebleu.metrics import BLEU, CHRF

    metric = CHRF() if name == "chrf" else BLEU(effective_order=True)
    return lambda hypothesis, reference: float(metric.sentence_score(hypothesis, [reference]).score)


def expected_utilities(texts: Sequence[str], utility: Utility) -> list[float]:
    """The mean utility of each text against all of them, itself included, each counted as often as it is there (Eikema
    and Aziz 2020, section 5; with samples an estimate of the expectation under the model)."""
    counts = Counter(texts)
    known = {text: sum(count * utility(text, other) for other, count in counts.items()) / len(texts) for text in counts}
    return [known[text] for text in texts]


def format_table(scores: Sequence[Score]) -> str:
    """Return the scores as aligned lines: metric, score, signature."""
    lines = [f"{'metric':<8}{'score':>7}  signature"]
    lines += [f"{score.name:<8}{score.score:>7.2f}  {score.signature}" for score in scores]
    return "\n".join(lines)


def _score(name: str, hypotheses: Sequence[str], references: Sequence[str], lowercase: bool, tokenize: str) -> Score:
    """One metric over a whole test set, with its signature. Raises DataError for an unknown name."""
    from sacrebleu.metrics import (  # slow to import, and training may end before it scores
        BLEU,
        CHRF,
        TER,
    )

    metric: BLEU | CHRF | TER
    if name == "bleu":
        # `force` only silences a warning about text that looks tokenised; the score is the same.
        metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    elif name == "chrf":
        metric = CHRF(lowercase=lowercase)
    elif name == "ter":
        metric = TER(case_sensitive=False)
    else:
        raise DataError(f"evaluation: metric must be one of {', '.join(METRICS)}, got {name!r}")
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(name=result.name, score=float(result.score), signature=str(metric.get_signature()))
