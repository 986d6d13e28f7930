"""Parameters in the form that the CPU's products read: packed when first used, and again after a change."""

from __future__ import annotations

import numpy as np

from nmt.rnn.arrays.device_operations import OutputLayer
from nmt.rnn.arrays.quantised import quantise
from nmt.rnn.arrays.weights import QUADS, Again, Packed, Weights
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.machine_code.native import Kernel, KernelCall
from nmt.rnn.kernels.products import panels_of_4_bits
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.kernels.threads.pool import host, run_calls, run_parallel
from nmt.rnn.profile import operation


def packed_weight(
    weights: Weights,
    name: str,
    start: int,
    rows: int,
    transposed: bool,
    *,
    threads: int = 1,
    dtype: np.dtype | None = None,
) -> Packed:
    """Return rows [start, start + rows) of a matrix, or their transpose, packed for the products.

    dtype: of the elements, see `weights.packed_dtype`; None for the dtype of the matrix. The result is cached with the
    weights.
    """
    elements = weights[name].dtype if dtype is None else dtype
    form = start, rows, transposed, elements
    ready = weights.ready(name, form)
    if ready is not None:
        return ready

    def pack(out: Packed | None) -> Packed:
        columns = weights.shape(name)[1]
        K, N = (columns, rows) if transposed else (rows, columns)
        with operation("packing"):
            source, size = _to_pack(weights, name, transposed, elements), packed_size(K, N, elements)
            in_4_bits = elements == QUADS and panels_of_4_bits.fits(source[0], start, start + rows, transposed)
            if in_4_bits:
                size += panels_of_4_bits.size_of_4_bits(K, N)
            out = aligned((size,), elements) if out is None or out.size != size else out
            run_parallel(products.PACKING[elements, transposed], threads, *source, start, start + rows, out)
            if in_4_bits:
                more = source[0], start, start + rows, transposed, out
                run_parallel(panels_of_4_bits.pack_4_bits, threads, *more)
            return host(out)  # before another thread may read it

    def job(out: Packed) -> KernelCall:
        return kernel.with_arguments((weights[name], start, start + rows, out))

    def run(calls: list[KernelCall]) -> None:
        with operation("packing"):
            run_calls(threads, calls)
            host(calls)

    kernel: Kernel = products.PACKING[elements, transposed]
    again = Again(job, run) if elements != QUADS and weights.quantised(name) is None else None
    return weights.derived(name, form, pack, again)


def _to_pack(weights: Weights, name: str, transposed: bool, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Return the arrays that packing reads: the matrix, or numbers and scales of int8, which are computed here unless
    the weights already contain them."""
    if dtype != QUADS:
        return (weights[name],)
    held = weights.quantised(name)
    if held is None or held.by_rows != transposed:
        held = quantise(weights[name], by_rows=transposed)
    return held.numbers, held.scales


def packed_output(layer: OutputLayer, threads: int, *, transposed: bool = False) -> Packed:
    """Return the matrix [H, V] of an output layer, or its transpose, packed for the products."""
    rows = layer.weights.shape(layer.matrix)[0]
    as_transposed = layer.tied != transposed
    return packed_weight(layer.weights, layer.matrix, 0, rows, as_transposed, threads=threads, dtype=layer.packed)
