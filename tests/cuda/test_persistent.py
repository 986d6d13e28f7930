"""Persistent kernels against a layer written step by step, in any order of threads; and planted bugs, each caught."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from nmt.rnn.kernels.cuda.persistent import layer, time_loop
from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer
from nmt.rnn.kernels.cuda.persistent.tiles import Tile
from tests.cuda import recurrent
from tests.devices import ON_GPU, runtime_with

# Both sides of a product rounded to bfloat16, which may fall to either side where the sums before differ in their last
# bit; and three products of tensor float 32.
TOLERANCE = {False: 4e-3, True: 2e-5}


def tiny(cell, exact, columns=8, hidden=32, units=16, warps=(1, 1)):
    """Two blocks for the units."""
    forward, backward = (Tile(hidden, CELLS[cell], n > 0, units, columns, w, exact) for n, w in enumerate(warps))
    return forward, backward


def run(c, tiles, exact, seed, reverse=False, multiprocessors=132):
    runtime = runtime_with(multiprocessors=multiprocessors, seed=seed)
    given = c.W_h, c.b_h, c.a, c.lengths, c.d_y
    W_h, b_h, a, lengths, d_y = (None if x is None else runtime.upload(x) for x in given)
    states, d_last = (runtime.upload(np.stack(given)) for given in (c.states, c.d_last))
    made = PersistentLayer(runtime, c.cell, *tiles)
    forward, launch = made.forward(W_h, a, lengths, states, b_h=b_h, reverse=reverse)
    launch()
    y, before = runtime.download(forward.y), runtime.download(forward.before)
    last = [runtime.download(x) for x in forward.last]
    back, launch = made.backward(W_h, forward, lengths, states, d_y, d_last, reverse=reverse)
    launch()
    inner = None if back.d_inner is None else runtime.download(back.d_inner)
    gradients = [runtime.download(x) for x in (back.d_a, back.d_product, *back.first)]
    return y, before, last, gradients, inner


def check(c, tiles, exact, seed, reverse=False, multiprocessors=132):
    found = run(c, tiles, exact, seed, reverse, multiprocessors)
    y, before, last, (d_a, d_product, *first), d_inner = found
    rounded = (lambda x: x) if exact else recurrent.bfloat16
    y_, kept, last_ = recurrent.forward(c, rounded, reverse)
    d_a_, d_product_, first_ = recurrent.backward(c, kept, rounded, reverse)
    H = c.sizes[2]
    if not exact:
        before, d_product = (x.astype(np.uint32).__lshift__(16).view(np.float32) for x in (before, d_product))
    compared = [(y, y_), (d_a, d_a_), (d_product, d_product_), *zip([*last, *first], [*last_, *first_], strict=True)]
    if d_inner is not None:
        compared.append((d_inner, d_product_[:, :, 2 * H :]))
    for made, expected in compared:
        tolerance = TOLERANCE[exact] * max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(made, expected, rtol=0, atol=tolerance)
    assert np.isfinite(before).all()
    dead = np.arange(c.sizes[0])[:, None] >= c.lengths
    assert not y[dead].any() and not d_a[dead].any() and not d_product[dead].any()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("B", "lengths", "reverse", "seed"), [(3, [4, 2, 0], False, None), (9, None, True, 1), (8, [3] * 8, False, 2)]
)
def test_layer(cell, exact, B, lengths, reverse, seed):
    check(recurrent.case(cell, 4, B, 32, lengths), tiny(cell, exact), exact, seed, reverse)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_more_warps_and_columns(cell):
    """Warps that wait for a part of the blocks only, columns of two tiles, rows of two groups."""
    c = recurrent.case(cell, 2, 18, 64)
    tiles = tiny(cell, False, columns=16, hidden=64, warps=(2, 4 if cell == "lstm" else 3))
    check(c, tiles, False, seed=7)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_weights_in_shared_memory(cell, exact):
    c = recurrent.case(cell, 3, 9, 64, [3, 1, 2, 3, 3, 0, 2, 3, 1])
    warps = (2, 4 if cell == "lstm" else 3)
    tiles = (replace(tile, in_shared=True) for tile in tiny(cell, exact, hidden=64, warps=warps))
    check(c, tuple(tiles), exact, seed=8)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_blocks_take_turns(cell, reverse):
    """Nine groups of rows on four multiprocessors: a launch of eight, two at once, and one of the last."""
    c = recurrent.case(cell, 3, 66, 32, np.random.default_rng(5).integers(0, 4, 66).tolist())
    tiles = tiny(cell, False)
    assert tiles[0].groups == tiles[1].groups == 4
    check(c, tiles, False, seed=4, reverse=reverse, multiprocessors=4)


def test_no_steps_and_no_rows():
    check(recurrent.case("lstm", 3, 2, 32, [0, 0]), tiny("lstm", False), False, seed=3)


ANNOUNCE = "                    _announce(flags"
MULTIPLY = "weights, parts, warp, lane)"
MUTANTS = {
    "blocks do not wait": ("wait(flags", "(lambda *given: None)(flags"),
    "a warp waits for one block too few": ("group * blocks + high, lane", "group * blocks + high - 1, lane"),
    "no barrier before the sums are read": (MULTIPLY + "\n{}cuda.syncthreads()", MULTIPLY),
    "no barrier before a step is called done": ("                    cuda.syncthreads()\n" + ANNOUNCE, ANNOUNCE),
    "a step is never called done": (ANNOUNCE, "                    (lambda *given: None)(flags"),
    "waits for the step before": ("lane, uint32(s", "lane, uint32(s - 1"),
}


def mutant(make, old, new, *given):
    """The same kernel, its source changed in one place."""
    source = inspect.getsource(make.__wrapped__).replace("@lru_cache\n", "")
    changed = source.replace(old, new)
    assert changed != source
    scope = dict(vars(inspect.getmodule(make)))
    exec(changed, scope)
    return scope[make.__wrapped__.__name__](*given)


@pytest.mark.skipif(ON_GPU, reason="a planted bug may spin on a GPU for ever, or pass there")
@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("cell", CELLS)
def test_planted_bug_is_caught(cell, direction, name, monkeypatch):
    old, new = MUTANTS[name]
    old = old.replace("{}", " " * (20 if direction == "forward" else 24))
    original = getattr(time_loop, f"{direction}_kernel")
    monkeypatch.setattr(layer, f"{direction}_kernel", lambda *given: mutant(original, old, new, *given))
    c, tiles = recurrent.case(cell, 3, 5, 32, [3, 3, 2, 3, 3]), tiny(cell, False)
    for seed in range(16):  # orders of threads, until one shows it
        try:
            check(c, tiles, False, seed)
        except AssertionError:  # an EmulationError too
            return
    pytest.fail(f"{name}: no order of threads shows it")
