"""The operators against PyTorch's and ONNX's vectors: outputs, every gradient, both dtypes, on every device.

Every file is read on the processor and on a GPU. What stands for a GPU is slow: it reads the smallest files in which
every kind of layer meets every option.
"""

import numpy as np
import pytest

from tests.oracle import compare, layers, vectors

if not vectors.PRESENT:
    pytest.skip(vectors.ABSENT, allow_module_level=True)

from nmt.rnn import layouts
from nmt.rnn.layers import operators
from nmt.rnn.layers.layer_stack import reverse_sequence
from tests.devices import AT_FULL_SIZE, device_at
from tests.rnn import operator_calls

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
# The stand-in takes its time: one dtype there, the exact one.
RUNS = [("float64", "cpu"), ("float32", "cpu"), ("float64", "cuda"), *([("float32", "cuda")] if AT_FULL_SIZE else [])]
# ONNX's expected numbers are themselves float32: this is how exact they can be.
ONNX_TOLERANCE = {"float64": 2e-6, "float32": compare.TOLERANCE["float32"]}

on_every_device = pytest.mark.parametrize(("dtype", "device"), RUNS, indirect=["device"])


@pytest.fixture
def device(request):
    return device_at(request.param)


def check(results, expected, tolerance, what):
    """Every expected array is there and right; something must be expected."""
    assert expected, f"{what}: nothing to compare"
    compare.assert_all_close({key: results[key] for key in expected}, expected, tolerance, what)


def options_of(case):
    """Return what a layer of this kind is asked for in a case."""
    given = {"lengths": case.lengths, "states": case.hx}
    asked = {"bidirectional", "bias", "batch_first"} | case.options.keys()
    found = {(name, bool(getattr(case, name, True))) for name in asked} | {("layers", case.num_layers)}
    return {(case.kind, *one) for one in found | {(name, array is not None) for name, array in given.items()}}


def smallest_files():
    """Return PyTorch files of little work that together have all options of all kinds."""
    cases = {name: vectors.torch_layer(name) for name in vectors.torch_layer_names()}
    work = {n: c.x.size * c.hidden_size * c.num_layers * (1 + c.bidirectional) for n, c in cases.items()}
    left, found = set().union(*map(options_of, cases.values())), []
    while left:
        name = max(cases, key=lambda n: len(left & options_of(cases[n])) / work[n] ** 0.5)
        found.append(name)
        left -= options_of(cases[name])
    return found


LAYERS = [
    (name, *run)
    for run in RUNS
    for name in (vectors.torch_layer_names() if AT_FULL_SIZE or run[1] == "cpu" else smallest_files())
]


def test_the_stand_in_meets_every_option_of_every_kind():
    met = set().union(*(options_of(vectors.torch_layer(name)) for name, _, device in LAYERS if device == "cuda"))
    for kind in KINDS:
        assert {(kind, "layers", n) for n in (1, 2, 3)} <= met
        for option in ("bidirectional", "bias", "batch_first", "lengths", "states"):
            assert {(kind, option, False), (kind, option, True)} <= met


@pytest.mark.parametrize(("name", "dtype", "device"), LAYERS, indirect=["device"])
def test_torch_layers(name, dtype, device):
    case, tolerance = vectors.torch_layer(name), compare.TOLERANCE[dtype]
    own = {key: getattr(case, key) for key in ("num_layers", "bidirectional", "bias", "batch_first")}
    sizes = case.input_size, case.hidden_size
    layer = operator_calls.build(case.kind, *sizes, case.params, dtype, **own, **case.options, device=device)
    inputs = (case.x, case.hx, case.cx, case.lengths)
    check(operator_calls.infer(layer, *inputs), case.expected, tolerance, name)
    check(operator_calls.forward(layer, *inputs), case.expected, tolerance, f"{name} keeping")
    found = operator_calls.backward(layer, **case.cotangents)
    check({key: getattr(found, key) for key in case.gradients}, case.gradients, tolerance, name)
    assert set(found.params) == set(case.d_params)
    check(found.params, case.d_params, tolerance, f"{name} gradient of")


@on_every_device
@pytest.mark.parametrize("name", vectors.onnx_layer_names())
def test_onnx_layers(name, dtype, device):
    case, file, attributes = vectors.onnx_layer(name), vectors.arrays("onnx", name), vectors.onnx_attributes(name)
    op = str(file["op"])
    inputs = {key: file.get(f"in_{key}") for key in ("W", "R", "B", "P")}
    options = layouts.onnx_options(op, attributes, [key for key, array in inputs.items() if array is not None])
    layer = getattr(operators, op)(case.input_size, case.hidden_size, dtype=dtype, device=device, **options)
    node = {"direction": case.direction, "input_forget": options.get("input_forget", False)}
    layer.load(layouts.from_onnx(op, **inputs, **node))
    results = operator_calls.infer(layer, case.x, case.hx, case.cx, case.lengths)
    check(results, case.expected, ONNX_TOLERANCE[dtype], name)
    if vectors.onnx_is_plain(name):
        # The files are only as exact as float32; the oracle, which agrees with them, is exact.
        directions = {"bidirectional": case.bidirectional, "reverse": case.direction == "reverse", "empty": "zero"}
        witness = layers.run(case.kind, case.params, case.x, case.hx, case.cx, case.lengths, **directions)
        check(results, dict(zip(results, witness, strict=False)), compare.TOLERANCE[dtype], f"{name} oracle")


@on_every_device
@pytest.mark.parametrize("name", [n for n in vectors.names("onnx") if n not in vectors.onnx_layer_names()])
def test_onnx_reverse_sequence(name, dtype, device):
    file, attributes = vectors.arrays("onnx", name), vectors.onnx_attributes(name)
    assert str(file["op"]) == "ReverseSequence"
    axes = {key: attributes[key] for key in ("time_axis", "batch_axis")}
    found = reverse_sequence(file["in_input"].astype(dtype), file["in_sequence_lens"], **axes)
    np.testing.assert_array_equal(found, file["out_Y"])
