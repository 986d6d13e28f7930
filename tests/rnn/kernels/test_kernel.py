"""What is compiled for a kernel and how often, what its arguments may be, and the language of generated loops."""

import math
import struct

import numpy as np
import pytest
from numba.core import event
from numba.core.errors import NumbaRuntimeError, TypingError

from docs.show.report import Report
from nmt.rnn import AttentionCell, LayerNormLSTMCell, LSTMCell
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.trace import trace
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.loops import loop_code
from nmt.rnn.kernels.loops.emit_cpu import emit
from nmt.rnn.kernels.loops.loop_code import module_of
from nmt.rnn.kernels.machine_code import recipes
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel, numba_types
from nmt.rnn.kernels.machine_code.native import address_of
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.memory.compiling import compile_native, dispatcher
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.search import best_tokens as search
from nmt.rnn.kernels.search import candidates
from nmt.rnn.kernels.threads.pool import run_parallel
from nmt.rnn.scan import scan_setup as engine
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import scan_cases as cases
from tests.rnn.kernels.company import assembly_of


@kernel
def _write(x, number, out):
    out[0] = x[x.shape[0] - 1] + number


@kernel
def _parts(part, parts, flag, x, out):
    out[part] = x[part] if flag else parts


def written(x, number):
    _write(x, number, out := np.zeros(1))
    return out[0]


@pytest.mark.parametrize(
    "number", [2, True, 2.5, np.float32(2.5), np.float64(2.5), np.int32(-3), np.int64(-3), np.uint64(3), np.bool_(True)]
)
def test_numbers_of_python_and_numpy_are_themselves(number):
    for dtype in ("f4", "f8", "i4", "i8"):
        assert written(np.array([7, 5], dtype), number) == 5 + number


def test_an_array_may_be_read_only_and_empty():
    x = np.array([7, 5], "f4")
    x.setflags(write=False)
    assert written(x, 1) == 6
    _parts(0, 3, False, np.empty(0, "f4"), out := np.zeros(3))
    assert out.tolist() == [3, 0, 0]


@pytest.mark.parametrize("x", [np.ones((3, 2), "f4")[:, 0], np.ones((3, 2), "f4").T[0], np.ones(4, "f4")[::-1]])
def test_an_array_that_is_not_contiguous_is_refused(x):
    refused(RuntimeError, "contiguous arrays", written, x, 1)


@pytest.mark.parametrize("x", [np.ones(2, "f4"), np.ones(2, "i8")])
@pytest.mark.parametrize("call_before", [True, False])
def test_another_order_of_bytes_is_refused_and_does_no_harm(x, call_before):
    """Both before and after the kernel was compiled for this machine's order."""

    @kernel
    def write(x, out):
        out[0] = x[1]

    out = np.zeros(1)
    if call_before:
        write(x, out)
    refused(TypeError, "byte order", write, x.astype(x.dtype.newbyteorder()), out)
    out[0] = 0
    write(x, out)
    assert out[0] == 1


@pytest.mark.parametrize("number", [np.float16(1), np.int8(1), np.array(1.0), "1", None, [1]])
def test_what_has_no_place_in_a_table_is_refused(number):
    """The address of a number of NumPy's is that of a copy, which is gone when compiled code reads it."""
    refused(TypeError, "_write: takes arrays", written, np.ones(2, "f4"), number)


def test_a_number_that_is_too_large_is_refused():
    refused(struct.error, "out of range", written, np.ones(2, "f4"), 1 << 64)


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_parts_of_a_kernel_are_all_run(parts):
    out = np.zeros(4)
    run_parallel(_parts, parts, True, np.arange(1.0, 5), out)
    assert out.tolist() == [n + 1 if n < max(1, parts) else 0 for n in range(4)]


I8, VECTOR, MATRIX = "int64", "float32 1", "float32 2"


class Compiled(event.Listener):
    """Modules of the functions that are compiled."""

    def __init__(self):
        self.modules = []

    def on_start(self, one):
        self.modules.append(one.data["dispatcher"].py_func.__module__)

    def on_end(self, one):
        pass


