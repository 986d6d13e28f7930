"""A translation as words that know which word of the source they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from nmt.data.alignment import soft_alignment, words_of
from nmt.documents.placeholders import Placeholder, digits_of, placeholders_of
from nmt.inference.translation import Translation

NOWHERE = -1


@dataclass
class TargetWord:
    """A word; `source`: the word of the source it attends to most, NOWHERE where that is the sentence's end. kept: the
    placeholders that it holds."""

    text: str
    source: int
    kept: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether it holds a placeholder: its letters are not touched."""
        return bool(self.kept)


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


def keep_placeholders(found: TargetWords, text: str, placeholders: list[tuple[int, Placeholder]]) -> None:
    """Bring each placeholder of a source text, of which the number of its word is known, into the translation once.

    One that the model has copied stays where it is. Else it takes the place of the words that come from it, together
    with others of its word (`%d/%d`); where there are none it follows the word of what stood before it.
    """
    for number, group in groupby(placeholders, key=lambda one: one[0]):
        own = [one for _, one in group]
        places = _copies(found.words, own, number)
        if places is None:
            start, end = own[0].start, own[-1].end
            around = re.findall(r"\S*$", text[:start])[0], re.findall(r"^\S*", text[end:])[0]
            _put(found, number, text[start:end], around)
            continue
        for t, one in zip(places, own, strict=True):
            found.words[t].kept += (one.text,)
    _drop_doubles(found, [one for _, one in placeholders])


def _copies(words: list[TargetWord], group: list[Placeholder], number: int) -> list[int] | None:
    """The words in which the placeholders of one word stand already, those that come from it first; None where one of
    them stands nowhere."""
    places: list[int] = []
    taken: list[tuple[int, str]] = []
    order = sorted(range(len(words)), key=lambda t: (words[t].source != number, t))
    for one in group:
        there = (t for t in order if _times(words[t], one) > words[t].kept.count(one.text) + taken.count((t, one.text)))
        place = next(there, None)
        if place is None:
            return None
        places.append(place)
        taken.append((place, one.text))
    return places


def _times(word: TargetWord, one: Placeholder) -> int:
    """How often a word holds a placeholder: as it is, or a number with other separators."""
    as_it_is = word.text.count(one.text)
    if not one.is_number:
        return as_it_is
    digits = digits_of(one.text)
    held = [other for other in placeholders_of(word.text) if other.is_number]
    return sum(digits_of(other.text) == digits for other in held) if held else as_it_is


def _put(found: TargetWords, number: int, text: str, around: tuple[str, str]) -> None:
    """A placeholder instead of the words that come from its word of the source; around: what that word has before and
    behind it, of which marks such as brackets stay."""
    words = found.words
    own = [t for t, word in enumerate(words) if word.source == number and not word.is_kept]
    if not own:
        before = [t for t, word in enumerate(words) if NOWHERE < word.source < number]
        words.insert(max(before) + 1 if before else 0, TargetWord(text, number, (text,)))
        return
    first = own[0]
    run = [t for n, t in enumerate(own) if t == first + n]  # what stands side by side is one thing
    head, tail = _leading(words[first].text, around[0]), _trailing(words[run[-1]].text, around[1])
    words[first] = TargetWord(head + text + tail, number, (text,))
    del words[first + 1 : run[-1] + 1]


def _leading(text: str, before: str) -> str:
    """The marks at the beginning of a word that the source has before its placeholder."""
    bare = text.lstrip("".join(c for c in before if not c.isalnum()))
    return text[: len(text) - len(bare)] if bare else ""


def _trailing(text: str, behind: str) -> str:
    """The punctuation at the end of a word that ends a clause, and marks that the source has behind its placeholder."""
    bare = text.rstrip(".,;:!?…" + "".join(c for c in behind if not c.isalnum()))
    return text[len(bare) :] if bare else ""


def _drop_doubles(found: TargetWords, placeholders: list[Placeholder]) -> None:
    """A placeholder stands as often as in the source: words that hold nothing but another copy of one go."""
    texts = {one.text for one in placeholders}
    found.words = (
        [w for w in found.words if w.is_kept or w.text.strip(".,;:!?…") not in texts] if texts else found.words
    )
