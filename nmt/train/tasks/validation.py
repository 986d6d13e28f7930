"""Validation during training: the loss on held-out text; BLEU and chrF of translations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nmt.data.calibration import Calibration, calibrated, least_of
from nmt.evaluate.scores import bleu_interval, score_translations, sentence_utility
from nmt.inference.pipeline import source_ids
from nmt.train.checkpoints.checkpoint import HIGHER_IS_BETTER
from nmt.train.distributed.ranks import Ranks, interleaved
from nmt.train.log.progress import perplexity

if TYPE_CHECKING:
    from nmt.inference.translator import Translation, Translator
    from nmt.model.translation import TranslationModel


LEAST_BLEU = 1.0
"""Scores below this are not compared, but the losses."""


class Validator:
    """Computes the loss on a validation set, and scores of translations. All ranks must call. `sources`: the raw source
    lines, which the translator cleans; `references`: the target lines, cleaned and lower-cased as configured; `check`
    is called between batches, and raises to stop early; `ranks` share the work, None for this process alone; `known`
    returns what of sources training had."""

    def __init__(
        self,
        batches: Sequence[Any],
        translator: Translator,
        sources: Sequence[str],
        references: Sequence[str],
        check: Callable[[], None] = lambda: None,
        ranks: Ranks | None = None,
        *,
        known: Callable[[], Calibration],
    ) -> None:
        self.batches = batches
        self.ranks = ranks or Ranks()
        self.signatures: dict[str, str] = {}
        """Signatures from sacrebleu, of each score that has one."""
        self.intervals: dict[str, float] = {}
        """Half-width of the 95 % confidence interval, for each of the last scores that has one."""
        self._check = check
        self.translator, self.sources, self.references = translator, sources, references
        self.hypotheses: list[str] = []
        """The translations of the last validation."""
        self._found: list[Translation] = []
        self._known = known

    def losses(self, model: TranslationModel, num_threads: int) -> dict[str, float]:
        """Return `loss` (mean negative log-likelihood per token, in nats), `ppl` and `accuracy`."""
        nll, tokens, correct = 0.0, 0, 0
        for own in interleaved(self.ranks.collect(lambda: self._losses(model, num_threads))):
            nll, tokens, correct = nll + own[0], tokens + own[1], correct + own[2]
        loss = nll / max(1, tokens)
        return {"loss": loss, "ppl": perplexity(loss), "accuracy": correct / max(1, tokens)}

    def _losses(self, model: TranslationModel, num_threads: int) -> list[tuple[float, int, int]]:
        """Return sums for each of this rank's batches: negative log-likelihood, tokens, correct guesses."""
        found = []
        for batch in self.batches[self.ranks.rank :: self.ranks.size]:
            stats = model.loss(batch, num_threads)
            found.append((stats.nll, stats.tokens, stats.correct))
            self._check()
        return found

    def scores(self, show: Callable[[str], None] = lambda text: None) -> dict[str, float]:
        """Translate the sources with the configured beam; return `bleu` and `chrf` in percent."""
        done = 0

        def after_batch(count: int) -> None:
            nonlocal done
            done += count * self.ranks.size  # other ranks are about as far
            show(f"validation  {min(done, len(self.sources))} of {len(self.sources)} sentences translated")
            self._check()

        self._found = translations(self.translator, self.sources, after_batch, self.ranks)
        self.hypotheses = [one.text for one in self._found]
        scores = score_translations(self.hypotheses, self.references, metrics=("bleu", "chrf"))
        self.intervals = {"bleu": bleu_interval(self.hypotheses, self.references)}
        self.signatures = {name: score.signature for name, score in scores.items()}
        return {name: score.score for name, score in scores.items()}

    def calibration(self) -> Calibration | None:
        """Return what the last translations, compared with their references, teach about the model's confidence."""
        rows = source_ids(self.translator, self.sources)
        utility, least = sentence_utility("chrf"), least_of(self.references)
        there = [n for n, row in enumerate(rows) if row]
        found = [self._found[n] for n in there]
        return calibrated(
            self._known(),
            [rows[n] for n in there],
            [one.log_prob for one in found],
            [one.length for one in found],
            [utility(one.text, self.references[n]) for n, one in zip(there, found, strict=True)],
            least,
        )

    def samples(self, indices: Sequence[int]) -> Iterator[dict[str, str]]:
        """Yield source, reference and hypothesis of sample sentences."""
        for index in indices:
            if index < len(self.hypotheses):
                yield {
                    "source": self.sources[index],
                    "reference": self.references[index],
                    "hypothesis": self.hypotheses[index],
                }


def translations(
    translator: Translator, sources: Sequence[str], on_batch: Callable[[int], None], ranks: Ranks
) -> list[Translation]:
    """Return the best translation of every source. Each rank translates a share. Called by all."""

    def own() -> list[Translation]:
        found = translator.translate_nbest(sources[ranks.rank :: ranks.size], n_best=1, on_batch=on_batch)
        return [ranked[0] for ranked in found]

    return interleaved(ranks.collect(own))


def is_better(metric: str, scores: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Return whether `scores` improve on `best` by `metric`, or by the loss if that is equal. Equal scores are rare in
    practice, but a small task reaches 100 BLEU long before training has converged; and BLEU below 1 is noise, of models
    that have just begun to learn. NaN is never better, and any other score is better than none."""
    score = scores[metric]
    if math.isnan(score) or not best:
        return not math.isnan(score)
    if score == best[metric] or (metric == "bleu" and max(score, best[metric]) < LEAST_BLEU):
        return scores["loss"] < best["loss"]
    return (score > best[metric]) == HIGHER_IS_BETTER[metric]
