"""Translations as words that are aligned to words of the source."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, groupby

from nmt.documents.placeholders import Placeholder, digits_of, placeholders_of
from nmt.inference.translation import Translation

NOWHERE = -1


@dataclass
class TargetWord:
    """A word of a translation; `source`: the source word that it attends to most, NOWHERE if that is the end of the
    sentence. kept: the placeholders that it contains."""

    text: str
    source: int
    kept: tuple[str, ...] = ()
    is_gone: bool = False

    @property
    def is_kept(self) -> bool:
        """Return whether it contains a placeholder; then its letters are not changed."""
        return bool(self.kept)


@dataclass
class TargetWords:
    """The words of a translation; best: for each source word the target word that attends to it most, before any words
    were added or removed."""

    words: list[TargetWord]
    best: list[int]

    def of_source(self, word: int) -> list[int]:
        """Return the indices of the words aligned to a source word; of its best one if there are none."""
        found = [t for t, one in enumerate(self.words) if one.source == word]
        if not found and word < len(self.best) and self.words:
            found = [min(self.best[word], len(self.words) - 1)]
        return found


def target_words(translation: Translation, num_source: int) -> TargetWords:
    """Return the words of a translation with a detail; num_source: the number of words of its source."""
    import numpy as np

    from nmt.data.alignment.attention_alignment import (  # not on top: reading documents needs no arrays
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
    # Words split at spaces match words of subwords unless cleaning has changed the text: then the last row is repeated.
    rows = weights[np.minimum(np.arange(len(texts)), len(weights) - 1)]
    count = min(num_source, rows.shape[1] - 1)
    sources = rows.argmax(axis=1).tolist()
    words = [TargetWord(t, s if s < count else NOWHERE) for t, s in zip(texts, sources, strict=True)]
    best = rows[:, :count].argmax(axis=0).tolist() if count else []
    return TargetWords(words, best + [len(texts) - 1] * (num_source - len(best)))


def word_at(spans: list[tuple[int, int]], at: int) -> int:
    """Return the index of the word that contains a character; of the next word if none does."""
    return bisect_right(spans, at, key=lambda span: span[1])


def keep_placeholders(
    found: TargetWords, text: str, spans: list[tuple[int, int]], placeholders: list[Placeholder]
) -> None:
    """Put each placeholder of a source text, whose words are at `spans`, into the translation once.

    A placeholder that the model has copied stays where it is. Otherwise it replaces the words aligned to it, together
    with other placeholders of its word (`%d/%d`); if there are none, it follows the translation of the word before it.
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
    """A placeholder in a word of the translation; is_taken: whether it is matched to one of the source."""

    word: TargetWord
    is_taken: bool = False


class _Copies:
    """The placeholders in the words of a translation; each word is scanned once."""

    def __init__(self, words: list[TargetWord]) -> None:
        self._words = words
        self._whole = " ".join(word.text for word in words)
        self._found: dict[str, tuple[list[_Copy], dict[int, list[_Copy]]]] = {}
        self._numbers: dict[str, list[TargetWord]] = {}  # words by the digits of their numbers, in order
        self._others: list[TargetWord] = []  # words that have digits, but no number
        for word in words:
            numbers = [one for one in placeholders_of(word.text) if one.is_number]
            for one in numbers:
                self._numbers.setdefault(digits_of(one.text), []).append(word)
            if not numbers and any(c.isdigit() for c in word.text):
                self._others.append(word)

    def take(self, group: list[Placeholder], number: int) -> list[TargetWord] | None:
        """Return the words that contain a source word's placeholders, aligned ones first; None if one is missing."""
        taken: list[tuple[_Copy, list[_Copy]]] = []
        for one in group:
            every, of_source = self._of(one)
            for copies in (of_source.get(number, []), every):
                while copies and (copies[-1].is_taken or copies[-1].word.is_gone):
                    copies.pop()
                if copies:
                    break
            else:
                for copy, left in taken:  # undo
                    copy.is_taken = False
                    left.append(copy)
                return None
            copies[-1].is_taken = True
            taken.append((copies[-1], copies))
            copies.pop()
        return [copy.word for copy, _ in taken]

    def _of(self, one: Placeholder) -> tuple[list[_Copy], dict[int, list[_Copy]]]:
        """Return the copies of a placeholder, in reverse order, and the same by aligned source word."""
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
        """Return the words with a placeholder, once per occurrence: literally, or with other separators."""
        words = self._others if one.is_number else self._words
        as_it_is = [w for w in words for _ in range(w.text.count(one.text))] if one.text in self._whole else []
        return self._numbers.get(key, []) + as_it_is if one.is_number else as_it_is


class _Changes:
    """Replacements and insertions in the words of a translation; `words` applies them."""

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
        """Replace the words aligned to a source word by a placeholder. around: what the source word has before and
        after the placeholder; marks of it such as brackets are kept."""
        own = [t for t in self._of_source.get(number, []) if not self._old[t].is_kept]
        if not own:
            n = bisect_left(self._sources, number)
            self._behind.setdefault(self._upto[n - 1] if n else -1, []).append(new)
            return
        run = [t for n, t in enumerate(own) if t == own[0] + n]  # the first run of adjacent words
        head, tail = _leading(self._old[run[0]].text, around[0]), _trailing(self._old[run[-1]].text, around[1])
        for t in run:
            self._old[t].is_gone = True
        new.text = head + new.text + tail
        self._new[run[0]] = new

    def words(self) -> list[TargetWord]:
        """Return the words after all changes."""
        found = list(self._behind.get(-1, ()))
        for t, word in enumerate(self._old):
            if t in self._new:
                found.append(self._new[t])
            elif not word.is_gone:
                found.append(word)
            found += self._behind.get(t, ())
        return found


def _leading(text: str, before: str) -> str:
    """Return the punctuation at the beginning of a word that the source has before its placeholder."""
    bare = text.lstrip("".join(c for c in before if not c.isalnum()))
    return text[: len(text) - len(bare)] if bare else ""


def _trailing(text: str, behind: str) -> str:
    """Return the clause-final punctuation of a word, and what the source has after its placeholder."""
    bare = text.rstrip(".,;:!?…" + "".join(c for c in behind if not c.isalnum()))
    return text[len(bare) :] if bare else ""


def _drop_doubles(found: TargetWords, placeholders: list[Placeholder]) -> None:
    """Remove words that are only another copy of a placeholder, which appears as often as in the source."""
    texts = {one.text for one in placeholders}
    found.words = (
        [w for w in found.words if w.is_kept or w.text.strip(".,;:!?…") not in texts] if texts else found.words
    )
