"""The machine of `tests/ptx` on PTX written by hand: what it computes, and each kind of mistake that it must report."""

import itertools
import re

import numpy as np
import pytest

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from tests.ptx import machine
from tests.ptx.program import PtxError, read_program

pytestmark = pytest.mark.skipif(machine.compiler() is None, reason="the machine needs a C++ compiler: g++ or clang++")

TEXT = """
.visible .shared .align 4 .b8 box[256];
.visible .entry made(
    .param .u64 made_param_0,
    .param .u64 made_param_1
)
.maxntid {threads}, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b32 %r<40>;
    .reg .f32 %f<40>;
    .reg .b64 %rd<20>;

    ld.param.u64 %rd1, [made_param_0];
    ld.param.u64 %rd2, [made_param_1];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.s32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    shl.b32 %r5, %r1, 2;
    mov.u32 %r6, box;
    add.s32 %r7, %r6, %r5;
    xor.b32 %r8, %r5, 4;
    add.s32 %r9, %r6, %r8;
    setp.eq.s32 %p1, %r1, 0;
    setp.eq.s32 %p2, %r2, 0;
    setp.lt.s32 %p3, %r1, 32;
{body}
    ret;
}}
"""
COPY = "ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5], %f1;"


def run(body, x, y, *, blocks=1, threads=64, seeds=range(6), cooperative=True):
    """Run in several orders of threads."""
    code = machine.Code(read_program(TEXT.format(body=body.replace(";", ";\n    "), threads=threads)))
    kernel = GPUKernel(lambda: None, (), threads, cooperative=cooperative)
    given = np.array([x.ctypes.data, y.ctypes.data], np.uint64).tobytes()
    before = x.copy(), y.copy()
    for array in (x, y):
        machine.add_memory(array.ctypes.data, array.nbytes)
    try:
        for seed in seeds:
            x[...], y[...] = before
            code.run(kernel, (blocks, 1, 1), given, [(array.ctypes.data, array) for array in (x, y)], seed)
    finally:
        for array in (x, y):
            machine.remove_memory(array.ctypes.data)


def reported(body, what, *, blocks=2, seeds=range(6), x=None, y=None):
    """It is reported in each order of threads by itself."""
    for seed in seeds:
        with pytest.raises(PtxError, match=what):
            run(body, *(np.ones(128, np.float32) if a is None else a for a in (x, y)), blocks=blocks, seeds=[seed])


def test_copies():
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(COPY, x, y, blocks=2, cooperative=False)
    np.testing.assert_array_equal(x, y)


def test_memory_of_a_gpu_that_is_gone_does_not_bound_a_new_array():
    """Nobody said that the arrays of the first launch are free: a smaller one where the new one begins, one within."""
    memory = np.ones((3, 1 << 20), np.float32)
    for old in (memory[0, :16], memory[0, 64:80]):
        machine.add_memory(old.ctypes.data, old.nbytes)
        machine.Code(read_program(TEXT.format(body="ld.global.f32 %f1, [%rd4];", threads=16))).run(
            GPUKernel(lambda: None, (), 16), (1, 1, 1), np.array([old.ctypes.data, 0], np.uint64).tobytes(),
            [(old.ctypes.data, old)], 1,
        )  # fmt: skip
    run(COPY, memory[0], memory[1], blocks=1 << 14, threads=64, seeds=[1], cooperative=False)


def test_accesses_beyond_an_array():
    reported("ld.global.f32 %f1, [%rd4+4]; st.global.f32 [%rd5], %f1;", "reads outside of every array: ld.global")
    reported("ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5+4], %f1;", "writes outside of every array: st.global")
    reported("ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5+-4], %f1;", "writes outside of every array|a race")
    reported("ld.global.f32 %f1, [%rd4+2];", "not a multiple of 4")
    reported("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd4];", "not a multiple of 16|outside of every array")
    reported("st.shared.f32 [%r7+4], %f1;" * 2 + "st.shared.f32 [%r6+256], %f1;", "outside of the block's shared")


def test_shared_memory():
    exchange = (
        "ld.global.f32 %f1, [%rd4]; st.shared.f32 [%r7], %f1; {} ld.shared.f32 %f2, [%r9]; {} st.shared.f32 [%r7], %f2;"
    )
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    run(exchange.format("bar.sync 0;", "bar.sync 0;"), x, y)
    run(exchange.format("bar.warp.sync -1;", "bar.warp.sync -1;"), x, y)  # neighbours are in one warp
    reported(exchange.format("", "bar.sync 0;"), "a race: |nobody wrote")
    reported(exchange.format("bar.sync 0;", ""), "a race: ")
    reported("ld.shared.f32 %f1, [%r7];", "shared memory that nobody wrote")


def test_barriers_that_some_threads_never_reach():
    reported("@%p1 bra $L_END; bar.sync 0; $L_END:", "which have ended never reach|waits for threads")
    reported("@%p3 bra $L_END; bar.sync 0; $L_END: bar.sync 0;", "never reach|waits for threads")
    # Threads of one warp at two barriers, which hardware may take for one.
    reported("@%p1 bra $L_ONE; bar.sync 0; bra.uni $L_END; $L_ONE: bar.sync 0; $L_END:", "wait at different barriers")
    reported("@%p1 ret; bar.warp.sync -1;", "operation of a warp that (is not whole|a thread which has ended)")


