"""Copies of rows and columns, shared by threads; NumPy would use only one.

Every function does one thread's share on contiguous arrays: see pool.run_parallel.
"""

from nmt.rnn.kernels.machine_code.jit import kernel


@kernel
def take_rows(part, parts, array, index, out):  # type: ignore[no-untyped-def]
    """Set out[o, r] = array[o, index[r]], or zero if the index is negative; array [outer, before, n], index int64
    [rows], out [outer, rows, n]."""
    outer, rows, _ = out.shape
    for i in range(outer * rows * part // parts, outer * rows * (part + 1) // parts):
        o = i // rows
        r = i - o * rows
        target = out[o, r]
        if index[r] < 0:
            target[:] = 0
        else:
            source = array[o, index[r]]
            for j in range(target.size):
                target[j] = source[j]


@kernel
def copy_columns(part, parts, array, first, out, into, width):  # type: ignore[no-untyped-def]
    """Set out[r, into : into + width] = array[r, first : first + width]; array [rows, n], out [rows, m]."""
    rows = out.shape[0]
    for r in range(rows * part // parts, rows * (part + 1) // parts):
        source, target = array[r, first : first + width], out[r, into : into + width]
        for j in range(width):
            target[j] = source[j]


@kernel
def add(part, parts, total, other):  # type: ignore[no-untyped-def]
    """Add `other` to `total`; both are flat."""
    size = total.size
    for i in range(size * part // parts, size * (part + 1) // parts):
        total[i] += other[i]


@kernel
def begin_stack(part, parts, stack, first, ends, start, is_given):  # type: ignore[no-untyped-def]
    """Zero slots ends[b] and later of each row of stack [slots, B, n], then set slot first[b] to start[b], or zero."""
    slots, B, n = stack.shape
    for b in range(B * part // parts, B * (part + 1) // parts):
        for t in range(ends[b], slots):
            stack[t, b, :] = 0
        target, source = stack[first[b], b], start[b]
        for j in range(n):
            target[j] = source[j] if is_given else 0


@kernel
def fill_slots(part, parts, slots, start, is_given):  # type: ignore[no-untyped-def]
    """Set every slot of [slots, B, n] to start [B, n], or zero."""
    count, B, n = slots.shape
    for b in range(B * part // parts, B * (part + 1) // parts):
        for t in range(count):
            target, source = slots[t, b], start[b]
            for j in range(n):
                target[j] = source[j] if is_given else 0


@kernel
def clear_all(part, parts, array):  # type: ignore[no-untyped-def]
    """Zero an array [n]."""
    array[array.size * part // parts : array.size * (part + 1) // parts] = 0
