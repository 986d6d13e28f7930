"""Arrays in compiled code: memory, copies, runs, and scratch that calls share."""

import os
import sys
from ctypes import c_int64

import numpy as np
import pytest

from nmt.rnn import tuning
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.loops.run_cpu import divisions
from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.memory.arrays import FEW, array_at, clear, distinct, release, run_bounds, scratch
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.rows import Sharing, split_rows
from tests.processes import python

# A process whose compiled code asks here for memory; `taken` says what it has asked for since, and that nothing of it
# is left.
COUNTING = """
import ctypes
import numpy as np
from nmt.rnn.kernels.machine_code import objects as machine_code
from nmt.rnn.kernels.memory import arrays
system = ctypes.CDLL(None)
system.aligned_alloc.restype, system.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
system.free.restype, system.free.argtypes = None, [ctypes.c_void_p]
held, counts = {}, [0, 0]
def take(line, size):
    assert line == 64 and size > 0 and size % line == 0
    place = system.aligned_alloc(line, size)
    held[place] = size
    counts[0] += 1
    return place
def give(place):
    counts[1] += held.pop(place, None) is None
    system.free(place)
kinds = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t), ctypes.CFUNCTYPE(None, ctypes.c_void_p)
functions = [kind(function) for kind, function in zip(kinds, (take, give))]
for name, function in zip(("nmt_allocate", "nmt_free"), functions):
    machine_code.binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
def taken():
    assert not held and not counts[1], (held, counts)
    counts[0], before = 0, counts[0]
    return before
rng = np.random.default_rng(0)
def normal(*shape, dtype="f4"):
    return rng.standard_normal(shape).astype(dtype)
"""

PRODUCTS = """
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.gradients import weight_gradient, weight_gradient_bf16
from nmt.rnn.kernels.products.packing import PACKING, pack, packed_size
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.kernels.model.output import output_loss
from nmt.rnn.kernels.threads.pool import run_parallel
from nmt.rnn.arrays.weights import quantise
K, N = 33, 70
for kind in ("f4", "f8", "u4", "i4"):
    number = "f8" if kind == "f8" else "f4"
    W, quantised = normal(K, N, dtype=number), quantise(normal(K, N), by_rows=False)
    given = (quantised.numbers, quantised.scales) if kind == "i4" else (W,)
    packed = np.empty(packed_size(K, N, kind), kind)
    turned = np.empty(packed_size(N, K, kind), kind)
    for parts in (1, 3):
        run_parallel(PACKING[np.dtype(kind), False], parts, *given, 0, K, packed)
        if kind == "i4":
            given = quantised.numbers, np.ones(K, "f4")
        run_parallel(PACKING[np.dtype(kind), True], parts, *given, 0, K, turned)
        print("packing", kind, (taken() > 0) == (kind in ("u4", "i4")))
        given = (quantised.numbers, quantised.scales) if kind == "i4" else (W,)
        for rows in (0, 1, 301):
            A, G, runs = normal(rows, K, dtype=number), normal(rows, N, dtype=number), np.array([[0, rows]])
            run_parallel(products.product, parts, A, 0, packed, np.empty((rows, N), number), 0, K, N, runs, 0)
            if kind != "i4":
                add = weight_gradient_bf16 if kind == "u4" else weight_gradient
                run_parallel(add, parts, A, 0, K, G, 0, N, runs, np.empty((K, N), number), 0)
                run_parallel(products.sum_rows, parts, G, 0, N, runs, np.empty(N, number), 0)
                into = OutputGradients(np.empty_like(A), np.zeros_like(W), np.zeros(N, number))
                layer = OutputLayer(Weights({"W": W, "b": np.zeros(N, number)}), "W", "b", False, np.dtype(kind))
                output_loss(A, layer, np.zeros(rows, "i4"), 0.1, into, 1.0, parts)
            print("products", kind, taken() > 0)
"""

