"""Translations as words that are aligned to words of the source, with the source's placeholders and numbers in them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from codecs import getincrementaldecoder
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, groupby, islice, pairwise
from typing import TYPE_CHECKING
from unicodedata import normalize

from nmt.documents.numbers import Figure, are_one_number, compared, priced, with_sign
from nmt.documents.placeholders import UNSPACED, Kind, Placeholder, figures_of, scanned
from nmt.inference.translation import Translation
from nmt.special_tokens import SPACE

if TYPE_CHECKING:
    import numpy as np

NOWHERE = -1
_UNNUMBERED = re.compile(r"(?<!%)%[#0+'-]*+\d*+(?:\.\d++)?+(?:hh|ll|[hlLzjtq])?[sdiufFeEgGxXocp@](?![^\W\d_])")
"""Arguments of printf that stand for the next value."""
_NUMBERED = re.compile(r"%\d++\$")
Span = tuple[int, int]
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that set the direction of the text around them."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
_BORDER = re.compile(
    f"[{UNSPACED}\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)
"""Characters next to which words end: letters of these scripts and their punctuation."""
_MIXED = re.compile(rf"(?<=[!-~])(?=[{UNSPACED}])|(?<=[{UNSPACED}])(?=[A-Za-z0-9#$%&+/<=>@\\_{{|}}])")
"""Places where a word of such a script begins or ends next to others: `$HOME`."""
_SHORT = 3
"""The maximum length of placeholders such as `%d`, which are none with a space within."""
_LATIN = re.compile(rf"[^\W{UNSPACED}]{{2}}")
"""Two letters or digits of scripts with spaces: they are parts of one word."""
_LEAST_DIGITS = 3
"""The least number of digits of a number that is put in where nothing is aligned to it: others may be words."""
_CLAUSE_END = ".,;:!?…。、，！？；：।؟،"


def spans_of(text: str, placeholders: Sequence[Placeholder], cuts: Sequence[int] = ()) -> list[Span]:
    """Return the words of a text as ranges of characters: what white space divides, with placeholders whole. In scripts
    without spaces a placeholder is a word by itself, and words end at `cuts`, where subwords end; so does a symbol."""
    whole = _without(text, placeholders, "x")
    has_borders = _BORDER.search(whole) is not None
    borders = {at for one in placeholders for at in (one.start, one.end)}
    symbols = {at for one in placeholders if one.kind is Kind.SYMBOL for at in (one.start, one.end)}
    inside = {at for one in placeholders for at in range(one.start + 1, one.end)}
    ends = symbols
    if has_borders:
        ends = borders.union(cuts, (one.start() for one in _MIXED.finditer(whole)))
    ordered = sorted(ends - inside)
    beside = _BORDER if cuts else _UNSPACED  # by their order, brackets stay at what they surround
    found: list[Span] = []
    for word in re.finditer(r"\S+", whole):
        start, end = word.span()
        is_unspaced = has_borders and _UNSPACED.search(whole, start, end) is not None
        for cut in ordered[bisect_right(ordered, start) : bisect_left(ordered, end)]:
            is_between = cut not in borders and is_unspaced and not _LATIN.match(whole, cut - 1)
            if cut in symbols or beside.match(whole, cut - 1) or beside.match(whole, cut) or is_between:
                found.append((start, cut))
                start = cut
        found.append((start, end))
    return found


@dataclass(eq=False)
class TargetWord:
    """A word of a translation, at [start, end) of it. source: the source word that it attends to most, NOWHERE if that
    is the end of the sentence. gap: the white space before it. kept: whether it contains a placeholder."""

    text: str
    source: int
    gap: str = " "
    start: int = 0
    end: int = 0
    kept: bool = False
    is_gone: bool = False


@dataclass
class TargetWords:
    """The words of a translation. spans: those of the source; best: for each of them the word that attends to it most;
    is_aligned: whether by attention, not by their order; scanned: the placeholders; changes: of numbers."""

    words: list[TargetWord]
    spans: list[Span]
    best: list[TargetWord | None]
    is_aligned: bool
    scanned: list[Placeholder]
    changes: list[tuple[str, str]] = field(default_factory=list)


def one_numbers(words: Sequence[TargetWord]) -> list[int]:
    """Return the indices of words that may be parts of one number with the word before them."""
    digits = [not word.text.isalpha() and any(map(str.isdigit, word.text)) for word in words]
    return [
        n
        for n, (one, other) in enumerate(pairwise(words), 1)
        if (digits[n - 1] or digits[n]) and are_one_number(one.text, other.text)
    ]


def target_words(source: str, placeholders: list[Placeholder], translation: Translation) -> TargetWords:
    """Return the words of a translation, aligned to those of a source by attention, or else by their order."""
    text, detail = translation.text, translation.detail
    found = _scanned_target(text, placeholders)
    is_aligned = detail is not None and bool(detail.attention.any())
    if detail is None or not is_aligned:
        spans, own = spans_of(source, placeholders), spans_of(text, found)
        count = len(spans)
        sources = [min(n, count - 1) if count else NOWHERE for n in range(len(own))]
        best: list[int | None] = [n if n < len(own) else None for n in range(count)]
    else:
        tokens = detail.tokens[: len(detail.tokens) - (detail.tokens[-1:] == ["</s>"])]
        pieces, read = _places(text, tokens), _places(source, detail.src_tokens)
        spans = spans_of(source, placeholders, [end for _, end in read])
        own = spans_of(text, found, [end for _, end in pieces])
        sources, best = _aligned(detail.attention, (own, pieces), (spans, read))
    words, at = [], 0
    for (start, end), number in zip(own, sources, strict=True):
        words.append(TargetWord(text[start:end], number, text[at:start], start, end))
        at = end
    return TargetWords(words, spans, [None if n is None else words[n] for n in best], is_aligned, found)


def _scanned_target(text: str, known: Sequence[Placeholder]) -> list[Placeholder]:
    """Return the placeholders of a translation. One with spaces is none unless it is like one of the source: words may
    have come between its brackets, and 2 1/2 may be two numbers."""
    likes = {_folded(one.text)[0] for one in known}
    found = []
    for one in scanned(text):
        if " " in one.text if one.is_number else one.text.split() != [one.text] and _folded(one.text)[0] not in likes:
            found += [
                replace(other, start=one.start + other.start, end=one.start + other.end)
                for other in figures_of(one.text)
            ]
        else:
            found.append(one)
    return found


@lru_cache(1 << 12)
def _folded_sign(sign: str) -> str:
    return "".join(c for c in normalize("NFKD", sign).casefold() if not c.isspace())


@lru_cache(4)
def _folded(text: str) -> tuple[str, list[int]]:
    """Return the letters and signs of a text without case and white space, and the character that each comes from."""
    if text.isascii():
        return "".join(text.split()).lower(), [n for n, c in enumerate(text) if not c.isspace()]
    signs = [(sign, n) for n, c in enumerate(text) for sign in _folded_sign(c)]
    return "".join(sign for sign, _ in signs), [n for _, n in signs]


@lru_cache(1 << 14)
def _core(token: str) -> str:
    """Return the letters and signs of a subword; see `_folded`."""
    return _folded(token.replace(SPACE, " "))[0]


def _places(text: str, tokens: Sequence[str]) -> list[Span]:
    """Return the characters of each subword of a text; where they are spelt otherwise, divided evenly."""
    whole, places = _folded(text)
    cores = [_core(token) for token in _decoded(tokens)]
    ends = list(accumulate(map(len, cores)))
    spelt = "".join(cores)
    if spelt != whole:
        most = min(len(spelt), len(whole))
        head = next((n for n in range(most) if spelt[n] != whole[n]), most)
        tail = next((n for n in range(most - head) if spelt[-1 - n] != whole[-1 - n]), most - head)
        inner, other = len(spelt) - head - tail, len(whole) - head - tail
        ends = [
            end if end <= head else head + (end - head) * other // inner if end < head + inner else end - inner + other
            for end in ends
        ]
    places = [*places, len(text)]
    found = []
    for start, end in pairwise([0, *ends]):
        first = places[start]
        found.append((first, max(first, places[end - 1] + 1 if end > start else first)))
    return found


def _decoded(tokens: Sequence[str]) -> list[str]:
    """Return subwords with characters in place of their bytes, such as `<0xE4>`: each at its last byte."""
    if not any(token.startswith("<0x") for token in tokens):
        return list(tokens)
    decoder = getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(bytes.fromhex(found[1])) if (found := _BYTE.fullmatch(token)) else token for token in tokens]


def _aligned(
    attention: np.ndarray, target: tuple[list[Span], list[Span]], source: tuple[list[Span], list[Span]]
) -> tuple[list[int], list[int | None]]:
    """Return the source word of each target word, and the best target word of each source word; all as ranges."""
    import numpy as np  # not on top: reading documents needs no arrays

    def pooled(spans: list[Span], pieces: list[Span]) -> np.ndarray:
        """Return the share of each subword in each word, [words, subwords]."""
        (low, high), (start, end) = (np.array(ranges, float).reshape(-1, 2).T for ranges in (spans, pieces))
        common = np.minimum(high[:, None], end) - np.maximum(low[:, None], start)
        found = np.maximum(common, 0) / np.maximum(end - start, 1)
        for n, (at, last) in enumerate(pieces):
            if at == last and (word := word_at(spans, at)) < len(spans):  # a lone space belongs to the word behind it
                found[word, n] = 1.0
        return found

    (words, pieces), (spans, read) = target, source
    rows, columns = pooled(words, pieces), pooled(spans, read)
    by_word = rows @ attention[: len(pieces), : len(read)] @ columns.T
    to_end = rows @ attention[: len(pieces), len(read)]
    counts = rows.sum(axis=1)
    if not words or not spans:
        return [NOWHERE] * len(words), [None] * len(spans)
    most = by_word.argmax(axis=1)
    top = by_word[np.arange(len(words)), most]
    sources = np.where((counts != 0) & (top >= to_end) & (top > 0), most, NOWHERE).tolist()
    means = by_word / np.maximum(counts, 1e-9)[:, None]
    return sources, means.argmax(axis=0).tolist()


def word_at(spans: Sequence[Span], at: int) -> int:
    """Return the index of the word that contains a character; of the next word if none does."""
    return bisect_right(spans, at, key=lambda span: span[1])


def keep_placeholders(
    found: TargetWords, source: str, translation: str, placeholders: Sequence[Placeholder], *, numbers: bool = True
) -> None:
    """Put each placeholder of a source into its translation once; with `numbers` correct those that are provably wrong.
    What the model has copied stays, and so do numbers that denote the same. Otherwise the source word replaces the
    words aligned to it, or is put next to its neighbour's translation. Of a wrong number only figures are replaced."""
    _Keeper(found, source, translation).run(placeholders, numbers)
    own = [one.text for one in placeholders if _UNNUMBERED.fullmatch(one.text)]
    if len(own) > 1 and not _NUMBERED.search(source):
        _number_arguments(found.words, own)


