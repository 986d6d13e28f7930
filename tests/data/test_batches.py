"""Batches: what the arrays promise, which pairs they hold, and that an epoch can be repeated."""

import numpy as np
import pytest

from nmt.data.batching.batches import Batch, TrainBatches, make_batch
from nmt.data.corpora.corpus import ParallelCorpus
from nmt.data.corpora.readers import TokenRows
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID


def random_corpus(count, seed=0, longest=40):
    """Pairs of related lengths; token values tell the sentence they are from."""
    random = np.random.default_rng(seed)
    tgt = random.integers(1, longest + 1, count)
    src = np.clip(tgt + random.integers(-4, 5, count), 1, longest)
    rows = [TokenRows.from_lists([[4 + i] * n for i, n in enumerate(side)]) for side in (src, tgt)]
    numbers = np.sort(random.choice(count * 2, count, replace=False))
    return ParallelCorpus(rows[0], rows[1], numbers, total=count * 2)


def check(batch: Batch):
    """Everything the docstring of Batch promises."""
    size = len(batch)
    for array in (batch.src, batch.tgt_in, batch.tgt_out, batch.src_lengths, batch.tgt_lengths):
        assert array.dtype == np.int32 and array.flags.c_contiguous
    for ids, lengths in ((batch.src, batch.src_lengths), (batch.tgt_out, batch.tgt_lengths)):
        assert ids.shape == (lengths.max(), size)
        real = np.arange(len(ids))[:, None] < lengths
        assert (ids[~real] == PAD_ID).all() and (ids[real] != PAD_ID).all()
        assert (ids[lengths - 1, np.arange(size)] == EOS_ID).all()
        assert (ids == EOS_ID).sum() == size
    assert batch.tgt_in.shape == batch.tgt_out.shape
    assert (batch.tgt_in[0] == BOS_ID).all() and not (batch.tgt_in == EOS_ID).any()
    for row, length in enumerate(batch.tgt_lengths):
        assert np.array_equal(batch.tgt_in[1:length, row], batch.tgt_out[: length - 1, row])
        assert (batch.tgt_in[length:, row] == PAD_ID).all()
    keys = list(zip(batch.tgt_lengths.tolist(), batch.src_lengths.tolist(), strict=True))
    assert keys == sorted(keys, reverse=True)
    assert batch.num_src_tokens == batch.src_lengths.sum()
    assert batch.num_tgt_tokens == batch.tgt_lengths.sum()


def same(one: Batch, other: Batch):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


def test_make_batch_by_hand():
    batch = make_batch([[7], [8, 9, 10], []], [[4], [5, 6], [4]], [10, 11, 12])
    check(batch)
    assert batch.indices.tolist() == [11, 10, 12]
    assert batch.src.T.tolist() == [[8, 9, 10, 3], [7, 3, 0, 0], [3, 0, 0, 0]]
    assert batch.tgt_in.T.tolist() == [[2, 5, 6], [2, 4, 0], [2, 4, 0]]
    assert batch.tgt_out.T.tolist() == [[5, 6, 3], [4, 3, 0], [4, 3, 0]]
    assert (batch.num_src_tokens, batch.num_tgt_tokens) == (7, 7)


def test_make_batch_takes_arrays_and_one_row_and_none():
    lists = make_batch([[7, 8], [9]], [[4], [5]], [0, 1])
    assert same(lists, make_batch([np.array([7, 8]), np.array([9])], [np.array([4]), np.array([5])], [0, 1]))
    check(make_batch([[5]], [[]], [3]))
    assert len(make_batch([], [], [])) == 0


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("size", "kind"), [(4096, "token"), (1, "token"), (7, "sentence")])
@pytest.mark.parametrize("count", [1, 2, 97, 1000])
def test_every_pair_once_with_its_own_partner(count, size, kind, shuffle):
    corpus = random_corpus(count)
    seen = []
    for batch in TrainBatches(corpus, size, kind, seed=3, shuffle=shuffle).epoch(2):
        check(batch)
        rows = np.searchsorted(corpus.line_numbers, batch.indices)
        assert np.array_equal(batch.src_lengths - 1, corpus.src.lengths[rows])
        assert np.array_equal(batch.tgt_lengths - 1, corpus.tgt.lengths[rows])
        assert np.array_equal(batch.src[0], 4 + rows) and np.array_equal(batch.tgt_out[0], 4 + rows)
        seen += batch.indices.tolist()
    assert sorted(seen) == corpus.line_numbers.tolist()


