"""The language of generated loops: what LLVM makes of it is what Python makes of the same text."""

import math

import numpy as np
import pytest

from docs.show.report import Report
from nmt.rnn import LSTMCell
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.kernels.loops.emit_cpu import emit
from nmt.rnn.kernels.loops.loop_code import module_of
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.native import address_of
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from tests.rnn.kernels.assembly import assembly_of

HEAD = "F = {}\n\n\ndef function(\n    part, parts, table,\n    n, m, whole: int64, x: F, y: F,\n):\n"
CASES = {
    "integers": """
    for i in range(n):
        whole[i] = i * 3 - (i + 7) // 2 + i % 5 + min(i, m) - max(i, m)
""",
    "tests": """
    for i in range(2, n):
        if whole[i] <= m:
            continue
        if i == 5:
            whole[i] = 100
        kind = 1 if i != 7 else 2
        whole[i] = whole[i] + (kind if part else 50 * kind)
""",
    "loops in loops": """
    for i in range(n):
        total = ZERO
        for j in range(i, n):
            if j > m:
                continue
            total += x[j]
        y[i] = total
        total = ONE
        y[i] = y[i] + total
""",
    "sums in turn": """
    for i in range(n):
        total = ZERO
        for j in range(i):
            total = in_turn(total, x[j] * y[j])
        y[i] = total + ONE
""",
    "numbers": """
    for i in range(n):
        y[i] = -x[i] / (x[i] * x[i] + 0.5) - (ONE if x[i] > ZERO else 2.5) + min(x[i], 0.25) + max(x[i], LOWEST)
""",
    "memory": """
    kept = scratch(n * 2, F)
    for i in range(n):
        kept[n + i] = x[i] * 2.0
    for i in range(n):
        y[i] = kept[n + n - 1 - i]
    release(kept)
""",
}
DTYPES = ("float32", "float64")


def arguments(dtype):
    rng = np.random.default_rng(3)
    n = 11
    return [n, 6, np.arange(n), rng.normal(size=n).astype(dtype), np.zeros(n, dtype)]


def run(body, dtype, given, part=0):
    """The machine code of a loop with these arguments."""
    table = np.array([*(0,) * COUNTER_WORDS, *(address_of(v) if isinstance(v, np.ndarray) else v for v in given)])
    generated_loop(HEAD.format(dtype) + body, "function").call(part, 1, address_of(table))


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_a_loop_means_what_its_python_means(body, dtype, part):
    kind = np.dtype(dtype).type
    names = {"F": kind, "ZERO": kind(0), "ONE": kind(1), "LOWEST": kind(-np.inf), dtype: kind, "int64": np.int64}
    exec(HEAD.format(dtype) + body, names | {"scratch": np.empty, "release": id, "in_turn": np.add}, python := {})  # noqa: S102
    expected, found = arguments(dtype), arguments(dtype)
    function = python["function"]
    function.__globals__["F"] = kind
    function(part, 1, None, *expected)
    run(body, dtype, found, part)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sum_in_turn_has_its_order(dtype):
    x = np.random.default_rng(5).normal(size=999).astype(dtype)
    y = np.zeros(2, dtype)
    body = "".join(
        f"    sum{n} = ZERO\n    for i in range(n):\n        {line}\n    y[{n}] = sum{n}\n"
        for n, line in enumerate(("sum0 = in_turn(sum0, x[i])", "sum1 += x[i]"))
    )
    run(body, dtype, [x.size, 0, np.zeros(1, np.int64), x, y])
    expected = np.add.accumulate(x)[-1]
    assert y[0] == expected
    assert y[1] != expected  # whose order is free: else this test would see no difference


def test_infinities_and_nan_keep_their_meaning():
    given = arguments("float32")
    given[3][:3] = np.inf, -np.inf, np.nan
    run(
        "    for i in range(n):\n        y[i] = x[i] * 2.0 + inf * ZERO if x[i] > 100.0 else x[i] - x[i]\n",
        "float32",
        given,
    )
    assert np.isnan(given[4][:3]).all()
    assert not given[4][3:].any()


@pytest.mark.parametrize(
    "line",
    [
        "while n > 0:\n        n = n - 1",
        "x[0] += ONE",
        "print(n)",
        "y = [1]",
        "y[0] = x[0] if n > 0 and m > 0 else ZERO",
        "for i in x:\n        y[i] = ZERO",
        "if n:\n        y[0] = ONE\n    else:\n        y[0] = ZERO",
        "y[0] = n / m",
        "for i in range(n):\n        continue\n        y[i] = ONE",
        "y[0] = x",
        "y[0] = n",
        "y[0] = unknown",
        "return n",
    ],
)
def test_what_is_not_in_the_language_is_refused(line):
    with pytest.raises((SyntaxError, TypeError, KeyError)):
        module_of(HEAD.format("float32") + "    " + line + "\n", "entry")


@pytest.mark.skipif(TARGET.lanes not in (8, 16), reason="knows the register names of x86 only")
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_row_work_is_vector_code(name):
    """Sixteen arrays that might lie anywhere: without the scopes LLVM would take one number at a time."""
    report = Report(LSTMCell(3, 4))
    steps = emit(getattr(report.plan, name), report.dtype, name, report.packed).steps
    (loop,) = (step for phase, step in steps if phase is Phase.LOOP)
    code = assembly_of(generated_loop(loop.source, loop.name))
    packed = [line for line in code.splitlines() if {8: "ymm", 16: "zmm"}[TARGET.lanes] in line]
    assert any("vmulps" in line for line in packed)
    assert any("vdivps" in line for line in packed) == (name == "forward")


def test_numbers_are_rounded_once():
    """A number of the cell's is written with all its digits, and is the nearest of the loop's type."""
    given = arguments("float32")
    run("    for i in range(n):\n        y[i] = 0.1\n", "float32", given)
    assert (given[4] == np.float32(0.1)).all()
    assert math.isclose(float(given[4][0]), 0.1, rel_tol=1e-7)
