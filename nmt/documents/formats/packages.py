"""Packages, zip archives of XML: office documents and books. Parts with text are translated, all else is copied."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from html import escape

from nmt.documents.document import Document, File
from nmt.documents.encodings import xml_as_utf8
from nmt.documents.formats import html
from nmt.documents.formats.paragraphs import (
    Description,
    Paragraph,
    is_description,
    is_language,
    is_paragraph,
    raised_styles,
)
from nmt.documents.formats.xml_places import Element, count_elements, replaced, trees
from nmt.errors import DataError
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes

_OPEN_DOCUMENT = ("content", r"(?:content|styles)\.xml")
_PACKAGES = {
    "docx": ("word/document", r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml"),
    "pptx": ("ppt/presentation", r"ppt/(?:(?:notesS|s)lides/\w+|charts/chart\d*|diagrams/(?:data|drawing)\d*)\.xml"),
    "odt": _OPEN_DOCUMENT,
    "ods": _OPEN_DOCUMENT,
    "odp": _OPEN_DOCUMENT,
    "epub": ("META-INF/container", r"(?!META-INF/).+\.(?:x?html?|ncx|opf)"),
}
"""For each format the part that every package has, without .xml, and the names of the parts with text (ECMA-376; ODF
1.3; EPUB 3.3)."""
_ROOT = re.compile(rb"<(?:\w+:)?(?:html|body|package|ncx)\s[^<>]*>")
"""Tags around all text of a part of a book."""
_LANGUAGE = re.compile(rb"""(\s(?:xml:)?lang\s*=\s*["'])([\w-]+)(["'])""")
_HTML = re.compile(r"x?html?")
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def read(file: File) -> Document:
    """Read a package. Raises DataError if it is not one of its format, or exceeds the limits."""
    archive, contents = _opened(file)
    parts: dict[str, Document] = {}
    for name, content in contents.items():
        part = replace(file, content=content, name=f"{file.name}: {name}")
        is_html = _HTML.fullmatch(name.rpartition(".")[2]) is not None
        parts[name] = html.read(part) if is_html else _xml_part(part)
    passages = [one for part in parts.values() for one in part.passages]

    def write(texts: Sequence[str]) -> bytes:
        if all(new == one.source for one, new in zip(passages, texts, strict=True)):
            return file.content
        rest = iter(texts)
        new = {name: part.write([next(rest) for _ in part.passages]) for name, part in parts.items()}
        if file.form == "epub" and file.languages is not None and all(file.languages):
            new = {name: _in_language(part, *file.languages) for name, part in new.items()}
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            for info in archive.infolist():
                member = new[info.filename] if info.filename in new else archive.read(info)
                packed.writestr(copy(info), member)  # a copy, as writestr changes it
        return out.getvalue()

    return Document(passages, write)


def _xml_part(part: File) -> Document:
    """Read a part in XML. A language that it declares becomes the target language."""
    data, back = xml_as_utf8(part.content, part.name)
    paragraphs: list[Paragraph | Description] = []
    languages: list[Element] = []
    raised = raised_styles(data)

    def wanted(one: Element) -> bool:
        return is_paragraph(one) or is_language(one) or is_description(one)

    for tree in trees(data, part.name, wanted, part.limits):
        paragraphs += Paragraph.all_of(tree, data, part.splitter, raised)
        languages += [tree] if is_language(tree) and tree.inner < tree.end else []

    def write(texts: Sequence[str]) -> bytes:
        changes = _changes(paragraphs, texts)
        if part.languages is not None and part.languages[1] and languages:  # the first one is the main language
            changes.append((languages[0].inner, languages[0].inner_end, escape(part.languages[1]).encode()))
        return back(replaced(data, changes)) if changes else part.content

    return Document([one.passage for one in paragraphs], write)


def _in_language(content: bytes, source: str, target: str) -> bytes:
    """Return a part of a book whose text as a whole, if it is said to be in the source language, is in the target's."""

    def changed(found: re.Match[bytes]) -> bytes:
        return _LANGUAGE.sub(lambda one: one[1] + target.encode() + one[3] if is_source(one[2]) else one[0], found[0])

    def is_source(code: bytes) -> bool:
        return re.split(b"[-_]", code)[0].lower() == re.split("[-_]", source)[0].lower().encode()

    return _ROOT.sub(changed, content)


def _changes(paragraphs: Sequence[Paragraph | Description], texts: Sequence[str]) -> list[tuple[int, int, bytes]]:
    """Return the byte ranges to replace; a changed paragraph includes the changes within it, as in text boxes."""
    changes: list[tuple[int, int, bytes]] = []
    for one, new in sorted(zip(paragraphs, texts, strict=True), key=lambda pair: pair[0].end):
        if new == one.passage.source:
            continue
        within = len(changes)
        while within and changes[within - 1][0] >= one.start:
            within -= 1
        changes[within:] = [(one.start, one.end, one.written(new, changes[within:]))]
    return changes


def _opened(file: File) -> tuple[zipfile.ZipFile, dict[str, bytes]]:
    """Return the archive, all of whose members are readable, and its parts with text. Raises DataError."""
    name, limits = file.name, file.limits
    kind = f"{'an' if file.form[0] in 'eo' else 'a'} {file.form.upper()} file"
    needed, wanted = _PACKAGES[file.form]
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.content))
        members = archive.infolist()
        if sum(info.file_size for info in members) > limits.archive_bytes:
            raise DataError(f"{name}: must unpack to at most {limits.archive_bytes:,} bytes, got more; split it")
        names = [info.filename for info in members]
        if len(set(names)) < len(names):
            raise DataError(f"{name}: must be {kind} without two members of one name, got some; save it again")
        if any(info.flag_bits & 1 for info in members):
            raise DataError(f"{name}: must be {kind} without a password, got an encrypted one; save it without")
        texts = [info for info in members if re.fullmatch(wanted, info.filename)]
        limits.check_content(sum(info.file_size for info in texts), name)
        if any(info.compress_type not in _PACKED for info in members) or archive.testzip() is not None:
            raise zipfile.BadZipFile("a member cannot be unpacked")
        parts = {info.filename: archive.read(info) for info in texts}
        limits.check_elements(sum(map(count_elements, parts.values())), name)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        other = kind_of_bytes(file.content[:HEAD_BYTES])
        if other is not None and not file.content.startswith(b"PK"):
            raise DataError(f"{name}: must be {kind}, got {other.what}; {other.advice}") from None
        raise DataError(f"{name}: must be {kind}, got a broken one ({error}); save it again") from None
    if not any(one.startswith(needed) for one in names):
        raise DataError(f"{name}: must be {kind} with {needed}.xml, got another archive; save it again")
    return archive, parts
