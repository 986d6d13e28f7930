"""Where pairs come from: formats, packing, patterns, tags, weights; a row that is no pair is told by its place."""

import gzip
import json

import numpy as np
import pytest

from nmt.config import CorpusConfig, DataConfig, config_from_dict
from nmt.data.batching.batches import TrainBatches, rows_of_epoch
from nmt.data.corpora.corpus import load_parallel
from nmt.data.corpora.prepare import load_sides, training_text
from nmt.data.corpora.sources import Source, check_sources
from nmt.errors import ConfigError, DataError
from tests.data.corpora import arrays, line_of, sentences, write_pair
from tests.oracle.compare import assert_same_arrays
from tests.refusals import refused
from tests.settings import settings_with

SRC, TGT = sentences(60, seed=1), sentences(60, seed=2)


def write(path, text):
    content = text.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zst":
        content = pytest.importorskip("backports.zstd", reason="needs the extra [zstd]").compress(content)
    path.write_bytes(content)
    return str(path)


def tsv(src=SRC, tgt=TGT):
    return "".join(f"{a}\t{b}\n" for a, b in zip(src, tgt, strict=True))


def jsonl(record=lambda a, b: {"de": a, "en": b}):
    return "".join(json.dumps(record(a, b)) + "\n" for a, b in zip(SRC, TGT, strict=True))


def corpus(path, **settings):
    return (CorpusConfig(path=str(path), **settings),)


def same(one, other):
    assert_same_arrays(arrays(one), arrays(other))
    assert one.total == other.total


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("a.tsv", tsv(), {}),
        ("a.tsv.gz", tsv(), {}),
        ("a.tsv.zst", tsv(), {}),
        ("a.tsv", tsv(TGT, SRC), {"src_column": 2, "tgt_column": 1}),
        ("a.tsv", "x\ten\tde\n" + tsv(["x\t" + line for line in TGT], SRC), {"src_column": "de", "tgt_column": "en"}),
        ("a.jsonl", jsonl(), {}),
        ("a.jsonl.gz", jsonl(lambda a, b: {"translation": {"en": b, "de": a}, "id": 3}), {}),
        ("a.ndjson", jsonl(lambda a, b: {"q": {"r": a}, "en": b}), {"src_column": "q.r"}),
        ("a.jsonl", jsonl(lambda a, b: {"id": a[:3], "target": b, "source": a, "n": 7}), {}),
        ("a.jsonl", jsonl(lambda a, b: {"German": a, "year": 7, "English": b}), {}),
    ],
)
def test_a_table_gives_what_two_files_give(tmp_path, sides, name, text, settings):
    expected = load_parallel(write_pair(tmp_path, SRC, TGT), *sides)
    path = write(tmp_path / name, text)
    same(load_parallel(corpus(path, **settings), *sides), expected)
    if not settings:
        same(load_parallel(path, *sides), expected)  # by its name alone
    both = [one.config for one in sides]
    for wanted, lines in ((both[:1], SRC), (both[1:], TGT)):
        assert list(training_text(corpus(path, **settings), wanted, both)) == lines


def test_parquet_gives_what_two_files_give(tmp_path, sides):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")
    import pyarrow

    expected = load_parallel(write_pair(tmp_path, SRC, TGT), *sides)
    flat = {"other": list(range(60)), "de": SRC, "en": TGT}
    nested = {"translation": [{"de": a, "en": b} for a, b in zip(SRC, TGT, strict=True)]}
    for name, columns in (("a", flat), ("b", nested)):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet", row_group_size=7)
        same(load_parallel(str(tmp_path / f"{name}.parquet"), *sides), expected)
    parquet.write_table(pyarrow.table({"de": [SRC[0], "b"], "en": [TGT[0], None]}), tmp_path / "c.parquet")
    found = load_parallel(f"{tmp_path}/c.parquet", *sides)
    assert (len(found), found.total) == (1, 2), "a cell without text is an empty cell"
    (tmp_path / "d.parquet").write_bytes(b"PAR1 is no table")
    assert line_of(lambda: load_parallel(f"{tmp_path}/d.parquet", *sides)).startswith(f"{tmp_path}/d.parquet: must be")


