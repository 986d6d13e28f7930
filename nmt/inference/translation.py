"""Translations and requests for them: the values that `Translator` takes and returns, and checks of its arguments."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, overload

import numpy as np

from nmt.errors import ConfigError, DataError, most_like
from nmt.search_settings import MAX_SOURCE_SUBWORDS, ROWS, SearchSettings, SearchValues
from nmt.system.notices import Notices

if TYPE_CHECKING:
    from nmt.config import Config, DecodingConfig
    from nmt.decode import SearchOptions

Found = TypeVar("Found")

CUT = f"a source of more than {MAX_SOURCE_SUBWORDS} subwords is truncated to that length"
LENGTHENED = "min_length comes first, but is more than max_length_ratio and max_length_extra allow here; lower it"
UNSAYABLE = "no continuation is possible: all tokens are forbidden, or probabilities are not finite"
UNKNOWN = "text has characters or words that the model does not know"
BROKEN = "a line break in the text is a space to the model; give each sentence by itself"
FEATURELESS = "the word has no features; write the word, a tab and its features, as in the table of training"
EMPTY = "the translation is empty"
UNFOLLOWED = "a term of the glossary is not in the translation"
NOT_A_NUMBER = "a score is not finite"
_MOST_SHOWN = 8
_MUCH_MORE, _LEAST_MORE = 1.5, 0.05
"""A text of another kind has at least so many times the usual share of new words, and so much more of all."""


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Text that translations must, should or may not contain; lists have an entry for each sentence.

    prefixes: text they begin with, in whole words, one text for all of them if it is a string; glossary: phrases that
    are preferred; forbidden: words and phrases that no translation contains, as the subwords they consist of.
    """

    prefixes: str | Sequence[str] | None = None
    glossary: Sequence[Sequence[str]] | None = None
    forbidden: Sequence[str] = ()

    def of(self, count: int) -> Constraints:
        """Return the same with an entry for each of `count` sentences. Raises DataError: another number."""
        whole = replace(self, prefixes=[self.prefixes] * count) if isinstance(self.prefixes, str) else self
        for name in ("prefixes", "glossary"):
            entries = getattr(whole, name)
            single = entries if isinstance(entries, str) else next((e for e in entries or () if isinstance(e, str)), "")
            if single and name != "prefixes":
                raise DataError(
                    f"Constraints.{name}: must be a list of phrases for each sentence, got {single!r} in the place of "
                    f"a list; write [[{single!r}]] for one sentence"
                )
            if entries is not None and len(entries) != count:
                raise DataError(
                    f"Constraints.{name}: must have an entry for each sentence, {count}, got {len(entries)}; an "
                    "entry may be empty"
                )
        return whole


@dataclass(frozen=True)
class Detail:
    """Details of a translation, subword by subword.

    Attributes:
        tokens: Its T subwords, the last of them the end `</s>` unless it was truncated at its maximum length.
        log_probs: Their natural log-probabilities.
        src_tokens: The subwords of the source, without its end.
        attention: Weights [T, len(src_tokens) + 1]: row t says what tokens[t] attended to, the last column is the
            source's end; zeros for a model without attention.
        alignment: Pairs of words (source, target), counted from 0.
        warnings: Possible faults, for people.
    """

    tokens: list[str]
    log_probs: list[float]
    src_tokens: list[str]
    attention: np.ndarray
    alignment: list[tuple[int, int]]
    warnings: list[str]


