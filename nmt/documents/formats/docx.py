"""Word's DOCX (ECMA-376): texts, headers, footers, notes and comments are translated; all else is copied."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from copy import copy

from nmt.documents.document import Document, File
from nmt.documents.encodings import xml_as_utf8
from nmt.documents.formats.docx_paragraph import Paragraph, is_paragraph
from nmt.documents.formats.xml_places import count_elements, replaced, trees
from nmt.documents.limits import Limits
from nmt.errors import DataError

_PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml")
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def read(file: File) -> Document:
    """Read a DOCX file. Raises DataError if it is not one, or exceeds the limits."""
    content, name = file.content, file.name
    archive, parts = _opened(content, name, file.limits)
    back = {}
    paragraphs: dict[str, list[Paragraph]] = {}
    for part, data in parts.items():
        where = f"{name}: {part}"
        parts[part], back[part] = xml_as_utf8(data, where)
        found = paragraphs[part] = []
        for tree in trees(parts[part], where, is_paragraph, file.limits):
            found += Paragraph.all_of(tree, parts[part], file.splitter)
    passages = [one.passage for found in paragraphs.values() for one in found]

    def write(texts: Sequence[str]) -> bytes:
        rest = iter(texts)
        new: dict[str, bytes] = {}
        for part, found in paragraphs.items():
            changes = _changes(found, [next(rest) for _ in found])
            if changes:
                new[part] = back[part](replaced(parts[part], changes))
        if not new:
            return content
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            for info in archive.infolist():
                member = new[info.filename] if info.filename in new else archive.read(info)
                packed.writestr(copy(info), member)  # a copy, as writestr changes it
        return out.getvalue()

    return Document(passages, write)


def _changes(paragraphs: Sequence[Paragraph], texts: Sequence[str]) -> list[tuple[int, int, bytes]]:
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


def _opened(content: bytes, name: str, limits: Limits) -> tuple[zipfile.ZipFile, dict[str, bytes]]:
    """Return the archive, all of whose members are readable, and its parts with text. Raises DataError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = archive.infolist()
        if sum(info.file_size for info in members) > limits.archive_bytes:
            raise DataError(f"{name}: must unpack to at most {limits.archive_bytes:,} bytes, got more; split it")
        names = [info.filename for info in members]
        if len(set(names)) < len(names):
            raise DataError(f"{name}: must be a DOCX file without two members of one name, got some; save it again")
        if any(info.flag_bits & 1 for info in members):
            raise DataError(f"{name}: must be a DOCX file without a password, got an encrypted one; save it without")
        texts = [info for info in members if _PARTS.fullmatch(info.filename)]
        limits.check_content(sum(info.file_size for info in texts), name)
        if any(info.compress_type not in _PACKED for info in members) or archive.testzip() is not None:
            raise zipfile.BadZipFile("a member cannot be unpacked")
        parts = {info.filename: archive.read(info) for info in texts}
        limits.check_elements(sum(map(count_elements, parts.values())), name)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        raise DataError(f"{name}: must be a DOCX file, got a broken one ({error}); save it again") from None
    if not any(part.startswith("word/document") for part in parts):
        raise DataError(f"{name}: must be a DOCX file with word/document.xml, got another archive; save it again")
    return archive, parts
