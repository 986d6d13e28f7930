"""Choose the number or type of subwords from the text: `vocab_size: auto`, `type: auto`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nmt.data.tokens.subwords import Subwords, VocabularyError, train_subwords

if TYPE_CHECKING:
    from nmt.config import SubwordsConfig

VOCAB_SIZES = (
    (0, 1000),
    (100_000, 2000),
    (250_000, 4000),
    (500_000, 8000),
    (4_000_000, 16_000),
    (40_000_000, 32_000),
)
"""Pairs of a number of running words and the vocabulary size used from there on. An embedding is learned from the
occurrences of its subword and needs tens of them: with few sentences 1,000 to 4,000 are better than the tens of
thousands of large corpora (Sennrich and Zhang 2019; Ding et al. 2019). 8,000 is what Multi30k, of 667,000 words, was
tuned with; from there on the size grows more slowly than the square root of the text, because new words become ever
rarer."""

_LETTERS_A_WORD = 10
"""Text without spaces between words counts as at least one word for this many characters."""

_NO_LIMIT = 1_000_000


def auto_subwords(
    settings: SubwordsConfig,
    text: Callable[[], Iterable[str]],
    notify: Callable[[str], None],
    symbols: Sequence[str] = (),
) -> Subwords:
    """Train subwords on cleaned sentences as the settings say; both `type` and `vocab_size` may be auto. Raises
    DataError if the text has no word, or cannot give the requested vocabulary. `text`: returns the sentences, from the
    beginning each time it is called; `symbols`: words that are never split, such as tags."""
    size = settings.vocab_size
    if size == "auto":
        size = _NO_LIMIT if settings.type in ("char", "word") else auto_vocab_size(words_of(text()))
    for kind in ("unigram", "bpe") if settings.type == "auto" else (settings.type,):
        try:
            found = _train(settings, text, kind, size, symbols)
            break
        except VocabularyError as error:
            limit = error
    else:
        if settings.vocab_size != "auto" or limit.most is None:
            raise limit
        found = _train(settings, text, kind, limit.most, symbols)
    if "auto" in (settings.type, settings.vocab_size):
        notify(f"subwords: {kind}, a vocabulary of {found.vocab_size:,} (auto)")
    return found


def words_of(sentences: Iterable[str]) -> int:
    """Return the number of running words: strings between spaces, and an estimate for text without spaces."""
    return sum(max(len(line.split()), len(line) // _LETTERS_A_WORD) for line in sentences)


def auto_vocab_size(words: int) -> int:
    """Return a suitable vocabulary size for a text of `words` running words."""
    return max(size for least, size in VOCAB_SIZES if words >= least)


def _train(
    settings: SubwordsConfig, text: Callable[[], Iterable[str]], kind: str, size: int, symbols: Sequence[str]
) -> Subwords:
    """Return subwords of one type. With vocab_size auto, `size` are added to more characters than that."""
    how = {"type": kind, "character_coverage": settings.character_coverage, "symbols": symbols}
    try:
        return train_subwords(text(), vocab_size=size, **how)  # type: ignore[arg-type]
    except VocabularyError as error:
        if settings.vocab_size != "auto" or error.least is None:
            raise
        return train_subwords(text(), vocab_size=size + error.least, **how)  # type: ignore[arg-type]
