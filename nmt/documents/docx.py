"""Word's DOCX (ECMA-376): texts of the document, its headers, footers, notes and comments; all else is copied."""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Sequence

from nmt.documents.document import Document
from nmt.documents.passage import Passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import Token, tagged_passage
from nmt.documents.xml_places import Element, elements_of, replaced
from nmt.errors import DataError

_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_MOST_BYTES = 200 * 2**20
"""Unpacked: what packs a thousand times as much is no letter."""
_BREAKS = ("tab", "br", "cr", "ptab")
_RUN = re.compile(r"\x02(\d+)\x03(.*?)\x02/\1\x03", re.DOTALL)


class _Paragraph:
    """A paragraph whose runs, stretches of one format, are tags around its words."""

    def __init__(self, texts: list[Element], content: bytes, splitter: Splitter | None) -> None:
        self._content = content
        self._groups: list[list[Element]] = []  # neighbours of one format
        former: bytes | None = None
        walls: set[int] = set()  # groups before which a tab or line break stands
        for one in texts:
            if one.name != "t":
                walls.add(len(self._groups))
                former = None
                continue
            form = _format_of(one, content)
            if self._groups and form == former:
                self._groups[-1].append(one)
            else:
                self._groups.append([one])
            former = form
        tokens: list[Token] = []
        for n, group in enumerate(self._groups):
            tokens += [Token("wall", "")] if n in walls else []
            raw = "".join(content[t.inner : t.inner_end].decode() for t in group)
            tokens += [
                Token("open", f"\x02{n}\x03", str(n)),
                Token("text", raw),
                Token("close", f"\x02/{n}\x03", str(n)),
            ]
        self.passage: Passage = tagged_passage(tokens, splitter)

    def changes(self, new: str) -> list[tuple[int, int, bytes]]:
        """What becomes of the bytes of its texts."""
        if new == self.passage.source:
            return []
        ordered = self._in_order(new)
        numbers = [n for n, _ in ordered]
        if numbers != sorted(numbers):
            if (runs := self._movable()) is not None:
                return self._moved(ordered, runs)
            ordered = list(zip(sorted(numbers), [text for _, text in ordered], strict=True))
        texts = dict(ordered)
        found = []
        for n, group in enumerate(self._groups):
            for k, one in enumerate(group):
                found.append((one.start, one.end, _written(texts.get(n, "") if k == 0 else "", self._content, one)))
        return found

    def _in_order(self, new: str) -> list[tuple[int, str]]:
        """The groups and their texts as the translation has them. White space between two goes where it was."""
        pieces = _RUN.split(new)
        texts = [
            (int(n), re.sub(r"\x02/?\d+\x03", "", text)) for n, text in zip(pieces[1::3], pieces[2::3], strict=True)
        ]
        between = pieces[::3]
        if not texts:
            return [(0, between[0])]
        found = [(texts[0][0], between[0] + texts[0][1])]
        for (n, text), blank in zip(texts[1:], between[1:], strict=False):
            first = self._groups[n][0]
            if self._content[first.inner : first.inner + 1].isspace():
                found.append((n, blank + text))
            else:
                found[-1] = found[-1][0], found[-1][1] + blank
                found.append((n, text))
        found[-1] = found[-1][0], found[-1][1] + between[-1]
        return found

    def _movable(self) -> list[Element] | None:
        """The run of each text, where all are neighbours that hold nothing else; None where they are not."""
        runs = [one.parent for group in self._groups for one in group]
        plain = [run for run in runs if run is not None and all(c.name in ("rPr", "t") for c in run.children)]
        return plain if len(plain) == len(runs) and len({id(run.parent) for run in plain}) == 1 else None

    def _moved(self, ordered: list[tuple[int, str]], runs: list[Element]) -> list[tuple[int, int, bytes]]:
        """Runs in the order of the translation, in the place of the first; the others go."""
        new = b""
        for n, text in ordered:
            one = self._groups[n][0]
            run = one.parent or one
            head = self._content[run.start : run.inner]
            form = run.child("rPr")
            look = self._content[form.start : form.end] if form is not None else b""
            new += head + look + _written(text, self._content, one) + self._content[run.inner_end : run.end]
        unique = list({run.start: run for run in runs}.values())
        return [(run.start, run.end, new if k == 0 else b"") for k, run in enumerate(unique)]


def read(content: bytes, name: str, splitter: Splitter | None) -> Document:
    """A DOCX file. Raises DataError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        if sum(info.file_size for info in archive.infolist()) > _MOST_BYTES:
            raise DataError(f"{name}: must unpack to at most {_MOST_BYTES:,} bytes, got more; split it")
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        raise DataError(f"{name}: must be a DOCX file, got a broken one ({error}); save it again") from None
    if "word/document.xml" not in parts:
        raise DataError(f"{name}: must be a DOCX file with word/document.xml, got another archive; save it again")
    found: dict[str, list[_Paragraph]] = {}
    for part, data in parts.items():
        if _PARTS.fullmatch(part):
            elements = elements_of(data, f"{name}: {part}")
            texts = [_texts_of(one) for one in elements if one.name == "p"]
            found[part] = [_Paragraph(own, data, splitter) for own in texts if own]
    passages = [one.passage for paragraphs in found.values() for one in paragraphs]

    def write(texts: Sequence[str]) -> bytes:
        rest = iter(texts)
        new = dict(parts)
        for part, paragraphs in found.items():
            changes = [change for one in paragraphs for change in one.changes(next(rest))]
            new[part] = replaced(parts[part], changes)
        if new == parts:
            return content
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            for info in archive.infolist():
                packed.writestr(info, new[info.filename])
        return out.getvalue()

    return Document(passages, write)


def _texts_of(paragraph: Element) -> list[Element]:
    """Its w:t, and the tabs and line breaks between them; those of paragraphs within it (text boxes) left to them."""
    found: list[Element] = []
    for child in paragraph.children:
        if child.name == "t" or (child.name in _BREAKS and paragraph.name == "r"):
            found.append(child)
        elif child.name not in ("p", "pPr", "rPr", "instrText", "del"):
            found += _texts_of(child)
    return found


def _format_of(text: Element, content: bytes) -> bytes:
    """What tells whether two texts look the same: their run's format, and where the run stands."""
    run = text.parent
    if run is None:
        return b""
    form = run.child("rPr")
    above = run.parent
    look = content[form.start : form.end] if form is not None else b""
    # A picture or field in a run divides what stands on both sides of it.
    apart = any(one.name not in ("t", "rPr", *_BREAKS) for one in run.children)
    return look + b"%d" % (above.start if above is not None else 0) + (b" %d" % text.start if apart else b"")


def _written(text: str, content: bytes, one: Element) -> bytes:
    """A w:t with this text, already escaped; spaces at its ends count."""
    prefix = content[one.start + 1 : one.start + 20].split(b"t")[0]
    plain = html.unescape(text)
    space = b' xml:space="preserve"' if plain != plain.strip() else b""
    return b"<%st%s>%s</%st>" % (prefix, space, text.encode(), prefix)
