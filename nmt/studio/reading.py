"""Read a file of a user into a project, as a child process with limits: its rows as a table of both sides and row
numbers, and what was found in it. `python -m nmt.studio.reading`; its standard input says what to read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.config import SideConfig
from nmt.data.corpora.language_by_text import is_in, language_by_text
from nmt.data.corpora.language_names import language_of
from nmt.data.corpora.looking import LOOKED_AT, Look, look
from nmt.data.corpora.sources import Source
from nmt.data.tables.marked import is_usfm, usfm_rows
from nmt.data.tables.readers import ENDINGS, GRIDS, RECORDS, form_of, paired
from nmt.data.tables.sheets import book_of
from nmt.doctor.findings import Finding
from nmt.doctor.repeats import Duplicates
from nmt.doctor.texts import Text
from nmt.errors import NMTError
from nmt.studio.errors import Refused
from nmt.studio.projects import write_json
from nmt.studio.texts import DONE, KEEP, LEAVE_OUT, MEND, MENDS
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes
from nmt.system.files import replacing
from nmt.system.lines import read_lines

Row = tuple[int, str, str]
_PREVIEW, _SNIFFED = 8, 200
_TABLE_SHARE = 0.8
_PLAIN = ("", ".txt", ".text", ".tab", ".lines")
_ENCODINGS = ("cp1252", "cp1251", "cp1250")
_LETTERS = {"cp1252": "LATIN", "cp1251": "CYRILLIC", "cp1250": "LATIN"}
_MARKED = re.compile(r"\\[a-z]{1,8}\b")
_SPACES = re.compile(r"\s+")


def read(given: dict[str, Any]) -> dict[str, Any]:
    """Read a file and write its rows; return the facts.

    given: `file`, `other` (the other half of a text in two files) and `table` (to write) are paths; `name`, that of the
    user's file; `langs`, the codes of the project's sides; `columns`, `header`, `sheet` and `swap`, what the user says.

    Raises Refused, or NMTError for what the readers refuse.
    """
    with TemporaryDirectory(prefix="nmt-studio-") as aside:
        names = [
            (given["file"], given["name"]),
            *([(given["other"], given["other_name"])] if given.get("other") else []),
        ]
        files = [_readable(Path(file), name, Path(aside) / str(place)) for place, (file, name) in enumerate(names)]
        if len(files) == 2:
            return _finished(given, _two(files, given), {"form": "lines", "heading": 0, "langs": given["langs"]})
        return _one(files[0], given)


def _readable(path: Path, name: str, aside: Path) -> str:
    """Return the path of a file that the readers take: itself, or a copy in UTF-8 with the ending of its kind. Raises
    Refused."""
    with path.open("rb") as file:
        start = file.read(HEAD_BYTES)
    if not start.strip():
        raise Refused("empty-file", name=name)
    suffix = Path(name).suffix.lower()
    form = ENDINGS.get(suffix)
    packed = form in ("sheet", "parquet") or start.startswith(b"PK\x03\x04")
    if packed:
        return str(path)
    kind = kind_of_bytes(start, name)
    is_wide = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    if kind is not None and not is_wide or b"\0" in start and not is_wide:
        what, advice = (kind.what, kind.advice) if kind is not None else ("another file", "")
        raise Refused("binary", name=name, what=what, advice=advice or "save it as a table or a text")
    if form in RECORDS and form != "sfm":
        return str(path)  # XML says its encoding
    content = path.read_bytes()
    text = _text_of(content, is_wide)
    if suffix in _PLAIN:
        lines = [line for line in islice(text.split("\n"), _SNIFFED) if line.strip()]
        shares = {ending: sum(map(holds, lines)) / max(1, len(lines)) for ending, holds in _SNIFFS.items()}
        suffix = next((ending for ending, share in shares.items() if share >= _TABLE_SHARE), ".txt")
    if path.suffix.lower() == suffix and content[:3] != b"\xef\xbb\xbf" and not is_wide and _is_utf8(content):
        return str(path)
    copy = aside.with_suffix(suffix)
    copy.write_bytes(text.encode("utf-8", "surrogatepass" if _is_utf8(content) else "replace"))
    return str(copy)


_SNIFFS: dict[str, Callable[[str], bool]] = {
    ".tsv": lambda line: "\t" in line,
    ".sfm": lambda line: _MARKED.match(line) is not None,
    ".csv": lambda line: line.count(";") == 1 or line.count('";"') > 0,
}
"""Signs of a kind of table in the lines of a text whose name says nothing, by the ending of that kind."""


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_of(content: bytes, is_wide: bool) -> str:
    """Return the text of bytes in UTF-8, UTF-16 with its mark, or the likeliest old encoding of Windows."""
    if is_wide:
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    broken = content.decode("utf-8", "surrogateescape")
    lines = broken.split("\n")
    if sum(any("\udc80" <= one <= "\udcff" for one in line) for line in lines) < 0.5 * sum(
        any(one > "\x7f" for one in line) for line in lines
    ):
        return broken  # a few broken rows of a text in UTF-8, which are found and shown
    return max((content.decode(one, "replace") for one in _ENCODINGS), key=_likeliness)


def _likeliness(text: str) -> float:
    """Return how well a text was decoded: the share of letters in its words that are of one script and case."""
    words = re.findall(r"[^\W\d_]*[^\x00-\x7f][^\W\d_]*", text[:200_000])
    good = sum(word.islower() or word.istitle() or word.isupper() for word in words)
    mixed = sum(
        any(one < "\x80" and one.isalpha() for one in word) and "\u0400" <= max(word) < "\u0500" for word in words
    )
    return (good - 2 * mixed) / max(1, len(words)) - text.count("\ufffd") / max(1, len(text))


def _one(path: str, given: dict[str, Any]) -> dict[str, Any]:
    """Read one file."""
    form, suffix = form_of(path), Path(path).suffix.lower()
    if form == "sfm" and is_usfm(path):
        return _asking("other", {"form": "usfm", "rows": sum(1 for _ in read_lines(path, lenient=True))})
    if form == "lines":
        lines = _sentences(path, suffix)
        if not lines:
            raise Refused("empty-file", name=given["name"])
        preview = [{"row": number, "cells": [line]} for number, line in enumerate(lines[:_PREVIEW], 1)]
        langs = [language_by_text(lines), None]
        return _asking("other", {"form": "lines", "rows": len(lines), "langs": langs, "preview": preview})
    if form not in GRIDS and form not in RECORDS:
        part = Source(path, tuple(given["columns"] or (None, None))).parts([lang or "" for lang in given["langs"]])[0]
        texts = ((number, str(one), str(other)) for number, (one, other) in enumerate(part.rows(), 1))
        return _finished(given, texts, {"form": form, "heading": 0, "langs": given["langs"]})
    facts: dict[str, Any] = {"form": form}
    if form == "sheet":
        facts["sheets"] = list(book_of(path).sheets)
        if given["sheet"] not in facts["sheets"]:
            given["sheet"] = None
        if len(facts["sheets"]) > 1 and given["sheet"] is None:
            return _asking("sheet", facts)
        facts["sheet"] = given["sheet"]
    columns = tuple(given["columns"] or (None, None))
    seen = look(path, tuple(given["langs"]), columns, given["header"], given["sheet"])
    if seen.chosen is None and any(given["langs"]):
        seen = look(path, (None, None), columns, given["header"], given["sheet"])
    facts |= _shown(path, seen, given["sheet"])
    if seen.chosen is None or len(seen.chosen) < 2:
        return _asking("kind" if seen.kinds else "columns", facts)
    turned = not given["columns"] and _turned(seen, given["langs"])
    chosen = seen.chosen[::-1] if turned else seen.chosen
    facts["langs"] = [*(seen.langs[::-1] if turned else seen.langs)]
    rows = _rows(path, seen, chosen, given["sheet"])
    return _finished(given, rows, facts | {"chosen": list(chosen)})


def _turned(found: Look, langs: Sequence[str | None]) -> bool:
    """Return whether the columns are those of the project in the other order, by their languages."""
    own, theirs = ([one and (language_of(one) or one) for one in side] for side in (langs, found.langs))
    return theirs != own and (
        (theirs[0] is not None and theirs[0] == own[1]) or (theirs[1] is not None and theirs[1] == own[0])
    )


def _shown(path: str, found: Look, sheet: str | None) -> dict[str, Any]:
    """Return what a look has found, for JSON, with the first rows below the heading."""
    columns = [
        {
            "column": one.column,
            "heading": one.heading,
            "language": one.language,
            "text": one.is_text,
            "examples": [text[:200] for text in one.examples],
        }
        for one in found.columns[:200]
    ]
    form = form_of(path)
    if form in GRIDS:
        rows = (row for row in GRIDS[form](path, sheet, True) if row[0] > found.heading and any(map(str.strip, row[1])))
        shown = [
            {"row": number, "cells": [cell[:200] for cell in cells[:200]]} for number, cells in islice(rows, _PREVIEW)
        ]
    else:
        names = [str(one.column) for one in found.columns[:20]]
        shown = [
            {"row": number, "cells": [dict(fields).get(name, "")[:200] for name in names]}
            for number, fields in islice(RECORDS[form](path), _PREVIEW)
        ]
    return {
        "heading": found.heading,
        "columns": columns,
        "chosen": None if found.chosen is None else list(found.chosen),
        "langs": list(found.langs),
        "why": found.why,
        "kinds": [list(one) for one in found.kinds],
        "preview": shown,
    }


def _rows(path: str, found: Look, chosen: Sequence[int | str], sheet: str | None) -> Iterator[Row]:
    """Yield row number and both texts."""
    form = form_of(path)
    if form in RECORDS:
        for number, fields in RECORDS[form](path):
            for one, other in paired(fields, [str(name) for name in chosen]):
                yield number, one, other
        return
    places = [int(column) - 1 for column in chosen]
    for number, cells in GRIDS[form](path, sheet, True):
        if number > found.heading and any(map(str.strip, cells)):
            one, other = (cells[place] if place < len(cells) else "" for place in places)
            yield number, one, other


def _sentences(path: str, suffix: str) -> list[str]:
    """Return the lines of a text, or the sentences of a document."""
    if suffix in _PLAIN:
        return [*read_lines(path, lenient=True)]
    from nmt.documents.document import SUFFIXES, format_of, read_document

    if suffix not in SUFFIXES:
        return [*read_lines(path, lenient=True)]
    content = Path(path).read_bytes()
    document = read_document(content, format_of(path), Path(path).name)
    return [" ".join(one.asked.split()) for passage in document.passages for one in passage.sentences]


def _two(files: list[str], given: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of a text in two files. Raises Refused if they do not have as many lines."""
    if all(form_of(file) == "sfm" and is_usfm(file) for file in files):
        yield from ((number, str(one), str(other)) for number, (one, other) in enumerate(usfm_rows(tuple(files)), 1))
        return
    one, other = (_sentences(file, Path(file).suffix.lower()) for file in files)
    if len(one) != len(other):
        raise Refused("unequal", name=given["name"], lines=len(one), others=len(other))
    yield from ((number, *pair) for number, pair in enumerate(zip(one, other, strict=True), 1))


