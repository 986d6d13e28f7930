"""The ids of a large text lie in a mapped file: the corpus and its batches have the bits of one in memory."""

import errno
import io
import itertools
import shutil
import tempfile

import numpy as np
import pytest

from nmt.config import FilterConfig, config_from_dict
from nmt.data.batching.batches import TrainBatches
from nmt.data.corpora import corpus as corpus_module
from nmt.data.corpora import readers
from nmt.data.corpora.corpus import load_parallel
from nmt.data.quality.filter import LineFilter
from nmt.errors import ConfigError, DataError
from tests.data.corpora import sentences, write_pair


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Some chunks, with pairs that occur twice in different ones, and a side that is empty."""
    monkeypatch.setattr(corpus_module, "CHUNK", 256)
    src, tgt = sentences(3000, seed=1), sentences(3000, seed=2)
    src[17], src[900], tgt[900], src[2900], tgt[2900] = "", src[2], tgt[2], src[1200], tgt[1200]
    return write_pair(tmp_path, src, tgt)


def arrays(corpus):
    return corpus.src.tokens, corpus.src.starts, corpus.tgt.tokens, corpus.tgt.starts, corpus.line_numbers


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
    for expected, found in zip(arrays(plain), arrays(large), strict=True):
        assert expected.dtype == found.dtype
        np.testing.assert_array_equal(expected, found)
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
    np.testing.assert_array_equal(plain.src.tokens, large.src.tokens)
    np.testing.assert_array_equal(plain.tgt.tokens, large.tgt.tokens)


def test_a_temporary_folder_without_room_is_a_line(text, sides, monkeypatch):
    def full(**options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(readers, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(readers.tempfile, "TemporaryFile", full)
    with pytest.raises(DataError, match="must have room for the ids of the training text, got .*; set TMPDIR"):
        load_parallel(text, *sides)


def test_the_setting_of_the_former_index_names_what_took_its_place():
    values = {"model_dir": "m", "data": {"train": "t", "dev": "d", "src": {"lang": "de"}, "tgt": {"lang": "en"}}}
    assert config_from_dict({**values, "data": {**values["data"], "index": None}}).data.train == "t"
    with pytest.raises(ConfigError, match=r"data\.index is not there any more; remove it: .*TMPDIR"):
        config_from_dict({**values, "data": {**values["data"], "index": "runs/index"}})
