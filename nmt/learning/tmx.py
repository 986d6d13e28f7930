"""Read and write translation memories as TMX 1.4b (Translation Memory eXchange)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from html import escape
from pathlib import Path

from nmt.data.tables.readers import RECORDS
from nmt.errors import DataError
from nmt.inference.pivot import base
from nmt.learning.memory import Pair
from nmt.system.files import explain, remedy, write_bytes
from nmt.system.paths import is_file


def read_tmx(path: Path, source: str, target: str) -> list[tuple[str, str]]:
    """Return the pairs of a TMX file in these languages; regions need not agree. Inline markup is skipped.

    Raises DataError if the file cannot be read, is no TMX, declares entities, or has no such pair.
    """
    found, languages = [], dict[str, None]()
    for _, fields in RECORDS["tmx"](str(path)):
        texts: dict[str, str] = {}
        for code, text in fields:
            languages[code] = None
            texts.setdefault(base(code), text)
        pair = texts.get(base(source), ""), texts.get(base(target), "")
        if all(pair):
            found.append(pair)
    if not found:
        got = ", ".join(list(languages)[:8]) or "no translation unit"
        raise DataError(f"{path}: must have pairs of {source} and {target}, got {got}; check the languages")
    return found


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
