"""Split paragraphs of text and tags into sentences; each opening tag is paired with the tag that closes it."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Container
from html.entities import html5
from typing import Literal, NamedTuple

from nmt.documents.marks import Mark
from nmt.documents.passage import NO_BREAK, SOFT_HYPHEN, Sentence, Splitter, pieces
from nmt.documents.placeholders import Placeholder, has_words, scanned
from nmt.documents.tokens import Accelerator

_SEEN = re.compile(
    r"[^&\s]++|(?P<blank>\s++)"
    r"|(?P<entity>&(?:#[0-9]{1,7}+(?:;|(?![0-9]))|#[xX][0-9a-fA-F]{1,6}+(?:;|(?![0-9a-fA-F]))"
    r"|(?P<name>[A-Za-z][A-Za-z0-9._-]*+;)))"
    r"|(?P<old>&[A-Za-z][A-Za-z0-9]{1,5})|&"
)
_SPECIAL = re.compile(f"([{NO_BREAK}{SOFT_HYPHEN}])")
_BLANK = "blank"
"""The kind of items of white space at an edge of a sentence."""


class _Item(NamedTuple):
    """A tag, a text, or white space at an edge of a sentence. at: its first character; number: of a tag."""

    raw: str
    at: int
    kind: str
    number: int = -1


class Paragraph:
    """A text as the model reads it, its writing where that differs, and its tags. escape: of the translation; entities:
    the known ones, as `amp;`, others are marks."""

    def __init__(self, escape: dict[int, str], entities: Container[str]) -> None:
        self._escape, self._entities = escape, entities
        self._texts: list[str] = []
        self._length = 0
        self._raws: dict[int, str] = {}
        self._tags: dict[int, list[_Item]] = {}
        self._partners: list[int | None] = []
        self._open: list[tuple[int, str]] = []  # indices and names of start tags without a partner so far
        self._glued: list[tuple[int, str]] = []  # positions of no-break spaces, and the spaces

    def add_text(self, raw: str) -> None:
        """Add text as written. A run of white space counts as one space, as on the screen."""
        if raw.isprintable() and "&" not in raw and "  " not in raw:  # without other white space and soft hyphens
            if raw:
                self._add(raw, raw)
            return
        for found in _SEEN.finditer(raw):
            if found.lastgroup == _BLANK:
                self.add_read(" ", found[0])
            elif found.lastgroup == "entity":
                is_known = found["name"] is None or found["name"] in self._entities
                if is_known and (text := html.unescape(found[0])):
                    self.add_read(text, found[0])
                else:  # it is not known, or stands for no character
                    self.add_tag(found[0], "alone", "")
            elif found.lastgroup == "old":
                name = next((found[0][1:n] for n in range(len(found[0]), 2, -1) if found[0][1:n] in html5), "")
                if name:
                    self.add_read(html5[name], f"&{name}")
                self.add_read(found[0][len(name) + bool(name) :])
            else:
                self.add_read(found[0])

    def add_read(self, text: str, raw: str | None = None) -> None:
        """Add text as the model reads it; raw: how it is written if that differs."""
        if raw is not None and raw != text:
            self._add(text, raw)
        elif text.isascii():
            self._add(text, text)
        else:
            for part in _SPECIAL.split(text):
                self._add(part, part)

    def _add(self, text: str, raw: str) -> None:
        """Add text: as the model reads it, but for soft hyphens and no-break spaces, and as it is written."""
        if space := next((c for c in (text, raw) if len(c) == 1 and c in NO_BREAK), ""):
            self._glued.append((self._length, space))
        text = " " if text.isspace() else text.replace(SOFT_HYPHEN, "")
        if raw and not text:
            self._add_unread(raw)
        elif raw != text:
            self._raws[self._length] = raw
            for n in range(self._length + 1, self._length + len(text)):
                self._raws[n] = ""
        self._texts.append(text)
        self._length += len(text)

    def _add_unread(self, raw: str) -> None:
        """Add what the model does not read: it is written behind the character before it, or is a mark."""
        last = self._length - 1
        if last < 0 or self._length in self._tags:
            self.add_tag(raw, "alone", "")
        else:
            text = next(text for text in reversed(self._texts) if text)
            self._raws[last] = self._raws.get(last, text[-1]) + raw

    def add_tag(self, raw: str, kind: Literal["open", "close", "alone"], name: str) -> None:
        """Add a tag. An end tag closes the innermost open element only if its name matches."""
        number = len(self._partners)
        partner = None
        if kind == "open":
            self._open.append((number, name))
        elif kind == "close" and self._open and self._open[-1][1] == name:
            partner = self._open.pop()[0]
            self._partners[partner] = number
        elif kind == "close":
            self._open.clear()  # crossing elements have no partners; their tags keep their order
        self._partners.append(partner)
        self._tags.setdefault(self._length, []).append(_Item(raw, 0, kind, number))

    def parts(self, splitter: Splitter | None) -> list[str | Sentence]:
        """Return the sentences and what is between them."""
        text = "".join(self._texts)
        special = sorted({*self._raws, *self._tags})
        parts: list[str | Sentence] = []
        at = 0
        for piece in pieces(text, splitter) or [""]:
            end = at + len(piece)
            behind = end + (end == len(text))  # tags behind all words belong to the last sentence
            bare = piece.strip()
            found = scanned(bare)
            if has_words(bare, found):
                first = at + len(piece) - len(piece.lstrip())
                parts.append(self._sentence(text, (at, first, first + len(bare), behind), special, found))
            else:
                parts.append(_joined(self._items(text, at, behind, special)))
            at = end
        return parts

    def _items(self, text: str, start: int, end: int, special: list[int]) -> list[_Item]:
        """Return the tags before each character of [start, end) and the text between them, as written."""
        found: list[_Item] = []
        at = start
        for n in range(bisect_left(special, start), bisect_left(special, end)):
            place = special[n]
            if at < place:
                found.append(_Item(text[at:place], at, "text"))
            found += [one._replace(at=place) for one in self._tags.get(place, ())]
            if place < len(text):
                found.append(_Item(self._raws.get(place, text[place]), place, "text"))
            at = place + 1
        if at < min(end, len(text)):
            found.append(_Item(text[at:end], at, "text"))
        return found

    def _sentence(
        self, text: str, bounds: tuple[int, int, int, int], special: list[int], placeholders: list[Placeholder]
    ) -> Sentence:
        """Return a sentence, given where it and its words begin and end, and its placeholders. Tags before, after or
        around all words are put outside: they need not follow any word."""
        start, first, last, end = bounds
        blanks = [
            [one._replace(kind=_BLANK) if one.kind == "text" else one for one in self._items(text, *edge, special)]
            for edge in ((start, first), (last, end))
        ]
        items = [*blanks[0], *self._items(text, first, last, special), *blanks[1]]
        places = {one.number: one.at for one in items if one.kind in ("open", "close")}
        pairs = [(number, self._partners[number]) for number in places]
        within = {number: partner for number, partner in pairs if partner is not None and partner in places}
        around = set()  # tags of elements that contain words
        for number, partner in within.items():
            ends = sorted((places[number], places[partner]))
            if ends[0] < last and ends[1] > first:
                around.add(number)
        low, high = 0, len(items)
        while True:
            left, right = items[low], items[high - 1]
            if left.kind != "text" and left.number not in around and not isinstance(left.raw, Accelerator):
                low += 1
            elif right.kind != "text" and right.number not in around:
                high -= 1
            elif left.kind == "open" and within.get(left.number) == right.number:
                low, high = low + 1, high - 1
            else:
                break
        inner: list[_Item] = []
        for one in items[low:high]:
            if one.kind == _BLANK and one.at < first and inner and inner[-1].kind == "alone":  # it stays behind it
                inner[-1] = inner[-1]._replace(raw=inner[-1].raw + one.raw)
            else:
                inner.append(one)
        tags = [one for one in inner if one.kind not in ("text", _BLANK)]
        tags = [  # a key within a word
            one._replace(at=text.rfind(" ", 0, one.at) + 1) if isinstance(one.raw, Accelerator) else one for one in tags
        ]
        numbers = {one.number: n for n, one in enumerate(tags)}
        marks = [
            Mark(one.raw, min(max(one.at, first), last) - first, one.kind, numbers.get(within.get(one.number, -1)))  # type: ignore[arg-type]
            for one in tags
        ]
        spaces = self._glued[bisect_left(self._glued, (first, "")) : bisect_left(self._glued, (last, ""))]
        escape = {ord(space): self._raws.get(at, space) for at, space in reversed(spaces)}  # as in the source
        return Sentence(
            text[first:last],
            _joined(items[:low]),
            _joined(items[high:]),
            _joined(inner),
            tuple(marks),
            self._escape | escape if escape else self._escape,
            head=_joined([one for one in inner if one.kind == _BLANK and one.at < first]),
            tail=_joined([one for one in inner if one.kind == _BLANK and one.at >= last]),
            glued=tuple((at - first, space) for at, space in spaces),
            read=None if spaces else placeholders,
        )


def _joined(items: list[_Item]) -> str:
    return "".join(one.raw for one in items)
