"""Plain text."""

from __future__ import annotations

from nmt.documents.document import Document, File
from nmt.documents.encodings import utf8_text
from nmt.documents.tagged_text import plain_passage


def read(file: File) -> Document:
    """Read plain text."""
    text, encode = utf8_text(file.content, file.name)
    return Document([plain_passage(text, file.splitter)], lambda found: encode(found[0]))
