"""Operations on parameters and gradients: optimizer steps (see device_operations.py), norms, embedding rows, dropout.

Every function does one thread's share of flat arrays: see pool.run_parallel."""

from typing import Any

import numpy as np

from nmt.rnn.arrays.device_operations import RULES, ElementRule
from nmt.rnn.arrays.weights import Quantised
from nmt.rnn.kernels.machine_code.jit import FAST, inlined, inner_kernel, kernel, task
from nmt.rnn.kernels.machine_code.native import Kernel
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.table_layout import NamedTable, TableLayout, arrays, constants, reals

# A share starts on a cache line, so that no two threads write to the same one.
_ALIGN = 64


@inner_kernel
def _bounds(part, parts, size):  # type: ignore[no-untyped-def]
    blocks = (size + _ALIGN - 1) // _ALIGN
    return min(size, blocks * part // parts * _ALIGN), min(size, blocks * (part + 1) // parts * _ALIGN)


_LOOP = """
def {name}(part, parts, {arrays}, {factors}):
    low, high = bounds(part, parts, a0.size)
    {arrays} = {shares}
    number = a0.dtype.type
    {factors} = {numbers}
    for i in range(a0.size):
        {element}
"""


def _kernel_of(rule: ElementRule) -> Kernel:
    """Return the kernel (part, parts, flat arrays, factors) of a rule."""
    scope = {"__name__": __name__, "bounds": _bounds, "rule": inlined(rule.function)}
    return Kernel(rule.loop(_LOOP, scope), frozenset() if rule.exact else FAST)


OF_RULE = {rule: _kernel_of(rule) for rule in RULES}
globals().update({one.function.__name__: one for one in OF_RULE.values()})  # so that they have recipes (recipes.py)


@kernel
def square_norm(part, parts, g, out_parts):  # type: ignore[no-untyped-def]
    """Set out_parts[part] to the sum of squares of this share in float64; NaN and infinity propagate."""
    low, high = _bounds(part, parts, g.size)
    total = 0.0
    share = g[low:high]
    for i in range(share.size):
        wide = np.float64(share[i])
        total += wide * wide
    out_parts[part] = total


@kernel
def embedding_rows(part, parts, ids, table, out, scale):  # type: ignore[no-untyped-def]
    """Set out[i] = table[ids[i]] * scale; ids [N], table [V, E], out [N, E]. Parts divide the rows."""
    factor = out.dtype.type(scale)
    for i in range(ids.size * part // parts, ids.size * (part + 1) // parts):
        source, target = table[ids[i]], out[i]
        for j in range(target.size):
            target[j] = source[j] * factor


@kernel
def embedding_rows_int8(part, parts, ids, numbers, scales, out, scale):  # type: ignore[no-untyped-def]
    """Do the same as `embedding_rows` for a table int8 [V, E] with the scales [V] of its rows."""
    for i in range(ids.size * part // parts, ids.size * (part + 1) // parts):
        source, target = numbers[ids[i]], out[i]
        factor = scales[ids[i]] * out.dtype.type(scale)
        for j in range(target.size):
            target[j] = out.dtype.type(source[j]) * factor


@kernel
def embedding_gradient(part, parts, ids, d_out, d_table, scale):  # type: ignore[no-untyped-def]
    """Add d_out[i] * scale to d_table[ids[i]], i in order. Parts divide columns: the bits do not depend on them."""
    factor = d_table.dtype.type(scale)
    low, high = _bounds(part, parts, d_table.shape[1])
    for i in range(ids.size):
        source, target = d_out[i, low:high], d_table[ids[i], low:high]
        for j in range(target.size):
            target[j] += source[j] * factor


_GAMMA, _MIX_1, _MIX_2 = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@inner_kernel
def _mix(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@kernel
def dropout_mask(part, parts, out, keep_probability, seed, offset):  # type: ignore[no-untyped-def]
    """Fill the flat `out` with 0 or 1/keep_probability, drawn for element i from (seed, offset + i) alone. The random
    numbers are counter-based, so that neither the number nor the order of threads matters: the output function of
    SplitMix64, in Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014), section 6."""
    low, high = _bounds(part, parts, out.size)
    target = out[low:high]
    kept, dropped = out.dtype.type(1.0 / keep_probability), out.dtype.type(0.0)
    threshold = np.uint64(keep_probability * 4294967296.0)
    # Mix the seed first: otherwise consecutive seeds would start at consecutive places of the same sequence.
    start = _mix(np.uint64(seed) + _GAMMA) + (np.uint64(offset) + np.uint64(low)) * _GAMMA
    for i in range(target.size):
        bits = _mix(start + np.uint64(i) * _GAMMA) >> _S32
        target[i] = kept if bits < threshold else dropped


EMBEDDING = TableLayout(
    "embedding",
    constants("rows", "width", "vocab_size"),
    reals("scale"),
    arrays(np.int64, ("rows",), "ids"),
    arrays("F", ("rows", "width"), "out"),
)
PLAIN = EMBEDDING.extended("embedding_plain", arrays("F", ("vocab_size", "width"), "numbers"))
QUANTISED = EMBEDDING.extended(
    "embedding_quantised",
    arrays(np.int8, ("vocab_size", "width"), "numbers"),
    arrays(np.float32, ("vocab_size",), "scales"),
)


def embedding_table(ids: np.ndarray, table: np.ndarray | Quantised, scale: float, out: np.ndarray) -> NamedTable:
    """Return the table of a task that fills out [R, E] with rows of an embedding times `scale`, for the first `rows` of
    the ids, int64 [R]; `rows` is a number in the table."""
    quantised = isinstance(table, Quantised)
    given = {"numbers": table.numbers, "scales": table.scales} if isinstance(table, Quantised) else {"numbers": table}
    values = {"width": out.shape[1], "vocab_size": len(given["numbers"]), "scale": scale, "ids": ids, "out": out}
    return NamedTable(QUANTISED if quantised else PLAIN, values | given, F=out.dtype)


@family
def embedding_task(number: np.dtype, *, quantised: bool) -> Any:
    """Return the task of an `embedding_table` for an array of this dtype."""
    embedding_at = (QUANTISED if quantised else PLAIN).reader(F=number)

    def embed(part, parts, table):  # type: ignore[no-untyped-def]
        given = embedding_at(table)
        if quantised:
            embedding_rows_int8(part, parts, given.ids, given.numbers, given.scales, given.out, given.scale)
        else:
            embedding_rows(part, parts, given.ids, given.numbers, given.out, given.scale)

    return task(embed)
