"""Placement of markup: tags follow the words that they belong to into the translation. Elements stay a tree: each mark
is written once, and what was inside an element stays inside."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Literal

from nmt.documents.placeholders import WIDE, scanned
from nmt.documents.words import NOWHERE, Span, TargetWord, TargetWords, one_numbers

_OWN, _FOREIGN, _UNALIGNED = 1.0, -0.7, -0.1
"""Scores of a target word in the span of an element: aligned to it, to other words, to none."""

_MOST_MARKS = 200
"""The maximum number of marks that are placed by alignment: time grows with their square, and recursion with depth."""

_BLANK = re.compile(r"\s")
_APART = re.compile(rf"[\s{WIDE}]?")
"""No sign, or one that needs no space next to it."""
_WIDE = re.compile(f"[{WIDE}]")
_WORD_LIKE = re.compile(r"\x02\d+\x03|<x |<(?!sup\b|a\b)([\w:]+)[^<>]*>[^<>]+</\1>")
"""Marks that stand for words, such as code."""
_STOPS = ".,;:!?…。、，．！？；：।॥؟،؛։។"
_CLOSING = f"{_STOPS})]}}»”’\"'）」』】》"


@dataclass(frozen=True)
class Mark:
    """A tag or other markup as written, before character `at`. `partner`: the index of the tag of the same element."""

    raw: str
    at: int
    kind: Literal["open", "close", "alone"] = "alone"
    partner: int | None = None


@dataclass
class _Node:
    """An element, or a single mark (whose `last` is `first`): marks first ... last around the characters [start, end)
    of the source; then its place in the translation."""

    first: int
    last: int
    start: int
    end: int
    children: list[_Node] = field(default_factory=list)
    low: int = 0  # target words [low, high)
    high: int = 0
    begin: int = 0  # target characters [begin, stop)
    stop: int = 0

    @property
    def is_point(self) -> bool:
        """Return whether it stands at a single position and contains no words."""
        return self.start == self.end


def with_marks(
    text: str, marks: Sequence[Mark], found: TargetWords, escape: dict[int, str], glued: Mapping[int, str]
) -> str:
    """Return the translation of `text` with its marks. escape: how characters of the translation are written; glued:
    indices of source words that are joined to the previous one by a no-break space, and that space."""
    if not marks:
        return _put_together(found.words, glued)[0].translate(escape)
    if len(marks) > _MOST_MARKS:
        return _in_order(text, marks, found, escape)
    return _Layout(text, marks, found, glued).written(escape)


def _put_together(words: Sequence[TargetWord], glued: Mapping[int, str]) -> tuple[str, list[Span]]:
    """Return the words as a text, with no-break spaces of the source between neighbours, and where they are."""
    parts: list[str] = []
    spans = []
    at, before = 0, NOWHERE
    for word in words:
        gap = word.gap if parts else ""
        if gap == " " and word.source in glued and before == word.source - 1:
            gap = glued[word.source]
        parts += [gap, word.text]
        spans.append((at + len(gap), at + len(gap) + len(word.text)))
        at, before = spans[-1][1], word.source
    return "".join(parts), spans


def _in_order(text: str, marks: Sequence[Mark], found: TargetWords, escape: dict[int, str]) -> str:
    """Return the translation with marks placed only by their relative position in the source; their order is kept."""
    words = [word.text.translate(escape) + " " for word in found.words]
    words = [text[:-1] + other.gap for text, other in zip(words, found.words[1:], strict=False)] + words[-1:]
    parts: list[str] = []
    done = 0
    for mark in marks:
        upto = round(mark.at / max(1, len(text)) * len(words))
        parts += words[done:upto]
        done = max(done, upto)
        parts.append(mark.raw)
    return "".join([*parts, *words[done:]]).rstrip(" ")


def _last_word(text: str) -> str:
    """Return what a text has after its last white space."""
    return "" if not text or text[-1].isspace() else text.split()[-1]


def _pieces(start: int, end: int, cuts: list[int]) -> list[tuple[int, int]]:
    """Split [start, end) at these offsets from its start."""
    return list(pairwise([start, *(start + cut for cut in cuts), end]))


class _Layout:
    """The placement of marks in a translation."""

    def __init__(self, text: str, marks: Sequence[Mark], found: TargetWords, glued: Mapping[int, str]) -> None:
        self._source, self._marks, self._found = text, marks, found
        self._spans = found.spans
        self._target, self._words = _put_together(found.words, glued)
        self._sources = [word.source for word in found.words]
        self._numbers = {word: n for n, word in enumerate(found.words)}
        self._inner = {at: one for one in scanned(self._target) for at in range(one.start + 1, one.end)}
        self._cut_copies()
        # Where nothing is put: between pieces t - 1 and t of one number.
        self._closed = {
            self._first_target[t]
            for t in one_numbers(found.words)
            if found.words[t - 1].source == found.words[t].source or not found.is_aligned
        }
        # A mark whose partner is in another sentence, or missing, divides the sentence: the other marks stay on their
        # side, and the order of such marks is kept.
        self._cuts = [n for n, mark in enumerate(marks) if mark.kind != "alone" and mark.partner is None]
        self._regions = self._divided()
        for region in self._regions:
            self._place(region)

    def written(self, escape: dict[int, str]) -> str:
        """Return the translation with its marks."""
        cuts = [self._marks[n].raw for n in self._cuts]
        return "".join(
            self._write(region, escape) + raw for region, raw in zip(self._regions, [*cuts, ""], strict=True)
        )

    def _divided(self) -> list[_Node]:
        """Return the regions between the dividing marks, as nodes whose place in the translation is set."""
        bounds = [-1, *self._cuts, len(self._marks)]
        found: list[_Node] = []
        low = begin = 0
        for first, last in pairwise(bounds):
            start = self._marks[first].at if first >= 0 else 0
            node = _Node(first, last, start, len(self._source), self._tree(first + 1, last), low=low, begin=begin)
            node.high, node.stop = len(self._words), len(self._target)
            if last < len(self._marks):
                mark = self._marks[last]
                node.end = mark.at
                node.high = low = max(low, self._cut_at(mark.at))
                at = self._start_of(low) if mark.kind == "open" or not low else self._words[low - 1][1]
                node.stop = begin = max(begin, at)
            found.append(node)
        return found

    def _cut_at(self, at: int) -> int:
        """Return the target word that best divides the words from source words before `at` and after it."""
        upto = bisect_left(self._spans, (at, 0))  # the number of source words that begin before it
        sides = [0 if s == NOWHERE else 1 if s < upto else -1 for s in self._sources]
        scores = list(accumulate(sides, initial=0))
        wanted = at / max(1, len(self._source)) * len(self._words)
        return max(range(len(self._words) + 1), key=lambda t: (scores[t], -abs(t - wanted)))

    def _cut_copies(self) -> None:
        """Split words that contain marks and were copied unchanged at their marks: `[<b>1</b>]`."""
        ats = sorted({mark.at for mark in self._marks})
        cuts: list[list[int]] = [[] for _ in self._spans]
        for at in ats:
            n = bisect_left(self._spans, (at, 0)) - 1  # the last word that begins before it
            if n >= 0 and at < self._spans[n][1]:
                cuts[n].append(at - self._spans[n][0])
        copies = {t: s for t, s in enumerate(self._sources) if s != NOWHERE and cuts[s] and self._is_copy(t, s)}
        copied = {*copies.values()}
        spans = [_pieces(*span, cuts[n] if n in copied else []) for n, span in enumerate(self._spans)]
        words = [_pieces(*word, cuts[copies[t]] if t in copies else []) for t, word in enumerate(self._words)]
        self._whole = [n for n, pieces in enumerate(spans) for _ in pieces]  # the word of each source piece
        first = [*accumulate(map(len, spans), initial=0)]  # the first piece of each source word
        begins = [s if s == NOWHERE else first[s] for s in self._sources]
        self._sources = [begin + k for begin, pieces in zip(begins, words, strict=True) for k in range(len(pieces))]
        self._first_target = [*accumulate(map(len, words), initial=0)]  # the first piece of each target word
        self._spans, self._words = [*chain(*spans)], [*chain(*words)]

    def _is_copy(self, t: int, n: int) -> bool:
        """Return whether target word t equals source word n, ignoring case."""
        one, other = self._target[slice(*self._words[t])], self._source[slice(*self._spans[n])]
        return len(one) == len(other) and one.casefold() == other.casefold()

    def _best_of(self, piece: int) -> int:
        """Return the target word that attends most to the word of a source piece."""
        best = self._found.best[self._whole[piece]]
        t = self._numbers.get(best, len(self._numbers) - 1) if best is not None else 0
        return self._first_target[t]

    def _tree(self, first: int, last: int) -> list[_Node]:
        """Return the nodes of marks first ... last - 1: whole elements and single marks."""
        nodes, n = [], first
        while n < last:
            mark = self._marks[n]
            if mark.kind == "open" and mark.partner is not None and n < mark.partner < last:
                end = self._marks[mark.partner].at
                if self._source[mark.at : end].strip():
                    children = self._tree(n + 1, mark.partner)
                    nodes.append(_Node(n, mark.partner, mark.at, end, children))
                else:  # an empty element is a point
                    nodes.append(_Node(n, mark.partner, mark.at, mark.at))
                n = mark.partner + 1
            else:
                nodes.append(_Node(n, n, mark.at, mark.at))
                n += 1
        return nodes

    # ------------------------------------------------------------ placement

    def _place(self, parent: _Node) -> None:
        """Place the children of a node within its range."""
        for child in parent.children:
            if child.is_point:
                child.begin = child.stop = min(max(self._point(child), parent.begin), parent.stop)
            else:
                self._choose_span(child, parent)
        elements = sorted((c for c in parent.children if not c.is_point), key=lambda c: (c.low + c.high, c.first))
        for left, right in zip(elements, elements[1:], strict=False):
            self._separate(left, right)
        edge = parent.begin
        for child in elements:
            self._to_characters(child, parent)
            child.begin = max(child.begin, edge)
            child.stop = edge = max(child.stop, child.begin)
        for child in parent.children:
            if not child.is_point:
                self._place(child)
                continue
            for one in elements:  # a mark that was outside an element moves out of it again
                is_before = child.first < one.first
                if one.begin < child.begin < one.stop or (one.begin == child.begin < one.stop and not is_before):
                    child.begin = child.stop = one.begin if is_before else one.stop

    def _source_words(self, node: _Node) -> set[int]:
        return {n for n, (a, b) in enumerate(self._spans) if a < node.end and node.start < b}

    def _choose_span(self, node: _Node, parent: _Node) -> None:
        """Choose an element's target words: the span with the most words of it and the fewest others."""
        own = self._source_words(node)
        best, total, start = 0.0, 0.0, parent.low
        node.low = node.high = parent.low
        for t in range(parent.low, parent.high):
            source = self._sources[t]
            total += _OWN if source in own else _UNALIGNED if source == NOWHERE else _FOREIGN
            if total > best:
                best, node.low, node.high = total, start, t + 1
            if total <= 0:
                total, start = 0.0, t + 1
        if best == 0 and own and parent.low < parent.high:
            t = min(max(self._best_of(min(own)), parent.low), parent.high - 1) if self._found.words else 0
            node.low, node.high = t, t + 1
        while node.low in self._closed and node.low > parent.low:
            node.low -= 1
        while node.high in self._closed and node.high < parent.high:
            node.high += 1

    def _separate(self, left: _Node, right: _Node) -> None:
        """Split the target words where two elements overlap, so that most words stay in their own element."""
        if left.high <= right.low:
            return
        of_left, of_right = self._source_words(left), self._source_words(right)

        low, high = min(left.low, right.low), max(left.high, right.high)
        # The score of a word for the left element minus that for the right one: the cut has the maximum sum.
        worth = (
            (self._sources[t] in of_left and t >= left.low) - (self._sources[t] in of_right) for t in range(low, high)
        )
        kept = list(accumulate(worth, initial=0))
        cut = max(range(low, high + 1), key=lambda c: (c not in self._closed, kept[c - low], -abs(2 * c - low - high)))
        left.low, right.high = low, high
        left.high = right.low = cut

    def _to_characters(self, node: _Node, parent: _Node) -> None:
        """Set an element's characters from its target words; punctuation that was outside stays outside."""
        if node.low >= node.high:
            node.begin = node.stop = min(self._start_of(node.low), parent.stop)
            return
        node.begin, node.stop = self._words[node.low][0], self._words[node.high - 1][1]
        if not self._ends_there(node.low, 0, node.start):
            begin = node.begin + self._outside(node, at_end=False)
            node.begin = self._inner[begin].start if begin in self._inner else begin
        if not self._ends_there(node.high - 1, 1, node.end):
            stop = node.stop - self._outside(node, at_end=True)
            node.stop = self._inner[stop].end if stop in self._inner else stop
        # White space at its edge stays in it: of `<b>see <code>x</code></b>, then` the comma follows the code.
        if self._source[node.start].isspace() and self._borders(node.low - 1, 1, node.start):
            node.begin = self._words[node.low - 1][1]
        if self._source[node.end - 1].isspace() and self._borders(node.high, 0, node.end):
            node.stop = self._words[node.high][0]
        node.begin, node.stop = max(node.begin, parent.begin), min(node.stop, parent.stop)

    def _borders(self, t: int, side: int, at: int) -> bool:
        """Return whether piece t is of a source piece that begins (side 0) or ends (side 1) at a character."""
        n = self._sources[t] if 0 <= t < len(self._sources) else NOWHERE
        return 0 <= n < len(self._spans) and self._spans[n][side] == at

    def _ends_there(self, t: int, side: int, at: int) -> bool:
        """Return whether piece t is also a copy of that source piece."""
        return self._borders(t, side, at) and self._is_copy(t, self._sources[t])

    def _outside(self, node: _Node, *, at_end: bool) -> int:
        """Return how many characters of the first or last target word stay outside an element that begins or ends
        inside a source word: a copy of the characters there, or what remains of the word without the element's part."""
        inner = self._source[node.start : node.end]
        edge = _last_word(self._source[: node.start])
        word = self._target[node.begin : self._words[node.low][1]]
        if at_end:  # the same, read from the end
            word = self._target[max(node.begin, self._words[node.high - 1][0]) : node.stop][::-1]
            edge, inner = _last_word(self._source[: node.end - 1 : -1]), inner[::-1]
        if not edge or inner[:1].isspace():
            return 0
        if len(edge) < len(word) and word[: len(edge)].casefold() == edge.casefold():
            return len(edge)
        if not _BLANK.search(inner) and len(inner) < len(word) and word[-len(inner) :].casefold() == inner.casefold():
            return len(word) - len(inner)
        sign = edge[-1]
        if word[:1] == inner[:1] and not word[:1].isalnum():  # its own bracket or stop
            return 0
        if at_end:
            bare = word.lstrip(_CLOSING if edge.strip(_STOPS) else _STOPS)
            return len(word) - len(bare) if sign in _CLOSING and (bare or node.high > node.low + 1) else 0
        return 0 if sign.isalnum() else min(len(word) - len(word.lstrip(sign)), len(word) - 1)

    def _start_of(self, t: int) -> int:
        return self._words[t][0] if t < len(self._words) else len(self._target)

    def _point(self, node: _Node) -> int:
        """Return the character before which a single mark goes: at the translation of its neighbour."""
        at = node.start
        for n, (start, end) in enumerate(self._spans):
            glued = at == end and not self._source[at : at + 1].strip()
            if start < at <= end and (glued or at < end):
                return self._edge(n, after=True)
            if at <= start:
                return self._edge(n, after=False)
        return len(self._target)

    def _edge(self, word: int, *, after: bool) -> int:
        """Return where the translation of a source word begins or ends."""
        if not self._words or not self._found.words:
            return 0
        places = [t for t, source in enumerate(self._sources) if source == word] or [self._best_of(word)]
        t = min(max(places) if after else min(places), len(self._words) - 1)
        while t + after in self._closed:
            t += 1 if after else -1
        return self._words[t][1 if after else 0]

    # ------------------------------------------------------------ writing

    def _spaced(self, point: _Node, raw: str, parent: _Node) -> str:
        """Return a single mark, surrounded by white space if it was in the source, within its element."""
        around = [self._source[max(0, point.start - 1) : point.start], self._source[point.start : point.start + 1]]
        target = [self._target[max(0, point.begin - 1) : point.begin], self._target[point.begin : point.begin + 1]]
        is_between = "".join(around).isspace() and len("".join(around)) == 2
        if not is_between and not _WORD_LIKE.match(raw):
            return raw
        inside = (point.begin > parent.begin, point.begin < parent.stop)
        gaps = []
        for one, other, is_inside in zip(around, target, inside, strict=True):
            is_wide = _WIDE.match(one) is not None and other.isalnum()
            gaps.append(" " * (((is_between and is_inside) or is_wide) and not _APART.fullmatch(other)))
        return gaps[0] + raw + gaps[1]

    def _write(self, node: _Node, escape: dict[int, str]) -> str:
        parts, at = [], node.begin
        for child in sorted(node.children, key=lambda c: (c.begin, c.stop, c.first)):
            parts.append(self._target[at : child.begin].translate(escape))
            if child.is_point:
                raw = "".join(mark.raw for mark in self._marks[child.first : child.last + 1])
                parts.append(self._spaced(child, raw, node))
            else:
                inner = self._write(child, escape)
                opening, closing = self._marks[child.first].raw, self._marks[child.last].raw
                # Signs that open and close alike, such as Markdown's emphasis, would be text around nothing.
                parts += [opening, inner, closing] if inner.strip() or opening != closing else [inner]
            at = max(at, child.stop)
        parts.append(self._target[at : node.stop].translate(escape))
        return "".join(parts)
