"""Blocks of sentences: all of them, of like lengths, and small where the sentences are long."""

from nmt.decode.hypotheses import length_blocks


def test_blocks_cover_all_and_stay_small():
    lengths = [0, 3, 1000, 5, 0, 400, 5, 1, 1000, 2]
    blocks = list(length_blocks([[7] * length for length in lengths], 4))
    assert sorted(index for block in blocks for index in block) == list(range(10))
    in_order = [lengths[index] for block in blocks for index in block]
    assert in_order == sorted(lengths, reverse=True)
    for block in blocks:
        assert len(block) == 1 or len(block) * max(lengths[i] for i in block) <= 4 * 200
    assert max(map(len, blocks)) == 4