@dataclass(frozen=True)
class Novelty:
    """The part of a text that the training of a model never had: the share of its words, that of the validation text,
    and these words, the most frequent first."""

    share: float
    usual: float
    words: list[str]

    @property
    def is_strange(self) -> bool:
        """Return whether it is so much more than usual that the text is of another kind."""
        return self.share > max(_MUCH_MORE * self.usual, self.usual + _LEAST_MORE)


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence.

    Attributes:
        text: Detokenised, without line breaks.
        score: The value that the search ranked by: the log-probability after length penalty, bonuses and penalties.
        log_prob: Sum of the subwords' natural log-probabilities, the end of sentence included.
        detail: The details, if they were requested (`details=True`), otherwise None.
        warnings: Possible faults, for people: CUT, UNKNOWN, BROKEN, FEATURELESS, LENGTHENED, UNSAYABLE, EMPTY,
            UNFOLLOWED, NOT_A_NUMBER, what `lacking` says.
        length: The number of subwords that `log_prob` is the sum of, the end of sentence included.
        chance: The probability that a person would keep it, of a model that was calibrated by its validation text;
            otherwise None.
        unseen: The words of the source that the training text of such a model does not have.
    """

    text: str
    score: float
    log_prob: float
    detail: Detail | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    length: int = 0
    chance: float | None = None
    unseen: tuple[str, ...] = ()

    @property
    def confidence(self) -> float:
        """Return `chance`, or without calibration the geometric mean of the probabilities of the subwords; 1 if there
        is nothing to translate, 0 if there is no translation or its log-probability is not finite."""
        return confidence_in([self])


def confidence_in(translations: Iterable[Translation]) -> float:
    """Return how sure the model is of the translations of a text's sentences, 0 to 1: the geometric mean of their
    confidence, each sentence weighed by its length (see `Translation.confidence`)."""
    total, length = 0.0, 0
    for one in translations:
        if UNSAYABLE in one.warnings or not math.isfinite(one.log_prob):
            return 0.0
        total += one.log_prob if one.chance is None else one.length * math.log(one.chance)
        length += one.length
    return math.exp(min(0.0, total / max(1, length)))


def lacking(whose: str, unknown: Sequence[str]) -> tuple[str, ...]:
    """Return the warning that a text which is to be said has `unknown` signs or words; none where it has none."""
    if not unknown:
        return ()
    shown = ", ".join(unknown[:_MOST_SHOWN]) + ", ..." * (len(unknown) > _MOST_SHOWN)
    return (f"{whose} is incomplete: the vocabulary lacks {shown}",)


def with_warnings(found: Sequence[Translation], *, cut: bool, more: tuple[str, ...] = ()) -> list[Translation]:
    """Translations of a sentence that is not blank with what may be wrong with each; an empty one where none was found.
    cut: Whether the source was too long. more: What else may be wrong with all of them."""
    general = (*((CUT,) if cut else ()), *more)
    if not found:
        return [Translation("", 0.0, 0.0, warnings=(*general, UNSAYABLE))]
    warned = []
    for one in found:
        own = [*general, *((EMPTY,) if not one.text else ()), *number_warnings((one.score, one.log_prob))]
        warned.append(replace(one, warnings=tuple(own)) if own else one)
    return warned


def number_warnings(scores: Sequence[float]) -> tuple[str, ...]:
    """Return the warning NOT_A_NUMBER if a log-probability is not finite."""
    return () if all(map(math.isfinite, scores)) else (NOT_A_NUMBER,)


def chosen_settings(decoding: DecodingConfig, settings: SearchSettings) -> DecodingConfig:
    """Return all settings for a call; those that are None or missing have their configured value. Raises ConfigError:
    One is not what the schema of the `decoding` section allows, by itself or together with the others. TypeError: There
    is no such setting."""
    known = SearchSettings.__annotations__.keys()
    if unknown := sorted(settings.keys() - known):
        from nmt.config.removed import ours

        meant = (ours(unknown[0], "decoding") or "").removeprefix("decoding.")
        close = meant if meant in known else most_like(unknown[0], known)
        advice = f"; did you mean {close}?" if close else ""
        raise TypeError(f"Translator: settings must be those of SearchSettings, got {', '.join(unknown)}{advice}")
    given = {key: value for key, value in settings.items() if value is not None}
    if not given:
        return decoding
    from nmt.config import with_values

    # How many are given back is an argument of each call: a beam may be narrower than the configured number.
    return with_values(decoding, "decoding", {"n_best": 1, **given})


def checked_count(path: str, count: int, name: str) -> int:
    """Return a count of translations, tokens or threads that the schema allows at `path`. Raises ConfigError."""
    from nmt.config import checked_value

    return int(checked_value(path, count, name))


def checked_text(whose: str, name: str, text: str) -> str:
    """Return one text from a caller. Raises TypeError: It is something else."""
    if not isinstance(text, str):
        raise TypeError(f"{whose}: {name} must be one string, got {'None' if text is None else type(text).__name__}")
    return text


def search_options(chosen: SearchValues, n_best: int, **given: Any) -> SearchOptions:
    """Return the options of a search; translators, sessions and servers all ask by them.

    Args:
        chosen: All settings.
        n_best: The number of translations wanted; the search keeps more candidates where some may be dropped.
        given: Other fields of `SearchOptions`: constraints as token ids, the shortlist.
    """
    from nmt.decode import SearchOptions

    settings = {name: getattr(chosen, name) for name in ROWS}
    compares = chosen.mbr != "none"
    if chosen.sampling:
        settings["beam_size"] = settings["n_best"] = max(n_best, chosen.mbr_samples) if compares else n_best
    else:  # of several some may give the same text: others take their places
        settings["n_best"] = chosen.beam_size if n_best > 1 or compares else 1
    return SearchOptions(**settings, **given)


def length_warnings(chosen: SearchValues, src_ids: Sequence[int]) -> tuple[str, ...]:
    """LENGTHENED where min_length makes `SearchOptions.limits` greater for this source."""
    most = int(chosen.max_length_ratio * len(src_ids)) + chosen.max_length_extra
    return (LENGTHENED,) if 0 < chosen.min_length >= most else ()


def distinct(found: Sequence[Found], texts: Sequence[str], count: int) -> list[Found]:
    """Return the first `count` of what was found, best first, whose texts differ by more than spaces."""
    first: dict[str, Found] = {}
    for one, text in zip(found, texts, strict=True):
        first.setdefault(" ".join(text.split()), one)
    return list(first.values())[:count]


_logger = logging.getLogger("nmt")


def check_loading(threads: int | None, checkpoint: str | None, compute_dtype: str | None, device: str | None) -> None:
    """Raise ConfigError if an argument of `load` is invalid."""
    from nmt.config import checked_value

    for name, value in {"threads": threads, "compute_dtype": compute_dtype, "device": device}.items():
        if value is not None:
            checked_value(name, value)
    if checkpoint is not None and not isinstance(checkpoint, str):
        raise ConfigError(f"checkpoint must be a name such as best, last or best-600, or None, got {checkpoint!r}")


def resolve_threads(threads: int | None, config: Config) -> int:
    """Return the number of threads: the argument, the configured number, or the number of cores. More threads than
    cores are reduced to the cores, with a warning to the logger `nmt`. Raises ConfigError."""
    from nmt.rnn.cores import usable_threads

    wanted = config.threads if threads is None else checked_count("threads", threads, "threads")
    usable = usable_threads(wanted)
    if wanted is not None and wanted > usable:
        _logger.warning(
            "warning: threads: %d were asked for, got %d, one for each core; more would only take turns", wanted, usable
        )
    return usable


class NotPickled:
    """A model in use: its memory and locks belong to this process. Shallow copies share them."""

    def __copy__(self) -> Self:
        """Return a copy that shares the model, with its own attributes."""
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        return found

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: it cannot be pickled or deep-copied."""
        raise TypeError(
            f"{type(self).__name__}: must be made in the process that uses it, got asked for a pickle or a deep copy; "
            "give processes the path of the model (docs/threads.md)"
        )


