"""The activations against NumPy in float64: limits, errors, special values."""

import numpy as np
import pytest

from nmt.rnn.kernels.loops import activation_code
from nmt.rnn.kernels.machine_code.jit import kernel
from tests.rnn.kernels.company import assembly_of

# What each means, its limits at both infinities, and the relative and absolute error in float32 that the module's
# docstring promises; near 1 the logarithm is small and only its absolute error means anything.
FUNCTIONS = {
    "exp": (np.exp, (0, np.inf), 2e-6, 0),
    "log": (np.log, (np.nan, np.inf), 2e-6, 1e-7),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (0, 1), 0, 1e-6),
    "tanh": (np.tanh, (-1, 1), 1e-6, 0),
    "relu": (lambda x: np.maximum(x, 0), (0, np.inf), 0, 0),
    "softplus": (lambda x: np.logaddexp(0, x), (0, np.inf), 1e-6, 1e-6),
    "sqrt": (np.sqrt, (np.nan, np.inf), 1e-7, 0),
}


def _all_of(function):
    def loop(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    return kernel(loop)


LOOPS = {name: _all_of(getattr(activation_code, name)) for name in FUNCTIONS}


def _apply(name, x):
    y = np.empty_like(x)
    LOOPS[name](x, y)
    return y


def _inputs(name, dtype):
    small = np.logspace(-8, 0, 3001)
    x = np.concatenate([np.linspace(-87, 87, 20011), small, -small])
    if name in ("log", "sqrt"):
        x = np.concatenate([np.abs(x) + 1e-30, np.logspace(-37, 38, 2000)])
    return x.astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_is_exact_to_the_last_digits_and_float32_as_promised(name):
    meaning, _, relative, absolute = FUNCTIONS[name]
    for dtype, rtol, atol in (("f8", 1e-14, 1e-14), ("f4", relative, absolute)):
        x = _inputs(name, dtype)
        np.testing.assert_allclose(_apply(name, x), meaning(x.astype("f8")), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinities_give_the_limits_and_nan_stays(name, dtype):
    low, high, middle = _apply(name, np.array([-np.inf, np.inf, np.nan], dtype))
    np.testing.assert_allclose([low, high], FUNCTIONS[name][1], atol=1e-30)
    assert np.isnan(middle)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_exp_overflows_to_infinity_and_underflows_to_zero(dtype):
    np.testing.assert_array_equal(_apply("exp", np.array([1000, -1000, 0], dtype)), [np.inf, 0, 1])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_maximum_is_the_larger_and_nan_where_either_is(dtype):
    def loop(a, b, y):
        for i in range(a.size):
            y[i] = activation_code.maximum(a[i], b[i])

    numbers = np.array([-np.inf, -1, 0, 2, np.inf, np.nan], dtype)
    a, b = (m.ravel().copy() for m in np.meshgrid(numbers, numbers))
    y = np.empty_like(a)
    kernel(loop)(a, b, y)
    np.testing.assert_array_equal(y, np.maximum(a, b))


def test_log_of_zero_and_of_subnormal_numbers():
    result = _apply("log", np.array([0.0, -0.0, 1e-40, 1.0], "f4"))
    np.testing.assert_allclose(result, [-np.inf, -np.inf, np.log(np.float64(np.float32(1e-40))), 0], rtol=1e-6)


def test_a_loop_over_float32_becomes_vector_code():
    from nmt.rnn.kernels.machine_code.features import TARGET

    if TARGET.lanes != 16:  # AVX-512, with bfloat16 instructions or without
        pytest.skip("knows the register names of one target only")
    code = assembly_of(LOOPS["tanh"].native(("float32 1", "float32 1")))
    assert "vdivps" in code and "zmm" in code
