"""Subwords whose number or kind is left to the text: `vocab_size: auto`, `type: auto`."""

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
"""Running words of the text from which on so many units are worth having. A vector is learned from the places where its
unit stands, and needs tens of them: with few sentences 1,000 to 4,000 units are better than the tens of thousands of
large corpora (Sennrich and Zhang 2019; Ding et al. 2019). 8,000 is what Multi30k, of 667,000 words, was tuned with;
from there on the number grows more slowly than the text's root, for what is new in more text is ever rarer."""

_LETTERS_A_WORD = 10
"""Text without spaces between words counts as one word for so many characters at least."""

_NO_LIMIT = 1_000_000


def auto_subwords(
    settings: SubwordsConfig,
    text: Callable[[], Iterable[str]],
    say: Callable[[str], None],
    symbols: Sequence[str] = (),
) -> Subwords:
    """Train subwords on cleaned sentences as the settings ask; both `type` and `vocab_size` may be auto.

    Args:
        settings: Of the `data.subwords` section.
        text: Gives the sentences, anew each time it is called.
        say: Told what was chosen.
        symbols: Words that stay in one piece, such as tags.

    Raises:
        DataError: The text holds no word, or cannot give the vocabulary asked for.
    """
    size = _wanted_size(settings, text)
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
        say(f"subwords: {kind}, a vocabulary of {found.vocab_size:,} (auto)")
    return found


def words_of(sentences: Iterable[str]) -> int:
    """Return running words: what stands between spaces, and more where there are none."""
    return sum(max(len(line.split()), len(line) // _LETTERS_A_WORD) for line in sentences)


def auto_vocab_size(words: int) -> int:
    """Return units worth having for a text of so many running words."""
    return max(size for least, size in VOCAB_SIZES if words >= least)


def _wanted_size(settings: SubwordsConfig, text: Callable[[], Iterable[str]]) -> int:
    if settings.vocab_size != "auto":
        return settings.vocab_size
    return _NO_LIMIT if settings.type in ("char", "word") else auto_vocab_size(words_of(text()))


def _train(
    settings: SubwordsConfig, text: Callable[[], Iterable[str]], kind: str, size: int, symbols: Sequence[str]
) -> Subwords:
    """Return subwords of one kind; with auto, where the characters alone are more than `size`, that many besides
    them."""
    how = {"type": kind, "character_coverage": settings.character_coverage, "symbols": symbols}
    try:
        return train_subwords(text(), vocab_size=size, **how)  # type: ignore[arg-type]
    except VocabularyError as error:
        if settings.vocab_size != "auto" or error.least is None:
            raise
        return train_subwords(text(), vocab_size=size + error.least, **how)  # type: ignore[arg-type]
