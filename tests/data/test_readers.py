"""Several processes that read one text, played by threads: each has the whole that one by itself has."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmt.config import FilterConfig
from nmt.data.corpora import corpus as corpus_module
from nmt.data.corpora import text as text_module
from nmt.data.corpora.corpus import load_parallel
from nmt.data.corpora.readers import end_to_end
from nmt.data.corpora.text import load_text
from nmt.data.quality.filter import LineFilter
from nmt.errors import DataError
from tests.data.corpora import sentences, side, write_pair

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
        np.testing.assert_array_equal(found.line_numbers, alone.line_numbers)
        for mine, others in ((found.src, alone.src), (found.tgt, alone.tgt)):
            np.testing.assert_array_equal(mine.tokens, others.tokens)
            np.testing.assert_array_equal(mine.starts, others.starts)


@pytest.mark.parametrize("rules", [{}, {"duplicates": True, "markup": True, "script": True}])
@pytest.mark.parametrize("size", [2, 3, 40])
def test_a_text(prefix, subwords, size, rules):
    def read(readers=None):
        settings = LineFilter(FilterConfig.model_validate(rules)) if rules else None
        return load_text(prefix, side("de", subwords), settings, readers)

    alone = read()
    for found in by_readers(size, read):
        assert (found.total, found.filtered) == (alone.total, alone.filtered)
        np.testing.assert_array_equal(found.lines.tokens, alone.lines.tokens)
        np.testing.assert_array_equal(found.lines.starts, alone.lines.starts)


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

    def read(readers):
        with pytest.raises(DataError) as caught:
            corpus_of(prefix, subwords, readers)
        with pytest.raises(DataError, match="2 blank ones"):
            load_text(prefix, side("en", subwords), None, readers)
        return str(caught.value)

    assert len(set(by_readers(3, read))) == 1


def test_texts_that_are_kept_are_read_by_all(prefix, subwords):
    sides = side("de", subwords), side("en", subwords)
    alone = load_parallel(prefix, *sides, training=False)
    for found in by_readers(2, lambda readers: load_parallel(prefix, *sides, training=False, readers=readers)):
        assert found.src_texts == alone.src_texts and found.references == alone.references
