"""Read a file of a user into a project, as a child process with limits: its rows as a table of both sides and row
numbers, and what was found in it. `python -m nmt.studio.reading`; its standard input says what to read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.config import SideConfig
from nmt.data.corpora.judged_texts import valueless
from nmt.data.corpora.language_names import is_in, language_by_text, language_of
from nmt.data.corpora.looking import LEAST, LOOKED_AT, Look, look
from nmt.data.corpora.sources import Source
from nmt.data.tables.marked import is_usfm, usfm_rows
from nmt.data.tables.readers import ENDINGS, GRIDS, RECORDS, at_once, cues, form_of, paired
from nmt.data.tables.sheets import book_of
from nmt.data.tokens.factors import features_column, with_features
from nmt.doctor.texts import Duplicates, Text
from nmt.errors import NMTError
from nmt.studio.aligning import SURE, align
from nmt.studio.errors import Refused
from nmt.studio.projects import write_json
from nmt.studio.quality import FITS, fit
from nmt.studio.texts import DONE, KEEP, LEAVE_OUT, MEND, MENDS
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes
from nmt.system.files import replacing
from nmt.system.lines import read_lines

Row = tuple[int, str, str]
Facts = dict[str, Any]
_PREVIEW, _SNIFFED, _SHOWN = 8, 200, 200
_SURE = 0.8
_PLAIN = ("", ".txt", ".text", ".tab")
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_ENCODINGS = ("cp1252", "cp1251", "cp1250")
_SPACES = re.compile(r"\s+")
_SNIFFS = {".tsv": re.compile(r".*\t"), ".sfm": re.compile(r"\\[a-z]{1,8}\b"), ".csv": re.compile(r"[^;]+;[^;]+$")}
"""Patterns of most lines of a table whose name does not show that it is one, by the ending of its kind."""
_LEVELS = ("error", "warning", "done")


def read(given: Facts) -> Facts:
    """Read a file and write its rows; return the facts. given: paths `file`, `other` (the other half) and `table` (to
    write); `name` of the file; `langs` of the project; `columns`, `header`, `sheet` and `swap` as the user says. Raises
    Refused, or NMTError for what the readers refuse."""
    with TemporaryDirectory(prefix="nmt-studio-") as aside:
        first = _readable(Path(given["file"]), given["name"], Path(aside) / "1")
        if given.get("other"):
            return _two((first, _readable(Path(given["other"]), given["other_name"], Path(aside) / "2")), given)
        return _one(first, given)


def _readable(path: Path, name: str, aside: Path) -> str:
    """Return the path of a file that the readers take: itself, or a copy in UTF-8. Raises Refused."""
    with path.open("rb") as file:
        start = file.read(HEAD_BYTES)
    if not start.strip():
        raise Refused("empty-file", name=name)
    suffix, is_wide = Path(name).suffix.lower(), start[:2] in _WIDE
    if ENDINGS.get(suffix) in ("sheet", "parquet", "tmx", "lift", "flextext") or start.startswith(b"PK\x03\x04"):
        return str(path)
    if not is_wide and (kind_of_bytes(start, name) is not None or b"\0" in start):
        raise Refused("binary", name=name)
    content = path.read_bytes()
    text = _decoded(content, is_wide)
    if suffix in _PLAIN:
        lines = [line for line in islice(text.split("\n"), _SNIFFED) if line.strip()]
        likely = (end for end, like in _SNIFFS.items() if sum(map(bool, map(like.match, lines))) >= _SURE * len(lines))
        suffix = next(likely, ".txt")
    if path.suffix.lower() == suffix and text.encode("utf-8", "surrogateescape") == content:
        return str(path)
    copy = aside.with_suffix(suffix)
    copy.write_bytes(text.encode("utf-8", "surrogateescape"))
    return str(copy)


def _decoded(content: bytes, is_wide: bool) -> str:
    """Return the text of bytes in UTF-8, UTF-16 with its mark, or the likeliest old encoding of Windows. Of a text in
    UTF-8 with a few broken rows the bytes are kept, to be found and shown."""
    if is_wide:
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("utf-8-sig", "surrogateescape")
    whole = text.encode("utf-8", "ignore").decode()
    if len(text) - len(whole) <= len(whole) - len(whole.encode("ascii", "ignore")):
        return text

    def likely(encoding: str) -> int:
        words = re.findall(r"[^\W\d_]*[^\x00-\x7f\W\d_][^\W\d_]*", content[:200_000].decode(encoding, "replace"))
        plain = [word for word in words if word.islower() or word.istitle() or word.isupper()]
        return len(plain) - sum("\u0400" <= max(word) and min(word) < "\x80" for word in plain)

    return content.decode(max(_ENCODINGS, key=likely), "replace")


def _one(path: str, given: Facts) -> Facts:
    """Read one file, or ask what must be known first."""
    form, columns = form_of(path), tuple(given["columns"] or (None, None))
    if form == "sfm" and is_usfm(path):
        rows = sum(1 for _ in read_lines(path, lenient=True))
        return {"state": "asks", "asks": "other", "form": "usfm", "rows": rows}
    if form == "lines":
        if not (lines := _sentences(path)):
            raise Refused("empty-file", name=given["name"])
        preview = [{"row": number, "cells": [line]} for number, line in enumerate(lines[:_PREVIEW], 1)]
        facts = {"rows": len(lines), "langs": [_language(given["name"], lines), None], "preview": preview}
        return {"state": "asks", "asks": "other", "form": "subtitles" if cues(path) else "lines"} | facts
    if form not in GRIDS and form not in RECORDS:
        (part,) = Source(path, (columns[0], columns[1])).parts([lang or "" for lang in given["langs"]])
        texts = ((number, str(one), str(other)) for number, (one, other) in enumerate(part.rows(), 1))
        return _finished(given, texts, {"form": form, "langs": given["langs"]})
    facts = {"form": form}
    if form == "sheet":
        names = list(book_of(path).sheets)
        given["sheet"] = given["sheet"] if given["sheet"] in names else None
        facts |= {"sheets": names, "sheet": given["sheet"]}
        if len(names) > 1 and given["sheet"] is None:
            return facts | {"state": "asks", "asks": "sheet"}
    if form in GRIDS:
        cells = [cells for _, cells in islice(GRIDS[form](path, given["sheet"], True), LOOKED_AT)]
        features = features_column(cells)
        if features is not None and columns == (None, None):
            columns = (1, 5 - features)
        facts["features"] = None if features in columns else features
    found = look(path, tuple(given["langs"]), columns, given["header"], given["sheet"])
    if found.chosen is None and any(given["langs"]):
        found = look(path, (None, None), columns, given["header"], given["sheet"])
    facts |= _shown(path, found, given["sheet"])
    if found.chosen is None or len(found.chosen) < 2:
        return facts | {"state": "asks", "asks": "kind" if found.kinds else "columns"}
    own, theirs = ([one and (language_of(one) or one) for one in side] for side in (given["langs"], found.langs))
    turn = -1 if not given["columns"] and any(a and a == b for a, b in zip(own, theirs[::-1], strict=True)) else 1
    if own == theirs:
        turn = 1
    facts |= {"chosen": list(found.chosen[::turn]), "langs": list(found.langs[::turn])}
    return _finished(given, _rows(path, found, facts, given["sheet"]), facts)


def _cells(path: str, found: Look, sheet: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of the rows below the heading that have some; the fields of a record are its cells."""
    form, names = form_of(path), [str(one.column) for one in found.columns]
    if form in GRIDS:
        rows = ((number, list(cells)) for number, cells in GRIDS[form](path, sheet, True))
    else:
        rows = ((number, [dict(one).get(name, "") for name in names]) for number, one in RECORDS[form](path))
    return ((number, cells) for number, cells in rows if number > found.heading and any(map(str.strip, cells)))


