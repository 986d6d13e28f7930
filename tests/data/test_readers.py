"""Several processes that read one text, played by threads: each has the whole that one by itself has."""

import errno
import gzip
import io
import itertools
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nmt.data.corpora.corpus as reading_meter
import nmt.data.corpora.prepare as text_module
from nmt.config import DataConfig, FilterConfig
from nmt.data.batching.batches import TrainBatches
from nmt.data.corpora import corpus as corpus_module
from nmt.data.corpora import readers
from nmt.data.corpora.corpus import load_parallel, metered, text_bytes
from nmt.data.corpora.prepare import load_sides
from nmt.data.corpora.readers import end_to_end
from nmt.data.corpora.sources import Source
from nmt.data.quality.filter import LineFilter
from nmt.errors import DataError
from nmt.system.notices import tell_nobody
from tests.data.corpora import arrays, sentences, side, write_pair
from tests.oracle.compare import assert_same_arrays
from tests.refusals import refused
from tests.settings import texts_in

RULES = {"duplicates": True, "same": True, "markup": True, "script": True, "max_length_ratio": 1.6}


class Played:
    """One of `size` readers, which are threads; `read` is what it has cut."""

    def __init__(self, rank, size, barrier, held):
        self.rank, self.size, self._barrier, self._held = rank, size, barrier, held

    def all_gather(self, value):
        self._held[self.rank] = value
        self._barrier.wait(30)
        found = list(self._held)
        self._barrier.wait(30)
        return found

    def gathered(self, own, dtype):
        pieces = {}
        for of_one in self.all_gather(dict(own)):
            assert not pieces.keys() & of_one.keys(), "a piece is one reader's"
            pieces |= of_one
        return end_to_end(pieces, dtype)


def by_readers(size, read):
    """What each of `size` readers gets from `read(readers)`."""
    barrier, held = threading.Barrier(size), [None] * size
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: read(Played(rank, size, barrier, held)), range(size)))


def corpus_of(prefix, subwords, readers=None, **rules):
    sides = side("de", subwords, max_length=25), side("en", subwords, max_length=25)
    settings = LineFilter(FilterConfig.model_validate(rules)) if rules else None
    return load_parallel(prefix, *sides, rules=settings, readers=readers)


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Pairs of all kinds in blocks of 16 lines; what is usual in the first is not so in the others."""
    monkeypatch.setattr(corpus_module, "CHUNK", 16)
    monkeypatch.setattr(text_module, "CHUNK", 16)
    src = sentences(300, 1, 20)
    tgt = [f"{line} and {line.split()[0]}" for line in src]
    tgt[:16] = src[:16]
    tgt[:8] = [f"{line} {line}" for line in src[:8]]
    for number in range(5, 300, 9):
        src[number], tgt[number] = src[number % 7], tgt[number % 7]
    for number in range(3, 300, 31):
        src[number], tgt[number + 1], tgt[number + 2] = "", f"<b>{tgt[number + 1]}</b>", "собака и кошка"
    return write_pair(tmp_path, src, tgt)


@pytest.mark.parametrize("rules", [{}, RULES])
@pytest.mark.parametrize("size", [2, 3, 40])
def test_a_corpus(prefix, subwords, size, rules):
    alone = corpus_of(prefix, subwords, **rules)
    assert 0 < len(alone) < 300 and alone.skipped_empty and alone.skipped_long
    for found in by_readers(size, lambda readers: corpus_of(prefix, subwords, readers, **rules)):
        for name in ("total", "skipped_empty", "skipped_long", "filtered"):
            assert getattr(found, name) == getattr(alone, name), name
        assert_same_arrays(arrays(found), arrays(alone))


def test_each_reader_cuts_its_share_alone(prefix, subwords):
    cut = []

    class Counting:
        def __init__(self):
            self.lines = 0

        def encode(self, lines):
            self.lines += len(lines)
            return subwords.encode(lines)

    def read(readers):
        own = Counting()
        load_parallel(prefix, side("de", own), side("en", own), readers=readers)
        cut.append(own.lines)

    by_readers(3, read)
    assert sum(cut) == 2 * 300 and max(cut) <= 2 * 112


def test_a_text_that_holds_nothing_is_an_error_in_all(tmp_path, subwords):
    prefix = write_pair(tmp_path, ["", ""], ["", ""])

    told = by_readers(3, lambda readers: refused(DataError, "", corpus_of, prefix, subwords, readers))
    assert len(set(told)) == 1


def test_texts_that_are_kept_are_read_by_all(prefix, subwords):
    sides = side("de", subwords), side("en", subwords)
    alone = load_parallel(prefix, *sides, training=False)
    for found in by_readers(2, lambda readers: load_parallel(prefix, *sides, training=False, readers=readers)):
        assert found.src_texts == alone.src_texts and found.references == alone.references


class Clock:
    """Half a second passes each time somebody looks."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 0.5
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(reading_meter, "time", found)
    return found


