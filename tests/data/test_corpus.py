"""Corpora: broken files are one line that says where; pairs stay pairs."""

import gzip
import unicodedata
from random import Random

import numpy as np
import pytest

from nmt.data.corpora.corpus import clean_line, clean_lines, load_parallel
from nmt.data.corpora.readers import TokenRows
from nmt.errors import DataError
from nmt.system.lines import read_lines
from tests.data.corpora import line_of, sentences, side, write_pair
from tests.refusals import refused

# Cleaning


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        (" \t \r ", ""),
        ("  two   words ", "two words"),
        ("tab\tand\x00nul\x1fand\x7fdel", "tab and nul and del"),
        ("a\u2028b\u2029c\x85d\x0be", "a b c d e"),
        ("no\u00a0break", "no\u00a0break"),
        ("👩‍👧 می‌خواهم", "👩‍👧 می‌خواهم"),
        ("lone \ud800\udfff half", "lone half"),
        ("▁a▁b", "a b"),
        ("e\u0301", "é"),
        ("ﬁ", "ﬁ"),
    ],
)
def test_clean_line(text, clean):
    assert clean_line(text) == clean
    assert clean_line(clean) == clean


def test_pieces_keep_their_sign():
    text = " \u2581Ein  \u2581Mann\t-\x00en "
    assert clean_line(text, normalize="pieces") == "\u2581Ein \u2581Mann - en"
    assert clean_line(text, normalize="none") == "Ein Mann - en"


