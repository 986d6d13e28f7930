"""Log-softmax of one row of logits: largest entry, logarithm of the sum, loss and gradient."""

from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.loops.activation_code import exp, log
from nmt.rnn.kernels.machine_code.jit import cgutils, inner_kernel, intrinsic, numba_types


@intrinsic
def _larger(typing_context: Any, a: Any, b: Any) -> Any:
    # LLVM vectorises a running maximum only if NaN may be ignored. It may: all callers of row_max sum exponentials
    # next, and the NaN appears in the sum.
    if a != b or not isinstance(a, numba_types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = args[0].type
        name = f"llvm.maxnum.f{a.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, kind]), name)
        return builder.call(function, args, fastmath=("nnan", "nsz"))

    return a(a, a), codegen


@inner_kernel
def row_max(row):  # type: ignore[no-untyped-def]
    """Return the largest entry of a row, which must not be empty; unspecified if the row contains a NaN."""
    best = row[0]
    for i in range(row.size):
        best = _larger(best, row[i])
    return best


@inner_kernel
def _contains(row, value):  # type: ignore[no-untyped-def]
    for entry in row:
        if entry == value:
            return True
    return False


@inner_kernel
def row_loss(row, target, label_smoothing, gradient_scale, want_gradient):  # type: ignore[no-untyped-def]
    """Return (nll, smoothed loss, 1 if `target` is the first largest entry, else 0); with `want_gradient` the row is
    replaced by its gradient.

    The smoothed loss is (1 - eps) * nll + eps * the mean of -log p over all classes (Szegedy et al., Rethinking the
    Inception Architecture (2016), section 7). The gradient is that of the smoothed loss times gradient_scale.
    """
    number = row.dtype.type
    best, mark = row_max(row), row[target]
    correct = 1 if mark == best and not _contains(row[:target], best) else 0
    total, plain = number(0), number(0)
    for i in range(row.size):
        value = row[i]
        plain += value - best
        power = exp(value - best)
        total += power
        if want_gradient:
            row[i] = power
    # Everything is relative to the largest entry, so that small differences of large logits keep their precision.
    log_total = np.float64(log(total))
    nll = log_total - np.float64(mark - best)
    smoothed = (1.0 - label_smoothing) * nll + label_smoothing * (log_total - np.float64(plain) / row.size)
    if want_gradient:
        factor = number(gradient_scale / total)
        shift = number(gradient_scale * label_smoothing / row.size)
        for i in range(row.size):
            row[i] = row[i] * factor - shift
        row[target] -= number(gradient_scale * (1.0 - label_smoothing))
    return nll, smoothed, correct
