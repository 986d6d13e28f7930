"""Read and write translation memories as TMX 1.4b (Translation Memory eXchange)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from html import escape, unescape
from pathlib import Path

from nmt.documents.encodings import xml_as_utf8
from nmt.documents.formats.xml_places import Element, trees, without_cdata
from nmt.documents.limits import Limits
from nmt.errors import DataError
from nmt.inference.pivot import base
from nmt.learning.memory import Pair
from nmt.system.files import explain, read_small, remedy, write_bytes
from nmt.system.paths import is_file

_CODES = ("bpt", "ept", "it", "ph", "ut")
"""Inline elements whose content is markup of the original document, not text (TMX 1.4b, section 4.2)."""


def read_tmx(path: Path, source: str, target: str) -> list[tuple[str, str]]:
    """Return the pairs of a TMX file in these languages; regions need not agree. Inline markup is skipped.

    Raises DataError if the file cannot be read, is no TMX, exceeds the limits for documents, or has no such pair.
    """
    limits, name = Limits(), str(path)
    try:
        content, _ = xml_as_utf8(read_small(path, limits.content_bytes), name)
    except OSError as error:
        raise DataError(f"{path}: must be a TMX file, got {explain(error)}; check the path") from error
    heads: list[Element] = []

    def wanted(one: Element) -> bool:
        if not heads and one.name != "tmx":
            raise DataError(f"{path}: must be TMX, got another kind of XML; name another file")
        heads.append(one)
        return one.name == "tu"

    found, languages = [], dict[str, None]()
    for unit in trees(content, name, wanted, limits):
        texts: dict[str, str] = {}
        for variant in unit.children:
            code = variant.attributes.get("lang", "")
            languages[code] = None
            for segment in variant.children:
                if segment.name == "seg":
                    texts.setdefault(base(code), " ".join(_text(segment, content).split()))
        pair = texts.get(base(source), ""), texts.get(base(target), "")
        if all(pair):
            found.append(pair)
    if not found:
        got = ", ".join(list(languages)[:8]) or "no translation unit"
        raise DataError(f"{path}: must have pairs of {source} and {target}, got {got}; check the languages")
    return found


def _text(element: Element, content: bytes) -> str:
    """Return the text of an element without inline markup."""
    parts, at = [], element.inner
    for child in element.children:
        parts.append(content[at : child.start])
        if child.name not in _CODES:
            parts.append(escape(_text(child, content), quote=False).encode())
        at = child.end
    parts.append(content[at : element.inner_end])
    return unescape(without_cdata(b"".join(parts).decode()))


def write_tmx(path: Path, pairs: Iterable[Pair], source: str, target: str) -> None:
    """Write pairs as a TMX file; one that is there is replaced when the new one is complete. Raises DataError if it
    cannot be written, or another file is there."""
    from nmt import __version__

    if is_file(path) and b"<tmx" not in path.read_bytes():
        raise DataError(f"{path}: must be a new file or a TMX file, got another file; name another")
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<tmx version="1.4">',
        f'<header creationtool="nmt" creationtoolversion="{__version__}" segtype="sentence" o-tmf="nmt" '
        f'adminlang="en" srclang="{escape(source)}" datatype="plaintext"/>',
        "<body>",
    ]
    for pair in pairs:
        when = datetime.fromisoformat(pair.at).strftime("%Y%m%dT%H%M%SZ")
        who = f' creationid="{escape(_allowed(pair.who))}"' if pair.who else ""
        lines.append(f'<tu tuid="{pair.number}" creationdate="{when}"{who}>')
        for language, text in ((source, pair.source), (target, pair.target)):
            shown = escape(_allowed(text), quote=False)
            lines.append(f'<tuv xml:lang="{escape(language)}"><seg>{shown}</seg></tuv>')
        lines.append("</tu>")
    content = "\n".join([*lines, "</body>", "</tmx>", ""])
    try:
        write_bytes(path, content.encode())
    except OSError as error:
        raise DataError(f"{path}: must be written, got {explain(error)}; {remedy(error)}") from error


def _allowed(text: str) -> str:
    """Return text without the characters that XML cannot contain."""
    return "".join(c for c in text if c >= " " and c not in "\ufffe\uffff")
