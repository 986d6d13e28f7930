"""Details of translations whose alignment is known."""

import numpy as np

from nmt.inference.translation import Detail


def detail_of(source, target, alignment=None):
    """Return the details of a translation by its subwords and those of its source: each attends to the one in
    `alignment`, or without it to the one at its own place."""
    attention = np.eye(len(target) + 1, len(source) + 1)
    if alignment is not None:
        attention[:] = 0
        attention[range(len(target) + 1), [*alignment, len(source)]] = 1
    return Detail([*target, "</s>"], [0.0] * (len(target) + 1), source, attention, [], [])