@pytest.mark.parametrize("normalize", ["none", "pieces", "nfc", "nfkc"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_lines_cleaned_together_are_those_cleaned_alone(lowercase, normalize):
    signs = (
        "ab éEÉİΣσςᎣꭳ"
        " \u0301\u0327\u00ad\u200b\u115f\ufe0f\u212bﬁ½\t\x00\x85\u2028\u3000\xa0  中ﾊﾟ\ud800▁\u1100\u1161가ß\n"
    )
    random = Random(3)
    for _ in range(1500):
        lines = ["".join(random.choices(signs, k=random.randint(0, 9))) for _ in range(random.randint(0, 5))]
        assert clean_lines(lines, lowercase, normalize) == [clean_line(line, lowercase, normalize) for line in lines]


def test_clean_line_settings():
    assert clean_line("e\u0301", normalize="none") == "e\u0301"
    assert clean_line("ﬁ ½", normalize="nfkc") == unicodedata.normalize("NFKC", "ﬁ ½")
    assert clean_line("ÄÖÜ ẞ ΑΣ", lowercase=True) == "äöü ß ας"
    dotted = clean_line("İ", lowercase=True)
    assert dotted == unicodedata.normalize("NFC", dotted)
    assert clean_line("ℌ", lowercase=True, normalize="nfkc") == "h"
    # Cherokee is written in what Unicode calls capitals.
    assert clean_line("ᎣᏏᏲ UNESCO", lowercase=True) == "ᎣᏏᏲ unesco"


# Reading


def test_only_newlines_end_lines(tmp_path):
    path = tmp_path / "odd.de"
    path.write_bytes("\ufeffone\u2028still\x0bone\x85\r\n\n\x00\rthree\nlast".encode())
    assert list(read_lines(path)) == ["one\u2028still\x0bone\x85", "", "\x00\rthree", "last"]
    path.write_bytes(b"")
    assert list(read_lines(path)) == []
    path.write_bytes(b"\n\n")
    assert list(read_lines(path)) == ["", ""]


def test_gzip_by_its_name_or_beside_it(tmp_path):
    packed = tmp_path / "train.de.gz"
    packed.write_bytes(gzip.compress("ä\nb\n".encode()))
    assert list(read_lines(packed)) == list(read_lines(tmp_path / "train.de")) == ["ä", "b"]
    (tmp_path / "train.de").write_text("plain wins\n")
    assert list(read_lines(tmp_path / "train.de")) == ["plain wins"]


def test_missing_file_says_what_was_tried(tmp_path):
    line = line_of(lambda: read_lines(tmp_path / "train.de"))
    assert str(tmp_path / "train.de") in line and "train.de.gz" in line
    assert "folder" in line_of(lambda: read_lines(tmp_path))


@pytest.mark.parametrize("packed", [False, True])
def test_not_utf8_names_file_and_line(tmp_path, packed):
    path = tmp_path / ("bad.de.gz" if packed else "bad.de")
    raw = "gut\nnoch gut\nschön\n".encode("latin-1")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    line = line_of(lambda: list(read_lines(path)))
    assert line.startswith(f"{path}: line 3 must be UTF-8, got byte 0xf6 at position 4")


def test_damaged_gzip_is_one_line(tmp_path):
    path = tmp_path / "cut.de.gz"
    whole = gzip.compress("\n".join(sentences(2000)).encode())
    for damaged in (whole[: len(whole) // 2], whole[:-4], whole[:5], b"plain text\n"):
        path.write_bytes(damaged)
        assert line_of(lambda: list(read_lines(path))).startswith(f"{path}: must be a whole gzip file")
    flipped = bytearray(whole)
    flipped[len(flipped) // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    assert line_of(lambda: list(read_lines(path))).startswith(f"{path}: ")


# Pairs


def test_pairs_stay_aligned_when_some_are_left_out(tmp_path, subwords):
    """Every kept pair is checked against its own line, in a file with all kinds of bad lines."""
    src, tgt = sentences(500, 1, 20), sentences(500, 2, 20)
    for number in range(0, 500, 7):
        src[number] = ["", "  \t", "\u2028\x00"][number % 3]
    for number in range(3, 500, 11):
        tgt[number] = ""
    src[499] = ""
    prefix = write_pair(tmp_path, src, tgt)
    limits = {"max_length": 30}
    corpus = load_parallel(prefix, side("de", subwords, **limits), side("en", subwords, **limits))
    empty = {i for i in range(500) if not clean_line(src[i]) or not clean_line(tgt[i])}
    lengths = [[len(subwords.encode([clean_line(line)])[0]) for line in text] for text in (src, tgt)]
    long = {i for i, both in enumerate(zip(*lengths, strict=True)) if max(both) > 30} - empty
    assert long and empty
    kept = sorted(set(range(500)) - empty - long)
    assert corpus.line_numbers.tolist() == kept and len(corpus) == len(kept)
    assert (corpus.total, corpus.skipped_empty, corpus.skipped_long) == (500, len(empty), len(long))
    for position, number in enumerate(kept):
        assert corpus.src[position].tolist() == subwords.encode([src[number]])[0]
        assert corpus.tgt[position].tolist() == subwords.encode([tgt[number]])[0]
    assert max(corpus.src.lengths.max(), corpus.tgt.lengths.max()) == 30


def test_max_length_is_the_last_length_allowed(tmp_path, subwords):
    text = "the house walks under the tree"
    length = len(subwords.encode([text])[0])
    prefix = write_pair(tmp_path, [text], [text])
    long, short = (side("de", subwords, max_length=limit) for limit in (length, length - 1))
    assert len(load_parallel(prefix, long, side("en", subwords))) == 1
    line = "0 with an empty side and 1 longer than max_length"
    refused(DataError, line, load_parallel, prefix, short, side("en", subwords))


def test_validation_keeps_every_line_and_its_text(tmp_path, subwords):
    src = ["The House ", "", "a " * 300]
    tgt = ["", "Das  HAUS", "b"]
    prefix = write_pair(tmp_path, src, tgt)
    corpus = load_parallel(prefix, side("de", subwords), side("en", subwords, lowercase=True), training=False)
    assert len(corpus) == corpus.total == 3
    assert corpus.line_numbers.tolist() == [0, 1, 2]
    assert corpus.src_texts == src
    assert corpus.references == ["", "das haus", "b"]
    assert corpus.src.lengths[1] == 0 and corpus.src.lengths[2] > 200


@pytest.mark.parametrize(("src_lines", "tgt_lines"), [(5, 3), (3, 5), (1, 0), (17_000, 16_384)])
def test_unequal_line_counts(tmp_path, sides, src_lines, tgt_lines):
    prefix = write_pair(tmp_path, ["a"] * src_lines, ["a"] * tgt_lines)
    line = refused(DataError, "", load_parallel, prefix, *sides)
    assert f"got {src_lines} and {tgt_lines}" in line and f"{prefix}.de, {prefix}.en" in line


def test_more_lines_than_a_chunk(tmp_path, subwords):
    src = sentences(17_000, longest=2)
    prefix = write_pair(tmp_path, src, src)
    corpus = load_parallel(prefix, side("de", subwords), side("en", subwords))
    assert len(corpus) == 17_000
    assert subwords.decode([corpus.tgt[16_500].tolist()]) == [src[16_500]]
    assert np.array_equal(corpus.line_numbers, np.arange(17_000))


def test_empty_corpora(tmp_path, sides):
    prefix = write_pair(tmp_path, [], [])
    for training in (True, False):
        refused(DataError, "got empty files", load_parallel, prefix, *sides, training=training)
    prefix = write_pair(tmp_path, ["", "a"], ["a", " "])
    refused(DataError, "2 with an empty side", load_parallel, prefix, *sides)


def test_a_broken_partner_is_named(tmp_path, sides):
    prefix = write_pair(tmp_path, ["a", "b"], ["a", "b"])
    (tmp_path / "train.en").write_bytes(b"a\n\xff\n")
    refused(DataError, f"^{prefix}.en: line 2 must be UTF-8", load_parallel, prefix, *sides)
    (tmp_path / "train.en").unlink()
    refused(DataError, "train.en.gz", load_parallel, prefix, *sides)


def test_token_rows():
    rows = TokenRows.from_lists([[5, 6], [], [7]])
    assert len(rows) == 3 and rows.lengths.tolist() == [2, 0, 1]
    assert [row.tolist() for row in rows] == [[5, 6], [], [7]]
    assert rows[-1].tolist() == [7] and rows[0].dtype == np.int32
    assert [row.tolist() for row in rows[1:]] == [[], [7]]
    assert rows.lengths_of(np.array([2, 0])).tolist() == [1, 2]
    for index in (3, -4):
        with pytest.raises(IndexError):
            rows[index]
    assert len(TokenRows.from_lists([])) == 0