def _shown(path: str, found: Look, sheet: str | None) -> Facts:
    """Return what a look has found, for JSON, with the first rows below the heading."""
    columns = [{"column": one.column, "heading": one.heading} for one in found.columns[:_SHOWN]]
    first = islice(_cells(path, found, sheet), _PREVIEW)
    preview = [{"row": number, "cells": [cell[:_SHOWN] for cell in cells[:_SHOWN]]} for number, cells in first]
    kinds = [list(one) for one in found.kinds]
    return {"heading": found.heading, "columns": columns, "kinds": kinds, "preview": preview}


def _rows(path: str, found: Look, facts: Facts, sheet: str | None) -> Iterator[Row]:
    """Yield row number and both texts; the first has the features of its word, if a column has them."""
    form, chosen, features = form_of(path), facts["chosen"], facts.get("features")
    if form in RECORDS:
        for number, fields in RECORDS[form](path):
            for one, other in paired(fields, [str(name) for name in chosen]):
                yield number, one, other
        return
    for number, cells in _cells(path, found, sheet):
        one, other = (cells[int(place) - 1] if int(place) <= len(cells) else "" for place in chosen)
        yield number, with_features(one, cells[features - 1]) if features else one, other


def _sentences(path: str) -> list[str]:
    """Return the lines of a text, or the sentences of a document."""
    suffix = Path(path).suffix.lower()
    if suffix in _PLAIN:
        return [*read_lines(path, lenient=True)]
    from nmt.documents.document import read_document
    from nmt.documents.forms import SUFFIXES, format_of

    if suffix not in SUFFIXES:
        return [*read_lines(path, lenient=True)]
    document = read_document(Path(path).read_bytes(), format_of(path), Path(path).name)
    return [" ".join(one.asked.split()) for passage in document.passages for one in passage.sentences]


