"""Products of 8-bit integers: rows as quads, exact sums of their products, and scaling of the results.

A number is represented as q * scale with an integer q from -127 to 127. A weight matrix has one scale for each output
channel; a row to be multiplied gets its own scale, computed at that time from its largest magnitude. So a row's bits do
not depend on its batch, no ranges have to be calibrated beforehand, and one pass over K numbers is cheap compared with
K * N multiply-adds. Sums of products of q are integers and exact in int32, in any order and on any processor: all
targets give the same bits. (Jacob et al. 2018, section 2, describe the arithmetic; Wu et al. 2016, section 6, its
effect on translation.)

A quad is four adjacent numbers along k as bytes of one int32, the first one lowest; the last quad is padded with zeros.
The bytes of a row contain q + OFFSET, because x86 multiplies unsigned by signed bytes; a product starts at minus OFFSET
times the sum of its column, which cancels the offset. The quads are followed by a tail of TAIL words: in a row its
scale and unused words, in a panel (see packing.py) a row of those start values, a row of scales, and a row that begins
with the distance in bytes to the same panel in 4 bits (see four_bits.py), an int64, 0 if there is none.

A row with an infinity or NaN gives NaN everywhere. A row whose largest magnitude is below 2**-119 counts as zero.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, external, holds, instruction
from nmt.rnn.kernels.memory.moves import advance, constant_of, splat, vector_of

TAIL = 3
OFFSET = 0 if TARGET.byte_sums == "sdot" else 128

_INT64, _INT32, _INT16, _INT8 = (ir.IntType(n) for n in (64, 32, 16, 8))
_FLOAT = ir.FloatType()
_POINTER, _SIZE = "voidptr", "int64"
# Adding this to a float leaves the rounded integer in the lowest bits, see parts.py.
_ROUND = 12582912.0
_MAGNITUDE, _INFINITY, _LEAST = 0x7FFFFFFF, 0x7F800000, 0x04000000


def quad_words(K: int) -> int:
    """Return the words in a row of K numbers, which are also the rows of words in a panel: quads and tail."""
    return (K + 3) // 4 + TAIL


holds_quads = holds("int32")


# ---------------------------------------------------------------- rows


def _each(b: ir.IRBuilder, count: ir.Value, body: Callable[[ir.Value, int], None]) -> None:
    """Write body(k, lanes) in a loop over whole vectors, then in one over the remaining numbers."""
    lanes = ir.Constant(_INT64, TARGET.lanes)
    vectors = b.mul(b.sdiv(count, lanes), lanes)
    for start, stop, step in ((ir.Constant(_INT64, 0), vectors, TARGET.lanes), (vectors, count, 1)):
        with cgutils.for_range_slice(b, start, stop, ir.Constant(_INT64, step)) as (k, _):
            body(k, step)


def _at(b: ir.IRBuilder, pointer: ir.Value, offset: ir.Value, kind: ir.Type) -> ir.Value:
    return b.bitcast(b.gep(pointer, [offset]), kind.as_pointer())


def _load(b: ir.IRBuilder, source: ir.Value, k: ir.Value, kind: ir.Type) -> ir.Value:
    value = b.load(_at(b, source, b.mul(k, ir.Constant(_INT64, 4)), kind))
    value.align = 4
    return value


def _largest(b: ir.IRBuilder, source: ir.Value, count: ir.Value) -> ir.Value:
    """Return the bits of the largest magnitude. The bits of floats without their sign are ordered like integers, with
    infinity and then NaN at the top."""
    best = {n: cgutils.alloca_once_value(b, constant_of(vector_of(_INT32, n), 0)) for n in {TARGET.lanes, 1}}

    def larger(x: ir.Value, y: ir.Value) -> ir.Value:
        return b.select(b.icmp_signed(">", x, y), x, y)

    def body(k: ir.Value, lanes: int) -> None:
        kind = vector_of(_INT32, lanes)
        bits = b.and_(_load(b, source, k, kind), constant_of(kind, _MAGNITUDE))
        b.store(larger(bits, b.load(best[lanes])), best[lanes])

    _each(b, count, body)
    vector = b.load(best[TARGET.lanes])
    name = f"llvm.vector.reduce.smax.v{TARGET.lanes}i32"
    reduce = cgutils.get_or_insert_function(b.module, ir.FunctionType(_INT32, [vector.type]), name)
    return larger(b.call(reduce, [vector]), b.load(best[1]))


@instruction("voidptr", "voidptr", "int64")
def _write_row(b: ir.IRBuilder, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
    """Round `count` numbers to bytes, and write the row's scale after the last quad."""
    bits = _largest(b, source, count)
    largest = b.bitcast(bits, _FLOAT)
    is_finite = b.icmp_signed("<", bits, ir.Constant(_INT32, _INFINITY))
    is_plain = b.and_(is_finite, b.icmp_signed(">=", bits, ir.Constant(_INT32, _LEAST)))
    steps = ir.Constant(_FLOAT, 127.0)
    scale = b.select(is_plain, b.fdiv(largest, steps), ir.Constant(_FLOAT, 0.0))
    scale = b.select(is_finite, scale, ir.Constant(_FLOAT, float("nan")))
    inverse = b.select(is_plain, b.fdiv(steps, largest), ir.Constant(_FLOAT, 0.0))
    # Initialize the last quad first: no byte after the end of the row may keep its old value.
    quads = b.sdiv(b.add(count, ir.Constant(_INT64, 3)), ir.Constant(_INT64, 4))
    last = b.mul(b.sub(quads, ir.Constant(_INT64, 1)), ir.Constant(_INT64, 4))
    zero = ir.Constant(_INT32, OFFSET * 0x01010101)
    b.store(zero, _at(b, target, last, _INT32)).align = 4

    def body(k: ir.Value, lanes: int) -> None:
        numbers = _load(b, source, k, vector_of(_FLOAT, lanes))
        # No fast-math flags, here and above: a fused multiply-add rounds once where other processors round twice.
        scaled = b.fmul(numbers, splat(b, inverse, lanes))
        rounded = b.fadd(scaled, constant_of(scaled.type, _ROUND + OFFSET))
        whole = b.trunc(b.bitcast(rounded, vector_of(_INT32, lanes)), vector_of(_INT8, lanes))
        b.store(whole, _at(b, target, k, whole.type)).align = 1

    _each(b, count, body)
    tail = b.mul(quads, ir.Constant(_INT64, 4))
    b.store(scale, _at(b, target, tail, _FLOAT)).align = 4
    for n in range(1, TAIL):
        unread = b.add(tail, ir.Constant(_INT64, 4 * n))
        b.store(ir.Constant(_INT32, 0), _at(b, target, unread, _INT32)).align = 4