SEARCH = """
from nmt.rnn.arrays.device_operations import CandidateLists
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.packing import PACKING, pack, packed_size
from nmt.rnn.kernels.search import best_tokens as search, candidates, choose
H, V = 20, 700
for number in ("f4", "f8"):
    W, bias = normal(H, V, dtype=number), normal(V, dtype=number)
    packed = np.empty(packed_size(H, V, number), number)
    pack(0, 1, W, 0, H, packed)
    lists = [np.arange(3), np.arange(0), np.arange(0, V, 2), np.arange(V)]
    starts, places = np.cumsum([0, *map(len, lists)]), np.concatenate(lists).astype("i4")
    for rows in (0, 1, 30):
        y = normal(rows, H, dtype=number)
        asked = np.arange(V, dtype="i4"), places, bias[places], starts, np.arange(rows) % 4, V
        for threads in (1, 3):
            search.best_tokens(y, packed, bias, 1, 4, threads)
            scores = search.log_probs(y, packed, bias, threads)
            candidates.best_candidates(y, packed, CandidateLists(*asked), 1, 4, threads)
            candidates.candidate_log_probs(y, packed, CandidateLists(*asked), V, threads)
            print("search", number, taken() > 0)
    scores[3] = -np.inf
    uniforms = rng.random(len(scores))
    for top_k, top_p in ((5, 1.0), (0, 0.5), (0, 0.9999), (300, 0.9)):
        choose.draw_tokens(scores, uniforms, temperature=1.5, top_k=top_k, top_p=top_p)
        print("choose", number, taken() == 3)
"""

TRAINING = """
from nmt.rnn import Scan, Weights, AttentionCell, LayerNormLSTMCell
from tests.rnn import scan_cases as cases
for name in ("lstm", "lstm_bahdanau_feed", "gru_scaled_dot"):
    for dtype in ("float32", "float64"):
        case = cases.draw(cases.CELLS[name](), dtype, (6, 0, 5, 1, 3), rows=5)
        for threads, division in ((1, None), (3, "rows"), (3, "units")):
            cases.compiled(case, threads=threads, division=division)
            cases.inferred(case, threads=threads)
            print("training", name, taken() > 0)
"""


@pytest.mark.skipif(os.name == "nt", reason="other functions of the system")
@pytest.mark.parametrize("work", [PRODUCTS, SEARCH, TRAINING], ids=["products", "search", "training"])
def test_all_that_is_taken_is_given_back_once(work):
    done = python(COUNTING + work)
    assert done.stderr == "" and "True" in done.stdout and "False" not in done.stdout


@kernel
def _take(rows, out, whole):
    """A matrix of scratch, its address, and the same memory again as a vector."""
    matrix = scratch((rows, 3), np.int32)
    flat = array_at(address(matrix, 0), rows * 3, np.int32)
    out[0] = array_at(address(matrix, 0), (rows, 3), np.int32).shape[1]
    clear(flat)
    for row in range(rows):
        for column in range(3):
            matrix[row, column] += 10 * row + column
    for n in range(rows * 3):
        whole[n] = flat[n]
    release(matrix)


@pytest.mark.parametrize("rows", [0, 1, 5, 1000])
def test_scratch_is_an_array_in_c_order(rows):
    out, whole = np.zeros(1, np.int64), np.zeros(3 * rows, np.int32)
    _take(rows, out, whole)
    assert out[0] == 3
    assert whole.tolist() == [10 * row + column for row in range(rows) for column in range(3)]


