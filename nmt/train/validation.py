"""Measuring a model while it trains: loss of the validation pairs, BLEU and chrF."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nmt.evaluate import score_translations
from nmt.train.progress import perplexity

if TYPE_CHECKING:
    from nmt.data.batches import Batch
    from nmt.model.translation import TranslationModel
    from nmt.translator import Translator

HIGHER_IS_BETTER = {"bleu": True, "chrf": True, "loss": False, "ppl": False}


class Validator:
    """The validation set and how to score a model on it.

    Args:
        batches: The pairs, for the loss.
        sources: The source lines as a person wrote them; the translator cleans them.
        references: The target lines, cleaned and lower-cased as configured.
        check: Called between batches; raises to stop early.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        sources: Sequence[str],
        references: Sequence[str],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.batches = batches
        self.sources = sources
        self.references = references
        self.hypotheses: list[str] = []
        """The translations of the last validation."""
        self.signatures: dict[str, str] = {}
        """sacrebleu's, of each score that has one."""
        self._check = check

    def losses(self, model: TranslationModel, num_threads: int) -> dict[str, float]:
        """Return `loss` (mean negative log-likelihood of a token, in nats), `ppl`, `accuracy`."""
        nll, tokens, correct = 0.0, 0, 0
        for batch in self.batches:
            stats = model.loss(batch, num_threads)
            nll, tokens, correct = nll + stats.nll, tokens + stats.tokens, correct + stats.correct
            self._check()
        loss = nll / max(1, tokens)
        return {"loss": loss, "ppl": perplexity(loss), "accuracy": correct / max(1, tokens)}

    def scores(self, translator: Translator, on_batch: Callable[[int], None] = lambda count: None) -> dict[str, float]:
        """Translate the sources with the configured beam; return `bleu` and `chrf` in percent."""

        def after_batch(count: int) -> None:
            on_batch(count)
            self._check()

        found = translator.translate_nbest(self.sources, on_batch=after_batch)
        self.hypotheses = [translations[0].text for translations in found]
        scores = score_translations(self.hypotheses, self.references, metrics=("bleu", "chrf"))
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.score for name, score in scores.items()}


def is_better(metric: str, scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Whether `scores` improve on `best`: by `metric`, or by the loss where that is equal.

    Equal scores are rare in practice, but a small task reaches 100 BLEU long before it is learned.
    NaN is never better, and anything else is better than no scores.
    """
    score = scores[metric]
    if math.isnan(score):
        return False
    if not best or score != best[metric]:
        return not best or (score > best[metric]) == HIGHER_IS_BETTER[metric]
    return scores["loss"] < best["loss"]
