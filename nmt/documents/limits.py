"""Limits of documents, and the supported encodings."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

from nmt.errors import DataError


@dataclass(frozen=True)
class Limits:
    """Limits for one file. content_bytes: the size of its text, unpacked: that of all XML parts of a DOCX together, or
    of the file; archive_bytes: the size of all members of an archive, unpacked; elements: the number of XML elements,
    PO entries or subtitles; paragraph_elements: the number of XML elements in one paragraph or unit; depth: the nesting
    depth of elements."""

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

    def check_place(self, count: int, depth: int, name: str) -> None:
        """Raise DataError if an element exceeds paragraph_elements or depth."""
        if depth > self.depth:
            raise DataError(f"{name}: elements must be at most {self.depth} deep, got deeper ones; simplify it")
        if count > self.paragraph_elements:
            most = self.paragraph_elements
            raise DataError(f"{name}: a paragraph must have at most {most:,} elements, got more; split it")


_KNOWN = re.compile(
    r"utf-(8|8-sig|16|16-le|16-be)|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|gb\w+|euc_\w+|big5\w*|shift_jis\w*|johab|tis-620"
)
"""Names of text encodings in Python, without codecs that are no encodings or take more than linear time."""


def is_utf8(encoding: str) -> bool:
    """Return whether text in this encoding is UTF-8."""
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def decoded(content: bytes, encoding: str, name: str) -> str:
    """Return the text of bytes. Raises DataError if the encoding is unknown or does not fit."""
    try:
        known = _KNOWN.fullmatch(codecs.lookup(encoding).name) is not None
    except (LookupError, ValueError):
        known = False
    if not known:
        raise DataError(f"{name}: encoding must be a known one, got {encoding[:40]!r}; convert the file to UTF-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}: line {line} must be {encoding}, got byte {content[error.start]:#04x}; convert the file to UTF-8"
        ) from None


_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.-]+)["']""")


def xml_as_utf8(content: bytes, name: str) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return an XML file in UTF-8, and a function that converts it back to its own encoding; new characters that the
    encoding lacks become references. Raises DataError."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        mark, encoding = content[:2], "utf-16-le" if content[:1] == b"\xff" else "utf-16-be"
    else:
        found = _DECLARED.match(content)
        mark, encoding = b"", found[1].decode() if found else "utf-8"
    if is_utf8(encoding):
        decoded(content, "utf-8", name)
        return content, bytes
    text = decoded(content[len(mark) :], encoding, name)
    return text.encode(), lambda new: mark + new.decode().encode(encoding, "xmlcharrefreplace")