WIDTHS = {"small": 3, "large": 1 + tuning.ROW_WORK_ALONE_BELOW // 20}
"""Of arrays on both sides of the size from which threads share them."""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("outer", [(), (4,), (2, 3)])
def test_take_rows(outer, width, threads):
    array, index = numbers(*outer, 7, width), np.array([2, 6, 0, 2, 1])
    out = np.full((*outer, 5, width), np.nan, "f4")
    given = cpu().take_rows(array, index, out, threads)
    assert given is out
    np.testing.assert_array_equal(out, array[..., index, :])
    np.testing.assert_array_equal(cpu().take_rows(array, index), out)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_spread_rows(width, threads):
    rows, places = numbers(11, width), np.array([4, 1, 2, 30, 9, 8, 7, 6, 5, 29, 0])
    out = np.full((31, width), np.nan, "f4")
    cpu().spread_rows(rows, places, out, threads)
    expected = np.zeros_like(out)
    expected[places] = rows
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_columns_are_joined_and_taken(width, threads):
    parts = [numbers(5, 4, width), -numbers(5, 4, 2), numbers(5, 4, width + 1)]
    out = np.full((5, 4, 2 * width + 3), np.nan, "f4")
    cpu().join_columns(parts, out, threads)
    np.testing.assert_array_equal(out, np.concatenate(parts, axis=-1))
    for part, first in zip(parts, (0, width, width + 2), strict=True):
        again = np.full_like(part, np.nan)
        cpu().take_columns(out, first, again, threads)
        np.testing.assert_array_equal(again, part)


def test_nothing_is_nothing_to_do():
    assert cpu().take_rows(np.zeros((3, 0, 4), "f4"), np.zeros(0, np.int64)).shape == (3, 0, 4)
    cpu().spread_rows(np.zeros((0, 4), "f4"), np.zeros(0, np.int64), out := np.ones((2, 4), "f4"))
    assert not out.any()


@pytest.mark.parametrize("numbers", [[], [3], [3, 3], [5, 2, 2, 2, 9, 9, 2], list(range(7)), [4] * 40])
def test_runs_end_where_the_next_number_is_another(numbers):
    bounds = run_bounds(np.array(numbers, np.int64))
    pieces = [numbers[low:high] for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    assert sum(pieces, []) == numbers
    assert all(len(set(piece)) == 1 for piece in pieces)
    assert all(one[-1] != other[0] for one, other in zip(pieces, pieces[1:], strict=False))


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 60])
def test_what_is_different_and_where_it_is_make_the_numbers_again(count):
    numbers = np.random.default_rng(count).integers(0, 9, count).astype(np.int32)
    different, place = distinct(numbers)
    np.testing.assert_array_equal(different[place], numbers)
    assert place.dtype == np.int64
    if count > FEW:
        assert len(set(different.tolist())) == len(different)


@pytest.mark.parametrize("division", [None, "rows", "units"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("weight_bytes", [0, 1 << 20])
def test_divisions_of_all_numbers_of_rows_are_those_of_each(threads, division, weight_bytes):
    sharing = Sharing(threads, division, weight_bytes, row_size=1 << 14 if weight_bytes else 0)
    table, held = divisions(sharing, 70)
    assert held and table.shape == (71, 3)
    for rows in range(71):
        units, bounds = sharing.of_step(rows)
        size = len(bounds)
        found = np.ctypeslib.as_array((c_int64 * size).from_address(int(table[rows, 2])))
        assert table[rows, :2].tolist() == [units, size - 1]
        assert found.tolist() == bounds.tolist() and bounds[-1] == rows


def test_many_rows_of_one_thread_are_not_asked_for_one_by_one(monkeypatch):
    def ask(self, rows):
        raise AssertionError("must not be asked")

    monkeypatch.setattr(Sharing, "of_step", ask)
    assert divisions(Sharing(1, None, 8, 1 << 13), 100_000)[0][-1, :2].tolist() == [0, 1]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("lengths", [[0], [1], [40], [], [3, 2, 2, 0], [9, 1, 1, 1, 1]], ids=str)
def test_each_thread_has_about_as_many_steps(threads, lengths):
    """Bounds by counting: a thread ends with the row by which its share of all steps is reached."""
    costs = [n + 1 for n in lengths]
    ends = [
        next(b for b in range(len(costs) + 1) if threads * sum(costs[:b]) >= i * sum(costs)) for i in range(threads)
    ]
    bounds = split_rows(np.array(lengths, np.int64), threads)
    assert bounds.dtype == np.int64 and bounds.tolist() == [*ends, len(lengths)]


LACK = """
import resource
from pathlib import Path
import numpy as np
from nmt.rnn.kernels.search.choose import draw_tokens

few, many = np.zeros((1, 9), np.float32), np.zeros((1, 1 << 22), np.float32)
half, settings = np.array([0.5]), {"temperature": 1.0, "top_k": 0, "top_p": 0.5}
first = draw_tokens(few, half, **settings)
pages = int(Path("/proc/self/statm").read_text().split()[0])
for _ in range(2):
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), -1))
    try:
        print(draw_tokens(many, half, **settings))
    except MemoryError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    draw_tokens(few, half, **settings)
assert draw_tokens(few, half, **settings) == first
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of memory")
def test_a_lack_of_memory_within_compiled_code_is_an_error_after_which_it_runs():
    done, line = python(LACK), "no memory for a step of the computation; use a smaller batch or beam"
    assert (done.stderr, done.stdout.splitlines()) == ("", [line] * 2)
