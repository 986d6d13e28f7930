"""A workspace hands out memory, takes part of it back, and is used again."""

import numpy as np

from nmt.rnn.arrays.weights import Weights, initial_params
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cells import LSTMCell
from nmt.rnn.scan.scan import Scan
from nmt.rnn.tuning import SENTENCE_BYTES


def test_pieces_do_not_overlap_and_temporary_ones_come_again():
    take = Workspace()
    first = take((3, 5), np.float32)
    with take.temporary():
        inner = take((7,), np.float64)
        assert not np.shares_memory(first, inner)
    after = take((7,), np.float64)
    assert np.shares_memory(inner, after) and not np.shares_memory(first, after)


def test_temporary_pieces_may_need_a_chunk_of_their_own():
    take = Workspace()
    take((1 << 22,), np.uint8)  # the whole first chunk
    with take.temporary():
        inner = take((100,), np.uint8)
    lasting = take((100,), np.uint8)
    assert np.shares_memory(inner, lasting)
    assert take.taken == (1 << 22) + 128


def test_taken_is_the_most_at_a_time():
    take = Workspace()
    for _ in range(3):
        with take.temporary():
            take((64,), np.uint8)
    assert take.taken == 64
    take.reset()
    assert take.taken == 0


def test_a_pass_gives_its_blocks_of_time_back():
    """Both directions of a layer need no more for blocks of time than one of them."""
    scan = Scan(LSTMCell(8, 8), threads=1)
    weights = Weights(initial_params(scan.cell, 0))
    x = np.random.default_rng(0).standard_normal((40, 3, 8), np.float32)
    take = Workspace()
    scan.forward(weights, x, allocate=take)
    once = take.taken
    scan.forward(weights, x, allocate=take)
    lasting = 3 * (41 * 3 * 8 * 4 + 63)  # states h and c, and what is not in the block
    assert once < take.taken <= once + lasting


def test_memory_for_a_sentence_begins_small_and_doubles():
    take = Workspace(first=SENTENCE_BYTES)
    held = []
    for _ in range(200):
        take((1 << 15,), np.uint8)
        held.append(take.nbytes)
    assert held[0] == SENTENCE_BYTES
    assert sorted(set(held)) == [SENTENCE_BYTES << n for n in range(8)]  # 200 pieces of half of it
