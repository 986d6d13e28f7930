"""Translations and requests for them: the values that `Translator` takes and returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import numpy as np

from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.config import DecodingConfig
    from nmt.decode import LengthPenalty, SearchOptions

Found = TypeVar("Found")

_NEUTRAL = {
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "word_reward": 0.0,
    "coverage_penalty": 0.0,
}
"""Settings that have their own names in the search, with the values that leave them out."""


MAX_SOURCE_SUBWORDS = 1000
"""A line with more is truncated, with a warning: what no model learned from is not worth its memory."""

CUT = f"a source of more than {MAX_SOURCE_SUBWORDS} subwords is truncated to that length"
LENGTHENED = "min_length comes first, but is more than max_length_ratio and max_length_extra allow here; lower it"
UNSAYABLE = "no continuation is possible: all tokens are forbidden, or probabilities are not finite"
EMPTY = "text has an empty translation"
NOT_A_NUMBER = "a score is not finite"
_MOST_SHOWN = 8


class SearchSettings(TypedDict, total=False):
    """Settings of a search, explained in the section `decoding` of configs/reference.yaml; None: as configured."""

    beam_size: int | None
    length_penalty: LengthPenalty | None
    batch_size: int | None
    max_length_ratio: float | None
    max_length_extra: int | None
    word_reward: float | None
    word_reward_bounded: bool | None
    coverage_penalty: float | None
    lm_weight: float | None
    min_length: int | None
    generate_unk: bool | None
    no_repeat_ngram_size: int | None
    repetition_penalty: float | None
    beam_groups: int | None
    diversity_strength: float | None
    sampling: bool | None
    sampling_temperature: float | None
    sampling_topk: int | None
    sampling_topp: float | None
    sampling_seed: int | None
    mbr: Literal["none", "chrf", "bleu"] | None
    mbr_samples: int | None
    glossary_bonus: float | None


@dataclass(frozen=True)
class Wishes:
    """Text that translations must or should contain; lists have an entry for each sentence.

    prefixes: text they begin with, in whole words, one text for all of them if it is a string; constraints: phrases
    they hold; glossary: phrases that are preferred; forbidden: words and phrases that no translation holds, as the
    subwords they consist of.
    """

    prefixes: str | Sequence[str] | None = None
    constraints: Sequence[Sequence[str]] | None = None
    glossary: Sequence[Sequence[str]] | None = None
    forbidden: Sequence[str] = ()

    def of(self, count: int) -> Wishes:
        """Return the same with an entry for each of `count` sentences in every list that is there. Raises DataError
        where a list has another number of them."""
        whole = replace(self, prefixes=[self.prefixes] * count) if isinstance(self.prefixes, str) else self
        for name in ("prefixes", "constraints", "glossary"):
            entries = getattr(whole, name)
            if entries is not None and len(entries) != count:
                raise DataError(
                    f"Wishes.{name}: must have an entry for each sentence, {count}, got {len(entries)}; an empty one "
                    "wishes nothing"
                )
        return whole


@dataclass(frozen=True)
class Detail:
    """Details of a translation: its subwords with log-probabilities, the end `</s>` among them where it ended by
    itself, and their attention [T, S] to the source's subwords and its end. Alignment: pairs of words (source,
    target), counted from 0. Warnings are for people."""

    tokens: list[str]
    log_probs: list[float]
    src_tokens: list[str]
    attention: np.ndarray
    alignment: list[tuple[int, int]]
    warnings: list[str]


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    """Detokenised, without line breaks."""
    score: float
    """The value that the search ranked by: the log-probability after the length penalty."""
    log_prob: float
    """Sum of the subwords' natural log-probabilities, the end of sentence included."""
    detail: Detail | None = field(default=None, repr=False)
    """The details, if they were requested."""
    warnings: tuple[str, ...] = ()
    """Possible faults, for people: CUT, LENGTHENED, UNSAYABLE, EMPTY, NOT_A_NUMBER, what `lacking` says."""


def lacking(whose: str, unknown: Sequence[str]) -> tuple[str, ...]:
    """Return the warning that a text which is to be said has `unknown` signs or words; none where it has none."""
    if not unknown:
        return ()
    shown = ", ".join(unknown[:_MOST_SHOWN]) + ", ..." * (len(unknown) > _MOST_SHOWN)
    return (f"{whose} is incomplete: the vocabulary lacks {shown}",)


def with_warnings(
    found: Sequence[Translation], text: str = "", *, cut: bool = False, more: tuple[str, ...] = ()
) -> list[Translation]:
    """Translations of a sentence that is not blank with what may be wrong with each; one of `text` where none was
    found. cut: Whether the source was too long. more: What else may be wrong with all of them."""
    general = (*((CUT,) if cut else ()), *more)
    if not found:
        return [Translation(text, 0.0, 0.0, warnings=(*general, UNSAYABLE))]
    warned = []
    for one in found:
        own = [*general, *((EMPTY,) if not one.text else ()), *number_warnings((one.score, one.log_prob))]
        warned.append(replace(one, warnings=tuple(own)) if own else one)
    return warned


def number_warnings(scores: Sequence[float]) -> tuple[str, ...]:
    """NOT_A_NUMBER where one of them is none."""
    return () if all(map(math.isfinite, scores)) else (NOT_A_NUMBER,)


