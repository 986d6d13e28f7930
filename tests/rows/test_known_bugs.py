"""What went wrong in the engines before this one: each bug of theirs that this one could have, as a test. Every test
names the system and its commit or file."""

import tracemalloc

import numpy as np
import pytest

from nmt.decode import search
from nmt.rnn import GRU, LSTM, RNN, AttentionCell, GRUCell, LSTMCell, Scan, StackCell, Weights
from nmt.rnn.arrays.workspace import Workspace
from tests import small_models
from tests.oracle import compare
from tests.rnn import scan_cases as cases
from tests.rows.support import MEGABYTE, MIXED, B, D, H, M, T, count_plans, draw, hold_to_quotients, passes

# ------------------------------------------------------------ Caffe2: gradients


def two_readers():
    """Two attentions over one memory, one above the other."""
    options = {"attention": "general", "input_feeding": False}
    return StackCell([AttentionCell(GRUCell(D, H), M, H, **options), AttentionCell(GRUCell(H, 4), M, 4, **options)])


def test_gradients_of_what_several_cells_read_are_added_not_overwritten():
    """Caffe2 417f7450: in a MultiRNNCell the gradient of a shared blob was that of its last reader."""
    hold_to_quotients(cases.draw(two_readers(), "float64", MIXED))


# ------------------------------------------------------------ Caffe2: options that got lost on the way


@pytest.mark.parametrize("make", [LSTM, GRU, RNN])
def test_what_to_compute_again_reaches_every_layer(make):
    """Caffe2 90d75620: a refactoring cleared the list of what to compute again, unnoticed."""
    layer = make(D, H, 3, bidirectional=True, recompute="gates")
    assert [side.scan.recompute for sides in layer._layers for side in sides] == ["gates"] * 6
    model = small_models.build(9, recompute="gates")
    assert {scan.recompute for scan in (*model.encoder.layers.scans, model.decoder)} == {"gates"}
    x, d_y = draw(300, 8, D), draw(300, 8, 2 * 32)  # megabytes, in which memory is counted
    asked = []
    for recompute in ("attention", "gates"):
        one = make(D, 32, 3, bidirectional=True, recompute=recompute, dtype=np.float64)
        one.forward(x)
        asked.append(one.workspace_bytes)
        one.found = one.backward(d_y)
    assert asked[1] < asked[0] or make is RNN  # a plain layer keeps nothing but states anyway


def test_a_scan_of_the_same_kind_keeps_every_option():
    """The same mistake here: `Scan.around`, for cells around a decoder's, forgot what to compute again and the
    device."""
    options = {"dtype": np.dtype("float64"), "threads": 3, "division": "units"}
    scan = Scan(LSTMCell(D, H), recompute="gates", **options)
    other = scan.around(GRUCell(D, H))
    for name in (*options, "recompute", "device", "packed"):
        assert getattr(other, name) == getattr(scan, name), name


def test_inference_makes_no_plan_for_training(monkeypatch):
    """Caffe2 96e71875: forward_only did not reach the inner nets, so that each built its backward step."""
    made = count_plans(monkeypatch)
    model = small_models.build(11, encoder={"hidden_size": 5}, decoder={"hidden_size": 10, "num_layers": 2})
    limits = {"max_length_ratio": 1.0, "max_length_extra": 2}
    search(model, [[4, 5], [6]], beam_size=2, length_penalty="none", n_best=1, threads=1, **limits)
    LSTM(D, 15, 2, bidirectional=True)(draw(T, B, D).astype("f4"))
    assert made and not any(options["training"] for options in made)


# ------------------------------------------------------------ Caffe2: memory between runs


def test_memory_of_a_long_run_is_not_given_up_for_a_short_one():
    """Caffe2 35977600: the vector of step workspaces shrank with a short sequence and was rebuilt for a long one
    (842dd732: a quarter to two thirds of a training step)."""
    layer = LSTM(D, 64)
    long, short = ((draw(t, 8, D).astype("f4"), draw(t, 8, 64).astype("f4")) for t in (300, 3))
    passes(layer, *long)
    passes(layer, *long)
    tracemalloc.start()
    for _ in range(3):
        passes(layer, *short)
        passes(layer, *long)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    results = 300 * 8 * D * 4 + 64 * 4 * (64 + D) * 4  # of one pass, held by nobody
    assert most < 4 * MEGABYTE + results < layer.workspace_bytes
    take = Workspace()
    first = take((8 << 20,), np.uint8)
    for size in (100, 8 << 20, 1):
        take.reset()
        assert np.shares_memory(take((size,), np.uint8), first)


# ------------------------------------------------------------ oneDNN, cuDNN, Haste, Keras, Theano


def test_gradients_may_be_asked_for_twice():
    """oneDNN: a workspace was good for one backward pass; the second, over overwritten numbers, was wrong."""
    case = cases.draw(AttentionCell(LSTMCell(D + 11, H), M, 11), "float64", MIXED)
    scan, weights = Scan(case.cell, dtype="float64", threads=1), Weights(case.params)
    tape = scan.forward(weights, case.x, case.initial, **case.options, training=True).tape
    runs = []
    for d_y in (case.d_y, 2 * case.d_y, case.d_y):
        shares = {name: np.zeros_like(p) for name, p in case.params.items()}
        found = scan.backward(tape, d_y, case.d_final if d_y is case.d_y else None, shares)
        runs.append({"x": found.x.copy(), **{k: a.copy() for k, a in found.captured.items()}, **shares})
    compare.assert_same_bits(runs[2], runs[0])
    assert not np.allclose(runs[1]["x"], runs[0]["x"])