@pytest.mark.parametrize(
    ("compiled", "types"),
    [
        (packing.pack, (MATRIX, I8, I8, VECTOR)),
        (packing.pack_transposed, (MATRIX, I8, I8, VECTOR)),
        (packing.pack_bf16, (MATRIX, I8, I8, "uint32 1")),
        (packing.pack_int8, ("int8 2", VECTOR, I8, I8, "int32 1")),
        (search.store_chunks, (MATRIX, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)),
        (candidates._store_logits, (MATRIX, VECTOR, I8, MATRIX)),
    ],
    ids=lambda value: getattr(getattr(value, "function", None), "__name__", ""),
)
def test_no_text_of_error_messages_is_compiled(compiled, types):
    """Numba writes one wherever it cannot prove that the shapes of two arrays are equal: seconds of unicode."""
    assert compiled.native(types).address  # what it calls has its symbol then; LLVM aborts where one is missing
    anew = dispatcher(compiled.function, compiled.fastmath)
    arrays = [numba_types.Array(getattr(numba_types, kind[:-2]), int(kind[-1]), "C") for kind in types if " " in kind]
    given = [arrays.pop(0) if " " in kind else numba_types.int64 for kind in types]
    with event.install_listener("numba:compile", listener := Compiled()):
        anew.compile((numba_types.int64, numba_types.int64, *given))
    assert listener.modules
    assert not [name for name in listener.modules if "unicode" in name]


def test_text_is_refused():
    """It takes objects, whose references nobody counts here."""

    @kernel
    def assign(target, source, n):
        target[:n] = source[n:]

    with pytest.raises(NumbaRuntimeError, match="NRT required but not enabled"):
        compile_native(assign.native((VECTOR, VECTOR, I8)))


def test_what_takes_memory_of_python_is_refused():
    """Arrays that nobody would give back; see arrays.py for those of compiled code."""

    @kernel
    def take(target):
        target[0] = np.zeros(3, np.float32)[1]

    with pytest.raises(TypingError, match="Only accept returning of array passed into the function"):
        compile_native(take.native((VECTOR,)))


def test_a_kernel_is_not_compiled_once_more_for_each_number():
    @inner_kernel
    def twice(x, n):
        return x * n

    @kernel
    def caller(x, n, out):
        out[0] = twice(x, 2) + twice(x, 3) + twice(x, n)

    caller(np.float32(1), 4, out := np.zeros(1, np.float32))
    assert out[0] == 9
    # One that was compiled for a number as well would be found by this.
    compile_native(caller.native(("float32", "int64", VECTOR)))
    assert len(twice.numba.signatures) == 1


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
    line = "y[i] = x[i] * 2.0 + inf * ZERO if x[i] > 100.0 else x[i] - x[i]"
    run(f"    for i in range(n):\n        {line}\n", "float32", given)
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


def test_a_decoder_of_normalised_cells_can_be_trained():
    """It uses more arrays in one function than there are scopes, which was an error."""
    cell = AttentionCell(LayerNormLSTMCell(5 + 11, 7), 6, 11)
    plan = make_plan(trace(cell, training=True), training=True)
    cpu().executable(plan, np.dtype("float32"), np.dtype("float32"))


@pytest.mark.parametrize("scopes", [1, 4])
def test_arrays_that_share_a_scope_give_the_same_numbers(scopes, monkeypatch):
    case = cases.draw(cases.CELLS["gru"](), "float64", cases.LENGTHS["mixed"])
    expected = cases.compiled(case)
    engine.compile_step.cache_clear()
    recipes.generated_loop.cache_clear()
    # Machine code is named by its source, which is the same: it would not be compiled again.
    monkeypatch.setattr(recipes.GeneratedLoop, "_types", property(lambda loop: f"{scopes} scopes"))
    monkeypatch.setattr(loop_code, "MAX_SCOPES", scopes)
    found = cases.compiled(case, threads=2, division="units")
    engine.compile_step.cache_clear()
    recipes.generated_loop.cache_clear()
    compare.assert_all_close(found[0] | found[1], expected[0] | expected[1], 1e-12)
