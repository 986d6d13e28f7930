"""Embeddings and rows taken by an index, beside NumPy."""

import numpy as np
import pytest

from nmt.rnn.devices import cpu


def table_and_ids(dtype, V=11, E=37, N=40):
    rng = np.random.default_rng(0)
    return rng.standard_normal((V, E)).astype(dtype), rng.integers(0, V, N).astype(np.int32), rng


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_embedding_rows_are_scaled_rows_of_the_table(device, dtype):
    table, ids, _ = table_and_ids(dtype)
    out = device.xp.zeros((40, 37), dtype)
    device.embedding_rows(device.upload(ids), device.upload(table), out, 0.3, 1)
    np.testing.assert_array_equal(device.download(out), table[ids] * dtype(0.3))


@pytest.mark.parametrize("E", [1, 37])
def test_embedding_gradient_adds_every_row(device, E):
    """One word 40 times (more than the lanes of a block), others a few times, one never."""
    table, ids, rng = table_and_ids(np.float64, E=E)
    ids[5:25], ids[ids == 3] = 7, 4
    d = rng.standard_normal((40, E))
    expected = table.copy()
    np.add.at(expected, ids, d * 0.5)
    found = device.upload(table)
    device.embedding_gradient(ids, device.upload(d), found, 0.5, 1)
    np.testing.assert_allclose(device.download(found), expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(device.download(found)[3], table[3])


def test_embedding_gradient_is_the_same_every_time(device):
    table, ids, rng = table_and_ids(np.float32, E=5)
    d = rng.standard_normal((40, 5)).astype(np.float32)
    found = []
    for _ in range(3):
        out = device.upload(table)
        device.embedding_gradient(ids, device.upload(d), out, 1.0, 1)
        found.append(device.download(out).tobytes())
    assert len(set(found)) == 1


def test_no_ids_are_nothing_to_do(device):
    table = device.upload(np.ones((3, 2), np.float32))
    none = device.xp.zeros((0, 2), np.float32)
    device.embedding_gradient(np.zeros(0, np.int32), none, table, 1.0, 1)
    device.embedding_rows(device.upload(np.zeros(0, np.int32)), table, none, 1.0, 1)
    assert (device.download(table) == 1).all()


@pytest.mark.parametrize("shape", [(7, 5), (3, 7, 5)])
def test_take_rows(device, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    index = np.array([2, 6, 0, 2])
    taken = device.take_rows(device.upload(x), device.index(index))
    np.testing.assert_array_equal(device.download(taken), x[..., index, :])


def test_spread_rows(device):
    rows, places = np.arange(1.0, 7.0).reshape(3, 2), np.array([4, 1, 2])
    out = device.upload(np.full((6, 2), 9.0))
    device.spread_rows(device.upload(rows), places, out)
    expected = np.zeros((6, 2))
    expected[places] = rows
    np.testing.assert_array_equal(device.download(out), expected)


def test_columns_are_joined_and_taken(device):
    parts = [np.random.default_rng(n).standard_normal((3, 4, n)) for n in (2, 5)]
    out = device.upload(np.full((3, 4, 7), 9.0))
    device.join_columns([device.upload(part) for part in parts], out, 1)
    np.testing.assert_array_equal(device.download(out), np.concatenate(parts, axis=-1))
    part = device.upload(np.full((3, 4, 5), 9.0))
    device.take_columns(out, 2, part, 1)
    np.testing.assert_array_equal(device.download(part), parts[1])


def test_embedding_gradient_of_words_beyond_16_bits(device):
    """A large table: ids that are equal in their lower 16 bits are different words."""
    ids = np.array([65537, 1, 65537, 69999], np.int32)
    found = device.xp.zeros((70000, 1), np.float32)
    device.embedding_gradient(ids, device.upload(np.array([[1], [2], [4], [8]], np.float32)), found, 1.0, 1)
    table = device.download(found)[:, 0]
    np.testing.assert_array_equal(table[[1, 65537, 69999]], [2, 5, 8])
    assert table.sum() == 15


@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_stack_begins_as_on_the_processor(device, reverse, is_given):
    lengths = np.array([4, 0, 2])
    start = np.random.default_rng(0).standard_normal((3, 5)) if is_given else None
    ours = np.full((5, 3, 5), 9.0)
    theirs = device.upload(ours)
    cpu().begin_stack(ours, lengths, reverse, start, 1)
    device.begin_stack(theirs, lengths, reverse, None if start is None else device.upload(start), 1)
    np.testing.assert_array_equal(device.download(theirs), ours)
    assert (ours == 9).any() or reverse


def test_reused_memory_moves_when_more_is_asked_for(device):
    """A shape that was asked for before lies in the new memory, not in the one that was freed."""
    small = device.buffer("test", (2, 3), np.dtype(np.float32))
    assert device.buffer("test", (2, 3), np.dtype(np.float32)) is small
    large = device.buffer("test", (200, 3), np.dtype(np.float32))
    assert device.buffer("test", (2, 3), np.dtype(np.float32)).data.ptr == large.data.ptr != small.data.ptr