MESSAGE = (
    "@%p2 bra $L_WAIT; ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd4], %f1; {barrier} @!%p1 ret; "
    "mov.u32 %r20, 1; {add} [%rd2], %r20; ret;"
    "$L_WAIT: {load} %r21, [%rd2]; setp.eq.s32 %p5, %r21, 0; @%p5 bra $L_WAIT; ld.global.f32 %f3, [%rd4+256];"
)
RIGHT = {"barrier": "bar.sync 0;", "add": "red.release.gpu.global.add.u32", "load": "ld.acquire.gpu.global.u32"}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({}, None),
        (
            {"add": "red.relaxed.gpu.global.add.u32"},
            "a race: (reads what another thread writes: ld|writes what another thread reads: st).global.f32",
        ),
        (
            {"load": "ld.relaxed.gpu.global.u32"},
            "a race: (reads what another thread writes: ld|writes what another thread reads: st).global.f32",
        ),
        ({"load": "ld.global.u32"}, "a race: "),
        (
            {"barrier": ""},
            "a race: (reads what another thread writes: ld|writes what another thread reads: st).global.f32",
        ),
    ],
    ids=lambda one: " ".join(one.values()) or "as it should be" if isinstance(one, dict) else "",
)
def test_one_block_waits_for_another(changed, what):
    """The second block writes, has a barrier, and releases; the threads of the first acquire and read."""
    body = MESSAGE.format(**RIGHT | changed)
    x, y = np.ones(128, np.float32), np.zeros(1, np.uint32)
    if what is None:
        run(body, x, y, blocks=2)
    else:
        reported(body, what, x=x, y=y)


def test_a_word_that_nobody_writes():
    wait = "$L_WAIT: ld.acquire.gpu.global.u32 %r21, [%rd2]; setp.eq.s32 %p5, %r21, 0; @%p5 bra $L_WAIT;"
    reported(wait, "hangs: waits for a word that nobody writes: ld.acquire", y=np.zeros(1, np.uint32))


def test_races_in_memory_of_the_gpu():
    first = "ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd2], %f1;"
    reported(first, "a race: writes where another", x=np.arange(128, dtype=np.float32))
    run(first, np.ones(128, np.float32), np.ones(1, np.float32), blocks=2)  # all write the same value
    reported("mov.f32 %f1, 0f3F800000; ld.global.f32 %f2, [%rd1+4]; st.global.f32 [%rd4], %f1;", "a race: ")
    x, y = np.ones(128, np.float32), np.zeros(1, np.uint32)
    run("mov.u32 %r20, 1; atom.global.add.u32 %r21, [%rd2], %r20;", x, y, blocks=2, seeds=[3])
    assert y[0] == 128


def test_what_is_not_simulated_is_named():
    with pytest.raises(PtxError, match=r"not simulated: vset4.u32 %r1, %r2"):
        run("vset4.u32 %r1, %r2, %r3;", np.ones(64, np.float32), np.ones(64, np.float32))


def test_tensor_cores_multiply_as_their_manual_says():
    """Lane 4g + t holds row g of A, column g of B, two columns 2t of C: 16 x 8 of C from 16 x 16 and 16 x 8 bfloat16
    numbers, whole ones here, so that any order of the sums gives the same."""
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-4, 5, size).astype(np.float32) for size in ((16, 16), (16, 8)))

    def pair(low, high):
        return int(low.view(np.uint32)) >> 16 | int(high.view(np.uint32)) & 0xFFFF0000

    words, wanted = np.zeros((32, 6), np.uint32), np.zeros((32, 4), np.float32)
    for g, t in itertools.product(range(8), range(4)):
        rows, inner = (g, g + 8, g, g + 8), (2 * t, 2 * t, 2 * t + 8, 2 * t + 8)
        words[4 * g + t, :4] = [pair(A[r, k], A[r, k + 1]) for r, k in zip(rows, inner, strict=True)]
        words[4 * g + t, 4:] = [pair(B[k, g], B[k + 1, g]) for k in (2 * t, 2 * t + 8)]
        wanted[4 * g + t] = [(A @ B)[r, 2 * t + n] for r in (g, g + 8) for n in range(2)]
    loads = "".join(f"ld.global.u32 %r{20 + k}, [%rd7+{4 * k}];" for k in range(6))
    stores = "".join(f"st.global.f32 [%rd8+{4 * k}], %f{10 + k};" for k in range(4))
    body = (
        "mul.wide.s32 %rd6, %r1, 24; add.s64 %rd7, %rd1, %rd6; mul.wide.s32 %rd6, %r1, 16; add.s64 %rd8, %rd2, %rd6;"
        f"{loads} mov.f32 %f9, 0f00000000; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        f"{{%f10,%f11,%f12,%f13}}, {{%r20,%r21,%r22,%r23}}, {{%r24,%r25}}, {{%f9,%f9,%f9,%f9}}; {stores}"
    )
    found = np.zeros((32, 4), np.float32)
    run(body, words, found, threads=32)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(PtxError, match="not at the same instruction|not whole|never reaches|waits for threads"):
        run("@%p1 bra $L_END; " + re.sub(r"\bld", "ld", body) + " $L_END:", words, found, threads=32)