def _language(name: str, lines: list[str]) -> str | None:
    """Return the code of the language that the name of a file ends with, or else that of its text."""
    endings = (end for end in name.lower().split(".")[:0:-1] if end != "txt" and language_of(end))
    return next(endings, None) or language_by_text(lines)


def _two(files: tuple[str, str], given: Facts) -> Facts:
    """Read a text in two files. Raises Refused if they are no subtitles of one film, and their lines do not fit."""
    if all(form_of(file) == "sfm" and is_usfm(file) for file in files):
        verses = ((number, str(one), str(other)) for number, (one, other) in enumerate(usfm_rows(files), 1))
        return _finished(given, verses, {"form": "lines", "langs": given["langs"]})
    one, other = map(_sentences, files)
    langs = [_language(given["name"], one), _language(given["other_name"], other)]
    shown = [cues(file) for file in files]
    rows = list(at_once(*shown))
    if not rows or 2 * len(rows) < min(map(len, shown)):
        if len(one) != len(other):
            return _finished(given, *_aligned(one, other, langs, given["name"]))
        rows = [(number, *pair) for number, pair in enumerate(zip(one, other, strict=True), 1)]
    return _finished(given, iter(rows), {"form": "lines", "langs": langs})


def _aligned(one: list[str], other: list[str], langs: list[str | None], name: str) -> tuple[Iterator[Row], Facts]:
    """Return the rows of two texts of unequal numbers of lines, and their facts with a finding: the rows that are not
    one line of each, or follow a line without counterpart. Raises Refused for texts that do not fit."""
    near = min(len(one), len(other)) >= SURE * max(len(one), len(other))
    groups = align(one, other) if near else []
    words = {"lines": len(one), "others": len(other)}
    rows: list[Row] = []
    doubtful, alone = [], 0
    is_plain = True
    for (a, a_end), (b, b_end) in groups:
        if a < a_end and b < b_end:
            rows.append((a + 1, " ".join(one[a:a_end]), " ".join(other[b:b_end])))
            doubtful += [] if is_plain and a_end - a == 1 == b_end - b else [a + 1]
        is_plain = a < a_end and b < b_end
        alone += not is_plain
    if not near or len(groups) - len(doubtful) - alone < SURE * len(groups):
        raise Refused("unequal", name=name, **words)
    found = {"name": "aligned", "level": "warning", "count": len(doubtful), "rows": doubtful, "total": len(rows)}
    found |= {"message": "were paired by lengths", "actions": [LEAVE_OUT, KEEP], "words": words | {"alone": alone}}
    return iter(rows), {"form": "lines", "langs": langs, "findings": [found]}


