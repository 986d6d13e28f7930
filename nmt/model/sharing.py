"""Models that differ in few parameters and share the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nmt.rnn.arrays.quantised import Quantised, quantise

if TYPE_CHECKING:
    from nmt.model.network import Network


def share(network: Network, base: Network, own: Mapping[str, np.ndarray]) -> None:
    """Make a network compute with arrays of its own, float32 on the processor, as the parameters of these names, and
    with those of `base` as all others. Both have the same settings and type of products. Packed forms are shared too
    (see `Weights.over`), so that the network takes little more memory than `own`; `base` must not be written to."""
    stored: dict[str, np.ndarray | Quantised] = {
        name: quantise(array, by_rows=network.channels_are_rows(name)) if base.in_int8 and array.ndim == 2 else array
        for name, array in own.items()
    }
    network.adopt({})  # the parameters are no longer one array
    network.weights = base.weights.over(stored)
    network.output_layer = replace(network.output_layer, weights=network.weights)
