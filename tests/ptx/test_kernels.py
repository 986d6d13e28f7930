"""The package's kernels by the PTX that NVVM made of them, and mistakes planted in that text.

A few run in each test run. NMT_TEST_DEVICE=ptx (`make test-ptx`) runs all of these and the tests of the GPU.
"""

import re

import numpy as np
import pytest

from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer, plan_layer
from tests.cuda import recurrent
from tests.devices import ON_PTX, ptx_runtime_with

slow = pytest.mark.skipif(not ON_PTX, reason="takes minutes: make test-ptx")
H, B, T, LENGTHS = 32, 5, 3, [3, 3, 2, 3, 3]


def tiles_of(cell, exact):
    from tests.cuda.test_persistent import tiny

    return tiny(cell, exact)


def states(cell, exact, **given):
    """y of a small layer, forward alone, and what it should be."""
    runtime = ptx_runtime_with(132, 1, **given)
    c = recurrent.case(cell, T, B, H, LENGTHS)
    layer = PersistentLayer(runtime, cell, *tiles_of(cell, exact))
    up = runtime.upload
    b_h = None if c.b_h is None else up(c.b_h)
    found, launch = layer.forward(up(c.W_h), up(c.a), up(c.lengths), up(np.stack(c.states)), b_h=b_h)
    launch()
    return runtime.download(found.y), recurrent.forward(c, (lambda x: x) if exact else recurrent.bfloat16)[0]


def off(found, wanted):
    """The relative error."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_embedding_rows(seed):
    runtime = ptx_runtime_with(seed=seed)
    found, wanted = embedding_rows(runtime)
    np.testing.assert_array_equal(found, wanted)


def embedding_rows(runtime, first="table", gap=0):
    """The table and the result are pieces of one memory, one after the other."""
    from nmt.rnn.kernels.cuda.rows import row_operations

    rng = np.random.default_rng(0)
    table, ids = rng.standard_normal((11, 37)).astype(np.float32), rng.integers(0, 11, 40).astype(np.int32)
    ids[-1] = 10
    memory = runtime.xp.zeros((51 + gap) * 37, np.float32)
    shapes = (11, 40) if first == "table" else (40, 11)
    pieces = memory[: shapes[0] * 37].reshape(-1, 37), memory[-shapes[1] * 37 :].reshape(-1, 37)
    on_gpu, out = pieces if first == "table" else pieces[::-1]
    on_gpu[...] = runtime.upload(table)
    row_operations.embedding_rows(runtime, runtime.upload(ids), on_gpu, out, 0.5)
    return runtime.download(out), table[ids] * np.float32(0.5)


@pytest.mark.parametrize("word", ["ld.global.f32", "st.global.f32"])
@pytest.mark.parametrize("first", ["table", "result"])
@pytest.mark.parametrize("gap", [0, 1])
def test_one_number_beyond_an_array_is_found(word, first, gap):
    """Also where another array of the launch lies there."""

    def change(kernel, ptx):
        return changed(r"(ld\.global\.f32\s+%f\d+, \[%rd\d+|st\.global\.f32\s+\[%rd\d+)(?=\])", r"\1+4", ptx, word)

    with pytest.raises(AssertionError, match=f"outside of every array: {word}"):
        embedding_rows(ptx_runtime_with(seed=1, change=change), first, gap)


def changed(old, new, ptx, within=""):
    """The text with every match that contains `within` replaced; there must be one."""
    made = re.sub(old, lambda m: m.expand(new) if within in m[0] else m[0], ptx)
    assert made != ptx
    return made


def test_a_persistent_layer():
    found, wanted = states("lstm", False)
    assert off(found, wanted) < 5e-3


# What is changed: text, the occurrence (from 0; None: each), what replaces it; and the report, where it is none of a
# wrong number.
MISTAKES = {
    "a relaxed release": (r"red\.release", None, "red.relaxed", "a race: "),
    "a relaxed acquire": (r"ld\.acquire", None, "ld.relaxed", "a race: "),
    "a wait without order": (r"ld\.acquire\.gpu\.global", None, "ld.global", "a race: "),
    "no barrier before the sums are read": (r"bar\.sync\s+0;", -2, "", "shared memory that nobody wrote|a race"),
    "no barrier before a step is called done": (r"bar\.sync\s+0;", -1, "", "a race"),
    "lanes go on without the one that waits": (r"bar\.warp\.sync\s+-1;", -1, "", "a race: "),
    "a step is never called done": (r"red\.release[^;]*;", -1, "", "hangs: waits for a word that nobody writes"),
    "swapped halves of a word": (r"(cvt\.rn\.bf16x2\.f32 %r\d+), (%f\d+), (%f\d+);", None, r"\1, \3, \2;", None),
    "swapped words of an operand": (r"(mma.*\}, )\{(%r\d+),(%r\d+)\}(, \{[^}]*\};)", None, r"\1{\3,\2}\4", None),
    "a state too far": (r"(st\.global\.u16\s+\[%rd\d+)\]", None, r"\1+2]", "a race|outside of every array"),
}


def plant(name, direction="forward"):
    """The change of a kernel's text for a mistake, and the report of it."""
    old, which, new, report = MISTAKES[name]

    def change(kernel, ptx):
        if not kernel.name.endswith(direction):
            return ptx
        found = list(re.finditer(old, ptx))
        assert found, name
        for match in reversed(found if which is None else [found[which]]):
            ptx = ptx[: match.start()] + match.expand(new) + ptx[match.end() :]
        return ptx

    return change, report


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    change, report = plant(name)
    if report is None:
        found, wanted = states("lstm", False, change=change)
        assert off(found, wanted) > 2e-2
        return
    with pytest.raises(AssertionError, match=report):
        states("lstm", False, change=change)


@slow
@pytest.mark.parametrize("name", [name for name, (*_, report) in MISTAKES.items() if report])
@pytest.mark.parametrize("cell", CELLS)
def test_a_planted_mistake_is_found_on_the_way_back(cell, name, monkeypatch):
    from tests.cuda import test_persistent

    change, report = plant(name, "backward")
    monkeypatch.setattr(
        test_persistent,
        "runtime_with",
        lambda multiprocessors, seed: ptx_runtime_with(multiprocessors, seed, change=change),
    )
    with pytest.raises(AssertionError, match=report):
        test_persistent.check(recurrent.case(cell, T, B, H, LENGTHS), tiles_of(cell, False), False, 1)


@slow
def test_a_workspace_that_is_used_again_holds_no_index():
    from nmt.rnn.arrays.workspace import Workspace

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
    runtime = ptx_runtime_with(132, 1)
    c = recurrent.case(cell, 2, rows, hidden, [2] * rows)
    layer = plan_layer(runtime, cell, hidden, rows, exact=exact)
    up = runtime.upload
    W, a, lengths, d_y = up(c.W_h), up(c.a), up(c.lengths), up(c.d_y)
    forward, launch = layer.forward(W, a, lengths, up(np.stack(c.states)), b_h=None if c.b_h is None else up(c.b_h))
    launch()
    y = runtime.download(forward.y)
    back, launch = layer.backward(W, forward, lengths, up(np.stack(c.states)), d_y, up(np.stack(c.d_last)))
    launch()
    rounded = (lambda x: x) if exact else recurrent.bfloat16
    y_, kept, _ = recurrent.forward(c, rounded)
    d_a, _, _ = recurrent.backward(c, kept, rounded)
    bound = 1e-4 if exact else 1e-2
    assert off(y, y_) < bound
    assert off(runtime.download(back.d_a), d_a) < bound
