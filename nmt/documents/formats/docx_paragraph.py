"""Paragraphs of WordprocessingML as text with marks, and their XML rewritten around a translation.

Text with the formatting of most of the text around it is plain text. Text with other formatting becomes an element, as
do links, insertions, content controls, bookmarks and fields; everything without text (note references, pictures,
symbols, deleted text, formulas) is a mark at its place. A mark is represented by its number between two control
characters, which XML cannot contain.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Sequence

from nmt.documents.formats.docx_pieces import Look, Reader, behind_properties, is_paragraph, pair
from nmt.documents.formats.xml_places import Element, prefix_of, replaced
from nmt.documents.passage import Passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import Token, tagged_passage

_MARK = re.compile(r"\x02(\d+)\x03")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Paragraph:
    """A paragraph that contains text."""

    def __init__(self, whole: Element, content: bytes, splitter: Splitter | None) -> None:
        self._content, self._whole = content, whole
        self._prefix = prefix_of(content, whole)
        self.start, self.end = whole.start, whole.end
        reader = Reader(whole, content)
        self._pieces = [*reader.pieces]
        pair(self._pieces)
        self._base = reader.base
        self.passage: Passage = tagged_passage(
            [
                Token(one.kind, one.text if one.kind == "text" else f"\x02{n}\x03", one.key)
                for n, one in enumerate(self._pieces)
            ],
            splitter,
        )

    @classmethod
    def all_of(cls, whole: Element, content: bytes, splitter: Splitter | None) -> list[Paragraph]:
        """Return the paragraphs with text of an element: itself and those nested in it, such as those of text boxes."""
        found = []
        stack = [whole]
        while stack:
            one = stack.pop()
            if is_paragraph(one) and one.children and (new := cls(one, content, splitter)).passage.sentences:
                found.append(new)
            stack += reversed(one.children)
        return found

    def written(self, new: str, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
        """Return the XML with a translation; changes: replacements of the paragraphs within, in order."""
        starts = [start for start, _, _ in changes]

        def kept(start: int, end: int) -> bytes:
            within = changes[bisect_left(starts, start) : bisect_left(starts, end)]
            moved = [(a - start, b - start, text) for a, b, text in within]
            return replaced(self._content[start:end], moved) if moved else self._content[start:end]

        out = _Runs(self._prefix)
        looks = [self._base]
        for part in self._in_tree(_MARK.split(new)):
            if isinstance(part, str):
                out.add_text(looks[-1], part)
                continue
            piece = self._pieces[part]
            if piece.look is not None:
                looks.append(piece.look)
            elif piece.kind == "close" and piece.key.startswith(("look", "in")) and len(looks) > 1:
                looks.pop()
            for item in piece.items:
                out.add(item.look, kept(item.start, item.end), item.run)
        opening = self._content[self._whole.start : behind_properties(self._whole)]
        return opening + out.whole() + self._content[self._whole.inner_end : self._whole.end]

    def _in_tree(self, parts: Sequence[str]) -> list[str | int]:
        """Return texts and marks, each once: in the translation's order if elements form a tree there."""
        all_marks = [n for n, one in enumerate(self._pieces) if one.kind != "text"]
        marks = [int(number) for number in parts[1::2]]
        opened: list[str] = []
        is_tree = sorted(marks) == all_marks
        for n in marks if is_tree else []:
            piece = self._pieces[n]
            if piece.kind == "open":
                opened.append(piece.key)
            elif piece.kind == "close" and (not opened or opened.pop() != piece.key):
                is_tree = False
                break
        if not is_tree:
            marks = all_marks
        found: list[str | int] = []
        for n, text in enumerate(parts[::2]):
            found += [text] if text else []
            found += marks[n : n + 1]
        return found + list(marks[len(parts[::2]) :])


class _Runs:
    """XML of runs and what is between them; adjacent texts with the same formatting are merged."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._parts: list[bytes] = []
        self._look: Look | None = None
        self._run = 0

    def add(self, look: Look | None, inner: bytes, run: int = 0) -> None:
        """Add the content of a run with this formatting; without a look, add content between runs."""
        if self._look is not None and (look is None or look.form != self._look.form or run != self._run):
            self._parts.append(b"</%sr>" % self._prefix)
            self._look = None
        if look is not None and self._look is None:
            self._parts.append((look.head[:-2].rstrip() + b">" if look.head.endswith(b"/>") else look.head) + look.form)
            self._look, self._run = look, run
        self._parts.append(inner)

    def add_text(self, look: Look, text: str) -> None:
        """Add escaped text; spaces at its ends are preserved."""
        text = _NO_XML.sub("", text)
        plain = html.unescape(text)
        space = b' xml:space="preserve"' if plain != plain.strip() else b""
        if text:
            self.add(look, b"<%st%s>%s</%st>" % (self._prefix, space, text.encode(), self._prefix))

    def whole(self) -> bytes:
        """Return the XML."""
        if self._look is not None:
            self._parts.append(b"</%sr>" % self._prefix)
        return b"".join(self._parts)
