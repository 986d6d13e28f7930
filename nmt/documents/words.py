"""A translation as words that know which word of the source they come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmt.data.alignment import soft_alignment, words_of
from nmt.documents.placeholders import Placeholder, digits_of
from nmt.inference.translation import Translation

NOWHERE = -1


@dataclass
class TargetWord:
    """A word; `source`: the word of the source it attends to most, NOWHERE where that is the sentence's end.
    is_kept: a placeholder, whose letters are not touched."""

    text: str
    source: int
    is_kept: bool = False


@dataclass
class TargetWords:
    """The words of a translation; best: for each source word that of the target which attends to it most, as it was
    before words came or went."""

    words: list[TargetWord]
    best: list[int]

    def of_source(self, word: int) -> list[int]:
        """Places of the words that come from a word of the source; its best one where none does."""
        found = [t for t, one in enumerate(self.words) if one.source == word]
        if not found and word < len(self.best) and self.words:
            found = [min(self.best[word], len(self.words) - 1)]
        return found


def target_words(translation: Translation, num_source: int) -> TargetWords:
    """The words of a translation with a detail; num_source: words of its source."""
    texts = translation.text.split()
    detail = translation.detail
    if detail is None:
        raise ValueError("target_words: translation must have a detail, got none; ask for details")
    ended = bool(detail.tokens) and detail.tokens[-1] == "</s>"
    numbers = words_of(detail.tokens[: len(detail.tokens) - ended])
    if not texts or not numbers or not num_source or not detail.src_tokens:
        return TargetWords([TargetWord(text, NOWHERE) for text in texts], [0] * num_source)
    weights = soft_alignment(detail.attention, words_of(detail.src_tokens), numbers)
    # Words by spaces are words by subwords, but for what cleaning has changed: then the last ones stand for the rest.
    rows = weights[np.minimum(np.arange(len(texts)), len(weights) - 1)]
    count = min(num_source, rows.shape[1] - 1)
    sources = rows.argmax(axis=1).tolist()
    words = [TargetWord(t, s if s < count else NOWHERE) for t, s in zip(texts, sources, strict=True)]
    best = rows[:, :count].argmax(axis=0).tolist() if count else []
    return TargetWords(words, best + [len(texts) - 1] * (num_source - len(best)))


def keep_placeholders(found: TargetWords, placeholders: list[tuple[int, Placeholder]]) -> None:
    """Bring each placeholder, of which the number of its source word is known, into the translation once.

    One that the model has copied stays where it is. Else it takes the place of the words that come from it; where there
    are none it follows the word of what stood before it.
    """
    for number, one in placeholders:
        places = _copies(found.words, one)
        if places:
            own = [t for t in places if found.words[t].source == number]
            found.words[(own or places)[0]].is_kept = True
            continue
        _put(found, number, one)
    _drop_doubles(found, [one for _, one in placeholders])


def _copies(words: list[TargetWord], one: Placeholder) -> list[int]:
    """Where a placeholder stands already and is nobody's: as it is, or a number with other separators."""
    digits = digits_of(one.text) if one.is_number else None
    return [
        t
        for t, word in enumerate(words)
        if not word.is_kept and (one.text in word.text or (digits and digits_of(word.text) == digits))
    ]


def _put(found: TargetWords, number: int, one: Placeholder) -> None:
    """A placeholder instead of the words that come from its word of the source."""
    words = found.words
    own = [t for t, word in enumerate(words) if word.source == number and not word.is_kept]
    if not own:
        before = [t for t, word in enumerate(words) if NOWHERE < word.source < number]
        words.insert(max(before) + 1 if before else 0, TargetWord(one.text, number, True))
        return
    first = own[0]
    run = [t for n, t in enumerate(own) if t == first + n]  # what stands side by side is one thing
    tail = _trailing(words[run[-1]].text)
    words[first] = TargetWord(one.text + tail, number, True)
    del words[first + 1 : run[-1] + 1]


def _trailing(text: str) -> str:
    """The punctuation at the end of a word that ends a clause."""
    bare = text.rstrip(".,;:!?…")
    return text[len(bare) :] if bare else ""


def _drop_doubles(found: TargetWords, placeholders: list[Placeholder]) -> None:
    """A placeholder stands as often as in the source: words that hold nothing but another copy of one go."""
    texts = {one.text for one in placeholders}
    found.words = (
        [w for w in found.words if w.is_kept or w.text.strip(".,;:!?…") not in texts] if texts else found.words
    )
