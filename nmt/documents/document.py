"""Documents in many file formats: the text to translate, and the file with the translations in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath

from nmt.documents.encodings import Encoding, declared_text, utf8_text
from nmt.documents.limits import Limits
from nmt.documents.passage import Passage, text_passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import html_passage
from nmt.documents.xml_files import xml_file_passage
from nmt.errors import DataError


@dataclass(frozen=True)
class File:
    """A file to read. name: its name in messages; splitter: splits paragraphs into sentences, if None each is one
    sentence; languages: codes of source and target, for formats that name them; limits: of its contents."""

    content: bytes
    name: str = "document"
    splitter: Splitter | None = None
    languages: tuple[str, str] | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Document:
    """A document. passages: the text to translate; write: returns the file, given the new text of each passage."""

    passages: list[Passage]
    write: Callable[[Sequence[str]], bytes]


def _whole_file(
    decode: Callable[[bytes, str], tuple[str, Encoding]], passage: Callable[[str, Splitter | None], Passage]
) -> Callable[[File], Document]:
    """Return a reader of files that consist of one passage."""

    def read(file: File) -> Document:
        text, encoding = decode(file.content, file.name)
        return Document([passage(text, file.splitter)], lambda found: encoding.encoded(found[0]))

    return read


_READERS: dict[str, Callable[[File], Document] | str] = {
    "text": _whole_file(utf8_text, text_passage),
    "html": _whole_file(declared_text, html_passage),
    "xml": _whole_file(declared_text, xml_file_passage),
    "srt": "nmt.documents.formats.srt",
    "po": "nmt.documents.formats.po",
    "xliff": "nmt.documents.formats.xliff",
    "docx": "nmt.documents.formats.docx",
}
"""Readers, or the modules whose `read` is a reader. They raise DataError."""

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
    """Read a document. Raises DataError if the file is not of this format, or exceeds the limits, and NMTError if a
    library that the format needs is not installed.

    Args:
        content, name, splitter, languages, limits: See `File`.
        form: One of FORMATS.
    """
    file, reader = File(content, name, splitter, languages, limits or Limits()), _READERS[form]
    if form != "docx":  # its text is smaller or larger than the file, which is packed
        file.limits.check_content(len(content), name)
    found: Document = import_module(reader).read(file) if isinstance(reader, str) else reader(file)
    return found
