"""Translate through a third language: with one model, and its translation with another.

from nmt import Pivot, Translator
Pivot(Translator.load("runs/de-en"), Translator.load("runs/en-fr")).translate(["Guten Morgen!"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from nmt.errors import ConfigError
from nmt.inference.pipeline import check_no_factors, detail_through
from nmt.inference.translation import Constraints, Novelty, TranslatesTexts, Translation
from nmt.inference.translator import Translator, TypingSession
from nmt.search_settings import SearchSettings

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokens.subwords import Subwords


class Pivot(TranslatesTexts):
    """Two models in a row: the second one translates the detokenised text of the best translation of the first.

    Translations have the `score` of the second search. `log_prob` and `length` are sums over both, so that the
    confidence counts both steps. `detail` has the subwords and log-probabilities of the second model and the attention
    of both multiplied, which leads to words of the source.

    Args:
        first: Translates from the source language.
        last: Translates from the target language of `first`. Both may be a `Pivot` themselves.

    Raises:
        ConfigError: `last` translates from another language, or needs words with factors.
    """

    def __init__(self, first: Translator | Pivot, last: Translator | Pivot) -> None:
        between, read = first.config.data.tgt.lang, last.config.data.src.lang
        if base(between) != base(read):
            raise ConfigError(
                f"{last.place}: must translate from {between}, the language that {first.place} translates into, got a "
                f"model from {read}; give models that follow each other"
            )
        check_no_factors(last, last.place)
        self.first, self.last = first, last
        self.place: str = last.place
        self.src_subwords: Subwords = first.src_subwords
        source = {"src": first.config.data.src, "src_factors": first.config.data.src_factors}
        data = last.config.data.model_copy(update=source)
        self.config: Config = last.config.model_copy(update={"data": data})
        """The settings of the last model, with the source of the first."""

    def __repr__(self) -> str:
        return f"Pivot({self.first!r}, {self.last!r})"

    def translate_nbest(
        self,
        sentences: Iterable[str],
        *,
        n_best: int | None = None,
        on_batch: Callable[[int], None] | None = None,
        constraints: Constraints | None = None,
        details: bool = False,
        replace_unk: bool = False,
        dictionary: Mapping[str, str] | None = None,
        shortlist: bool = False,
        **settings: Unpack[SearchSettings],
    ) -> list[list[Translation]]:
        """Translate sentences; arguments and errors are those of `Translator.translate_nbest`.

        Search settings, `replace_unk` and `shortlist` apply to both models; `n_best` and `constraints` to the
        last, and all its translations are of the first model's best one.

        Raises:
            ConfigError: A dictionary is given: its words would be those between the models.
        """
        if dictionary:
            raise ConfigError("dictionary: must be for one model, got it for a pivot; leave it out")
        both: dict[str, Any] = {"details": details, "replace_unk": replace_unk, "shortlist": shortlist}
        ended = None if on_batch is None else lambda count: on_batch(0)
        ranked = self.first.translate_nbest(sentences, n_best=1, on_batch=ended, **both, **settings)
        between = [one[0] for one in ranked]
        both |= {"n_best": n_best, "on_batch": on_batch, "constraints": constraints}
        return through(between, self.last.translate_nbest([one.text for one in between], **both, **settings))

    def novelty(self, sentences: Iterable[str]) -> Novelty | None:
        """Return how much of a text the training of the first model never had; see `Translator.novelty`."""
        return self.first.novelty(sentences)

    def session(self, sentence: str) -> TypingSession:
        """Return a session of the last model that completes the translation of a sentence while a person types;
        confidence is then that of the last model."""
        ((between, *_),) = self.first.translate_nbest([sentence], n_best=1)
        return self.last.session(between.text)


def base(code: str) -> str:
    """Return a language code without its region: pt for pt-BR or pt_BR."""
    return code.replace("_", "-").split("-")[0].lower()


def through(between: Sequence[Translation], found: Sequence[Sequence[Translation]]) -> list[list[Translation]]:
    """Return `found`, translations of the texts of `between`, as those of the sources of `between`; see `Pivot`."""
    return [[_of_both(one, other) for other in others] for one, others in zip(between, found, strict=True)]


def _of_both(first: Translation, last: Translation) -> Translation:
    """Return `last`, a translation of the text of `first`, as one of the source of `first`; see `Pivot`."""
    detail = None
    if first.detail is not None and last.detail is not None:
        detail = detail_through(first.detail, last.detail)
    return replace(
        last,
        log_prob=first.log_prob + last.log_prob,
        length=first.length + last.length,
        detail=detail,
        chance=None if first.chance is None or last.chance is None else first.chance * last.chance,
        unseen=first.unseen,
        warnings=tuple(dict.fromkeys((*first.warnings, *last.warnings))),
    )