@pytest.mark.parametrize("size", [41, 42, 100, 512, 4096])
def test_token_limit_counts_real_target_tokens(size):
    corpus = random_corpus(2000)
    batches = list(TrainBatches(corpus, size, seed=1).epoch(0))
    assert max(batch.num_tgt_tokens for batch in batches) <= size
    least = corpus.tgt.lengths.sum() + len(corpus)
    if size >= 512:
        assert len(batches) < 1.2 * least / size, "batches are not filled"
        assert min(batch.num_tgt_tokens for batch in batches) > size / 4, "a tiny batch"


def test_a_sentence_over_the_limit_is_a_batch_by_itself():
    for batch in TrainBatches(random_corpus(300), 20, seed=1).epoch(0):
        assert batch.num_tgt_tokens <= 20 or len(batch) == 1


def test_sentence_limit():
    batches = list(TrainBatches(random_corpus(1000), 64, "sentence", seed=1).epoch(0))
    assert max(map(len, batches)) <= 64 and min(map(len, batches)) >= 32
    assert len(batches) <= 1000 / 64 * 1.1


def test_an_epoch_depends_on_seed_and_epoch_alone():
    corpus = random_corpus(500)
    first = list(TrainBatches(corpus, 256, seed=1).epoch(4))
    walked = TrainBatches(corpus, 256, seed=1)
    for epoch in (0, 7, 4):
        latest = list(walked.epoch(epoch))
    assert len(latest) == len(first) == walked.num_batches(4)
    assert all(same(a, b) for a, b in zip(first, latest, strict=True))
    for other in (TrainBatches(corpus, 256, seed=2).epoch(4), walked.epoch(5)):
        assert not all(same(a, b) for a, b in zip(first, other, strict=False))


def test_without_shuffling_every_epoch_is_the_same():
    batches = TrainBatches(random_corpus(500), 256, seed=1, shuffle=False)
    other = TrainBatches(random_corpus(500), 256, seed=9, shuffle=False)
    for epochs in ((batches.epoch(0), batches.epoch(3)), (batches.epoch(0), other.epoch(0))):
        assert all(same(a, b) for a, b in zip(*epochs, strict=True))


@pytest.mark.parametrize("start", [0, 1, 5, 10_000])
def test_starting_later_is_skipping(start):
    corpus = random_corpus(700)
    whole = list(TrainBatches(corpus, 256, seed=1).epoch(3))
    rest = list(TrainBatches(corpus, 256, seed=1).epoch(3, start=start))
    assert len(rest) == max(0, len(whole) - start)
    assert all(same(a, b) for a, b in zip(whole[start:], rest, strict=True))


def test_two_epochs_at_once_do_not_disturb_each_other():
    batches = TrainBatches(random_corpus(300), 256, seed=1)
    alone = [batch.indices.tolist() for batch in batches.epoch(1)]
    one, other = batches.epoch(1), batches.epoch(2)
    mixed = []
    for batch in one:
        mixed.append(batch.indices.tolist())
        next(other, None)
    assert mixed == alone


def test_little_padding_and_company_that_changes():
    batches = TrainBatches(random_corpus(20_000, longest=40), 4096, seed=1)
    dealt = list(batches.epoch(1))
    tgt_share = sum(b.num_tgt_tokens for b in dealt) / sum(b.tgt_out.size for b in dealt)
    src_share = sum(b.num_src_tokens for b in dealt) / sum(b.src.size for b in dealt)
    assert tgt_share > 0.93 and src_share > 0.85
    again = {frozenset(batch.indices.tolist()) for batch in batches.epoch(2)}
    assert not again & {frozenset(batch.indices.tolist()) for batch in dealt}
    lengths = [int(batch.tgt_lengths[0]) for batch in dealt]
    assert lengths != sorted(lengths) and lengths != sorted(lengths, reverse=True)


def test_shapes_are_those_of_the_batches():
    batches = TrainBatches(random_corpus(300), 256, seed=1)
    dealt = [(len(b.tgt_out), len(b.src), len(b)) for b in batches.epoch(2)]
    assert batches.shapes(2).tolist() == [list(shape) for shape in dealt]
    assert batches.batch(2, 3).indices.tolist() == list(batches.epoch(2))[3].indices.tolist()


def test_counts_and_bytes_of_a_corpus():
    corpus = random_corpus(300)
    batches = list(TrainBatches(corpus, 256, seed=1).epoch(1))
    assert corpus.num_tgt_tokens == sum(batch.num_tgt_tokens for batch in batches)
    counts = corpus.target_counts(1000)
    assert counts.sum() == corpus.num_tgt_tokens
    assert counts[EOS_ID] == len(corpus)
    assert corpus.nbytes == sum(a.nbytes for a in (corpus.src.tokens, corpus.tgt.tokens)) + 8 * (3 * 300 + 2)