def test_several_corpora_patterns_and_packed_files(tmp_path, sides):
    expected = load_parallel(write_pair(tmp_path, SRC, TGT), *sides)
    for number in range(3):
        (tmp_path / f"part{number}").mkdir()
        rows = slice(number * 20, number * 20 + 20)
        prefix = write_pair(tmp_path / f"part{number}", SRC[rows], TGT[rows], "x")
        write(tmp_path / f"rows-{number}.tsv", tsv(SRC[rows], TGT[rows]))
    write(tmp_path / "part2" / "x.de.gz", (tmp_path / "part2" / "x.de").read_text())
    (tmp_path / "part2" / "x.de").unlink()
    same(load_parallel(corpus(tmp_path / "part*" / "x"), *sides), expected)
    same(load_parallel(str(tmp_path / "rows-*.tsv"), *sides), expected)
    found = load_parallel((*corpus(tmp_path / "rows-[01].tsv"), *corpus(prefix)), *sides)
    same(found, expected)
    assert found.parts == ((40, 1.0), (20, 1.0))


def test_zstd_that_is_cut_off_or_damaged(tmp_path, sides):
    write(tmp_path / "a.tsv.zst", tsv() * 50)
    whole = (tmp_path / "a.tsv.zst").read_bytes()
    for content in (whole[:-9], whole[:30] + b"no such bytes" + whole[43:], b"plain text"):
        (tmp_path / "a.tsv.zst").write_bytes(content)
        assert "must be a whole zstd file" in line_of(lambda: load_parallel(f"{tmp_path}/a.tsv.zst", *sides))


@pytest.mark.parametrize(
    ("name", "text", "settings", "words"),
    [
        ("a.tsv", "a\tb\nonly one\nc\td\n", {}, "line 2 must have at least 2 cells, got 1"),
        ("a.tsv", "x\ty\na\tb\n", {"src_column": "de", "tgt_column": "y"}, "the column de, got x, y; name one of"),
        ("a.tsv", "x\ty\n", {"src_column": "x", "tgt_column": "English"}, "the column English, got x, y; name one of"),
        ("a.tsv", "x\ty\n", {"src_column": "x", "tgt_column": "C"}, "must have the column C, got x, y; name one of"),
        ("a.tsv", "x\ty\n", {"src_column": 1, "tgt_column": 3}, "must have the column 3, got x, y; name one of these"),
        ("a.tsv", "a\tb\n", {"src_column": 1}, "must have a column named for each side, or none"),
        ("a.jsonl", '{"de": "a", "en": "b"}\n{"de": "a", "en"\n', {}, "line 2 must be a JSON object"),
        ("a.jsonl", '{"de": "a", "en": "b"}\n\n{', {}, "line 3 must be a JSON object"),
        ("a.jsonl", '{"de": "a"}\n', {}, "must have two columns, got one, 1 de (a)"),
        ("a.jsonl", '{"de": "a", "fr": "b", "x": "c"}\n', {}, "choose source and target, as with --columns 1,2"),
        ("a.jsonl", '{"de": "a", "en": "b"}\n', {"src_column": "fr"}, "must have the column fr, got de, en; name one"),
        ("a.jsonl", "[1]\n", {}, "row 1 must be an object, got a list"),
        ("a.jsonl", '{"de": "a", "en": "b"}\n{"de": "\\ud800"\n', {}, "line 2 must be a JSON object"),
    ],
)
def test_a_bad_row_is_a_line_that_says_where(tmp_path, sides, name, text, settings, words):
    path = write(tmp_path / name, text)
    line = line_of(lambda: load_parallel(corpus(path, **settings), *sides))
    assert line.startswith(f"{path}: ") and words in line


def test_a_blank_line_of_a_table_is_skipped_as_in_two_files(tmp_path, sides):
    lines = tsv().splitlines(keepends=True)
    found = load_parallel((CorpusConfig(path=write(tmp_path / "a.tsv", "".join([*lines, "\n"]))),), *sides)
    assert (found.total, found.skipped_empty) == (len(SRC) + 1, 1)


