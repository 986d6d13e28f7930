"""Tables as people have them: each is read whole, or refused or doubted in a line; none is silently wrong."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from nmt.data.corpora.judged_texts import judged_corpus
from nmt.data.corpora.looking import look
from nmt.data.corpora.sources import Source, side_lines
from nmt.data.tables import sheets
from nmt.data.tables.marked import usfm_rows
from nmt.data.tables.readers import paired
from nmt.errors import DataError, NMTError
from nmt.train.tasks.named_texts import Texts
from tests.data.people_tables import BY_HAND, PAIRS, workbook
from tests.refusals import refused, refused_of_damaged

OTHERS = {"line-breaks.csv", "excel-quotes.tsv"}
"""Tables with a line break in a cell of one pair."""
TOLD = {
    "swapped-headings.tsv": "line 1 has headings, English | Cherokee, and is skipped",
    "numbers.csv": "120 of the first 120 rows have no letters",
    "dates.csv": "120 of the first 120 rows have no letters",
    "cut.csv": "few rows go on in column 3, which is not read, as 'no'",
    "cut-often.csv": "some rows go on in column 3, which is not read, as 'no'",
    "nan.csv": "3 of the first 123 rows stand for no text, as nan",
    "tags.tsv": "9 of the first 129 rows have signs of a web page or a document, as <b>",
    "hidden.xlsx": "hidden rows are read like others, 1 of them",
    "two-headings.csv": "line 2 has headings, Cherokee | English, and is skipped with all above it",
    "headings-again.csv": "line 1 has headings, Cherokee | English, and is skipped",
    "form.csv": "columns 2 Please type it in Cherokee and 3 What does it say in English?, by the headings",
    "senses.tsv": "120 of the first 120 rows have several senses",
    "formulas.xlsx": "30 cells have formulas without results",
    "merged.xlsx": "ranges of them: 1",
    "empty-column.tsv": "columns 2 Cherokee and 3 English translation, by the headings",
    "notes.tsv": "columns 1 Cherokee and 2 English, by the headings",
    "own-name-and-notes.tsv": "columns 1 Lengua propia and 2 English, the only ones with text besides Notes",
    "tatoeba.tsv": "columns 3 and 5, the only ones with text",
    "title-above.tsv": "line 3 has headings, Cherokee | English, and is skipped with all above it",
    "quotes-of-the-text.tsv": "",
    "notes-beside-unknown.tsv": "are columns 1 Tzotzil-Chamula and 2 Free rendering, the only ones with text besides",
    "tzotzil.tsv": "source tzo, target es",
    "words.chr-en.tsv": "",
    "words-codes.tsv": "line 1 has headings, en | ru, and is skipped",
    "words-two-codes.tsv": "the first row is read as a pair, es | gl; if it has headings, give --header yes",
    "inflection.tsv": "neither names nor texts tell",
}
REFUSED = {
    "cp1252.csv": r"must be UTF-8, got byte 0xf9 .* \"Où est-ce que",
    "cp1252-heading.csv": "line 1 must be UTF-8",
    "cp1252.sfm": "must be UTF-8",
    "wrong-quotes.csv": "line 121 must have cells whose quotation marks are doubled",
    "three-texts.csv": "two columns with text, got 3: .* choose source and target, as with --columns 1,2",
    "nothing.csv": "got an empty table",
    "one-column.csv": "must have two columns, got one, .*; name a table that has both",
    "equals.tsv": "must have two columns, got one, .*; put a tab in the place of ' = '",
    "short-row.csv": "line 121 must have at least 2 cells, got 1",
    "utf16-no-mark.tsv": "looks like UTF-16",
    "old-mac.tsv": "carriage returns alone",
    "two-sheets.xlsx": "one sheet with cells, got Stories, Words; name one with --sheet",
    "no-cells.xlsx": "got an empty workbook",
    "far-cell.xlsx": "at most 10,000,000 cells .* got 17,179,869,184",
    "entities.xlsx": "must declare no entities",
    "password.xlsx": "or one with a password",
    "bomb.xlsx": "must unpack to at most",
    "cut.xlsx": "cannot be read",
    "three.tmx": "choose with --columns: chr,en .* chr,fr .* en,fr",
    "entities.tmx": "must declare no entities",
    "words-and-examples.lift": "lexeme:chr,gloss:en .* example:chr,translation:en",
    "examples.db": "lx,ge .* xv,xe",
    "no-markers.sfm": "lines that begin with markers",
    "database.db": "SQLite",
}


def spaced(pairs: object) -> list[tuple[str, ...]]:
    return [tuple(" ".join(text.split()) for text in pair) for pair in pairs]  # type: ignore[attr-defined]


def place(folder: Path, name: str) -> str:
    content = BY_HAND[name]
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder / name)


def read(*files: str, **how: object) -> tuple[Texts, list[tuple[str, ...]], str]:
    told: list[str] = []
    texts = Texts(files, **how).recognised(told.append)  # type: ignore[arg-type]
    return texts, spaced(texts.pairs(texts.langs)), "\n".join([*told, *judged_corpus(texts.source, texts.langs)])


@pytest.mark.parametrize("name", [name for name in BY_HAND if not name.endswith((".usfm", ".txt"))])
def test_a_table_is_read_or_refused_or_doubted(tmp_path, name):
    pytest.importorskip("python_calamine")
    file = place(tmp_path, name)
    if name in REFUSED:
        refused(DataError, REFUSED[name], read, file)
        return
    texts, pairs, told = read(file)
    if name != "words-codes.tsv" and (name not in TOLD or TOLD[name].startswith(("columns", "line"))):
        wanted = spaced(PAIRS)
        if name in OTHERS:
            wanted[40] = (wanted[40][0], "two lines")
        pairs = [pair for pair in pairs if any(pair)]
        assert pairs == ([pair[::-1] for pair in wanted] if name == "regions.tmx" else wanted), told
        assert {lang.partition("-")[0] for lang in texts.langs} == {"chr", "en"}
    assert TOLD.get(name, "") in told
    again = Texts((file,), texts.given).recognised(lambda line: None)
    (corpus,) = texts.setting()
    columns = corpus.get("src_column"), corpus.get("tgt_column")
    source = Source(file, columns, features=texts.features, header=corpus.get("header"))
    rows = [row for part in source.parts(texts.langs) for row in part.rows() if all(row)]
    assert rows == list(again.pairs(texts.langs)), "the settings that are written read the same"


def test_verses_are_paired_by_their_numbers(tmp_path):
    _, pairs, told = read(place(tmp_path, "chr.usfm"), place(tmp_path, "en.usfm"))
    assert len(pairs) == 111 and pairs[:3] == spaced(PAIRS)[:3]
    assert pairs[3] == tuple(f"{one} {other}" for one, other in zip(*spaced(PAIRS)[3:5], strict=True)), "4-5 and 4, 5"
    assert "5 of " in told and "languages by the text: source chr, target en" in told
    (tmp_path / "a.sfm").write_text(
        '\\id MRK x\n\\c 1\n\\q1\n\\v 1 Go\\f + \\ft n\\f* \\w on|lemma="on"\\w*\n\\q2 now\n\\s Head\n\\b\n'
        "\\q1 \\+nd up\\+nd*\n"
    )
    assert list(usfm_rows((str(tmp_path / "a.sfm"),))) == [("Go on now up",)]


@pytest.mark.parametrize(
    ("how", "first", "count"),
    [
        ({"columns": (2, 1)}, PAIRS[0][::-1], 120),
        ({"columns": ("English", "Cherokee")}, PAIRS[0][::-1], 120),
        ({"columns": ("english", "CHEROKEE")}, PAIRS[0][::-1], 120),
        ({"columns": ("B", "a")}, PAIRS[0][::-1], 120),
        ({"header": False}, ("Cherokee", "English"), 121),
        ({"given": ("en", "chr")}, PAIRS[0][::-1], 120),
    ],
)
def test_options_override_what_is_found(tmp_path, how, first, count):
    _, pairs, _ = read(place(tmp_path, "comma.csv"), **how)
    assert pairs[0] == first and len(pairs) == count


@pytest.mark.parametrize("name", ["comma.csv", "toolbox.sfm", "two.tmx"])
def test_two_tables_are_no_two_texts(tmp_path, name):
    (tmp_path / "b.txt").write_text("a\n")
    with pytest.raises(DataError, match="must be lines of text, one sentence per line, got a"):
        Source(place(tmp_path, name), tgt_path=str(tmp_path / "b.txt")).check(("chr", "en"))
    refused(DataError, "got a book in USFM, of one language; give two", read, place(tmp_path, "chr.usfm"))


def test_fields_and_sheets_may_be_named(tmp_path):
    pytest.importorskip("python_calamine")
    _, pairs, _ = read(place(tmp_path, "examples.db"), columns=("xv", "xe"))
    assert pairs[1] == spaced([(f"{PAIRS[1][0]} {PAIRS[1][0]}", PAIRS[1][1])])[0]
    _, pairs, _ = read(place(tmp_path, "two-sheets.xlsx"), sheet="Words")
    assert pairs == spaced(PAIRS)
    with pytest.raises(DataError, match="must have the sheet No, got Stories, Words"):
        read(str(tmp_path / "two-sheets.xlsx"), sheet="No")


def test_swapped_columns_are_known_by_their_script(tmp_path):
    (line,) = judged_corpus(Source(place(tmp_path, "plain.tsv")), ("en", "chr"))
    assert "are chr and en by their words; swap the languages" in line
    assert "swap the languages" in read(place(tmp_path, "swapped-headings.tsv"))[2], "the headings are wrong"


def test_a_side_of_a_table_is_read_for_tests_of_a_model(tmp_path):
    file = place(tmp_path, "ids.csv")
    assert list(side_lines(file, 0, ("chr", "en"))) == [source for source, _ in PAIRS]
    assert list(side_lines(file, 0, ("en", "chr"))) == [target for _, target in PAIRS]
    refused(DataError, "choose source and target", side_lines, place(tmp_path, "three-texts.csv"), 0, ("a", "b"))


def test_a_look_is_data(tmp_path):
    found = look(place(tmp_path, "ids.csv"))
    assert (found.heading, found.chosen, found.langs, found.why) == (1, (2, 3), ("chr", "en"), "by the headings")
    assert json.loads(json.dumps([vars(one) for one in found.columns]))[1]["examples"][0] == PAIRS[0][0]


def test_texts_of_a_record_belong_to_its_last_head():
    fields = [("x", "1"), ("xe", "a"), ("xe", "b"), ("x", "2"), ("x", "3"), ("xe", "c")]
    assert list(paired(fields, ("x", "xe"))) == [("1", "a"), ("1", "b"), ("2", ""), ("3", "c")]
    assert list(paired([("en", "a"), ("de", "b")], ("de", "en"))) == [("b", "a")]
    assert list(paired([("ps", "n")], ("x", "xe"))) == []


def test_a_part_that_unpacks_to_more_than_it_claims_is_not_passed_on(tmp_path, monkeypatch):
    pytest.importorskip("python_calamine")
    content = bytearray(workbook({"S": PAIRS}))
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        size = file.getinfo("xl/worksheets/s1.xml").file_size
    (tmp_path / "t.xlsx").write_bytes(content.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    refused(DataError, "cannot be read", sheets.book_of, str(tmp_path / "t.xlsx"))


@pytest.mark.parametrize(
    "name", ["two.tmx", "words.lift", "texts.flextext", "toolbox.sfm", "excel-quotes.tsv", "two-sheets.xlsx"]
)
def test_damaged_tables_are_read_or_refused(tmp_path, name):
    pytest.importorskip("python_calamine")
    refused_of_damaged(NMTError, Path(place(tmp_path, name)), lambda path: read(str(path)), 30)
