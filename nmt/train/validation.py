"""Measuring a model while it trains: the loss on held-out text; BLEU and chrF of translations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nmt.evaluate import bleu_interval, score_translations
from nmt.train.progress import perplexity

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.model.network import Network

HIGHER_IS_BETTER = {"bleu": True, "chrf": True, "loss": False, "ppl": False}


class Validator:
    """The loss on a validation set.

    Args:
        batches: Of the set, in order.
        check: Called between batches; raises to stop early.
    """

    def __init__(self, batches: Sequence[Any], check: Callable[[], None] = lambda: None) -> None:
        self.batches = batches
        self.signatures: dict[str, str] = {}
        """sacrebleu's, of each score that has one."""
        self.intervals: dict[str, float] = {}
        """Half of the width of the 95 % confidence interval of the last scores that have one."""
        self._check = check

    def losses(self, model: Network, num_threads: int) -> dict[str, float]:
        """Return `loss` (mean negative log-likelihood of a token, in nats), `ppl`, `accuracy`."""
        nll, tokens, correct = 0.0, 0, 0
        for batch in self.batches:
            stats = model.loss(batch, num_threads)
            nll, tokens, correct = nll + stats.nll, tokens + stats.tokens, correct + stats.correct
            self._check()
        loss = nll / max(1, tokens)
        return {"loss": loss, "ppl": perplexity(loss), "accuracy": correct / max(1, tokens)}

    def scores(self, show: Callable[[str], None] = lambda text: None) -> dict[str, float]:
        """Return what else is measured; `show` is told now and then how far that is."""
        return {}

    def samples(self, indices: Sequence[int]) -> Iterator[dict[str, str]]:
        """Yield texts by name that show what the model made of some sentences in the last `scores`."""
        yield from ()


class TranslationValidator(Validator):
    """The same with translations.

    Args:
        batches, check: See `Validator`.
        translator: Has the model.
        sources: The source lines as a person wrote them; the translator cleans them.
        references: The target lines, cleaned and lower-cased as configured.
    """

    def __init__(
        self,
        batches: Sequence[Any],
        translator: Translator,
        sources: Sequence[str],
        references: Sequence[str],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(batches, check)
        self.translator, self.sources, self.references = translator, sources, references
        self.hypotheses: list[str] = []
        """The translations of the last validation."""

    def scores(self, show: Callable[[str], None] = lambda text: None) -> dict[str, float]:
        """Translate the sources with the configured beam; return `bleu` and `chrf` in percent."""
        done = 0

        def after_batch(count: int) -> None:
            nonlocal done
            done += count
            show(f"validation  {done} of {len(self.sources)} sentences translated")
            self._check()

        found = self.translator.translate_nbest(self.sources, n_best=1, on_batch=after_batch)
        self.hypotheses = [translations[0].text for translations in found]
        scores = score_translations(self.hypotheses, self.references, metrics=("bleu", "chrf"))
        self.intervals = {"bleu": bleu_interval(self.hypotheses, self.references)}
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.score for name, score in scores.items()}

    def samples(self, indices: Sequence[int]) -> Iterator[dict[str, str]]:
        """See `Validator`: with what a person made of them."""
        for index in indices:
            if index < len(self.hypotheses):
                yield {
                    "source": self.sources[index],
                    "reference": self.references[index],
                    "hypothesis": self.hypotheses[index],
                }


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