@pytest.mark.parametrize(
    ("name", "advice"), [("s.de", "write "), ("s.en.gz", "write "), ("s", "or give a table, NAME.tsv")]
)
def test_one_of_the_two_files_is_no_prefix(tmp_path, name, advice):
    write(tmp_path / name, "a\n")
    line = refused(DataError, "", check_sources, str(tmp_path / name), ["de", "en"])
    assert line.startswith(f"{tmp_path / name}: must be a prefix, P for P.de and P.en, got a file; ")
    assert line.endswith(f"write {tmp_path / 's'}" if "write" in advice else advice)


def test_what_is_not_there(tmp_path, sides):
    for path in ("none.tsv", "none*.tsv", "none*/x", "none"):
        assert str(tmp_path / path) in line_of(lambda path=path: load_parallel(corpus(tmp_path / path), *sides))


def test_line_ends_within_a_cell_are_spaces(tmp_path, sides):
    path = write(tmp_path / "a.jsonl", json.dumps({"de": "the\nhouse", "en": "a\r\ncat"}) + "\n")
    found = load_parallel(path, *sides, training=False)
    assert (found.src_texts, found.references) == (["the house"], ["a cat"])


# Tags


def test_a_tag_is_one_unit_before_the_source(tmp_path):
    prefix = write_pair(tmp_path, [*SRC, ""], [*TGT, "x"])
    texts = {"train": [{"path": prefix}, {"path": prefix, "tag": "<2En>"}], "dev": [{"path": prefix, "tag": "<dev>"}]}
    langs = {"src": {"lang": "de", "lowercase": True}, "tgt": {"lang": "en"}}
    data = DataConfig.model_validate(texts | langs | {"subwords": {"vocab_size": 50}})
    src, tgt = load_sides(data)
    plain, tagged = src.subwords.encode(["the house", "<2en> the house"])
    assert tagged[-len(plain) :] == plain and len(tagged) == len(plain) + 2  # a space and the tag
    found = load_parallel(data.train, src, tgt)
    assert len(found) == 120 and found.skipped_empty == 2 and found.parts == ((60, 1.0), (60, 1.0))
    unit = tagged[1]
    assert all(unit not in found.src[n] for n in range(60)) and all(found.src[n][1] == unit for n in range(60, 120))
    assert "<2en>" in src.subwords.pieces(tagged) and "<dev>" in src.subwords.pieces(src.subwords.encode(["<dev>"])[0])
    dev = load_parallel(data.dev, src, tgt, training=False)
    assert dev.src_texts[0] == "<dev> " + SRC[0] and dev.src_texts[-1] == ""


def test_features_are_symbols_after_the_word(tmp_path):
    table = write(tmp_path / "t.tsv", "Walk\twalked\tV;PST\ngo on\twent on\tV;V.CVB(3,SG)\n\n")
    columns = {"path": table, "features_column": 3}
    data = {"train": [columns], "dev": [columns], "src": {"lang": "w", "lowercase": True}, "tgt": {"lang": "f"}}
    data["subwords"] = {"type": "char", "joint": False}
    config = config_from_dict({"model_dir": "m", "data": data})
    src, tgt = load_sides(config.data)
    corpus = load_parallel(config.data.train, src, tgt)
    assert src.subwords.pieces(corpus.src[0].tolist()) == ["▁", *"walk", "▁+v", "▁+pst"]
    assert src.subwords.pieces(corpus.src[1].tolist()) == ["▁", *"go", "▁", *"on", "▁+v", "▁+v.cvb", "▁+3", "▁+sg"]
    assert not any("+" in piece for piece in tgt.subwords.pieces(range(tgt.subwords.vocab_size)))


@pytest.mark.parametrize(("first", "are_symbols"), [("walk +V +PST", True), ("We walk +V", False)])
def test_features_in_lines_are_symbols_too(tmp_path, first, are_symbols):
    """They had been spelled letter by letter, though a table with the same words had symbols."""
    text = write_pair(tmp_path, [first, "go +V +PST"] * 20, ["walked", "went"] * 20)
    data = {"train": text, "dev": text, "src": {"lang": "de"}, "tgt": {"lang": "en"}}
    data["subwords"] = {"type": "char", "joint": True}
    src, _ = load_sides(config_from_dict({"model_dir": "m", "data": data}).data)
    assert ("▁+PST" in src.subwords.pieces(range(src.subwords.vocab_size))) == are_symbols


