"""A text as streams: every token said once, each after the one before it, whatever the sizes."""

import numpy as np
import pytest

from nmt.data.batching.batches import StreamBatches
from nmt.data.corpora.readers import TokenRows
from nmt.special_tokens import EOS_ID, PAD_ID

LINES = [[4, 5, 6], [7], [], [8, 9, 10, 11, 12], [13, 14]]
TEXT = [EOS_ID] + [token for line in LINES for token in [*line, EOS_ID]]


def streams_of(batches, epoch=1):
    """What each stream reads and says in an epoch, put together from its segments."""
    read, said = ([[] for _ in range(batches.streams)] for _ in range(2))
    for number, segment in enumerate(batches.epoch(epoch)):
        assert segment.starts == (number == 0)
        assert segment.tgt_in.dtype == segment.tgt_out.dtype == np.int32
        assert segment.tgt_in.flags.c_contiguous and segment.tgt_out.flags.c_contiguous
        assert segment.num_tgt_tokens == segment.tgt_lengths.sum() and segment.num_src_tokens == 0
        assert list(segment.tgt_lengths) == sorted(segment.tgt_lengths, reverse=True)
        for b, length in enumerate(segment.tgt_lengths):
            read[b] += segment.tgt_in[:length, b].tolist()
            said[b] += segment.tgt_out[:length, b].tolist()
            assert (segment.tgt_in[length:, b] == PAD_ID).all() and (segment.tgt_out[length:, b] == PAD_ID).all()
    return read, said


@pytest.mark.parametrize("streams", [1, 2, 3, 5, 15, 16, 100])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 16, 50])
def test_all_of_the_text_in_order(streams, steps):
    batches = StreamBatches(TokenRows.from_lists(LINES), streams, steps)
    read, said = streams_of(batches)
    assert sum(said, []) == TEXT[1:], "each token is said once"
    assert sum(read, []) == TEXT[:-1], "after the one before it, also across streams"
    assert max(map(len, said)) - min(map(len, said)) <= 1
    shapes = batches.shapes(1).tolist()
    assert len(shapes) == batches.num_batches(1)
    assert shapes == [[len(s.tgt_in), 0, len(s)] for s in batches.epoch(1)]
    for number in range(len(shapes)):
        again = batches.batch(1, number)
        assert again.starts == (number == 0)
        np.testing.assert_array_equal(again.tgt_out, list(batches.epoch(1))[number].tgt_out)


def test_shuffled_lines_stay_whole_and_follow_from_seed_and_epoch():
    lines = [[4 + n, 4 + n] for n in range(20)]
    batches = StreamBatches(TokenRows.from_lists(lines), 1, 9, seed=3, shuffle=True)
    orders = []
    for epoch in (1, 2):
        text = streams_of(batches, epoch)[1][0]
        assert sorted(map(tuple, np.array(text).reshape(-1, 3).tolist())) == [(n, n, EOS_ID) for n in range(4, 24)]
        orders.append(text)
    assert orders[0] != orders[1]
    assert streams_of(StreamBatches(TokenRows.from_lists(lines), 1, 9, seed=3, shuffle=True), 2)[1][0] == orders[1]
    assert streams_of(StreamBatches(TokenRows.from_lists(lines), 1, 9, seed=4, shuffle=True), 2)[1][0] != orders[1]
