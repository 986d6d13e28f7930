"""PTX instructions for which Numba has no function, by inline assembly, which is used only here.

They are described in the PTX manual (Parallel Thread Execution ISA, version 9.0) under the instruction's name. Values
that kernels exchange as bits are uint32.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.cuda.extending import intrinsic

from nmt.rnn.kernels.machine_code.jit import with_arity

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_KINDS = {"f": (types.float32, _F32), "r": (types.uint32, _I32)}


def _instruction(name: str, text: str, results: str, operands: str, *, on_memory: bool = False) -> Any:
    """Return an instruction; one letter per value, f float32, r uint32. on_memory: before its operands it takes an
    address in global memory, given as array and index; it is neither dropped nor moved past a barrier."""
    kinds = [_KINDS[letter][0] for letter in operands]
    result = _KINDS[results[0]][0] if results else types.void
    returned = types.UniTuple(result, len(results)) if len(results) > 1 else result
    inputs = ["l", *operands, "~{memory}"] if on_memory else list(operands)
    constraints = ",".join(["=" + letter for letter in results] + inputs)

    def typed(typing_context: Any, *given: Any) -> tuple[Any, Callable[..., Any]]:
        place = given[: 2 * on_memory]

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            address = [_address(context, builder, place, args[:2])] if on_memory else []
            values = [_KINDS[letter][1] for letter in results]
            kind = ir.LiteralStructType(values) if len(values) > 1 else values[0] if values else ir.VoidType()
            function = ir.FunctionType(kind, [_I64] * on_memory + [_KINDS[letter][1] for letter in operands])
            asm = ir.InlineAsm(function, text, constraints, side_effect=on_memory)
            made = builder.call(asm, [*address, *args[len(place) :]])
            if not values:
                return context.get_dummy_value()
            return made if len(values) == 1 else _as_array(builder, made, values)

        return returned(*place, *kinds), codegen

    return intrinsic(with_arity(typed, 2 * on_memory + len(operands), name))


def _address(context: Any, builder: ir.IRBuilder, kinds: Any, args: Any) -> ir.Value:
    array = context.make_array(kinds[0])(context, builder, args[0])
    index = context.cast(builder, args[1], kinds[1], types.intp)
    return builder.ptrtoint(builder.gep(array.data, [index]), _I64)


def _as_array(builder: ir.IRBuilder, struct: ir.Value, values: list[ir.Type]) -> ir.Value:
    """Return the results of an instruction in the form that Numba uses for a tuple of equal types."""
    made = ir.Constant(ir.ArrayType(values[0], len(values)), ir.Undefined)
    for i in range(len(values)):
        made = builder.insert_value(made, builder.extract_value(struct, i), i)
    return made


# D [16, 8] = A [16, 16] @ B [16, 8] + C, by the 32 threads of a warp: four words of bfloat16 pairs of A, two of B, four
# sums of C. With g = lane // 4, t = lane % 4 a thread holds A[g, 2t], A[g+8, 2t], A[g, 2t+8], A[g+8, 2t+8] and the
# number after each, B[2t, g] and B[2t+8, g] and those below, C[g, 2t], C[g, 2t+1], C[g+8, 2t], C[g+8, 2t+1].
mma_bfloat16 = _instruction(
    "mma_bfloat16",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};",
    "ffff",
    "rrrrrrffff",
)
# The same with A [16, 8] and B [8, 8] of float32 numbers whose 13 lowest bits are not read: A[g, t], A[g+8, t],
# A[g, t+4], A[g+8, t+4]; B[t, g], B[t+4, g].
mma_tf32 = _instruction(
    "mma_tf32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};",
    "ffff",
    "rrrrrrffff",
)
# (low, high) -> two bfloat16 numbers in one word, rounded to the nearest, ties to even.
pack_bfloat16 = _instruction("pack_bfloat16", "cvt.rn.bf16x2.f32 $0, $2, $1;", "r", "ff")
# The nearest bfloat16 in the lower half of a word, and back.
to_bfloat16 = _instruction("to_bfloat16", "{ .reg .b16 x; cvt.rn.bf16.f32 x, $1; cvt.u32.u16 $0, x; }", "r", "f")
from_bfloat16 = _instruction("from_bfloat16", "shl.b32 $0, $1, 16;", "f", "r")
as_bits = _instruction("as_bits", "mov.b32 $0, $1;", "r", "f")
as_float = _instruction("as_float", "mov.b32 $0, $1;", "f", "r")
# array, index -> four words from a multiple of 16 bytes on, from the cache that all multiprocessors share.
load4 = _instruction("load4", "ld.global.cg.v4.u32 {$0,$1,$2,$3}, [$4];", "rrrr", "", on_memory=True)
# array, index -> a word; everything its writer wrote before releasing it is visible afterwards.
load_acquire = _instruction("load_acquire", "ld.acquire.gpu.global.u32 $0, [$1];", "r", "", on_memory=True)
# array, index, word: add it, after everything that the block wrote before its last barrier.
add_release = _instruction("add_release", "red.release.gpu.global.add.u32 [$0], $1;", "", "r", on_memory=True)
