"""A scan in plain loops: one row after another, one step after another, with everything a step may read or show.

`step(p, now, s)` takes parameters, what the row reads at this step by name (`x` and further sequences) and its states,
in the shapes they have outside, and returns the output, the states after and noted values by name. It may be complex
(see gradients.py).
"""

import numpy as np


def run(step, p, inputs, initial, there, *, captured, reverse=False, stop=None):
    """inputs [T, B, ...], initial and captured [B, ...] by name, there bool [T, B] -> results by name, `taken` [B] too.
    stop: the name of a noted value that ends a row once it is positive."""
    T, B = there.shape
    dtype = np.result_type(*inputs.values(), *p.values(), *initial.values(), *captured.values(), np.float64)
    found = {f"final {name}": np.zeros(v.shape, dtype) for name, v in initial.items()}
    found["taken"] = np.zeros(B, int)
    for row in range(B):
        s, own = ({name: v[row] for name, v in of_rows.items()} for of_rows in (initial, captured))
        for t in reversed(range(T)) if reverse else range(T):
            if not there[t, row]:
                continue
            y, s, noted = step(p | own, {name: v[t, row] for name, v in inputs.items()}, s)
            for name, value in {"y": y, **{f"recorded {k}": v for k, v in noted.items()}}.items():
                value = np.asarray(value)
                found.setdefault(name, np.zeros((T, B, *value.shape), dtype))[t, row] = value
            found["taken"][row] += 1
            if stop is not None and np.real(noted[stop]) > 0:
                break
        for name, value in s.items():
            found[f"final {name}"][row] = value
    return found
