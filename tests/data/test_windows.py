"""Indexes of large corpora: the pairs of the text, made once, found again; and the windows they are dealt by."""

import os

import numpy as np
import pytest

from nmt.config import CorpusConfig, FilterConfig
from nmt.data.batching import indexing as indexing_module
from nmt.data.batching import windows as windows_module
from nmt.data.batching.batches import TrainBatches
from nmt.data.batching.index import BLOCKS_NAME, HEADER_NAME, ROWS_NAME
from nmt.data.batching.indexing import Indexing, load_indexed, needs_index
from nmt.data.batching.windows import WindowBatches
from nmt.data.corpora.corpus import load_parallel
from nmt.data.quality.filter import LineFilter
from nmt.errors import CheckpointError, DataError
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.state import TrainingState
from tests.data.corpora import sentences, side, small_subwords, write_pair

COUNT = 3000


@pytest.fixture(scope="module")
def sides():
    subwords = small_subwords()
    return side("de", subwords, max_length=20), side("en", subwords)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    src, tgt = sentences(COUNT, seed=1, longest=9), sentences(COUNT, seed=2, longest=9)
    src[17], tgt[30], src[900], tgt[900] = "", "", src[2], tgt[2]
    return write_pair(folder, src, tgt)


@pytest.fixture(scope="module")
def made(small, text, sides, tmp_path_factory):
    return make(tmp_path_factory.mktemp("index"), text, sides)


