"""Updates aware of quantization: losses and gradients of the matrices as `nmt-quantize` will store them.

The gradient with respect to a rounded number is used as that of the number before rounding (the straight-through
estimator: Bengio et al. 2013, section 2; its use for quantization: Jacob et al. 2018, section 3). So the optimizer
changes the numbers before rounding, in which its small steps add up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from nmt.rnn.arrays.quantised import quantise
from nmt.rnn.profile import operation

if TYPE_CHECKING:
    from nmt.model.network import Network


@contextlib.contextmanager
def quantized(model: Network, bits: int, threads: int) -> Iterator[None]:
    """Replace the model's matrices, within the block, by their numbers in a model of `nmt-quantize`: those of an
    integer of `bits` bits times its scale. With 0 bits nothing is replaced."""
    if not bits:
        yield
        return
    from nmt.rnn.kernels.products.four_bits import quantise_to_4_bits

    rounded = quantise if bits == 8 else partial(quantise_to_4_bits, threads=threads)
    device, params = model.device, model.params
    before: dict[str, Any] = {}
    try:
        with operation("quantization"):
            for name, param in params.items():
                if param.ndim == 2:
                    before[name] = param.copy()
                    made = rounded(device.download(param), by_rows=model.channels_are_rows(name))
                    param[...] = device.upload(made.restored())
            model.changed()
        yield
    finally:
        for name, array in before.items():
            params[name][...] = array
        model.changed()
