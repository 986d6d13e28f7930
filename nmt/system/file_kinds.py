"""Tell what a file is by its first bytes, and what to do with it where lines of text are wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_BYTES = 4096
"""The number of first bytes that tell what a file is."""
_UTF_16 = "convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW"
_UTF_32 = "convert it: iconv -f UTF-32 -t UTF-8 OLD > NEW"


@dataclass(frozen=True)
class FileKind:
    """The kind of a file. `what`: the kind, in words; `advice`: how to get lines of text from it, empty where `form`
    says it; `form`: the value of nmt-translate --format that reads it, None if there is none."""

    what: str
    advice: str = ""
    form: str | None = None

    def for_lines(self) -> str:
        """Return what it is and what to do with it where lines of text are wanted."""
        advice = f"translate it with --format {self.form}, or save its sentences as a text, one a line"
        return f"{self.what}; {self.advice or advice}"


_WIDE = FileKind("text that looks like UTF-16", _UTF_16)
_STARTS = (
    (b"\xff\xfe\x00\x00", FileKind("UTF-32", _UTF_32)),
    (b"\x00\x00\xfe\xff", FileKind("UTF-32", _UTF_32)),
    (b"\xff\xfe", _WIDE),
    (b"\xfe\xff", _WIDE),
    (b"\x1f\x8b", FileKind("a gzip archive without .gz at the end of its name", "rename it")),
    (b"\x28\xb5\x2f\xfd", FileKind("a zstd archive without .zst at the end of its name", "rename it")),
    (b"BZh", FileKind("a bzip2 archive", "unpack it: bunzip2 FILE")),
    (b"\xfd7zXZ\x00", FileKind("an xz archive", "unpack it: unxz FILE")),
    (b"7z\xbc\xaf\x27\x1c", FileKind("a 7z archive", "unpack it")),
    (b"Rar!\x1a\x07", FileKind("a RAR archive", "unpack it")),
    (b"%PDF-", FileKind("a PDF document", "convert it to text")),
    (b"{\\rtf", FileKind("an RTF document", "save it as .docx, or as text, one sentence per line")),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        FileKind(
            "a document of an old Office, or one with a password", "save it as .docx without a password, or as text"
        ),
    ),
    (b"SQLite format 3\x00", FileKind("an SQLite database", "export its texts, one sentence per line")),
    (b"PAR1", FileKind("a Parquet table", "name it .parquet")),
    (b"\x89PNG\r\n", FileKind("a picture (PNG)", "give a text")),
    (b"\xff\xd8\xff", FileKind("a picture (JPEG)", "give a text")),
    (b"\x7fELF", FileKind("a program", "give a text")),
)
"""First bytes of files that are no lines of text."""
_ZIPPED = (
    (b"word/", FileKind("a .docx document", form="docx")),
    (b"ppt/", FileKind("a .pptx presentation", form="pptx")),
    (b"xl/", FileKind("an Excel workbook", "save it as .ods, or its column as text; nmt-train reads .xlsx")),
    (b"application/epub+zip", FileKind("an EPUB book", form="epub")),
    (b"application/vnd.oasis.opendocument.text", FileKind("an .odt document", form="odt")),
    (b"application/vnd.oasis.opendocument.spreadsheet", FileKind("an .ods spreadsheet", form="ods")),
    (b"application/vnd.oasis.opendocument.presentation", FileKind("an .odp presentation", form="odp")),
    (b"data.pkl", FileKind("a file of torch.save", "give a text")),
)
"""Names and types in zip archives by which documents are known."""
_BY_ENDING = {kind.form: kind for _, kind in _ZIPPED if kind.form} | dict.fromkeys(("xlsx", "xlsm"), _ZIPPED[2][1])
_ARCHIVE = FileKind("a zip archive, as .docx is one", "for a document give its --format, else unpack it")
_SUBWORDS = FileKind("a model of sentencepiece", "give a text; a config names it data.subwords.model_file")
_PIECE = re.compile(rb"\n.\n.<(unk|pad|s)>\x15", re.DOTALL)
_CUE = r"\d\d?:\d\d(:\d\d)?[,.]\d{1,3}[ \t]+--?>"
_MARKUP = (
    (re.compile(r"WEBVTT([ \t].*)?\n", re.A), FileKind("WebVTT subtitles", form="vtt")),
    (re.compile(rf"\d+[ \t]*\n{_CUE}", re.A), FileKind("SubRip subtitles", form="srt")),
    (re.compile(r'((#.*)?[ \t]*\n)*(msgctxt ".*"\n(".*"\n)*)?msgid ".*"\n'), FileKind("a PO file", form="po")),
    (re.compile(r"(<\?xml[^>]*>)?(\s|<!--.*?-->)*<xliff\b", re.S), FileKind("an XLIFF file", form="xliff")),
    (
        re.compile(r"(<\?xml[^>]*>)?(\s|<!--.*?-->|<!doctype tmx[^>]*>)*<tmx\b", re.S | re.I),
        FileKind("a TMX memory", "name it NAME.tmx, a table for nmt-train"),
    ),
    (
        re.compile(r"(<\?xml[^>]*>)?(\s|<!--.*?-->)*(<!doctype html|<html[\s>])", re.S | re.I),
        FileKind("an HTML page", form="html"),
    ),
    (re.compile(r"<\?xml\s"), FileKind("an XML file", form="xml")),
)
"""Beginnings of files of text that are no lines of sentences."""
_JSON = re.compile(r'\s*\{\s*"[^"\n]*"\s*:|\s*\[\s*(\{\s*"|"[^"\n]*"\s*[,\]])')
_CSV = re.compile(r'("([^"]|"")*"[,;]){1,200}"([^"]|"")*"')


def kind_of_bytes(start: bytes, name: str = "") -> FileKind | None:
    """Return what a file is whose first bytes show that it is no text in UTF-8; None if they do not. `start`: its first
    bytes, HEAD_BYTES or the first line; `name`: of the file, which tells kinds of zip archives apart."""
    if start.startswith(b"PK\x03\x04"):
        known = next((kind for sign, kind in _ZIPPED if sign in start), None)
        return known or _BY_ENDING.get(name.rpartition(".")[2].lower(), _ARCHIVE)
    known = next((kind for sign, kind in _STARTS if start.startswith(sign)), None)
    if known is None and _PIECE.match(start):
        return _SUBWORDS
    return known if known is not None or not _has_wide_characters(start) else _WIDE


def kind_of_text(start: str, data: bool = True) -> FileKind | None:
    """Return what a text is that begins as markup or, with `data`, as JSON or CSV; None for lines of sentences."""
    start = start.removeprefix("\ufeff").replace("\r\n", "\n")
    for pattern, kind in _MARKUP:
        if pattern.match(start if kind.form == "po" else start.lstrip()):
            return kind
    if data and _JSON.match(start):
        return FileKind("JSON", "with one object a line name it .jsonl and give --column; else save its texts as lines")
    lines = start.split("\n")[:-1][:10]
    if data and len(lines) > 1 and all(_CSV.fullmatch(line) for line in lines):
        return FileKind("a table with commas and quotes (CSV)", "name it NAME.csv, a table for nmt-train")
    return None


def _has_wide_characters(raw: bytes) -> bool:
    """Return whether every second byte of a first line, and no other, is NUL, as in ASCII text encoded in UTF-16."""
    line = raw.partition(b"\n")[0].removesuffix(b"\r")
    for zeros, others in ((line[1::2], line[::2]), (line[::2], line[1::2])):
        if len(zeros) > 1 and not any(zeros) and 0 not in others:
            return True
    return False
