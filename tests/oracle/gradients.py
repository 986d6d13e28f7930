"""Derivatives by perturbation: central differences in place, complex steps for our own code. Arrays come as dicts name
-> array. Central differences perturb the arrays themselves and put the very same bits back, so that they also serve a
model which is asked to look at its parameters again."""

import numpy as np


def random_direction(arrays, rng, only=None):
    """A direction of length 1 in the space of all arrays, or of those named in `only`."""
    names = list(arrays) if only is None else list(only)
    direction = {name: rng.normal(size=arrays[name].shape) for name in names}
    length = np.sqrt(sum(float(np.sum(d * d)) for d in direction.values()))
    return {name: d / length for name, d in direction.items()}


def inner(gradients, direction):
    """The derivative along `direction` that the given gradients promise."""
    return sum(float(np.sum(np.asarray(gradients[n], np.float64) * d)) for n, d in direction.items())


def along(loss, arrays, direction, step=1e-5):
    """Central difference of `loss()` along `direction`; it errs by about step**2."""
    kept = {name: arrays[name].copy() for name in direction}
    values = []
    try:
        for sign in (1.0, -1.0):
            for name, d in direction.items():
                arrays[name][...] = kept[name] + sign * step * d
            values.append(float(loss()))
    finally:
        for name, array in kept.items():
            arrays[name][...] = array
    return (values[0] - values[1]) / (2.0 * step)


def element(loss, array, index, step=1e-5):
    """Central difference of `loss()` in one element of `array`."""
    unit = np.zeros(array.shape)
    unit[index] = 1.0
    return along(loss, {"array": array}, {"array": unit}, step)


def complex_step(loss_of, arrays, direction, step=1e-40):
    """Derivative of loss_of(arrays) along `direction`, exact to rounding: imag(f(a + i s d)) / s. `loss_of` must be
    analytic code (no abs, no comparison of complex numbers), as the oracles here are."""
    shifted = dict(arrays)
    for name, d in direction.items():
        shifted[name] = arrays[name] + 1j * step * d
    return float(np.imag(loss_of(shifted))) / step


def check(loss, arrays, gradients, rng, *, step=1e-5, rtol=1e-5, atol=1e-8, elements=1):
    """Hold `gradients` to central differences: each array along a direction and in a few elements. Returns the
    complaints, one line each; an empty list means that everything agrees. One element is always the one of the largest
    gradient, so that a comparison of zeros with zeros cannot be all there is."""
    complaints = []

    def compare(what, expected, got):
        if not abs(got - expected) <= atol + rtol * abs(expected):
            complaints.append(f"{what}: the difference quotient is {expected:.9e}, the gradient {got:.9e}")

    for name, array in arrays.items():
        gradient = np.asarray(gradients[name], np.float64)
        if gradient.shape != array.shape:
            complaints.append(f"{name}: the gradient is {gradient.shape}, the array {array.shape}")
            continue
        direction = random_direction(arrays, rng, only=[name])
        compare(name, along(loss, arrays, direction, step), inner(gradients, direction))
        for number in range(elements):
            flat = int(np.argmax(np.abs(gradient))) if number == 0 else int(rng.integers(array.size))
            index = np.unravel_index(flat, array.shape)
            compare(f"{name}{[int(i) for i in index]}", element(loss, array, index, step), gradient[index])
    return complaints