def _to_quads(a, lda, M, K, out):  # type: ignore[no-untyped-def]
    words = (K + 3) // 4 + TAIL
    for m in range(M):
        _write_row(advance(out, m * words * 4), advance(a, m * lda * 4), K)


# to_quads(a, lda, M, K, out), in compiled code: round M rows of K float32 at address `a` to contiguous rows of
# quad_words(K) words at `out`.
to_quads = external(_to_quads, (_POINTER, _SIZE, _SIZE, _SIZE, _POINTER))


# ---------------------------------------------------------------- sums of products


class ByteSum(NamedTuple):
    """One step of adding four products per lane to the sums: the operands it takes from quads of rows and of weights,
    and how it adds their products."""

    of_rows: Callable[[ir.IRBuilder, ir.Value], ir.Value]
    of_weights: Callable[[ir.IRBuilder, ir.Value], ir.Value]
    add: Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


_WORDS = ir.VectorType(_INT32, TARGET.lanes)
_HALVES = ir.VectorType(_INT16, 2 * TARGET.lanes)
_QUARTERS = ir.VectorType(_INT8, 4 * TARGET.lanes)


def _same(b: ir.IRBuilder, words: ir.Value) -> ir.Value:
    return b.bitcast(words, _QUARTERS)


def _instruction(name: str) -> Any:
    """Return a function that adds the products of all four bytes by one instruction of the processor."""

    def add(b: ir.IRBuilder, sums: ir.Value, rows: ir.Value, weights: ir.Value) -> ir.Value:
        kind = ir.FunctionType(_WORDS, [_WORDS, _QUARTERS, _QUARTERS])
        return b.call(cgutils.get_or_insert_function(b.module, kind, name), [sums, rows, weights])

    return add


def _add_pairs(b: ir.IRBuilder, sums: ir.Value, rows: ir.Value, weights: ir.Value) -> ir.Value:
    """Return sums + the products of 16-bit pairs, whose sums cannot overflow; those of byte pairs in 16 bits could."""
    of_x86 = {16: "x86.avx512.pmaddw.d.512", 8: "x86.avx2.pmadd.wd", 4: "x86.sse2.pmadd.wd"}
    name = "wasm.dot" if TARGET.byte_sums == "dot" else of_x86[TARGET.lanes]
    kind = ir.FunctionType(_WORDS, [_HALVES, _HALVES])
    multiply = cgutils.get_or_insert_function(b.module, kind, f"llvm.{name}")
    return b.add(sums, b.call(multiply, [rows, weights]))


def _add_plain(b: ir.IRBuilder, sums: ir.Value, rows: ir.Value, weights: ir.Value) -> ir.Value:
    return b.add(sums, b.mul(rows, weights))


def _parts(kind: ir.Type, shift: int, add: Any) -> ByteSum:
    """Return the step that adds the products of the bytes at `shift` of every lane: unsigned ones of rows, signed ones
    of weights."""
    top = kind.element.width - 8

    def of_rows(b: ir.IRBuilder, words: ir.Value) -> ir.Value:
        return b.and_(b.lshr(b.bitcast(words, kind), constant_of(kind, shift)), constant_of(kind, 0xFF))

    def of_weights(b: ir.IRBuilder, words: ir.Value) -> ir.Value:
        return b.ashr(b.shl(b.bitcast(words, kind), constant_of(kind, top - shift)), constant_of(kind, top))

    return ByteSum(of_rows, of_weights, add)


def byte_sums() -> list[ByteSum]:
    """Return the steps for this target, in order."""
    if TARGET.byte_sums == "vnni":
        bits = 32 * TARGET.lanes
        return [ByteSum(_same, _same, _instruction(f"llvm.x86.avx512.vpdpbusd.{bits}"))]
    if TARGET.byte_sums == "sdot":
        return [ByteSum(_same, _same, _instruction("llvm.aarch64.neon.sdot.v4i32.v16i8"))]
    if TARGET.byte_sums in ("pairs", "dot"):
        return [_parts(_HALVES, n, _add_pairs) for n in (0, 8)]
    return [_parts(_WORDS, n, _add_plain) for n in (0, 8, 16, 24)]
