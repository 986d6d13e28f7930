"""Documents in many file formats: the text to translate, and the file with the translations in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath

from nmt.documents.encodings import utf8_text
from nmt.documents.limits import Limits
from nmt.documents.passage import Passage, Rules
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import plain_passage
from nmt.documents.tokens.token import reasons_of
from nmt.errors import DataError


@dataclass(frozen=True)
class File:
    """A file to read. name: its name in messages; splitter: splits paragraphs into sentences, if None each is one
    sentence; languages: codes of source and target, for formats that name them; limits: of its contents; form: one of
    FORMATS."""

    content: bytes
    name: str = "document"
    splitter: Splitter | None = None
    languages: tuple[str, str] | None = None
    limits: Limits = field(default_factory=Limits)
    form: str = "text"


@dataclass(frozen=True)
class Document:
    """A document. passages: the text to translate; write: returns the file, given the new text of each passage;
    unread: what else should be translated but cannot be read, as `left` counts it."""

    passages: list[Passage]
    write: Callable[[Sequence[str]], bytes]
    unread: Mapping[str, int] = field(default_factory=dict)

    @property
    def left(self) -> dict[str, int]:
        """Return what should be translated but is left as it is: the number of each kind."""
        return dict(reasons_of(part for one in self.passages for part in one.parts) + Counter(self.unread))


def left_text(left: Mapping[str, int]) -> str:
    """Return the contents of `Document.left` as words."""
    return ", ".join(f"{count:,} {what}" for what, count in left.items())


def _read_text(file: File) -> Document:
    """Read plain text."""
    text, encoding = utf8_text(file.content, file.name)
    return Document([plain_passage(text, file.splitter)], lambda found: encoding.encoded(found[0]))


@dataclass(frozen=True)
class _Format:
    """A format. reader: a function, or the module whose `read` is one, which raises DataError; suffixes: extensions of
    its files; is_packed: whether a file is a zip archive, whose text is smaller or larger than the file."""

    reader: Callable[[File], Document] | str
    media_type: str
    suffixes: str
    is_packed: bool = False


_OPENXML = "application/vnd.openxmlformats-officedocument"
_OASIS = "application/vnd.oasis.opendocument"
_PACKAGES = "nmt.documents.formats.packages"

_FORMATS = {
    "text": _Format(_read_text, "text/plain; charset=utf-8", "txt"),
    "html": _Format("nmt.documents.formats.html", "text/html; charset=utf-8", "html htm xhtml"),
    "xml": _Format("nmt.documents.formats.xml_files", "application/xml", "xml"),
    "markdown": _Format("nmt.documents.formats.markdown", "text/markdown; charset=utf-8", "md markdown"),
    "srt": _Format("nmt.documents.formats.srt", "application/x-subrip", "srt"),
    "vtt": _Format("nmt.documents.formats.srt", "text/vtt; charset=utf-8", "vtt"),
    "po": _Format("nmt.documents.formats.po", "text/x-gettext-translation", "po pot"),
    "xliff": _Format("nmt.documents.formats.xliff", "application/xliff+xml", "xliff xlf"),
    "docx": _Format(_PACKAGES, f"{_OPENXML}.wordprocessingml.document", "docx", is_packed=True),
    "pptx": _Format(_PACKAGES, f"{_OPENXML}.presentationml.presentation", "pptx", is_packed=True),
    "odt": _Format(_PACKAGES, f"{_OASIS}.text", "odt", is_packed=True),
    "ods": _Format(_PACKAGES, f"{_OASIS}.spreadsheet", "ods", is_packed=True),
    "odp": _Format(_PACKAGES, f"{_OASIS}.presentation", "odp", is_packed=True),
    "epub": _Format(_PACKAGES, "application/epub+zip", "epub", is_packed=True),
}
"""The formats by name. To add a zip archive of XML parts, add its parts to `packages`, and its paragraphs to
`paragraphs`."""

FORMATS = tuple(_FORMATS)
PACKED_FORMATS = tuple(name for name, one in _FORMATS.items() if one.is_packed)
MEDIA_TYPES = {name: one.media_type for name, one in _FORMATS.items()}
_BY_SUFFIX = {suffix: name for name, one in _FORMATS.items() for suffix in one.suffixes.split()}
SUFFIXES = tuple(f".{suffix}" for suffix in sorted(_BY_SUFFIX))


def format_of(name: str) -> str:
    """Return the format that the extension of a file name stands for. Raises DataError."""
    suffix = PurePath(name).suffix.lower().lstrip(".")
    if suffix not in _BY_SUFFIX:
        raise DataError(
            f"{name}: must end in one of {', '.join(SUFFIXES)}, got {suffix or 'no ending'}; name the format"
        )
    return _BY_SUFFIX[suffix]


def read_document(
    content: bytes,
    form: str,
    name: str = "document",
    splitter: Splitter | None = None,
    languages: tuple[str, str] | None = None,
    limits: Limits | None = None,
    *,
    numbers: bool = True,
) -> Document:
    """Read a document. Raises DataError if the file is not of this format, or exceeds the limits, and NMTError if a
    library that the format needs is not installed. `content`, `name`, `splitter`, `languages`, `limits`: see `File`;
    `form`: one of FORMATS; `numbers`: whether numbers of its translation that are provably wrong are corrected."""
    file, reader = File(content, name, splitter, languages, limits or Limits(), form), _FORMATS[form].reader
    if not _FORMATS[form].is_packed:
        file.limits.check_content(len(content), name)
    found: Document = import_module(reader).read(file) if isinstance(reader, str) else reader(file)
    source, target = languages or ("", "")
    found.passages[:] = [passage.ruled(Rules(source, target, numbers)) for passage in found.passages]
    return found
