"""The operators against the oracle on awkward sizes: outputs and slopes of the gradients. The oracle's derivatives are
complex steps, exact to rounding, so float64 is held to the same 1e-9 as the outputs. Padding is filled with large
numbers, in the input and in the cotangents: nobody may read it."""

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest

from tests.oracle import compare, gradients, layers
from tests.rnn import operator_calls

DTYPES = ("float64", "float32")
KINDS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")


@dataclass(frozen=True)
class Sizes:
    """T steps, B rows, D inputs, H units, the rows' lengths (None: all T), states given or not."""

    T: int
    B: int
    D: int
    H: int
    lengths: tuple[int, ...] | None = None
    given: bool = True


SIZES = {
    "all_one": Sizes(1, 1, 1, 1),
    "one_step": Sizes(1, 5, 13, 17),
    "one_row": Sizes(6, 1, 3, 4, (4,)),
    "odd_no_states": Sizes(4, 3, 13, 17, given=False),
    "unsorted": Sizes(5, 6, 13, 17, (2, 5, 1, 4, 5, 1)),
    "all_equal_and_short": Sizes(5, 3, 4, 8, (3, 3, 3)),
    "all_length_one": Sizes(3, 2, 5, 3, (1, 1), given=False),
    "wide": Sizes(2, 2, 5, 70, (2, 1)),
    "many_rows": Sizes(3, 19, 2, 5, tuple(1 + row % 3 for row in range(19))),
}


@dataclass(frozen=True)
class Witness:
    """Inputs, expected results, expected slopes of sum(results * cotangents) along directions."""

    params: dict
    inputs: dict
    expected: dict
    cotangents: dict
    directions: dict
    slopes: dict


def draw(rng, *shape):
    """Normal numbers that float32 holds exactly."""
    return rng.normal(size=shape).astype(np.float32).astype(np.float64)


def fill_padding(array, lengths, value):
    """Put `value` into the rows of a [T, B, ...] array beyond their lengths."""
    for row, n in enumerate(lengths or ()):
        array[n:, row] = value


@cache
def witness(kind, num_layers, bidirectional, size):
    """What the oracle says; computed once for both dtypes."""
    s = SIZES[size]
    rng = np.random.default_rng([KINDS.index(kind), num_layers, bidirectional, list(SIZES).index(size)])
    width = s.H * (1 + bidirectional)
    options = {"num_layers": num_layers, "bidirectional": bidirectional}
    params = layers.random_params(rng, kind, s.D, s.H, scale=min(0.4, 1.5 / np.sqrt(s.H)), **options)
    inputs = {"x": draw(rng, s.T, s.B, s.D)}
    fill_padding(inputs["x"], s.lengths, 1000.0)
    if s.given:
        inputs["hx"] = draw(rng, num_layers * (1 + bidirectional), s.B, s.H)
        if kind == "lstm":
            inputs["cx"] = draw(rng, *inputs["hx"].shape)

    def run(now):
        results = layers.run(
            kind, {n: now[n] for n in params}, now["x"], now.get("hx"), now.get("cx"), s.lengths, **options
        )
        return dict(zip(("y", "hy", "cy") if kind == "lstm" else ("y", "hy"), results, strict=False))

    leaves = {**inputs, **params}
    expected = run(leaves)
    cotangents = {f"d_{key}": draw(rng, *value.shape) for key, value in expected.items()}
    assert cotangents["d_y"].shape == (s.T, s.B, width)
    fill_padding(cotangents["d_y"], s.lengths, 1000.0)

    def total(now):
        return sum(np.sum(value * cotangents[f"d_{key}"]) for key, value in run(now).items())

    directions = {name: gradients.random_direction(leaves, rng, only=[name]) for name in leaves}
    slopes = {name: gradients.complex_step(total, leaves, d) for name, d in directions.items()}
    return Witness(params, inputs, expected, cotangents, directions, slopes)


def build(kind, num_layers, bidirectional, size, params, dtype, **options):
    s = SIZES[size]
    return operator_calls.build(
        kind, s.D, s.H, params, dtype, num_layers=num_layers, bidirectional=bidirectional, **options
    )


# Half of all products, in which any three choices meet; both types beside each other share what the oracle says.
CHOSEN = [
    (kind, num_layers, bidirectional, size, dtype)
    for (k, kind), num_layers, bidirectional, (n, size) in product(
        enumerate(KINDS), (1, 2), (False, True), enumerate(SIZES)
    )
    if (k + num_layers + bidirectional + n) % 2
    for dtype in DTYPES
]


@pytest.mark.parametrize(("kind", "num_layers", "bidirectional", "size", "dtype"), CHOSEN)
def test_outputs_and_gradients(kind, num_layers, bidirectional, size, dtype):
    check_outputs_and_gradients(kind, num_layers, bidirectional, size, dtype)


def check_outputs_and_gradients(kind, num_layers, bidirectional, size, dtype, device=None):
    w, lengths = witness(kind, num_layers, bidirectional, size), SIZES[size].lengths
    layer = build(kind, num_layers, bidirectional, size, w.params, dtype, device=device)
    tolerance = compare.TOLERANCE[dtype]
    for call in (operator_calls.infer, operator_calls.forward):
        results = call(layer, **w.inputs, lengths=lengths)
        assert set(results) == set(w.expected)
        for key, expected in w.expected.items():
            assert results[key].dtype == dtype
            compare.assert_close(results[key], expected, tolerance, f"{call.__name__} {key}")
    found = operator_calls.backward(layer, **w.cotangents)
    grads = {**{name: getattr(found, f"d_{name}") for name in w.inputs}, **found.params}
    for name, direction in w.directions.items():
        assert grads[name].dtype == dtype
        # Rounding in the gradient enters times the direction's length, 1, so the gradient's size is
        # the scale.
        scale = max(1.0, float(np.linalg.norm(grads[name])))
        got = gradients.inner(grads, direction)
        assert abs(got - w.slopes[name]) <= tolerance * scale, f"gradient of {name}"
    for row, n in enumerate(lengths or ()):
        np.testing.assert_array_equal(results["y"][n:, row], 0.0)
        np.testing.assert_array_equal(found.d_x[n:, row], 0.0)


@pytest.mark.parametrize("only", ["d_y", "d_hy"])
@pytest.mark.parametrize("kind", ["lstm", "gru_reset_before"])
def test_missing_cotangents_are_zeros(kind, only):
    w, lengths = witness(kind, 2, True, "unsorted"), SIZES["unsorted"].lengths
    layer = build(kind, 2, True, "unsorted", w.params, "float64")
    zeros = {key: d if key == only else np.zeros_like(d) for key, d in w.cotangents.items()}
    found = []
    for given in ({"d_y": None, only: w.cotangents[only]}, zeros):
        operator_calls.forward(layer, **w.inputs, lengths=lengths)
        back = operator_calls.backward(layer, **given)
        found.append({"d_x": back.d_x.copy(), **{name: g.copy() for name, g in back.params.items()}})
    compare.assert_same_bits(found[0], found[1])
    assert found[0]["d_x"].any()