@pytest.fixture(scope="module", autouse=True)
def small():
    """Sizes at which some thousand pairs are many."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        yield


def shrink(monkeypatch):
    monkeypatch.setattr(indexing_module, "_BUCKET_BYTES", 20_000)
    monkeypatch.setattr(indexing_module, "_BUFFER_PAIRS", 700)
    monkeypatch.setattr(indexing_module, "CHUNK", 256)
    monkeypatch.setattr(windows_module, "WINDOW_PAIRS", 700)


def quiet(text):
    pass


def make(folder, corpora, sides, **more):
    indexing = Indexing(folder, corpora, sides, **more)
    indexing.make(quiet, quiet)
    return indexing


def pairs_of(batches, boundary=1):
    """Line number to source and target tokens, of what was dealt."""
    found = {}
    for batch in batches:
        for column, number in enumerate(batch.indices.tolist()):
            src = batch.src[: batch.src_lengths[column] - 1, column].tolist()
            tgt = batch.tgt_out[: batch.tgt_lengths[column] - 1, column].tolist()
            assert found.setdefault(number, (src, tgt)) == (src, tgt)
    return found


def expected(text, sides, **more):
    corpus = load_parallel(text, *sides, **more)
    return {
        number: (corpus.src[row].tolist(), corpus.tgt[row].tolist())
        for row, number in enumerate(corpus.line_numbers.tolist())
    }


def test_an_index_holds_the_pairs_of_the_text(text, sides, made):
    corpus, plain = made.load(), load_parallel(text, *sides)
    assert (len(corpus), corpus.total, corpus.skipped_empty, corpus.skipped_long) == (
        len(plain),
        COUNT,
        plain.skipped_empty,
        plain.skipped_long,
    )
    assert corpus.num_tgt_tokens == plain.num_tgt_tokens and corpus.num_subwords == plain.num_subwords
    assert np.array_equal(corpus.target_counts(45), plain.target_counts(45))
    (index,) = corpus.indexes
    assert len(index.blocks) > 5
    numbers = index.read(range(len(index.blocks))).numbers
    assert np.array_equal(np.sort(numbers), plain.line_numbers)
    # A shuffle: ranks of neighbours say nothing of one another (the deviation of r is 1 / sqrt(N)).
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 4 / np.sqrt(len(numbers))
    assert abs(np.corrcoef(numbers, np.arange(len(numbers)))[0, 1]) < 4 / np.sqrt(len(numbers))


def test_a_small_indexed_corpus_has_the_bits_of_one_in_memory(text, sides, made):
    found, plain = load_indexed(made), load_parallel(text, *sides)
    for one, other in zip(TrainBatches(found, 90).epoch(2), TrainBatches(plain, 90).epoch(2), strict=True):
        for name in ("src", "tgt_in", "tgt_out", "indices"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype


@pytest.mark.parametrize("kind", ["token", "sentence"])
def test_every_pair_once_an_epoch_in_batches_that_fit(text, sides, made, kind):
    size = 400 if kind == "token" else 11
    batches = WindowBatches(made.load(), size, kind, seed=3)
    assert len(batches.windows(1)) == 4 and sum(batches.windows(1)) == batches.num_batches(1)
    everything = list(batches.epoch(1))
    assert sum(map(len, everything)) == len(load_parallel(text, *sides)) and len(everything) == batches.num_batches(1)
    assert pairs_of(everything) == expected(text, sides)
    sizes = [batch.num_tgt_tokens if kind == "token" else len(batch) for batch in everything]
    assert max(sizes) <= size and np.mean(sizes) > 0.8 * size
    real = sum(batch.num_tgt_tokens for batch in everything) / sum(batch.tgt_out.size for batch in everything)
    assert real > 0.85, "sentences of like lengths go together"
    told = np.concatenate([batches.tokens(1, window) for window in range(4)])
    assert told.tolist() == [[batch.num_src_tokens, batch.num_tgt_tokens] for batch in everything]
    first = everything[: batches.windows(1)[0]]
    assert batches.shapes(1).tolist() == [[len(b.tgt_out), len(b.src), len(b)] for b in first]


def test_an_epoch_can_be_entered_anywhere_and_repeated(made):
    batches = WindowBatches(made.load(), 150, seed=3)
    numbers = [batch.indices.tolist() for batch in batches.epoch(2)]
    again = WindowBatches(made.load(), 150, seed=3)
    for start in (len(numbers) - 1, 40, 0):
        assert again.batch(2, start).indices.tolist() == numbers[start]
    assert [batch.indices.tolist() for batch in again.epoch(2, start=30)] == numbers[30:]
    for other in (WindowBatches(made.load(), 150, seed=4).epoch(2), again.epoch(3)):
        assert [batch.indices.tolist() for batch in other] != numbers


def test_batches_hold_no_fewer_than_a_pair_however_small_they_are(text, sides, made):
    for size in (1, 2, 9):
        batches = WindowBatches(made.load(), size)
        everything = list(batches.epoch(1))
        assert len(everything) == batches.num_batches(1) and all(map(len, everything))
        assert sum(map(len, everything)) == len(expected(text, sides))


def test_windows_have_every_corpus_by_its_weight(tmp_path, sides, text):
    other = write_pair(tmp_path, sentences(400, seed=5), sentences(400, seed=6), "other")
    corpora = [CorpusConfig(path=text, weight=0.5), CorpusConfig(path=other, weight=2)]
    batches = WindowBatches(make(tmp_path / "index", corpora, sides).load(), 150)
    small = load_parallel(other, *sides)
    seen = {}
    for epoch in (0, 1):
        for window in range(len(batches.windows(epoch))):
            first = sum(batches.windows(epoch)[:window])
            here = [batches.batch(epoch, first + n) for n in range(batches.windows(epoch)[window])]
            sources = [batch.src[: n - 1, k].tobytes() for batch in here for k, n in enumerate(batch.src_lengths)]
            ours = {row.astype(np.int32).tobytes() for row in small.src}
            share = np.mean([source in ours for source in sources])
            assert share == pytest.approx(0.36, abs=0.12), "800 of 2,300 pairs, in every window"
            for source in sources:
                seen[source] = seen.get(source, 0) + 1
    assert min(seen.get(row.astype(np.int32).tobytes(), 0) for row in small.src) >= 4


@pytest.mark.parametrize(("size", "ranks"), [(1, 1), (3, 1), (4, 2)])
def test_dealing_uses_every_batch_once_with_other_ranks_on_the_way(made, size, ranks):
    batches = WindowBatches(made.load(), 150)
    of_rank = [list(Dealing(batches, size, rank=r, ranks=ranks).left(TrainingState())) for r in range(ranks)]
    assert len(of_rank[0]) == Dealing(batches, size).num_updates(1)
    used = [number for update in of_rank[0] for number in update.numbers]
    assert sorted(used) == list(range(batches.num_batches(1)))
    for updates in zip(*of_rank, strict=True):
        assert sorted(p for update in updates for p in update.own) == list(range(len(updates[0])))
        assert updates[0].num_tgt_tokens == sum(batches.batch(1, n).num_tgt_tokens for n in updates[0].numbers)
    state, seen = TrainingState(), []
    for other in (size, 2, 5, 1):
        dealing = Dealing(batches, other)
        dealing.resume(state)
        for update, _ in zip(dealing.left(state), range(29 // other if other != 1 else 999), strict=False):
            seen += update.numbers
            state.position += len(update)
    assert sorted(seen) == list(range(batches.num_batches(1)))


def test_an_index_is_made_once_and_anew_for_another_text(text, sides, tmp_path):
    first = make(tmp_path / "index", text, sides)
    said = []
    again = Indexing(tmp_path / "index", text, sides)
    assert again.is_current
    again.make(quiet, said.append)
    assert not said
    shorter = side("de", sides[0].subwords, max_length=8), sides[1]
    assert not Indexing(tmp_path / "index", text, shorter).is_current
    assert not Indexing(tmp_path / "index", [CorpusConfig(path=text, tag="the")], sides).is_current
    assert Indexing(tmp_path / "index", [CorpusConfig(path=text, weight=3)], sides).is_current
    stat = os.stat(f"{text}.de")
    os.utime(f"{text}.de", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    try:
        assert not first.is_current
    finally:
        os.utime(f"{text}.de", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert [path.name for path in (tmp_path / "index").iterdir()] == [path.name for path in first._paths()]
    assert {path.name for path in first._paths()[0].iterdir()} == {HEADER_NAME, BLOCKS_NAME, ROWS_NAME}


def test_the_same_text_gives_the_same_index(text, sides, made, tmp_path):
    other = make(tmp_path, text, sides)
    for name in (HEADER_NAME, BLOCKS_NAME, ROWS_NAME):
        assert (other._paths()[0] / name).read_bytes() == (made._paths()[0] / name).read_bytes()


def test_filters_leave_out_what_they_leave_out_of_memory(text, sides, tmp_path):
    settings = FilterConfig(duplicates=True, same=True)
    indexing = make(tmp_path, text, sides, rules=lambda: LineFilter(settings), rules_key=settings.to_dict())
    plain = load_parallel(text, *sides, rules=LineFilter(settings))
    assert "duplicates" in plain.filtered and indexing.load().filtered == plain.filtered
    found = load_indexed(indexing)
    assert np.array_equal(found.line_numbers, plain.line_numbers) and np.array_equal(found.src.tokens, plain.src.tokens)


def test_a_damaged_index_is_a_line(text, sides, tmp_path):
    indexing = make(tmp_path, text, sides)
    path = indexing._paths()[0]
    whole = (path / ROWS_NAME).read_bytes()
    (path / ROWS_NAME).write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"rows.bin: must be whole, got a part of it; remove the folder"):
        indexing.load()
    (path / ROWS_NAME).write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(DataError, match=r"rows.bin: block 0 must be as it was written"):
        list(WindowBatches(indexing.load(), 100).epoch(1))
    for name, content in ((HEADER_NAME, b"{}"), (BLOCKS_NAME, b"x"), (HEADER_NAME, None)):
        (path / name).write_bytes(content) if content is not None else (path / name).unlink()
        with pytest.raises(DataError, match="must be an index, got none"):
            indexing.load()


def test_what_breaks_the_making_leaves_nothing(text, sides, tmp_path, monkeypatch):
    (tmp_path / "bad.tsv").write_text("a\tb\n" * 2000 + "one\n")
    with pytest.raises(DataError, match=r"bad.tsv: line 2001 must have"):
        make(tmp_path / "index", f"{tmp_path}/bad.tsv", sides)

    def full(self, header):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(indexing_module.IndexWriter, "close", full)
    with pytest.raises(CheckpointError, match=r"no space left on device; free some space and run again"):
        make(tmp_path / "index", text, sides)
    assert not [path for path in (tmp_path / "index").iterdir() if path.suffix != ".lock"]


def test_nothing_to_train_on_is_the_line_it_is_in_memory(sides, tmp_path):
    prefix = write_pair(tmp_path, ["", "a"], ["b", ""])
    lines = []
    for load in (lambda: make(tmp_path / "index", prefix, sides).load(), lambda: load_parallel(prefix, *sides)):
        with pytest.raises(DataError) as caught:
            load()
        lines.append(str(caught.value))
    assert lines[0] == lines[1] and "2 with an empty side" in lines[0]


def test_large_text_gets_an_index_without_being_asked(text, monkeypatch):
    assert not needs_index(text, ("de", "en"))
    monkeypatch.setattr(indexing_module, "MOST_TEXT_BYTES", 10_000)
    assert needs_index(text, ("de", "en"))
