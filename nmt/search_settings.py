"""The settings of a search: one row for each, from which all else about it follows.

From its row follow the key of the `decoding` section with its check, its words in configs/reference.yaml and in the
JSON schema, the option of the commands, the warning about an option without effect, the field of `SearchOptions`, and
where the setting can be used. A new setting is a row here, a line in `SearchSettings`, and the code that reads it;
docs/extending.md names the tests and pages that list settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, TypedDict

MAX_SOURCE_SUBWORDS = 1000
"""A line with more is cut, with a warning: no model learned from longer ones, and they are not worth their memory."""

LengthPenalty = Literal["none", "average"] | float
Measure = Literal["none", "chrf", "chrf++", "bleu"]


class Place(Enum):
    """Places where some settings cannot be used."""

    LOOP = "a compiled loop"
    PROGRAM = "a program"  # of a whole translation, as it is exported
    GPU = "a GPU"
    SESSION = "a session"
    CALL = "a call"  # which has another argument in its place


@dataclass(frozen=True)
class Row:
    """A row of the table: all that is known of a setting.

    text: the meaning, for configs/reference.yaml. help: the meaning for `--help`, `text` if empty. option: the option
    of the commands, that of its name if empty. least, most: inclusive bounds; above: an exclusive one; None where only
    a typing error exceeds a bound. choices: allowed names, in addition to numbers if there are bounds. needs: settings
    without which it has no effect. lacks: where it cannot be used, unless it has its default, which turns it off.
    """

    text: str = ""
    help: str = ""
    option: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    lacks: tuple[Place, ...] = ()
    name: str = ""
    kind: Any = None
    default: Any = None


def setting(default: Any, text: str = "", **row: Any) -> Any:
    """Return a field of a dataclass of settings with this default and `Row`."""
    return field(default=default, metadata={"row": Row(text, **row)})


@dataclass(frozen=True, kw_only=True)
class SearchValues:
    """A value for each setting of a search. A default turns its setting off where that is possible."""

    beam_size: int = setting(5, "Number of hypotheses kept at each step; 1 is greedy search.", least=1, most=1000)
    length_penalty: LengthPenalty = setting(
        1.0,
        "Divisor of the log-probability when hypotheses of different lengths are compared: 1 (none), the "
        "length (average), or ((5 + length) / 6) to the power of this number (Wu et al. 2016, 7).",
        help="Score hypotheses by the sum (none) or mean (average) of their log-probabilities, or with GNMT's length "
        "penalty to the power NUMBER.",
        choices=("none", "average"),
        least=0,
        most=100,
    )
    max_length_ratio: float = setting(
        2.0, "Maximum length of a translation with its end, in subwords per source subword.", above=0, most=1000
    )
    max_length_extra: int = setting(10, "Added to the limit of max_length_ratio, in subwords.", least=0, most=100_000)
    n_best: int = setting(
        1, "Number of translations given for each sentence.", least=1, most=10_000, lacks=(Place.CALL,)
    )
    batch_size: int = setting(64, "Number of sentences in a batch; affects speed, not results.", least=1, most=100_000)
    word_reward: float = setting(0.0, "Bonus added to the score for each subword; above 0 favours length.")
    min_length: int = setting(
        0, "Minimum length of a translation in subwords, without EOS.", least=0, most=100_000, lacks=(Place.LOOP,)
    )
    generate_unk: bool = setting(
        True,
        "Whether the unknown subword may be produced.",
        help="Never produce the unknown subword.",
        option="--no-unk",
    )
    no_repeat_ngram_size: int = setting(
        0, "Never repeat an n-gram of this many subwords; 0 allows repeats.", least=0, most=100_000, lacks=(Place.LOOP,)
    )
    repetition_penalty: float = setting(
        1.0,
        "Factor for the log-probabilities of subwords that were already produced; above 1 makes them less likely.",
        above=0,
        lacks=(Place.LOOP,),
    )
    sampling: bool = setting(
        False,
        "Sample translations from the model's distribution instead of running beam search.",
        option="--sampling/--no-sampling",
        lacks=(Place.LOOP, Place.SESSION),
    )
    sampling_temperature: float = setting(
        1.0,
        "Sample from probabilities to the power 1 / this; below 1 favours likely subwords.",
        least=0.001,
        most=1000,
        needs=("sampling",),
    )
    sampling_topk: int = setting(
        0, "Sample from this many most likely subwords; 0 means all.", least=0, needs=("sampling",)
    )
    sampling_topp: float = setting(
        1.0,
        "Sample from the smallest set of subwords with this total probability (nucleus).",
        above=0,
        most=1,
        needs=("sampling",),
    )
    sampling_seed: int = setting(
        0,
        "Random seed for sampling; the same sentence and seed give the same samples.",
        option="--seed",
        least=0,
        most=2**63 - 1,
        needs=("sampling",),
    )
    mbr: Measure = setting(
        "none",
        "Choose the candidate closest to all others by this measure (minimum Bayes risk); with sampling the candidates "
        "are samples, else what the beam found.",
        choices=("none", "chrf", "chrf++", "bleu"),
    )
    mbr_samples: int = setting(
        32,
        "With mbr and sampling: number of samples of each sentence.",
        least=1,
        most=10_000,
        needs=("mbr", "sampling"),
    )
    glossary_bonus: float = setting(
        8.0,
        "Bonus added to the score for each phrase of a glossary in the translation; its subwords get equal shares. A "
        "bonus of N nats outweighs an alternative that the model finds e^N times as probable.",
        help="Bonus added to the score for each glossary phrase used.",
        least=0,
    )


class SearchSettings(TypedDict, total=False):
    """Settings of a search, explained in the section `decoding` of configs/reference.yaml; None: as configured."""

    beam_size: int | None
    length_penalty: LengthPenalty | None
    max_length_ratio: float | None
    max_length_extra: int | None
    batch_size: int | None
    word_reward: float | None
    min_length: int | None
    generate_unk: bool | None
    no_repeat_ngram_size: int | None
    repetition_penalty: float | None
    sampling: bool | None
    sampling_temperature: float | None
    sampling_topk: int | None
    sampling_topp: float | None
    sampling_seed: int | None
    mbr: Measure | None
    mbr_samples: int | None
    glossary_bonus: float | None


ROWS = {
    one.name: replace(one.metadata["row"], name=one.name, kind=one.type, default=one.default)
    for one in fields(SearchValues)
}
"""The table: rows by name."""


def usable(place: Place) -> list[str]:
    """Return the names of the settings that can be used at a place, in the order of the table."""
    return [name for name, row in ROWS.items() if place not in row.lacks]


def beyond(place: Place, values: SearchValues) -> list[str]:
    """Return the names of those fields that differ from their defaults and cannot be used at a place."""
    kind: Any = type(values)
    return [
        name
        for name, default in _lacking(place, kind)
        if (value := getattr(values, name)) is not default and not _is_off(value, default)
    ]


@lru_cache(maxsize=32)
def _lacking(place: Place, kind: Any) -> list[tuple[str, Any]]:
    """Return the fields that cannot be used at a place, and their defaults."""
    return [(one.name, one.default) for one in fields(kind) if place in one.metadata["row"].lacks]


def in_effect(values: SearchValues) -> list[str]:
    """Return the names of those fields that differ from their defaults, as do all that they need."""
    on = {name for name, row in ROWS.items() if not _is_off(getattr(values, name), row.default)}
    return [name for name, row in ROWS.items() if on.issuperset({name, *row.needs})]


def _is_off(value: Any, default: Any) -> bool:
    """Return whether a value is the default; lists of empty lists count as no list."""
    if default is None or default == ():
        return value is None or (isinstance(value, Sequence) and not any(value))
    return bool(value == default)
