"""The table of file formats, which imports none of them, and the limits of their contents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from nmt.errors import DataError


@dataclass(frozen=True)
class Limits:
    """Limits for one file. content_bytes: the size of its text, unpacked; archive_bytes: of all members of an archive;
    elements: XML elements, PO entries or subtitles; paragraph_elements: in a paragraph; depth: of nesting."""

    content_bytes: int = 64 * 2**20
    archive_bytes: int = 200 * 2**20
    elements: int = 1_000_000
    paragraph_elements: int = 100_000
    depth: int = 200

    def check_content(self, size: int, name: str) -> None:
        """Raise DataError if `size` exceeds content_bytes."""
        if size > self.content_bytes:
            raise DataError(
                f"{name}: must contain at most {self.content_bytes:,} bytes of text, got {size:,}; split it"
            )

    def check_elements(self, count: int, name: str) -> None:
        """Raise DataError if `count` exceeds `elements`."""
        if count > self.elements:
            raise DataError(f"{name}: must have at most {self.elements:,} elements, got more; split it")


@dataclass(frozen=True)
class Format:
    """A format. module: its `read` reads a file; suffixes: endings of names; is_packed: whether it is a zip archive."""

    module: str
    media_type: str
    suffixes: str
    is_packed: bool = False


_OPENXML = "application/vnd.openxmlformats-officedocument"
_OASIS = "application/vnd.oasis.opendocument"
_PACKAGES = "nmt.documents.formats.packages"

FORMATS = {
    "text": Format("nmt.documents.formats.text", "text/plain; charset=utf-8", "txt"),
    "html": Format("nmt.documents.formats.html", "text/html; charset=utf-8", "html htm xhtml"),
    "xml": Format("nmt.documents.formats.xml_files", "application/xml", "xml"),
    "markdown": Format("nmt.documents.formats.markdown", "text/markdown; charset=utf-8", "md markdown"),
    "srt": Format("nmt.documents.formats.srt", "application/x-subrip", "srt"),
    "vtt": Format("nmt.documents.formats.srt", "text/vtt; charset=utf-8", "vtt"),
    "po": Format("nmt.documents.formats.po", "text/x-gettext-translation", "po pot"),
    "xliff": Format("nmt.documents.formats.xliff", "application/xliff+xml", "xliff xlf"),
    "docx": Format(_PACKAGES, f"{_OPENXML}.wordprocessingml.document", "docx", is_packed=True),
    "pptx": Format(_PACKAGES, f"{_OPENXML}.presentationml.presentation", "pptx", is_packed=True),
    "odt": Format(_PACKAGES, f"{_OASIS}.text", "odt", is_packed=True),
    "ods": Format(_PACKAGES, f"{_OASIS}.spreadsheet", "ods", is_packed=True),
    "odp": Format(_PACKAGES, f"{_OASIS}.presentation", "odp", is_packed=True),
    "epub": Format(_PACKAGES, "application/epub+zip", "epub", is_packed=True),
}
"""The formats by name. A new zip archive of XML parts has its parts and paragraphs in `packages`."""

PACKED_FORMATS = tuple(name for name, one in FORMATS.items() if one.is_packed)
MEDIA_TYPES = {name: one.media_type for name, one in FORMATS.items()}
_BY_SUFFIX = {suffix: name for name, one in FORMATS.items() for suffix in one.suffixes.split()}
SUFFIXES = tuple(f".{suffix}" for suffix in sorted(_BY_SUFFIX))


def format_of(name: str) -> str:
    """Return the format that the extension of a file name stands for. Raises DataError."""
    suffix = PurePath(name).suffix.lower().lstrip(".")
    if suffix not in _BY_SUFFIX:
        raise DataError(
            f"{name}: must end in one of {', '.join(SUFFIXES)}, got {suffix or 'no ending'}; name the format"
        )
    return _BY_SUFFIX[suffix]
