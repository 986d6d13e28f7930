"""Memory: where arrays begin, workspaces that are used again, and what is idle."""

import time

import numpy as np
import pytest

from nmt.rnn.arrays.weights import PAIRS, Weights, initial_params
from nmt.rnn.arrays.workspace import LINE_BYTES, Idle, Workspace, aligned
from nmt.rnn.cells import LSTMCell
from nmt.rnn.kernels.products.packing import packed_weight
from nmt.rnn.scan.scan import Scan
from nmt.rnn.tuning import SENTENCE_BYTES
from tests.waiting import at_once


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


def starts_line(array: np.ndarray) -> bool:
    return array.ctypes.data % LINE_BYTES == 0


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1_200_001,)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_an_aligned_array_begins_on_a_line(shape: tuple[int, ...], dtype: str) -> None:
    array = aligned(shape, dtype)
    assert starts_line(array)
    assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable


def test_aligned_zeros_are_zero() -> None:
    assert not aligned((100_003,), "f4", zeros=True).any()


def test_pieces_of_a_workspace_begin_on_lines_before_and_after_it_has_grown() -> None:
    memory = Workspace()
    for _ in range(3):
        for size in (1, 700_001, 7, 2_000_003):
            assert starts_line(memory((size,), np.float32))
        memory.reset()


@pytest.mark.parametrize("packed", [np.dtype("f4"), PAIRS], ids=str)
def test_packed_weights_begin_on_a_line(packed: np.dtype) -> None:
    weights = Weights({"W": np.ones((513, 1100), "f4")})
    assert starts_line(packed_weight(weights, "W", 0, 513, False, dtype=packed))
    assert starts_line(packed_weight(weights, "W", 1, 512, True, dtype=packed))


class TornList(list):
    """A list whose `pop` and `append` are several steps, with other threads in between."""

    def pop(self):
        last = self[-1]
        time.sleep(0)
        del self[-1]
        return last

    def append(self, one):
        size = len(self)
        time.sleep(0)
        self[size:] = [one]


def test_no_two_callers_get_the_same_object():
    idle = Idle(object)
    idle.kept = TornList()
    lent, twice = set(), []

    def borrow():
        for _ in range(300):
            one = idle.take()
            twice.extend([one] if one in lent else [])
            lent.add(one)
            time.sleep(0)
            lent.discard(one)
            idle.give(one)

    at_once(*[borrow] * 4)
    assert not twice
    assert 1 <= len(idle.kept) == len(set(idle.kept)) <= 4


def test_the_last_given_is_taken_first_and_no_more_are_kept_than_wanted():
    numbers = iter(range(9))
    idle = Idle(lambda: next(numbers), most=2)
    one, two, three = (idle.take() for _ in range(3))
    for number in (one, two, three):
        idle.give(number)
    assert [idle.take() for _ in range(3)] == [two, one, 3]
