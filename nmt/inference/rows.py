"""Translate the values of a column, of which some may be no text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translator
    from nmt.search_settings import SearchSettings

_CHUNK_BATCHES = 32
"""Batches translated at a time: enough to put lines of like lengths together, and little memory."""


@dataclass(frozen=True)
class Rows:
    """Results of rows, one entry each: an error is empty if there is none, and the translation if there is."""

    texts: list[str]
    scores: list[float]
    errors: list[str]


def translate_rows(
    translator: Translator | Pivot,
    values: Iterable[Any],
    *,
    shortlist: bool = False,
    **settings: Unpack[SearchSettings],
) -> Rows:
    """Translate a column. A value that is not text is an error of its row alone.

    Args:
        translator: The model.
        values: Texts; None, NaN and values of other types are errors.
        shortlist, settings: See `Translator.translate_nbest`.

    Raises:
        ConfigError: A setting is not possible.
    """
    given = list(values)
    found = Rows([""] * len(given), [0.0] * len(given), [_mistake(value) for value in given])
    there = [index for index, error in enumerate(found.errors) if not error]
    step = _CHUNK_BATCHES * (settings.get("batch_size") or translator.config.decoding.batch_size)
    for first in range(0, len(there), step):
        chunk = there[first : first + step]
        best = translator.translate_nbest([given[i] for i in chunk], n_best=1, shortlist=shortlist, **settings)
        for index, ranked in zip(chunk, best, strict=True):
            found.texts[index], found.scores[index] = ranked[0].text, ranked[0].score
    return found


def _mistake(value: Any) -> str:
    """Return what is wrong with the value of a row, nothing where it is a text that the model can read."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"must be text, got half of a surrogate pair, U+{ord(value[error.start]):04X}"
        return ""
    if value is None or value != value:  # NaN, as pandas has it for nothing
        return "must be text, got nothing"
    return f"must be text, got {type(value).__name__}"
