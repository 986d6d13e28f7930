"""Limits of documents."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.errors import DataError


@dataclass(frozen=True)
class Limits:
    """Limits for one file. content_bytes: the size of its text, unpacked: that of all parts with text of an archive, or
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