def test_a_row_without_features_is_an_error(tmp_path):
    (part,) = Source(write(tmp_path / "t.tsv", "walk\twalked\tV;PST\ngo\twent\n"), features=3).parts(["w", "f"])
    assert "line 2 must have at least 3 cells, got 2" in line_of(lambda: list(part.rows()))


def test_a_tag_the_subwords_do_not_know_is_an_error(tmp_path, sides):
    prefix = write_pair(tmp_path, SRC, TGT)
    assert "tag must be text that the subwords cover" in line_of(lambda: load_parallel(corpus(prefix, tag="Ж"), *sides))


# Weights


def weighted(tmp_path, sides, *weights):
    prefixes = [write_pair(tmp_path, SRC[:n], TGT[:n], f"w{n}") for n in (40, 7)]
    return load_parallel([CorpusConfig(path=p, weight=w) for p, w in zip(prefixes, weights, strict=True)], *sides)


def test_an_epoch_has_each_corpus_by_its_weight(tmp_path, sides):
    found = weighted(tmp_path, sides, 0.25, 3)
    seen = np.zeros(47, int)
    for epoch in range(4):
        rows = rows_of_epoch(found, 5, epoch)
        assert (rows < 40).sum() == 10 and np.bincount(rows, minlength=47)[40:].tolist() == [3] * 7
        seen += np.bincount(rows, minlength=47)
        batches = list(TrainBatches(found, 50, seed=5).epoch(epoch))
        assert sorted(np.concatenate([batch.indices for batch in batches])) == sorted(found.line_numbers[rows])
    assert seen[:40].tolist() == [1] * 40, "no pair is seen twice before all have been seen"
    first, again = (rows_of_epoch(found, 5, 0) for _ in range(2))
    assert np.array_equal(first, again) and not np.array_equal(first, rows_of_epoch(found, 6, 0))
    tokens = [len(found.tgt[n]) + 1 for n in range(47)]
    assert found.num_tgt_tokens == round(0.25 * sum(tokens[:40]) + 3 * sum(tokens[40:]))


def test_weights_of_one_are_the_plan_of_one_corpus(tmp_path, sides):
    found = weighted(tmp_path, sides, 1, 1)
    joined = load_parallel(write_pair(tmp_path, SRC[:40] + SRC[:7], TGT[:40] + TGT[:7], "both"), *sides)
    for one, other in zip(TrainBatches(found, 50).epoch(3), TrainBatches(joined, 50).epoch(3), strict=True):
        assert np.array_equal(one.src, other.src) and np.array_equal(one.indices, other.indices)


OF_A_CORPUS = [
    ({"wieght": 2}, r"wieght is not a setting; did you mean data.train\[0\].weight"),
    ({"weight": 0}, "weight must be a number above 0 and of at"),
    ({"src_column": 0}, "src_column must be text .*at least 1"),
    ({"path": "a.jsonl", "features_column": 3}, "features_column must be null for all but .tsv, got 3 of a.jsonl"),
    ({"tag": "a b"}, "tag must be one word without spaces"),
]


@pytest.mark.parametrize(
    ("data", "sections", "words"),
    [
        ({"train": []}, {}, "data.train must contain at least one corpus, got an empty list"),
        ({"train": [{"path": "a"}, {}]}, {}, r"data.train\[1\].path must be given"),
        ({"train": 3}, {}, "data.train must be text that is not empty, or a list of values, each a section"),
        ({"dev": [{"path": "a", "weight": 2}]}, {}, r"data.dev\[0\].weight must be 1, got 2"),
        ({"train": [{"path": "a", "weight": 2}]}, {"training": {"shuffle": False}}, "training.shuffle must be true"),
        *(({"train": [{"path": "a", **one}]}, {}, rf"data.train\[0\].{words}") for one, words in OF_A_CORPUS),
    ],
)
def test_settings_of_corpora_that_make_no_sense(data, sections, words):
    refused(ConfigError, words, settings_with, data, **sections)
