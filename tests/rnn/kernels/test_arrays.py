"""Memory that compiled code takes for the time of a call: all of it is given back, once."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.memory.arrays import array_at, clear, release, scratch
from nmt.rnn.kernels.memory.moves import address

ROOT = Path(__file__).resolve().parents[3]

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
    machine_code.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
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
from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.kernels.model.output import output_loss
from nmt.rnn.kernels.threads.pool import run_parallel
from nmt.rnn.arrays.quantised import quantise
K, N = 33, 70
for kind in ("f4", "f8", "u4", "i4"):
    number = "f8" if kind == "f8" else "f4"
    W, quantised = normal(K, N, dtype=number), quantise(normal(K, N), by_rows=False)
    given = (quantised.numbers, quantised.scales) if kind == "i4" else (W,)
    packed = np.empty(packed_size(K, N, kind), kind)
    turned = np.empty(packed_size(N, K, kind), kind)
    for parts in (1, 3):
        run_parallel(products.PACKING[np.dtype(kind), False], parts, *given, 0, K, packed)
        if kind == "i4":
            given = quantised.numbers, np.ones(K, "f4")
        run_parallel(products.PACKING[np.dtype(kind), True], parts, *given, 0, K, turned)
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
from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.kernels.search import best_tokens as search, candidates, choose
H, V = 20, 700
for number in ("f4", "f8"):
    W, bias = normal(H, V, dtype=number), normal(V, dtype=number)
    packed = np.empty(packed_size(H, V, number), number)
    products.pack(0, 1, W, 0, H, packed)
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
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COUNTING + work]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "True" in done.stdout
    assert "False" not in done.stdout


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
    done = subprocess.run([sys.executable, "-c", LACK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["no memory for a step of the computation; use a smaller batch or beam"] * 2