def _finished(given: Facts, rows: Iterator[Row], facts: Facts) -> Facts:
    """Write the table, examine it, and return all facts."""
    table, turn = Path(given["table"]), -1 if given.get("swap") else 1
    numbers: list[int] = []
    starts: list[list[str]] = []
    with replacing(table, sync=True) as aside:
        with aside.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for number, *texts in rows:
                pair = [_SPACES.sub(" ", text).strip() for text in texts[::turn]]
                file.write(f"{pair[0]}\t{pair[1]}\t{number}\n")
                numbers.append(number)
                starts += [pair] if len(starts) < LOOKED_AT else []
    if not numbers:
        raise Refused("empty-file", name=given["name"])
    langs = [own or found for own, found in zip(given["langs"], facts["langs"][::turn], strict=True)]
    found, (first, last) = _findings(table, numbers), zip(*starts, strict=True)
    if facts.get("features"):  # features have letters of their own
        found = [one for one in found if one["name"] not in ("script", "mixed")]
    one, other = (str(lang or "") for lang in langs)
    doubts = [("swapped", "have the other language's text", is_in(first, other, one) or is_in(last, one, other))]
    shifts = {way: fit(first[: len(first) - way], last[way:]) for way in (1, 2)}
    shifts |= {-way: fit(first[way:], last[: len(last) - way]) for way in (1, 2)}
    is_shifted = len(first) >= LEAST and fit(first, last) < FITS and max(shifts.values()) > 2 * FITS
    doubts.append(("shifted", "fit the row before or after", is_shifted))
    for value in filter(None, map(valueless, (first, last))):
        doubts.append(("constant" if value[1] else "numbers", "have numbers, or one text, on a side", True))
    of_all = {"level": "warning", "count": len(numbers), "total": len(numbers), "rows": numbers[:1], "actions": []}
    found[:0] = [{"name": name, "message": what, **of_all} for name, what, holds in doubts if holds]
    found[:0] = facts.get("findings", [])
    first_rows = [{"row": row, "cells": pair} for row, pair in zip(numbers[:_PREVIEW], starts, strict=False)]
    shown = {"preview": first_rows} | facts
    return shown | {"state": "ready", "asks": None, "rows": len(numbers), "langs": langs, "findings": found}


def _findings(table: Path, numbers: list[int]) -> list[Facts]:
    """Return the doctor's findings about a table, each with the numbers of all its rows in the user's file."""
    source = Source(str(table), (1, 2), header=False)
    text, duplicates = Text(source, [SideConfig(lang="src"), SideConfig(lang="tgt")], all_rows=True), Duplicates()
    for block in text.blocks():
        duplicates.add(block)
    found: dict[str, Facts] = {}
    for one in [*text.findings(), duplicates.finding(text)]:
        if one is not None and one.count:
            rows = {numbers[line - 1] for line in one.rows or range(1, len(numbers) + 1)}
            rows |= set(found[one.name]["rows"]) if one.name in found else set()
            level, actions = "done" if one.name in DONE else one.level, [LEAVE_OUT, KEEP, MEND]
            facts = {"name": one.name, "level": level, "count": len(rows), "total": len(numbers), "rows": sorted(rows)}
            found[one.name] = facts | {"actions": actions[: 2 + (one.name in MENDS)], "message": one.what}
    return sorted(found.values(), key=lambda one: _LEVELS.index(one["level"]))


def answer(given: Facts) -> None:
    """Read what is asked for, and write the facts next to the table: the contents, or why there are none."""
    try:
        facts = read(given)
    except Refused as error:
        facts = {"state": "failed", "error": error.to_dict()}
    except NMTError as error:
        why = re.sub(r"\S*nmt-studio-[^\s:,;]*", given["name"], str(error).replace(given["file"], given["name"]))
        facts = {"state": "failed", "error": Refused("unreadable", why=why).to_dict()}
    write_json(Path(given["table"]).with_suffix(".json"), facts)


def main() -> None:
    """Read what standard input says, within its limit of memory where the system has one."""
    given = json.loads(sys.stdin.buffer.read())
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (given["memory"], given["memory"]))
    except (ImportError, ValueError):  # Windows; macOS, which has mapped more before Python starts
        pass
    answer(given)


if __name__ == "__main__":
    main()
