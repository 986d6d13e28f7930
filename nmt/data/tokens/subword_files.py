"""Read subwords of any kind from a file or its bytes: a sentencepiece model, a vocabulary, subwords with factors."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from nmt.data.tokens import factors, vocabulary
from nmt.data.tokens.subwords import MODEL_KIND, MOST_MODEL_BYTES, Subwords
from nmt.errors import DataError
from nmt.system.files import read_small


def subwords_from_file(path: str | PathLike[str]) -> Subwords:
    """Return subwords from a file. Raises DataError if it is missing or damaged."""
    try:
        content = read_small(Path(path), MOST_MODEL_BYTES)
    except OSError as error:
        raise DataError(f"{path}: must be {MODEL_KIND}, cannot be read: {error.strerror}") from None
    return read_subwords(content, str(path))


def read_subwords(content: bytes, where: str = "subword model") -> Subwords:
    """Return subwords from what `model_bytes` returned. Raises DataError, beginning with `where`, for other bytes."""
    if content.startswith(vocabulary.START):
        return vocabulary.read_vocabulary(content, where)
    if content.startswith(factors.START):
        words, values, separator = factors.read_factored(content, where)
        return factors.FactoredSubwords(read_subwords(words, where), values, separator)
    return Subwords.from_bytes(content, where)