def _number_arguments(words: Sequence[TargetWord], own: list[str]) -> None:
    """Number arguments of printf that have changed their order: `%s has %d` is `%2$d` before `%1$s`."""
    places = [(word, one) for word in words if "%" in word.text for one in _UNNUMBERED.finditer(word.text)]
    new = [one[0] for _, one in places]
    if new == own or sorted(new) != sorted(own):
        return
    numbers = {text: deque(n for n, one in enumerate(own, start=1) if one == text) for text in new}
    for (word, one), n in reversed([(place, numbers[place[1][0]].popleft()) for place in places]):
        word.text = f"{word.text[: one.start()]}%{n}${one[0][1:]}{word.text[one.end() :]}"


@dataclass(eq=False)
class _Copy:
    """A placeholder of the source, `text`, at [start, end) of the translation, and the word with its beginning."""

    text: str
    start: int
    end: int
    word: TargetWord
    is_taken: bool = False


_Copies = dict[tuple[str, int | None], deque[_Copy]]
"""Copies of each text, in order: those in words aligned to a source word, and all of them (None)."""


class _Keeper:
    def __init__(self, found: TargetWords, source: str, translation: str) -> None:
        self._found, self._source, self._text = found, source, translation
        self._ends = [word.end for word in found.words]
        self._numbers = {word: n for n, word in enumerate(found.words)}
        self._of_source: dict[int, list[TargetWord]] = {}
        for word in found.words:
            self._of_source.setdefault(word.source, []).append(word)
        self._translated = sorted(number for number in self._of_source if number != NOWHERE)
        self._count = len(found.words)  # of words that are not gone
        # Nothing is put between words that may be a single number: the first and the last of them.
        self._first_of, self._last_of = ({word: word for word in found.words} for _ in range(2))
        joined = [(found.words[n - 1], found.words[n]) for n in one_numbers(found.words)]
        for one, other in joined:
            self._first_of[other] = self._first_of[one]
        for one, other in reversed(joined):
            self._last_of[one] = self._last_of[other]
        self._right: set[TargetWord] = set()  # numbers that stay
        self._edits: list[tuple[int, int, str]] = []  # ranges of the translation, and their new text
        self._new: dict[TargetWord, TargetWord] = {}
        self._before: dict[TargetWord | None, list[TargetWord]] = {}
        self._behind: dict[TargetWord | None, list[TargetWord]] = {}

    def run(self, placeholders: Sequence[Placeholder], numbers: bool) -> None:
        """Change the words."""
        groups: dict[int, list[Placeholder]] = {}
        for one in placeholders:
            if not one.is_number:
                groups.setdefault(word_at(self._found.spans, one.start), []).append(one)
        texts = {one.text: one.kind for group in groups.values() for one in group}
        copies: _Copies = {}
        lost, found = list(groups), self._copies(texts) if groups else []
        lost = self._taken(lost, groups, copies, found)
        # In another case or width: a word that is known to contain more is put in as a whole.
        whole = {n for n in lost if self._found.is_aligned and any(map(_has_word, self._around(groups[n], n)))}
        likes = self._likes([one for n, group in groups.items() if n not in whole for one in group], found)
        lost = [*whole, *self._taken([n for n in lost if n not in whole], groups, copies, likes)]
        found += likes
        if numbers:
            self._keep_numbers(placeholders, lost, found)
        for number in lost:
            self._put(number, groups[number])
        for copy in found:
            if not copy.is_taken and texts[copy.text] is not Kind.SYMBOL:
                self._edits.append((copy.start, copy.end, ""))
            elif self._text[copy.start : copy.end] != copy.text:
                self._edits.append((copy.start, copy.end, copy.text))
        self._apply()

    def _taken(
        self, numbers: list[int], groups: dict[int, list[Placeholder]], copies: _Copies, found: Sequence[_Copy]
    ) -> list[int]:
        """Take copies for the placeholders of source words, aligned ones first; return the words that lack any."""
        for one in found:
            for number in (one.word.source, None):
                copies.setdefault((one.text, number), deque()).append(one)
        left = [number for number in numbers if not self._take(groups[number], copies, number)]
        return [number for number in left if not self._take(groups[number], copies, None)]

    def _word(self, at: int) -> TargetWord:
        """Return the word of the translation with a character."""
        return self._found.words[bisect_right(self._ends, at)]

    def _copies(self, texts: Iterable[str]) -> list[_Copy]:
        """Return where the translation has each of these texts; a part of a longer one is not counted."""
        pattern = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
        plain = re.sub(r"\s", " ", self._text)
        return [_Copy(one[0], *one.span(), self._word(one.start())) for one in re.finditer(pattern, plain)]

    def _around(self, group: list[Placeholder], number: int) -> tuple[str, str]:
        """Return what a source word has before and after its placeholders."""
        start, end = self._found.spans[number]
        return self._source[start : group[0].start], self._source[group[-1].end : end]

    def _likes(self, placeholders: Iterable[Placeholder], known: Sequence[_Copy]) -> list[_Copy]:
        """Return where the translation has these placeholders in another case or width, but for the known copies."""
        of_like = {_folded(one.text)[0]: one.text for one in placeholders if one.kind is not Kind.SYMBOL}
        if not of_like:
            return []
        pattern = "|".join(map(re.escape, sorted(of_like, key=len, reverse=True)))
        whole, places = _folded(self._text)
        taken = {at for one in known for at in range(one.start, one.end)}
        found = []
        for one in re.finditer(pattern, whole):
            start, end = places[one.start()], places[one.end() - 1] + 1
            edges = (self._text[max(0, start - 1) : start + 1], self._text[end - 1 : end + 1])
            is_part = any(len(two) > 1 and two.isalnum() and not _UNSPACED.search(two) for two in edges)
            is_apart = len(one[0]) <= _SHORT and end - start > len(one[0])  # `% d`
            if not (is_part or is_apart or taken.intersection(range(start, end))):
                found.append(_Copy(of_like[one[0]], start, end, self._word(start)))
        return found

    def _take(self, group: list[Placeholder], copies: _Copies, number: int | None) -> bool:
        """Take copies for all placeholders of a source word, in words aligned to `number`; return whether all are."""
        taken: list[_Copy] = []
        for text, count in Counter(one.text for one in group).items():
            waiting = copies.get((text, number), deque())
            while waiting and waiting[0].is_taken:
                waiting.popleft()
            taken += islice((copy for copy in waiting if not copy.is_taken), count)
        is_whole = len(taken) == len(group)
        for copy in taken if is_whole else ():
            copy.is_taken = copy.word.kept = True
        return is_whole

    def _keep_numbers(self, placeholders: Sequence[Placeholder], lost: Sequence[int], copies: Sequence[_Copy]) -> None:
        """Replace figures that provably denote none of the source's numbers, and put in long numbers that are lost.
        lost: source words whose other placeholders are; copies: of those that are not."""
        if not (own := [one for one in placeholders if one.is_number]):
            return
        source = _figures(self._source, own, lambda at: word_at(self._found.spans, at))
        within = {at for one in copies for at in range(one.start, one.end)}
        numbers = [one for one in self._found.scanned if one.is_number and one.start not in within]
        target = _figures(self._text, numbers, lambda at: self._word(at).source)
        garbled = [word for number in lost for word in self._of_source.get(number, ()) if self._found.is_aligned]
        kept = [one for one in self._found.scanned if not one.is_number]
        texts = (
            _without(self._source, [one for one in placeholders if not one.is_number]),
            _without(self._text, [*kept, *garbled, *copies]),
        )
        result = compared(source, target, texts)
        held = ((self._word(one.place.start), one) for one in result.right)
        self._right = {word for word, one in held if not _has_word(word.text.replace(one.place.text, ""))}
        for one, other in result.wrong:
            self._change(*priced(one.place, self._source, other.place, self._text))
        for one, other in result.unsigned:
            self._change(other.place.start, other.place.end, one.place.text[0] + other.place.text)
        for number, group in groupby(result.lost, key=lambda one: one.word):
            places, words = [one.place for one in group], self._of_source.get(number, ())
            is_long = max(sum(map(str.isdigit, one.text)) for one in places) >= _LEAST_DIGITS
            if not any(_has_word(word.text) for word in words) and (words or (is_long and self._found.is_aligned)):
                self._put(number, places)

    def _change(self, start: int, end: int, text: str) -> None:
        """Replace figures at [start, end) of the translation."""
        self._edits.append((start, end, text))
        self._found.changes.append((self._text[start:end], text))

    def _put(self, number: int, group: list[Placeholder]) -> None:
        """Put a source word with its placeholders in place of the words aligned to it, or next to a neighbour."""
        start, end = self._found.spans[number]
        if len(group) == 1 and group[0].is_number:
            group = [with_sign(group[0], self._source)]
        head, tail = self._around(group, number)
        # A word without spaces is known to end at a placeholder alone.
        first = start if _has_word(head) and not _UNSPACED.search(head) else start + len(head.rstrip(_DIRECTIONS))
        core = slice(
            first, end if _has_word(tail) and not _UNSPACED.search(tail) else end - len(tail.lstrip(_DIRECTIONS))
        )
        new = TargetWord(self._source[core], number, kept=True)
        own = [word for word in self._of_source.get(number, ()) if not (word.kept or word.is_gone)]
        own = [word for word in own if word not in self._right]
        is_all = len(own) == self._count and len(self._found.spans) > 1
        kept = self._source[group[0].start : group[-1].end]
        if not self._found.is_aligned:  # only what resembles it
            signs = {c for c in kept if not c.isalnum() and c not in f"{_CLAUSE_END}-/' "}
            own = [word for word in own if signs & set(word.text)]
        while head and len(own) > 1 and _is_around(own[0].text, kept):
            own = own[1:]
        while tail and len(own) > 1 and _is_around(own[-1].text, kept):
            own = own[:-1]
        is_picture = all(one.kind is Kind.SYMBOL for one in group)
        is_word = is_picture and any(_has_word(word.text.replace("<unk>", "")) for word in own)
        if own and not is_all and not is_word:
            run = [word for n, word in enumerate(own) if self._numbers[word] == self._numbers[own[0]] + n]
            closing = _trailing("".join(word.text for word in run), tail)
            if not closing and tail and not _has_word(tail) and any(word.text.endswith(tail) for word in run):
                closing = tail  # its words come in another order
            new.text = _leading(run[0].text, head) + new.text + closing
            new.gap = run[0].gap
            for word in run:
                word.is_gone = True
            self._count -= len(run)
            self._new[run[0]] = new
            return
        if any(one.is_number for one in group) and (_has_word(head) or _has_word(tail)):
            return
        self._put_beside(number, new)

    def _put_beside(self, number: int, new: TargetWord) -> None:
        """Put a new word next to the translation of the nearest source word that has one."""
        spans = self._found.spans
        self._found.changes += [("", new.text)] * new.text[:1].isdigit()
        at = bisect_left(self._translated, number)
        anchor: TargetWord | None = self._found.words[-1] if self._found.words else None
        before = self._translated[max(0, at - 1) : at]
        at = bisect_right(self._translated, number)
        after = self._translated[at : at + 1]
        if before and not (after and after[0] - number < number - before[0]):
            last = anchor = self._last_of[self._of_source[before[0]][-1]]
            new.gap = self._gap(last.text[-1:], spans[number][0])
            closing = last.text[len(last.text.rstrip(_CLAUSE_END)) :]
            is_end = self._source[spans[before[0]][1] - 1] not in _CLAUSE_END
            if closing and is_end and closing != last.text and not last.kept:
                self._edits.append((last.end - len(closing), last.end, ""))  # it ends the clause after `new`
                new.text += closing
        elif after:
            first = self._first_of[self._of_source[after[0]][0]]
            new.gap = self._gap(first.text[:1], spans[number][1])
            self._before.setdefault(first, []).append(new)
            return
        self._behind.setdefault(anchor, []).append(new)

    def _gap(self, sign: str, at: int) -> str:
        """Return the white space between a new word and a neighbour's `sign`; `at`: the place in the source."""
        around = self._source[max(0, at - 1) : at], self._source[at : at + 1]
        is_apart = any(one.isspace() or (_BORDER.match(one) and sign.isalnum()) for one in around)
        return " " if is_apart and not _UNSPACED.match(sign) else ""

    def _apply(self) -> None:
        """Apply all changes to the words."""
        for start, end, text in sorted(self._edits, reverse=True):
            first = bisect_right(self._ends, start)
            word = self._found.words[first]
            word.text = word.text[: start - word.start] + text + word.text[end - word.start :]
            word.is_gone |= not text and not word.kept and not _has_word(word.text)
            for other in islice(self._found.words, first + 1, None):
                if other.start >= end:
                    other.gap = other.gap or word.gap * word.is_gone
                    break
                other.text, other.gap = other.text[end - other.start :], ""
                other.is_gone |= not other.text
        found = list(self._behind.get(None, ()))
        for word in self._found.words:
            own = self._new.get(word, word)
            for new in self._before.get(word, ()):
                new.gap, own.gap = own.gap, new.gap
                found.append(new)
            if not own.is_gone:
                found.append(own)
            found += self._behind.get(word, ())
        for one, other in pairwise(found):
            if one.kept and other.kept and not other.gap and {one, other} - {*self._found.words}:
                other.gap = " "  # two placeholders that have become neighbours
        self._found.words = found