class TranslatesTexts(NotPickled):
    """Translates sentences by a method `translate_nbest`."""

    translate_nbest: Callable[..., list[list[Translation]]]

    @overload
    def translate(self, sentences: str, **settings: Unpack[SearchSettings]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, sentences: Iterable[str], **settings: Unpack[SearchSettings]) -> list[str]: ...
    def translate(self, sentences: str | Iterable[str], **settings: Unpack[SearchSettings]) -> str | list[str]:
        """Translate a sentence, or a list of sentences.

        Args:
            sentences: One sentence each, as a person writes them. They are cleaned as in training.
            settings: See `SearchSettings`; batch_size changes the speed, not the translations.

        Returns:
            For one sentence its translation; for a list, one line for each sentence, in order. A blank sentence gives
            an empty line. Warnings (see `Translation.warnings`) go to the logger `nmt`, one line of each kind.

        Raises: The errors of `translate_nbest`.
        """
        if "n_best" in settings:
            raise TypeError(
                f"{type(self).__name__}.translate: must have no n_best, got it; translate_nbest gives several "
                "translations"
            )
        given = [sentences] if isinstance(sentences, str) else sentences
        best = [translations[0] for translations in self.translate_nbest(given, n_best=1, **settings)]
        notices = Notices()
        for number, one in enumerate(best):
            notices.add(number, one.warnings)
        for text in notices.told():
            _logger.warning("warning: %s", text)
        return best[0].text if isinstance(sentences, str) else [one.text for one in best]
