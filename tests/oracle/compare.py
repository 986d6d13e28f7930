"""The one table of tolerances, and the one way arrays are compared; log-probabilities, one token at a time."""

import numpy as np

# Errors are measured against the largest expected number (or 1): rounding in a sum of products is
# relative to the largest terms, not to the result, which may be almost 0.
TOLERANCE = {
    # Two float64 programs that add in another order differ by about 1e-14 here; 1e-9 leaves room
    # for growth over layers and time and none for a wrong formula.
    "float64": 1e-9,
    # float32 rounds at 6e-8; gradients through 3 layers and 9 steps of relu grow that to some 1e-5.
    "float32": 1e-4,
}
# Products of numbers rounded to bfloat16, each by up to 4e-3, against those of the numbers themselves, by
# norm: 3e-3 for one product, some 5e-3 after gradients through a few steps. Two numbers of a pair exchanged
# on one side only give an error of about 1.
BFLOAT16_TOLERANCE = 2e-2


def tolerance_of(dtype):
    """The tolerance for results of this dtype."""
    return TOLERANCE[np.dtype(dtype).name]


def error(got, expected):
    """Largest difference over the largest expected magnitude (at least 1)."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    if expected.size == 0:
        return 0.0
    return float(np.max(np.abs(got - expected)) / max(1.0, float(np.max(np.abs(expected)))))


def norm_error(got, expected):
    """Norm of the difference over the norm expected (at least a tiny one)."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    return float(np.linalg.norm(got - expected) / max(1e-30, float(np.linalg.norm(expected))))


def assert_close(got, expected, tolerance, what):
    """Equal shapes, and error() within the tolerance; NaN never passes."""
    assert np.shape(got) == np.shape(expected), f"{what}: {np.shape(got)} instead of {np.shape(expected)}"
    worst = error(got, expected)
    assert worst <= tolerance, f"{what}: off by {worst:.2e}, more than {tolerance:.0e}"


def assert_all_close(found, expected, tolerance=1e-9, what=""):
    """The same names, each with an array that is close."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert_close(found[name], value, tolerance, f"{what} {name}")


def assert_same_bits(found, expected, what=""):
    """The same names, each with an array that is equal to the last bit."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, f"{what} {name}")


def assert_same_arrays(found, expected):
    """As many arrays, each equal to the last bit."""
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def log_softmax(logits):
    """Log probabilities of one row of logits [V]."""
    top = np.max(np.real(logits))
    return logits - top - np.log(np.sum(np.exp(logits - top)))