def chosen_settings(decoding: DecodingConfig, settings: SearchSettings) -> dict[str, Any]:
    """Return all settings for a call; those that are None or missing have their configured value.

    Raises ConfigError: One is not what the schema of the `decoding` section allows, by itself or together with the
    others.
    TypeError: There is no such setting.
    """
    known = SearchSettings.__annotations__.keys()
    if unknown := sorted(settings.keys() - known):
        close = get_close_matches(unknown[0], known, n=1)
        advice = f"; did you mean {close[0]}?" if close else ""
        raise TypeError(f"Translator: settings must be those of SearchSettings, got {', '.join(unknown)}{advice}")
    given = {key: value for key, value in settings.items() if value is not None}
    if given:
        from nmt.config import with_values

        # How many are given back is an argument of each call: a beam may be narrower than the configured number.
        decoding = with_values(decoding, "decoding", {"n_best": 1, **given})
    return {key: getattr(decoding, key) for key in known}


def checked_count(path: str, count: int, name: str) -> int:
    """Return an argument `name` that counts translations, tokens or threads: what the schema has at `path`. Raises
    ConfigError."""
    from nmt.config import checked_value

    return int(checked_value(path, count, name))


def checked_texts(whose: str, name: str, texts: Iterable[str]) -> list[str]:
    """Return texts from a caller as a list. Raises TypeError: It is one text, or contains something else than
    texts."""
    promise = f"{whose}: {name} must be a list of strings"
    if not isinstance(texts, Iterable) or isinstance(texts, str | bytes | Mapping | Set):
        raise TypeError(f"{promise}, got {'one string' if isinstance(texts, str) else type(texts).__name__}")
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(f"{promise}, got {type(text).__name__} at place {place}")
    return found


def checked_text(whose: str, name: str, text: str) -> str:
    """Return one text from a caller. Raises TypeError: It is something else."""
    if not isinstance(text, str):
        raise TypeError(f"{whose}: {name} must be one string, got {'None' if text is None else type(text).__name__}")
    return text


def checked_pairs(whose: str, sources: Iterable[str], targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """As many of each. Raises DataError: They are not as many; TypeError as `checked_texts`."""
    pair = checked_texts(whose, "sources", sources), checked_texts(whose, "targets", targets)
    if len(pair[0]) != len(pair[1]):
        raise DataError(
            f"{whose}: there must be as many sources as targets, got {len(pair[0])} and {len(pair[1])}; give one "
            "translation for each source"
        )
    return pair


def search_options(chosen: dict[str, Any], wished: dict[str, Any]) -> SearchOptions | None:
    """Return what the search is to do beyond the plain one, None for nothing; `wished`: wishes as token ids.

    Raises ConfigError where it cannot do all of it at the same time.
    """
    given: dict[str, Any] = {name: chosen[name] for name, neutral in _NEUTRAL.items() if chosen[name] != neutral}
    given |= wished
    if not chosen["generate_unk"]:
        given["generate_unk"] = False
    if chosen["beam_groups"] > 1:
        given |= {"beam_groups": chosen["beam_groups"], "diversity_strength": chosen["diversity_strength"]}
    if chosen["sampling"]:
        from nmt.decode import Sampling

        names = {"seed": "seed", "temperature": "temperature", "top_k": "topk", "top_p": "topp"}
        given["sampling"] = Sampling(**{name: chosen[f"sampling_{key}"] for name, key in names.items()})
    if not given:
        return None
    _check_together(given, chosen["beam_size"])
    from nmt.decode import SearchOptions

    return SearchOptions(**given)


def length_warnings(chosen: dict[str, Any], src_ids: Sequence[int]) -> tuple[str, ...]:
    """LENGTHENED where min_length makes `SearchOptions.limits` greater for this source."""
    least, most = chosen["min_length"], int(chosen["max_length_ratio"] * len(src_ids)) + chosen["max_length_extra"]
    return (LENGTHENED,) if 0 < least >= most else ()


def candidate_counts(chosen: dict[str, Any], n_best: int) -> tuple[int, int]:
    """Return the beam or number of samples, and how many of them are kept as candidates."""
    if chosen["sampling"]:
        count = max(n_best, chosen["mbr_samples"]) if chosen["mbr"] != "none" else n_best
        return count, count
    # Of several some may give the same text: others take their places.
    keep = chosen["beam_size"] if n_best > 1 or chosen["mbr"] != "none" else 1
    return chosen["beam_size"], keep


def distinct(found: Sequence[Found], texts: Sequence[str], count: int) -> list[Found]:
    """Return the first `count` of what was found, best first, whose texts differ by more than spaces."""
    first: dict[str, Found] = {}
    for one, text in zip(found, texts, strict=True):
        first.setdefault(" ".join(text.split()), one)
    return list(first.values())[:count]


def _check_together(given: dict[str, Any], beam_size: int) -> None:
    """Raise ConfigError for what one search cannot do at the same time."""
    names = {"sampling": "sampling", "beam_groups": "groups", "constraints": "constraints"}
    kinds = [said for name, said in names.items() if name in given]
    if len(kinds) > 1:
        raise ConfigError(
            f"decoding: must have one of sampling, groups and constraints, got {' and '.join(kinds)}; choose one"
        )
    if beam_size % given.get("beam_groups", 1):
        raise ConfigError(
            f"decoding: beam_groups must divide beam_size ({beam_size}), got {given['beam_groups']}; change one of them"
        )
