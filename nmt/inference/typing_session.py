"""Interactive translation: the translation of a sentence is completed while a person types it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from nmt.errors import ConfigError
from nmt.inference.details import ranked_by_agreement
from nmt.inference.pipeline import (
    lacking_in_target,
    learnt_for,
    model_with,
    source_ids,
    target_ids,
    texts_of,
    translations_of,
    with_chances,
)
from nmt.inference.translation import (
    NotPickled,
    Translation,
    checked_count,
    checked_text,
    chosen_settings,
    distinct,
    length_warnings,
    log_warnings,
    search_options,
    with_warnings,
)
from nmt.search_settings import SearchSettings, SearchValues

if TYPE_CHECKING:
    from nmt.decode import SearchOptions
    from nmt.inference.pipeline import TranslationPipeline


class TypingSession(NotPickled):
    """A sentence to translate interactively; made by `Translator.session`.

    The source is encoded once. Each call reads only the subwords typed since the previous call; memory does not grow
    with the text.
    """

    def __init__(self, translator: TranslationPipeline, sentence: str, lm_weight: float | None = None) -> None:
        from nmt.decode import Session

        cut: set[int] = set()
        (src_ids,) = source_ids(translator, [checked_text("TypingSession", "sentence", sentence)], cut)
        self._is_cut = bool(cut)
        self._translator = translator
        model = model_with(translator, lm_weight)
        self._session = Session(model, src_ids, translator.num_threads) if src_ids else None
        self._sentence = sentence

    def __repr__(self) -> str:
        """Return the sentence and the translator."""
        return f"TypingSession({self._sentence!r}, {self._translator!r})"

    @property
    def subwords_read(self) -> int:
        """Return the number of typed subwords that the decoder has read in all calls."""
        return self._session.tokens_read if self._session is not None else 0

    def complete(
        self, typed: str = "", *, n_best: int = 1, shortlist: bool = False, **settings: Unpack[SearchSettings]
    ) -> list[Translation]:
        """Return whole translations that begin with the typed text, in whole words; best first, at least one.

        The result is the same as that of `translate_nbest` with `Constraints(prefixes=[typed])` and the same
        `shortlist`. Settings: see `SearchSettings`.

        Raises:
            ConfigError: The given or configured settings include sampling, which sessions
                do not support; or as in `translate_nbest`.
            ValueError: lm_weight is given; it is an argument of the session.
        """
        translator = self._translator
        n_best = checked_count("decoding.n_best", n_best, "n_best")
        chosen = chosen_settings(translator.config.decoding, settings)
        options = self._options(chosen, n_best, shortlist, settings)
        (prefix,) = target_ids(translator, [checked_text("TypingSession", "typed", typed)])
        if self._session is None:
            return [Translation("", 0.0, 0.0)]
        found = self._session.complete(prefix, options=options)
        translations = translations_of(translator, found, self._sentence)
        if chosen.mbr != "none":
            best = ranked_by_agreement(translations, chosen.mbr)[:n_best]
        else:
            best = distinct(translations, [one.text for one in translations], n_best)
        lengths = length_warnings(chosen, self._session.src_ids)
        more = (*lengths, *lacking_in_target(translator, "the prefix", [typed]))
        whole = with_warnings(best, cut=self._is_cut, more=more)
        return with_chances(translator, [self._sentence], [self._session.src_ids], [whole])[0]

    def stream(self, *, shortlist: bool = False, **settings: Unpack[SearchSettings]) -> Iterator[str]:
        """Yield the greedy translation piece by piece; see `Translator.stream`."""
        given = {"beam_size": 1, "mbr": "none"}
        for name, value in given.items():
            if settings.get(name) not in (None, value):
                raise ConfigError(
                    f"decoding.{name}: must be {value} for a stream, got {settings[name]}; a search that compares "  # type: ignore[literal-required]
                    "translations has no final text before it ends: call translate"
                )
        chosen = chosen_settings(self._translator.config.decoding, {**settings, **given})  # type: ignore[typeddict-item]
        options = self._options(chosen, 1, shortlist, settings)
        if self._session is None:
            return iter(())
        steps = self._session.greedy(options=options)
        return self._pieces(texts_of(self._translator, [ids], self._sentence)[0] for ids in steps)

    def _pieces(self, texts: Iterator[str]) -> Iterator[str]:
        """Yield what each text adds to the one before. Bytes of a character that is incomplete wait for the others."""
        text = shown = ""
        found = []
        for text in texts:
            whole = text.rstrip("\ufffd")
            if len(whole) > len(shown):
                yield whole[len(shown) :]
                shown = whole
            found = [Translation(text, 0.0, 0.0)]
        if len(text) > len(shown):
            yield text[len(shown) :]
        log_warnings(with_warnings(found, cut=self._is_cut))

    def _options(self, chosen: SearchValues, n_best: int, shortlist: bool, settings: SearchSettings) -> SearchOptions:
        """Return the options of a search in this session. Raises ConfigError if it does not support them."""
        from nmt.decode.search import check_session

        if settings.get("lm_weight") is not None:
            raise ValueError("TypingSession.complete: must have no lm_weight, got it; give it to Translator.session")
        options = search_options(chosen, n_best, **learnt_for(self._translator, shortlist))
        check_session(options)
        return options
