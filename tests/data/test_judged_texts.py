"""What a user names as source and target: endings, headings, columns, quotes, and languages by a detector."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from number_words import make_corpus

import nmt
import nmt.data.corpora.language_names as language_by_text
from nmt.data.corpora.judged_texts import Named, judged, judged_corpus, judged_output
from nmt.data.corpora.language_names import exchanged_rows
from nmt.data.corpora.looking import contradicts, is_heading
from nmt.data.corpora.sources import Source
from nmt.data.tokens.factors import features_column
from nmt.documents.document import read_document
from nmt.errors import DataError
from nmt.system.lines import STDIN, read_lines
from tests.refusals import refused


def corpus(lines: Sequence[tuple[str, ...]], path: Path) -> Source:
    path.write_text("".join("\t".join(cells) + "\n" for cells in lines), encoding="utf-8")
    return Source(str(path))


def pairs(count: int = 40) -> list[tuple[str, str]]:
    return [(f"zwei junge Männer Nummer {number}", f"two young men number {number}") for number in range(count)]


@pytest.mark.parametrize(
    ("cells", "langs", "found"),
    [
        (("de", "en"), "de en", True),
        (("DE", "EN"), "de en", True),
        (("Cherokee", "English"), "chr en", True),
        (("Cherokee", "English"), "src tgt", True),
        (("ᏣᎳᎩ", "English"), "chr en", True),
        (("Deutsch", "English"), "de en", True),
        (("English (source)", "German sentence"), "en de", True),
        (('"German"', '"English"'), "de en", True),
        (("source", "target"), "de en", True),
        (("src_text", "tgt_text"), "x y", True),
        (("id", "de"), "de en", True),
        (("text", "translation"), "de en", True),
        (("English", "German"), "de en", True),
        # First pairs of dictionaries.
        (("German", "Deutsch"), "en de", False),
        (("English", "Englisch"), "en de", False),
        (("input", "Eingabe"), "en de", False),
        (("source", "source"), "en fr", False),
        (("no", "no"), "es en", False),
        (("is", "es"), "src tgt", False),
        (("", "en"), "de en", False),
        (("Ein Hund läuft.", "A dog runs."), "de en", False),
    ],
)
def test_headings_are_told_from_first_pairs(cells, langs, found):
    assert is_heading(cells, langs.split()) is found


def test_a_heading_of_other_sides_contradicts():
    assert contradicts(("English", "German"), ("de", "en")) and contradicts(("tgt", "src"), ("de", "en"))
    assert contradicts(("French", "German"), ("de", "en")) and contradicts(("de", "fr"), ("de", "en"))
    assert not contradicts(("English translation", "German"), ("en", "de"))
    assert not contradicts(("German", "English"), ("de", "en")) and not contradicts(("Source", "id"), ("de", "en"))


@pytest.mark.parametrize(
    "heading", [("de", "en"), ("German", "English"), ("Source", "Target"), ("chr", "en"), ("CHR", "English")]
)
def test_a_heading_is_left_out_and_said(tmp_path, heading):
    source = corpus([heading, *pairs()], tmp_path / "t.tsv")
    (part,) = source.parts(("de", "en"))
    assert list(part.rows()) == pairs()
    (line,) = judged_corpus(source, ("de", "en"))
    others = "; they are not de and en, as which the columns are read: " if heading[0].lower() == "chr" else ""
    told = f"{tmp_path / 't.tsv'}: line 1 has headings, {' | '.join(heading)}, and is skipped{others}"
    assert line.startswith(told) if others else line == told


def test_a_heading_that_names_the_columns_is_read_as_before(tmp_path):
    corpus([("de", "en"), *pairs()], tmp_path / "t.tsv")
    (part,) = Source(str(tmp_path / "t.tsv"), ("en", "de")).parts(("de", "en"))
    assert list(part.rows())[0] == pairs()[0][::-1]


def test_line_numbers_after_a_heading_are_those_of_the_file(tmp_path):
    corpus([("de", "en"), *pairs(), ("allein",)], tmp_path / "t.tsv")
    with pytest.raises(DataError, match=r"line 42 must have at least 2 cells, .* src_column: 2, tgt_column: 3"):
        list(Source(str(tmp_path / "t.tsv")).parts(("de", "en"))[0].rows())


def test_columns_that_are_no_texts_are_doubted(tmp_path):
    rows = [(str(number), "eng", *pair) for number, pair in enumerate(pairs())]
    (chosen,) = judged_corpus(corpus(rows, tmp_path / "t.tsv"), ("de", "en"))
    assert chosen.endswith("source and target are columns 3 and 4, the only ones with text")
    digits, constant = judged_corpus(Source(str(tmp_path / "t.tsv"), (1, 2)), ("de", "en"))
    assert "column 1 (source): 40 of the first 40 rows have no letters" in digits
    assert "column 2 (target): 40 of the first 40 rows are 'eng'" in constant
    assert not judged_corpus(Source(str(tmp_path / "t.tsv"), (3, 4)), ("de", "en"))


def test_quotes_of_a_spreadsheet_are_taken_off_and_quotations_are_not(tmp_path):
    rows = [*pairs(), ('"Wer?, ""der"" eine"', "who, the one")]
    source = corpus(rows, tmp_path / "t.tsv")
    assert list(source.parts(("de", "en"))[0].rows())[-1] == ('Wer?, "der" eine', "who, the one")
    assert not judged_corpus(source, ("de", "en"))
    rows = [*pairs(), ('"Wer da?"', '"Who is there?"'), ('""', "x"), ('""Wer""', '""who""')]
    assert not judged_corpus(corpus(rows, tmp_path / "u.tsv"), ("de", "en"))


def lines(place: Path, *names: str) -> list[str]:
    for name in names:
        (place / name).write_text(f"{name}\n", encoding="utf-8")
    return [str(place / name) for name in names]


@pytest.mark.parametrize(
    ("names", "langs", "doubts"),
    [
        ("m.de m.en", "de en", 0),
        ("m.en m.de", "de en", 2),
        ("m.en.txt m.de.txt", "de en", 2),
        ("m-en.txt m-de.txt", "de en", 2),
        ("m.tok.en m.tok.de", "de en", 2),
        ("v.fr v.en", "de en", 1),
        ("v.deu v.eng", "de en", 0),
        ("v.eng_Latn v.deu_Latn", "de en", 2),
        ("v.src v.tgt", "de en", 0),
        ("v.tgt v.src", "de en", 2),
        ("v.b v.a", "a b", 2),
        ("v.no v.en", "nb en", 0),
        ("v.pt-BR v.en", "pt en", 0),
        ("src-train.txt tgt-train.txt", "de en", 0),
        ("out.mt ref.txt", "de en", 0),
        ("notes.hyp notes.ref", "de en", 0),
        ("v.fr v.de", "src tgt", 0),
    ],
)
def test_endings_that_contradict_the_languages_are_doubted(tmp_path, names, langs, doubts):
    src, tgt = lines(tmp_path, *names.split())
    assert len(judged_corpus(Source(src, tgt_path=tgt), langs.split())) == doubts


def test_texts_for_a_model_are_judged_by_their_sides(tmp_path):
    de, en, fr = lines(tmp_path, "t.de", "t.en", "t.fr")
    one = [Named(de, "--src", 0), Named(en, "--ref", 1)]
    assert judged(one, ("de", "en")) == []
    assert judged(one[:1], ("en", "de")) == [
        f"{de}: --src must be en, and is de by its name; name another file, or correct the languages"
    ]
    assert "swap the two files" in judged([Named(en, "--src", 0), Named(de, "--ref", 1)], ("de", "en"))[0]
    assert len(judged([Named(de, "--src", 0), Named(fr, "--ref", 1)], ("de", "en"))) == 1
    assert judged([Named(STDIN, "INPUT", 0)], ("de", "en")) == []
    assert len(judged([Named(en, "--hyp", 1), Named(en, "--ref", 1)], ("de", "en"))) == 1
    assert judged_output("out.de", "-o", ("de", "en")) and not judged_output("out.en", "-o", ("de", "en"))


def test_one_file_on_both_sides_is_refused_by_any_name(tmp_path):
    (de,) = lines(tmp_path, "t.de")
    (tmp_path / "t.en").symlink_to(de)
    for other in (de, str(tmp_path / "t.en")):
        with pytest.raises(DataError, match="must be two files, source and target, got one file twice"):
            judged([Named(de, "--src", 0), Named(other, "--ref", 1)], ("de", "en"))
        refused(DataError, "must be two files", Source(de, tgt_path=other).check, ("de", "en"))
    Source(de, tgt_path=de, tag="<copy>").check(("de", "en"))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n00:00:01,000 --> 00:00:02,000\nHallo\n", "SubRip subtitles"),
        ("\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\nHallo\r\n", "SubRip subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\nHallo\n", "WebVTT subtitles"),
        ("<!DOCTYPE html>\n<p>Hallo</p>\n", "an HTML page"),
        ('<?xml version="1.0"?>\n<!-- a -->\n<xliff version="1.2">\n', "an XLIFF file"),
        ('<?xml version="1.0"?>\n<a/>\n', "an XML file"),
        ('<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n', "a TMX memory"),
        ('# Deutsch\n#, fuzzy\nmsgid ""\nmsgstr ""\n', "a PO file"),
    ],
)
def test_markup_is_no_lines_of_sentences(tmp_path, text, words, packed):
    path = tmp_path / ("t.de.gz" if packed else "t.de")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (en,) = lines(tmp_path, "t.en")
    with pytest.raises(DataError, match=f"must be lines of text, one sentence per line, got {words}; "):
        judged([Named(str(path), "INPUT", 0)], ("de", "en"))
    refused(DataError, words, Source(str(path), tgt_path=en).check, ("de", "en"))


def test_sentences_that_look_a_little_like_markup_are_lines(tmp_path):
    for number, text in enumerate(["1\nzwei\n", "<b>fett</b>\n", "# eins\nzwei\n", '{"a": 1}\n', "WEBVTTs\n", "\n\n"]):
        path = tmp_path / f"{number}.de"
        path.write_text(text, encoding="utf-8")
        assert judged([Named(str(path), "INPUT", 0)], ("de", "en")) == []


def test_swapped_texts_are_known_by_their_words(tmp_path):
    pytest.importorskip("py3langid")
    table = [(one.de, one.en) for one in make_corpus(1, 600)["train"]]
    texts = [[pair[side] for pair in table] for side in (0, 1)]
    assert judged_corpus(corpus(table, tmp_path / "t.tsv"), ("de", "en")) == []
    (line,) = judged_corpus(corpus(table, tmp_path / "t.tsv"), ("en", "de"))
    assert "are de and en by their words; swap the languages" in line
    assert judged_corpus(corpus(table[:60], tmp_path / "u.tsv"), ("en", "de")) == [], "few lines are no evidence"
    mixed = [pair if number % 10 else pair[::-1] for number, pair in enumerate(table)]
    (line,) = judged_corpus(corpus(mixed, tmp_path / "v.tsv"), ("de", "en"))
    assert "of the first 600 rows have source and target the other way round" in line
    (line,) = judged_corpus(corpus([(de, en.upper()[::-1]) for de, en in table], tmp_path / "w.tsv"), ("gsw", "de"))
    assert "are de and gsw by their words" in line, "one side is certain, and of the other nothing is known"
    for text, side in ((texts[0], 0), (texts[1], 1)):
        (tmp_path / "one").write_text("\n".join(text) + "\n", encoding="utf-8")
        assert judged([Named(str(tmp_path / "one"), "INPUT", side)], ("de", "en")) == []
        assert "by its words" in judged([Named(str(tmp_path / "one"), "INPUT", side)], ("en", "de"))[0]


def test_rows_with_exchanged_sides_are_known_by_their_scripts():
    rows = [(f"привет мир {n}", f"hello world {n}") for n in range(40)]
    assert exchanged_rows(rows, ("ru", "en")) == []
    assert exchanged_rows([row[::-1] if n in (3, 7) else row for n, row in enumerate(rows)], ("ru", "en")) == [3, 7]


def test_without_the_detector_nothing_is_said_of_words(tmp_path, monkeypatch):
    monkeypatch.setattr(language_by_text, "find_spec", lambda name: None)
    language_by_text._identifier.cache_clear()
    table = [(f"ein Hund läuft durch den Schnee {n}", f"a dog runs through the snow {n}") for n in range(200)]
    try:
        assert judged_corpus(corpus(table, tmp_path / "t.tsv"), ("en", "de")) == []
    finally:
        language_by_text._identifier.cache_clear()


def test_blank_lines_between_paradigms_do_not_hide_the_features():
    assert features_column([["walk", "walked", "V;PST"]] * 3 + [[""]]) == 3
    assert features_column([[""]]) is None
    walk, good, note = ["walk", "walked", "V;PST"], ["good", "good", "ADJ"], ["walk", "walked", "JS"]
    assert features_column([walk, good] * 9) == 3 and features_column([walk, *[note] * 9]) is None


def test_old_documents_and_wide_texts_are_known_by_their_first_bytes(tmp_path):
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    wide = "1\n00:00:01,000 --> 00:00:02,000\nja\n".encode("utf-16")
    refused(DataError, "got a document of an old Office, or one with a password", read_document, old, "docx", "a.docx")
    refused(DataError, "got text that looks like UTF-16; convert it: iconv", read_document, wide, "srt", "a.srt")
    known = {"old Office": old, "UTF-16": wide, "SQLite": b"SQLite format 3\0", "PDF": b"%PDF-1"}
    for words, content in known.items():
        (tmp_path / "t.de").write_bytes(content)
        refused(DataError, f"must be lines of UTF-8, got .*{words}", list, read_lines(tmp_path / "t.de"))


@pytest.mark.parametrize(
    ("line", "tokenizer"),
    [
        ("两个年轻的白人男子在许多灌木附近的外面。", "zh"),
        ("二人の若い白人男性が茂みの近くの外にいます。", "ja-mecab"),
        ("ชายหนุ่มผิวขาวสองคนอยู่ข้างนอกใกล้พุ่มไม้", "flores200"),
        ("两 个 年轻 的 白人 男子 在 外面 。", None),
        ("Zwei junge weiße Männer sind im Freien.", None),
    ],
)
def test_texts_without_spaces_get_a_hint_at_a_tokenizer(line, tokenizer):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nmt.evaluate([line], [line], metrics=["bleu"])
    assert [f"--tokenize {tokenizer}" in str(one.message) for one in caught] == [True] * (tokenizer is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nmt.evaluate([line], [line], metrics=["bleu"], tokenize="char")
