"""Whole scans with products in bfloat16 and int8, near the exact ones; and on smaller vector units, in processes of
their own. test_products.py compares training in bfloat16 with the interpreter."""

import platform

import numpy as np
import pytest

from nmt.errors import NMTError
from nmt.rnn import GRU, LSTM, RNN, LSTMCell, Scan, Weights
from nmt.rnn.kernels.machine_code.features import TARGET
from tests.oracle import compare
from tests.processes import python
from tests.refusals import refused
from tests.rnn import scan_cases as cases

# int8: half a step of 1/127 of the largest number on both sides, a few products after one another.
TOLERANCES = {"bfloat16": compare.BFLOAT16_TOLERANCE, "int8": 0.03}
CELLS = ["lstm", "gru", "gru_reset_before", "rnn_tanh", "stack", "lstm_bahdanau_feed"]


def draw(name, lengths="mixed", **sizes):
    return cases.draw(cases.CELLS[name](), "float32", cases.LENGTHS[lengths], **sizes)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("compute_dtype", "tolerance"), TOLERANCES.items())
def test_inference_is_near_the_exact_one(name, reverse, compute_dtype, tolerance):
    case = draw(name)
    found = cases.inferred(case, reverse=reverse, compute_dtype=compute_dtype)
    expected, _ = cases.interpreted(case, None, reverse=reverse)
    assert set(found) == set(expected)
    for key, value in expected.items():
        assert 1e-5 < compare.norm_error(found[key], value) < tolerance, key
        assert found[key].dtype == np.float32


@pytest.mark.parametrize("K", [35, 64])
@pytest.mark.parametrize(("run", "compute_dtype"), [(cases.compiled, "bfloat16"), (cases.inferred, "int8")])
def test_threads_that_divide_units_find_their_panels(K, run, compute_dtype):
    """Wide enough for several panels a thread, with an odd and an even number of rows in each."""
    case = cases.draw(LSTMCell(5, K), "float32", rows=3, places=4)
    one, *others = (run(case, threads=n, division="units", compute_dtype=compute_dtype) for n in (1, 2, 3))
    for found in others:
        (cases.assert_same_run if isinstance(one, tuple) else compare.assert_same_bits)(found, one)


def test_both_kinds_of_products_share_one_set_of_weights():
    case = draw("lstm")
    weights = Weights(case.params)
    results = []
    for compute_dtype in ("float32", "bfloat16", "float32", "bfloat16"):
        scan = Scan(case.cell, compute_dtype=compute_dtype, threads=1)
        results.append(scan.forward(weights, case.x).y)
    np.testing.assert_array_equal(results[2], results[0])
    np.testing.assert_array_equal(results[3], results[1])
    assert 1e-5 < compare.norm_error(results[1], results[0]) < compare.BFLOAT16_TOLERANCE
    case.params["W_h"] *= 2
    weights.changed()
    changed = Scan(case.cell, compute_dtype="bfloat16", threads=1).forward(weights, case.x).y
    assert compare.norm_error(changed, results[1]) > compare.BFLOAT16_TOLERANCE


@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
def test_layers_take_the_type_of_their_products(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 4, 5)).astype("f4")
    options = {"num_layers": 2, "bidirectional": True, "threads": 1}
    layers = [kind(5, 7, compute_dtype=name, **options) for name in (None, "float32", "bfloat16")]
    exact, same, near = (layer.forward(x)[0] for layer in layers)
    np.testing.assert_array_equal(same, exact)
    assert 1e-5 < compare.norm_error(near, exact) < compare.BFLOAT16_TOLERANCE
    exact, _, near = (layer.backward(np.ones_like(exact)) for layer in layers)
    for name, g in exact.params.items():
        assert 1e-5 < compare.norm_error(near.params[name], g) < 2 * compare.BFLOAT16_TOLERANCE, name


@pytest.mark.parametrize(
    ("dtype", "compute_dtype", "choices"),
    [
        ("float32", "float16", "float32 or bfloat16 or int8"),
        ("float64", "bfloat16", "float64"),
        ("float64", "float32", "float64"),
        ("float64", "int8", "float64"),
    ],
)
def test_another_type_is_refused_in_one_line(dtype, compute_dtype, choices):
    promise = f"^LSTMCell: compute_dtype must be {choices} with {dtype}, got {compute_dtype}$"
    refused(NMTError, promise, Scan, LSTMCell(5, 7), dtype=dtype, compute_dtype=compute_dtype)


CHECK = """
import gc

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.recipes import GeneratedLoop
from nmt.rnn.kernels.machine_code.store import store
from tests.oracle import compare
from tests.rnn import scan_cases as cases
from tests.rnn.kernels.company import assembly_of
from tests.rnn.kernels.test_products import test_product_on_segments_and_column_offsets

test_product_on_segments_and_column_offsets("f4", 40, 33, 3, 1)  # and nothing outside of its rows and columns

# Attention on one of the targets: its row work is vectorised as the cell's is.
for name in ("lstm", "lstm_bahdanau_feed") if TARGET.name == "avx2" else ("lstm",):
    case = cases.draw(cases.CELLS[name](), "float32", cases.LENGTHS["mixed"])
    outputs, gradients, masks = cases.compiled(case, threads=2)
    expected = cases.interpreted(case, masks)
    for found, wanted in zip((outputs, gradients), expected, strict=True):
        assert set(found) == set(wanted)
        for key, value in wanted.items():
            compare.assert_close(found[key], value, compare.TOLERANCE["float32"], f"{name} {key}")
    if name == "lstm":
        rounded = cases.compiled(case, threads=2, compute_dtype="bfloat16")
        inferred = cases.inferred(case, threads=2, compute_dtype="int8")
        for key, value in cases.interpreted(case, None)[0].items():
            assert 0 < compare.norm_error(inferred[key], value) < 0.03, f"{name} int8 {key}"
        for found, wanted in zip(rounded, expected, strict=False):
            for key, value in wanted.items():
                assert 0 < compare.norm_error(found[key], value) < compare.BFLOAT16_TOLERANCE, f"{name} {key}"
loops = [one for one in gc.get_objects() if isinstance(one, GeneratedLoop)]
assert all(store().read(one.code_name) for one in loops)
code = assembly_of(max(loops, key=lambda one: len(one.source)))
print(TARGET.name, len(loops), "zmm" in code, "ymm" in code)
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 targets")
@pytest.mark.parametrize("name", ["avx2", "generic"])
def test_scans_on_a_smaller_vector_unit(name):
    if name == "avx2" and TARGET.lanes < 8:
        pytest.skip("this machine has no AVX2")
    # Forward and backward of the cells and of the LSTM in bfloat16, its forward in int8, backward of the attention's
    # keys (forward they are a product and nothing else).
    printed = python(CHECK, NMT_CPU=name).stdout
    assert printed.split() == [name, {"avx2": "8", "generic": "5"}[name], "False", str(name == "avx2")]
