"""The package's kernels by the PTX that NVVM made of them, and mistakes planted in that text.

A few run in each test run. NMT_TEST_DEVICE=ptx (`make test-ptx`) runs all of these and the tests of the GPU.
"""

import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.kernels.cuda.persistent.layer import plan_layer
from nmt.rnn.kernels.cuda.rows import row_operations
from tests.cuda import recurrent, test_persistent
from tests.devices import ON_PTX, ptx_runtime_with

slow = pytest.mark.skipif(not ON_PTX, reason="takes minutes: make test-ptx")


def off(found, wanted):
    """The relative error."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("word", ["ld.global.f32", "st.global.f32"])
@pytest.mark.parametrize("first", ["table", "result"])
@pytest.mark.parametrize("gap", [0, 1])
def test_one_number_beyond_an_array_is_found(word, first, gap):
    """Also where another array of the launch lies there: the table and the result are pieces of one memory."""

    def change(kernel, ptx):
        return changed(r"(ld\.global\.f32\s+%f\d+, \[%rd\d+|st\.global\.f32\s+\[%rd\d+)(?=\])", r"\1+4", ptx, word)

    runtime = ptx_runtime_with(seed=1, change=change)
    ids = np.random.default_rng(0).integers(0, 11, 40).astype(np.int32)
    ids[-1] = 10
    memory = runtime.xp.zeros((51 + gap) * 37, np.float32)
    shapes = (11, 40) if first == "table" else (40, 11)
    pieces = memory[: shapes[0] * 37].reshape(-1, 37), memory[-shapes[1] * 37 :].reshape(-1, 37)
    table, out = pieces if first == "table" else pieces[::-1]
    with pytest.raises(AssertionError, match=f"outside of every array: {word}"):
        row_operations.embedding_rows(runtime, runtime.upload(ids), table, out, 0.5)


def changed(old, new, ptx, within=""):
    """The text with every match that contains `within` replaced; there must be one."""
    made = re.sub(old, lambda m: m.expand(new) if within in m[0] else m[0], ptx)
    assert made != ptx
    return made


ORDERS = [("red.release", "red.relaxed"), ("ld.acquire", "ld.relaxed"), ("ld.acquire.gpu.global", "ld.global")]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("old", "new"), ORDERS)
def test_an_order_of_memory_that_is_lost_is_found(old, new, direction, monkeypatch):
    """Other mistakes are planted in the source of these kernels (tests/cuda/test_persistent.py)."""

    def change(kernel, ptx):
        return changed(re.escape(old), new, ptx) if kernel.name.endswith(direction) else ptx

    monkeypatch.setattr(test_persistent, "runtime_with", partial(ptx_runtime_with, change=change))
    case, tiles = recurrent.case("lstm", 3, 5, 32, [3, 3, 2, 3, 3]), test_persistent.tiny("lstm", False)
    with pytest.raises(AssertionError, match="a race: "):
        test_persistent.check(case, tiles, False, 1)


@slow
def test_a_workspace_that_is_used_again_holds_no_index():
    memory = Workspace(ptx_runtime_with().xp)
    memory((8,), np.int32)[...] = 3
    memory.reset()
    assert (memory((8,), np.int32).host == 0x7F7F7F7F).all()


REAL = [
    ("lstm", False, 256, 20),
    ("lstm", False, 800, 20),
    ("lstm", False, 512, 64),
    ("lstm", True, 512, 20),
    ("gru", False, 800, 20),
    ("gru", True, 256, 64),
    ("lstm", True, 800, 20),
    ("gru", True, 1024, 20),
]


@slow
@pytest.mark.parametrize(("cell", "exact", "hidden", "rows"), REAL)
def test_layers_of_real_sizes(cell, exact, hidden, rows):
    """The divisions chosen for a GPU of 132 multiprocessors, two steps."""
    layer = plan_layer(SimpleNamespace(multiprocessors=132, capability=(9, 0)), cell, hidden, rows, exact=exact)
    c = recurrent.case(cell, 2, rows, hidden, [2] * rows)
    y, _, _, (d_a, *_), _ = test_persistent.run(c, (layer.forward_tile, layer.backward_tile), exact, 1)
    rounded = (lambda x: x) if exact else recurrent.bfloat16
    y_, kept, _ = recurrent.forward(c, rounded)
    d_a_, _, _ = recurrent.backward(c, kept, rounded)
    bound = 1e-4 if exact else 1e-2
    assert off(y, y_) < bound
    assert off(d_a, d_a_) < bound