def _without(text: str, parts: Iterable[Placeholder | TargetWord | _Copy], sign: str = " ") -> str:
    """Return a text with `sign` in place of each character of these parts."""
    signs = list(text)
    for one in parts:
        signs[one.start : one.end] = sign * (one.end - one.start)
    return "".join(signs)


def _figures(text: str, numbers: Sequence[Placeholder], word: Callable[[int], int]) -> list[Figure]:
    """Return the numbers of a text with their words."""
    before = [0, *(one.end for one in numbers)]
    return [Figure(one, word(one.start), text[at : one.start] == " ") for at, one in zip(before, numbers, strict=False)]


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_around(text: str, placeholder: str) -> bool:
    """Return whether a word is punctuation that is no part of a placeholder, such as a quotation mark before it."""
    return not _has_word(text) and not set(text) & {*placeholder, "\u2047"}


def _leading(text: str, before: str) -> str:
    """Return the punctuation at the beginning of a word that the source has before its placeholder."""
    bare = text.lstrip("".join(c for c in before if not c.isalnum()))
    return text[: len(text) - len(bare)] if bare and not _has_word(before) else ""


def _trailing(text: str, behind: str) -> str:
    """Return the clause-final punctuation of a word, and what the source has after its placeholder."""
    bare = text.rstrip(_CLAUSE_END + "".join(c for c in behind if not c.isalnum()))
    return text[len(bare) :] if bare and not _has_word(behind) else ""
