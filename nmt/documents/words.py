"""A translation as words that know which word of the source they come from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, groupby

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
    is_gone: bool = False

    @property
    def is_kept(self) -> bool:
        """Return whether it holds a placeholder: its letters are not touched."""
        return bool(self.kept)


@dataclass
class TargetWords:
    """The words of a translation; best: for each source word that of the target which attends to it most, as it was
    before words came or went."""

    words: list[TargetWord]
    best: list[int]

    def of_source(self, word: int) -> list[int]:
        """Return places of the words that come from a word of the source; its best one where none does."""
        found = [t for t, one in enumerate(self.words) if one.source == word]
        if not found and word < len(self.best) and self.words:
            found = [min(self.best[word], len(self.words) - 1)]
        return found


def target_words(translation: Translation, num_source: int) -> TargetWords:
    """Return the words of a translation with a detail; num_source: words of its source."""
    import numpy as np

    from nmt.data.alignment.attention_alignment import (  # here: who reads documents needs no arrays
        soft_alignment,
        words_of,
    )

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


def word_at(spans: list[tuple[int, int]], at: int) -> int:
    """Return the number of the word that a character is of; of the next one where it is of none."""
    return bisect_right(spans, at, key=lambda span: span[1])


def keep_placeholders(
    found: TargetWords, text: str, spans: list[tuple[int, int]], placeholders: list[Placeholder]
) -> None:
    """Bring each placeholder of a source text, whose words stand at `spans`, into the translation once.

    One that the model has copied stays where it is. Else it takes the place of the words that come from it, together
    with others of its word (`%d/%d`); where there are none it follows the word of what stood before it.
    """
    if not placeholders:
        return
    copies, changes = _Copies(found.words), _Changes(found.words)
    for number, group in groupby(placeholders, key=lambda one: word_at(spans, one.start)):
        own = list(group)
        words = copies.take(own, number)
        if words is None:
            start, end = own[0].start, own[-1].end
            upto = max(end, spans[number][1])
            changes.put(
                number,
                TargetWord(text[start:end], number, tuple(one.text for one in own)),
                (text[spans[number][0] : start], text[end:upto]),
            )
            continue
        for word, one in zip(words, own, strict=True):
            word.kept += (one.text,)
    found.words = changes.words()
    _drop_doubles(found, placeholders)


@dataclass
class _Copy:
    """A placeholder that stands in a word of the translation already; is_taken: it is one of the source's."""

    word: TargetWord
    is_taken: bool = False


class _Copies:
    """Placeholders in the words of a translation, each word read once."""

    def __init__(self, words: list[TargetWord]) -> None:
        self._words = words
        self._whole = " ".join(word.text for word in words)
        self._found: dict[str, tuple[list[_Copy], dict[int, list[_Copy]]]] = {}
        self._numbers: dict[str, list[TargetWord]] = {}  # by digits, in order
        self._others: list[TargetWord] = []  # words that have digits, and hold no number
        for word in words:
            numbers = [one for one in placeholders_of(word.text) if one.is_number]
            for one in numbers:
                self._numbers.setdefault(digits_of(one.text), []).append(word)
            if not numbers and any(c.isdigit() for c in word.text):
                self._others.append(word)

    def take(self, group: list[Placeholder], number: int) -> list[TargetWord] | None:
        """Return the words in which the placeholders of one word stand, those that come from it first; None where one
        of them stands nowhere."""
        taken: list[tuple[_Copy, list[_Copy]]] = []
        for one in group:
            every, of_source = self._of(one)
            for copies in (of_source.get(number, []), every):
                while copies and (copies[-1].is_taken or copies[-1].word.is_gone):
                    copies.pop()
                if copies:
                    break
            else:
                for copy, left in taken:  # back to where it was
                    copy.is_taken = False
                    left.append(copy)
                return None
            copies[-1].is_taken = True
            taken.append((copies[-1], copies))
            copies.pop()
        return [copy.word for copy, _ in taken]

    def _of(self, one: Placeholder) -> tuple[list[_Copy], dict[int, list[_Copy]]]:
        """Return the copies of a placeholder, and those that come from each source word, the first one last."""
        key = digits_of(one.text) if one.is_number else one.text
        if key not in self._found:
            words = self._holding(one, key)
            copies = [_Copy(word) for word in reversed(words)]
            of_source: dict[int, list[_Copy]] = {}
            for copy in copies:
                of_source.setdefault(copy.word.source, []).append(copy)
            self._found[key] = copies, of_source
        return self._found[key]

    def _holding(self, one: Placeholder, key: str) -> list[TargetWord]:
        """Return the words that hold a placeholder, as often as they do: as it is, or a number with other
        separators."""
        words = self._others if one.is_number else self._words
        as_it_is = [w for w in words for _ in range(w.text.count(one.text))] if one.text in self._whole else []
        return self._numbers.get(key, []) + as_it_is if one.is_number else as_it_is


class _Changes:
    """Words that come into a translation, in place of others or between them; places stay until all are known."""

    def __init__(self, words: list[TargetWord]) -> None:
        self._old = words
        self._new: dict[int, TargetWord] = {}
        self._behind: dict[int, list[TargetWord]] = {}
        self._of_source: dict[int, list[int]] = {}
        for t, word in enumerate(words):
            self._of_source.setdefault(word.source, []).append(t)
        self._sources = sorted(source for source in self._of_source if source > NOWHERE)
        self._upto = list(accumulate((self._of_source[source][-1] for source in self._sources), max))

    def put(self, number: int, new: TargetWord, around: tuple[str, str]) -> None:
        """A placeholder instead of the words that come from its word of the source; around: what that word has before
        and behind it, of which marks such as brackets stay."""
        own = [t for t in self._of_source.get(number, []) if not self._old[t].is_kept]
        if not own:
            n = bisect_left(self._sources, number)
            self._behind.setdefault(self._upto[n - 1] if n else -1, []).append(new)
            return
        run = [t for n, t in enumerate(own) if t == own[0] + n]  # what stands side by side is one thing
        head, tail = _leading(self._old[run[0]].text, around[0]), _trailing(self._old[run[-1]].text, around[1])
        for t in run:
            self._old[t].is_gone = True
        new.text = head + new.text + tail
        self._new[run[0]] = new

    def words(self) -> list[TargetWord]:
        """Return all of them now."""
        found = list(self._behind.get(-1, ()))
        for t, word in enumerate(self._old):
            if t in self._new:
                found.append(self._new[t])
            elif not word.is_gone:
                found.append(word)
            found += self._behind.get(t, ())
        return found


def _leading(text: str, before: str) -> str:
    """Return the marks at the beginning of a word that the source has before its placeholder."""
    bare = text.lstrip("".join(c for c in before if not c.isalnum()))
    return text[: len(text) - len(bare)] if bare else ""


def _trailing(text: str, behind: str) -> str:
    """Return the punctuation at the end of a word that ends a clause, and marks that the source has behind its
    placeholder."""
    bare = text.rstrip(".,;:!?…" + "".join(c for c in behind if not c.isalnum()))
    return text[len(bare) :] if bare else ""


def _drop_doubles(found: TargetWords, placeholders: list[Placeholder]) -> None:
    """A placeholder stands as often as in the source: words that hold nothing but another copy of one go."""
    texts = {one.text for one in placeholders}
    found.words = (
        [w for w in found.words if w.is_kept or w.text.strip(".,;:!?…") not in texts] if texts else found.words
    )
