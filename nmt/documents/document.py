"""Documents in many file formats: extract the text to translate, and write the file with the translations in its
place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath

from nmt.documents.declared_encoding import Encoding, declared_text
from nmt.documents.limits import Limits
from nmt.documents.passage import Passage, text_passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import html_passage
from nmt.documents.xml_files import xml_file_passage
from nmt.errors import DataError


@dataclass(frozen=True)
class Document:
    """A document. passages: the text to translate; write: returns the file, given the new text of each passage."""

    passages: list[Passage]
    write: Callable[[Sequence[str]], bytes]


Reader = Callable[[bytes, str, Splitter | None], Document]
"""Reads the bytes of a file with a name for messages. Raises DataError."""


def text_of(content: bytes, name: str) -> tuple[str, bool]:
    """Return the text of a file, and whether it begins with a byte-order mark. Raises DataError."""
    marked = content.startswith(b"\xef\xbb\xbf")
    try:
        return content[3 * marked :].decode(), marked
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}: line {line} must be UTF-8, got byte {content[error.start]:#04x}; convert the text to UTF-8"
        ) from None


def bytes_of(text: str, marked: bool) -> bytes:
    """Return the bytes of a file with this text."""
    return b"\xef\xbb\xbf" * marked + text.encode()


@dataclass(frozen=True)
class _WholeFile:
    """A writer of files that consist of one passage."""

    encoding: Encoding

    def __call__(self, found: Sequence[str]) -> bytes:
        return self.encoding.encoded(found[0])


def _read_text(content: bytes, name: str, splitter: Splitter | None) -> Document:
    text, marked = text_of(content, name)
    return Document([text_passage(text, splitter)], _WholeFile(Encoding(marked=marked)))


def _marked_up(read: Callable[[str, Splitter | None], Passage]) -> Reader:
    """Return a reader for a format whose files may declare their encoding."""

    def reader(content: bytes, name: str, splitter: Splitter | None) -> Document:
        found = declared_text(content)
        if found is None:
            text, marked = text_of(content, name)
            found = text, Encoding(marked=marked)
        return Document([read(found[0], splitter)], _WholeFile(found[1]))

    return reader


_READERS: dict[str, Reader | str] = {
    "text": _read_text,
    "html": _marked_up(html_passage),
    "xml": _marked_up(xml_file_passage),
    "srt": "nmt.documents.formats.srt",
    "po": "nmt.documents.formats.po",
    "xliff": "nmt.documents.formats.xliff",
    "docx": "nmt.documents.formats.docx",
}
"""Readers of texts, or the modules whose `read` is a reader that also takes limits, and languages for headers."""

FORMATS = tuple(_READERS)

_SUFFIXES = {"txt": "text", "htm": "html", "xhtml": "html", "xlf": "xliff", "pot": "po"}

MEDIA_TYPES = {
    "text": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "xml": "application/xml",
    "srt": "application/x-subrip",
    "po": "text/x-gettext-translation",
    "xliff": "application/xliff+xml",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}


def format_of(name: str) -> str:
    """Return the format that the extension of a file name stands for. Raises DataError."""
    suffix = PurePath(name).suffix.lower().lstrip(".")
    found = _SUFFIXES.get(suffix, suffix)
    if found not in _READERS:
        raise DataError(
            f"{name}: must end in one of {', '.join(SUFFIXES)}, got {suffix or 'no ending'}; name the format"
        )
    return found


SUFFIXES = tuple(f".{name}" for name in sorted({*_SUFFIXES, *_READERS} - {"text"}))


def read_document(
    content: bytes,
    form: str,
    name: str = "document",
    splitter: Splitter | None = None,
    languages: tuple[str, str] | None = None,
    limits: Limits | None = None,
) -> Document:
    """Read a document.

    Args:
        content: The bytes of the file.
        form: One of FORMATS.
        name: The name of the file in messages.
        splitter: Splits paragraphs into sentences; if None, each paragraph is one sentence.
        languages: Codes of source and target, for formats that name them in the file.
        limits: Limits of the file's contents.

    Raises:
        DataError: The file is not of this format, or exceeds the limits.
        NMTError: A library that the format needs is not installed.
    """
    reader = _READERS[form]
    if not isinstance(reader, str):
        (limits or Limits()).check_content(len(content), name)
        return reader(content, name, splitter)
    found: Document = import_module(reader).read(content, name, splitter, languages, limits)
    return found