def test_lines_pass_unchanged_and_the_meter_says_how_far_they_are(clock):
    lines, said = [f"line {number}" for number in range(10_000)], []
    assert list(metered(iter(lines), "text", sum(map(len, lines)), said.append)) == lines
    assert [text.split("[")[0] for text in said] == ["text:  82% 72.6k/88.9k "] and said[0].endswith("  8,192 lines")


def test_what_is_left_follows_from_the_bytes(clock, monkeypatch):
    said = []
    monkeypatch.setattr(reading_meter, "_LINES", 10)
    left = metered(["." * 50] * 20 + [""], "text", 4_000, said.append)
    for _ in range(20):
        next(left)
    # A quarter was read in a second: three are left.
    assert said == ["text:  25% 1.00k/4.00k [00:01<00:03, 1.00kB/s]  20 lines"]
    clock.now += 119
    next(left)
    assert "<06:01," in said[-1]


def test_a_packed_text_counts_more_than_its_file(tmp_path):
    for name, write in (("a.en", open), ("b.en.gz", gzip.open)):
        with write(tmp_path / name, "wb") as file:
            file.write(b"one two three\n" * 1000)
    plain, packed = (text_bytes(Source(str(tmp_path / name)), ["en"]) for name in "ab")
    assert plain == 14_000
    assert packed == 4 * (tmp_path / "b.en.gz").stat().st_size


def test_training_subwords_tells_how_much_of_the_text_was_read(clock, tmp_path):
    for lang in ("xx", "yy"):
        (tmp_path / f"train.{lang}").write_text("ein Haus am See\n" * 9000, encoding="utf-8")
    data = DataConfig.model_validate(texts_in(tmp_path, subwords={"type": "bpe", "vocab_size": 24}))
    said = []
    load_sides(data, tell_nobody, said.append)
    assert [text.rsplit("  ", 1)[1] for text in said] == ["8,192 lines", "16,384 lines"]


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Some chunks, with pairs that occur twice in different ones, and a side that is empty."""
    monkeypatch.setattr(corpus_module, "CHUNK", 256)
    src, tgt = sentences(3000, seed=1), sentences(3000, seed=2)
    src[17], src[900], tgt[900], src[2900], tgt[2900] = "", src[2], tgt[2], src[1200], tgt[1200]
    return write_pair(tmp_path, src, tgt)


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array is not None and "mmap" in repr(type(getattr(array, "obj", array)))


@pytest.mark.parametrize("most", [0, 20_000], ids=["all in the file", "the rest in the file"])
@pytest.mark.parametrize("rules", [{}, {"duplicates": True}], ids=["all", "no duplicates"])
def test_batches_are_those_of_a_text_in_memory(text, sides, monkeypatch, most, rules):
    def load():
        return load_parallel(text, *sides, rules=LineFilter(FilterConfig.model_validate(rules)) if rules else None)

    plain = load()
    monkeypatch.setattr(readers, "MOST_IN_MEMORY", most)
    large = load()
    assert is_mapped(large.src.tokens) and not is_mapped(plain.src.tokens) and not large.src.tokens.flags.writeable
    assert [one.dtype for one in arrays(plain)] == [one.dtype for one in arrays(large)]
    assert_same_arrays(arrays(plain), arrays(large))
    assert (plain.filtered, plain.total) == (large.filtered, large.total)
    np.testing.assert_array_equal(plain.target_counts(45), large.target_counts(45))
    assert large.tgt.checksum(large.src.checksum()) == plain.tgt.checksum(plain.src.checksum())
    for epoch in (1, 2):
        pairs = zip(TrainBatches(plain, 300).epoch(epoch), TrainBatches(large, 300).epoch(epoch), strict=True)
        for expected, found in pairs:
            for name in ("src", "tgt_in", "tgt_out", "src_lengths", "tgt_lengths", "indices"):
                np.testing.assert_array_equal(getattr(expected, name), getattr(found, name))


def test_no_file_is_left_and_none_while_it_is_read(text, sides, monkeypatch, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(readers, "MOST_IN_MEMORY", 0)
    corpus = load_parallel(text, *sides)
    assert list(folder.iterdir()) == [] and len(corpus.src[5]) > 0


def test_a_file_that_takes_a_part_at_a_time_has_all_of_it(text, sides, monkeypatch):
    class Slow(io.FileIO):
        def write(self, content):
            return super().write(content[:1000])

    plain, folder = load_parallel(text, *sides), tempfile.mkdtemp()
    numbers = itertools.count()
    monkeypatch.setattr(readers, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(readers.tempfile, "TemporaryFile", lambda **o: Slow(f"{folder}/{next(numbers)}", "w+"))
    large = load_parallel(text, *sides)
    shutil.rmtree(folder)
    assert_same_arrays(arrays(plain), arrays(large))


def test_a_temporary_folder_without_room_is_a_line(text, sides, monkeypatch):
    def full(**options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(readers, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(readers.tempfile, "TemporaryFile", full)
    line = "must have room for the ids of the training text, got .*; set TMPDIR"
    refused(DataError, line, load_parallel, text, *sides)