def _asking(question: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {"state": "asks", "asks": question} | facts


def _finished(given: dict[str, Any], rows: Iterator[Row], facts: dict[str, Any]) -> dict[str, Any]:
    """Write the table, examine it, and return all facts."""
    table, swap = Path(given["table"]), bool(given.get("swap"))
    count = 0
    numbers: list[int] = []
    starts: list[list[str]] = [[], []]
    with (
        replacing(table, sync=True) as aside,
        aside.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as file,
    ):
        for number, one, other in rows:
            pair = [_SPACES.sub(" ", text).strip() for text in ((other, one) if swap else (one, other))]
            file.write(f"{pair[0]}\t{pair[1]}\t{number}\n")
            numbers.append(number)
            count += 1
            if count <= LOOKED_AT:
                for start, text in zip(starts, pair, strict=True):
                    start.append(text)
    if not count:
        raise Refused("empty-file", name=given["name"])
    langs = [lang or found for lang, found in zip(given["langs"], facts["langs"][:: -1 if swap else 1], strict=True)]
    found = _findings(table, numbers)
    if all(langs) and (
        is_in(starts[0], str(langs[1]), str(langs[0])) or is_in(starts[1], str(langs[0]), str(langs[1]))
    ):
        found.insert(0, _finding("swapped", "warning", count, count, numbers[:1], "have the other language's text"))
    facts |= {"state": "ready", "asks": None, "rows": count, "langs": langs, "findings": found}
    return facts


def _findings(table: Path, numbers: list[int]) -> list[dict[str, Any]]:
    """Return the doctor's findings about a table, each with the numbers of all its rows in the user's file."""
    source = Source(str(table), (1, 2), header=False)
    text, duplicates = Text(source, [SideConfig(lang="src"), SideConfig(lang="tgt")], all_rows=True), Duplicates()
    for block in text.blocks():
        duplicates.add(block)
    found: dict[str, dict[str, Any]] = {}
    for one in [*text.findings(), duplicates.finding(text)]:
        if one is not None and one.count:
            row = found.setdefault(one.name, _finding(one.name, one.level, 0, one.total or text.total, [], one.what))
            row["rows"] = sorted({*row["rows"], *(numbers[line - 1] for line in _lines(one, len(numbers)))})
            row["count"] = len(row["rows"])
    return sorted(found.values(), key=lambda one: ("error", "warning", "done").index(one["level"]))


def _lines(one: Finding, count: int) -> Sequence[int]:
    return one.rows or range(1, min(one.count, count) + 1)


def _finding(name: str, level: str, count: int, total: int, rows: list[int], what: str) -> dict[str, Any]:
    actions = [LEAVE_OUT, KEEP, *([MEND] if name in MENDS else [])] if name != "swapped" else []
    level = "done" if name in DONE else level
    return {
        "name": name,
        "level": level,
        "count": count,
        "total": total,
        "rows": rows,
        "actions": actions,
        "message": what,
    }


def answer(given: dict[str, Any]) -> None:
    """Read what is asked for, and write the facts beside the table: what was read, or why nothing was."""
    try:
        facts = read(given)
    except Refused as error:
        facts = {"state": "failed", "error": error.to_dict()}
    except NMTError as error:
        why = re.sub(
            r"\S*nmt-studio-\S*?(?=[:,;]| |$)", given["name"], str(error).replace(given["file"], given["name"])
        )
        facts = {"state": "failed", "error": Refused("unreadable", why=why).to_dict()}
    write_json(Path(given["table"]).with_suffix(".json"), facts)


def main() -> None:
    """Read what standard input says."""
    given = json.loads(sys.stdin.buffer.read())
    _limit(given["memory"])
    answer(given)


def _limit(most_bytes: int) -> None:
    """Limit the memory of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


if __name__ == "__main__":
    main()
