"""The inner loop of every product, as vector instructions: a register tile of C += A @ panel.

    C[rows, P] (+)= A[rows, K] @ panel[K, P]        P = TARGET.panel_width(dtype)

Every element of the product is one chain of multiply-adds in the order of k, whatever the height of the tile, and is
added to C at the end: results do not depend on how rows are grouped. For bfloat16, A and the panel contain pairs along
k (see bfloat16.py), and K counts pairs. For int8 they contain quads and a tail (see int8.py), K counts both, and the
chain is an integer. The idea of panels and register tiles is from Goto and van de Geijn, Anatomy of High-Performance
Matrix Multiplication (2008).

Products of rows with a packed matrix on one thread, in compiled code: with register tiles, or with the tiles of AMX.

    product_rows(a, lda, b, c, ldc, M, N, K, accumulate)

computes C[M, N] (+)= A[M, K] @ B; a and c are addresses with row strides in elements, b is the address of the packed
matrix (see packing.py), accumulate is 0 or 1.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, external, inner_kernel, instruction
from nmt.rnn.kernels.memory.moves import advance, prefetch, splat
from nmt.rnn.kernels.products import bfloat16
from nmt.rnn.kernels.products.bfloat16 import add_products
from nmt.rnn.kernels.products.four_bits import BLOCK_QUADS, BLOCK_ROWS, MOST_ROWS
from nmt.rnn.kernels.products.int8 import TAIL, byte_sums

_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
_POINTER, _SIZE = "voidptr", "int64"
# C, its row stride; A, its row stride, its stride along k (all strides in elements); panel; K, columns, accumulate.
_TILE_TYPE = ir.FunctionType(ir.VoidType(), [_BYTES, _INT64, _BYTES, _INT64, _INT64, _BYTES, _INT64, _INT64, _INT64])
_TILE_ARGUMENTS = (_POINTER, _SIZE, _POINTER, _SIZE, _SIZE, _POINTER, _SIZE, _SIZE, _SIZE, _SIZE)


class _Tile:
    """Write one LLVM function: the tile of a given height for float32 or float64."""

    def __init__(self, function: ir.Function, rows: int, double: bool) -> None:
        self.rows, self.vectors = rows, TARGET.vectors
        self.element = ir.DoubleType() if double else ir.FloatType()
        self.bytes = 8 if double else 4
        self.lanes = TARGET.lanes // 2 if double else TARGET.lanes
        self.vector = ir.VectorType(self.element, self.lanes)
        self.function = function
        self.c, self.ldc, self.a, self.row_stride, self.k_stride = function.args[:5]
        self.panel, self.k, self.columns, self.accumulate = function.args[5:]
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        # Accumulators start as stack memory; LLVM turns them into registers, as it does for any local
        # variable.
        self.sums = [[self.b.alloca(self.vector) for _ in range(self.vectors)] for _ in range(rows)]

    def number(self, value: int) -> ir.Constant:
        return ir.Constant(_INT64, value)

    def emit(self) -> None:
        b = self.b
        size = self.number(self.bytes)
        c_bytes = b.mul(self.ldc, size)
        self.c_rows = [b.gep(self.c, [b.mul(c_bytes, self.number(i))]) for i in range(self.rows)]
        self.start_sums()
        full = b.icmp_signed("==", self.columns, self.number(self.lanes * self.vectors))
        # C is needed only after the sums: prefetched now, it will have arrived by then.
        self.each(lambda slot, at, j: prefetch(b, at))
        offsets = self.row_offsets()
        self.loop(offsets)
        self.finish_sums(offsets)
        with b.if_then(b.icmp_signed("!=", self.accumulate, self.number(0))):
            with b.if_else(full) as (then, otherwise):
                with then:
                    self.each(lambda slot, at, j: self.add(slot, self.load(at)))
                with otherwise:
                    self.each(lambda slot, at, j: self.add(slot, self.masked_load(at, j)))
        with b.if_else(full) as (then, otherwise):
            with then:
                self.each(lambda slot, at, j: self.store(b.load(slot), at))
            with otherwise:
                self.each(lambda slot, at, j: self.masked_store(b.load(slot), at, j))
        b.ret_void()

    def start_sums(self) -> None:
        for row in self.sums:
            for slot in row:
                self.b.store(ir.Constant(self.vector, None), slot)

    def finish_sums(self, row_offsets: list[ir.Value]) -> None:
        """Convert the sums to the numbers that are added to C; here they already are."""

    def row_offsets(self) -> list[ir.Value]:
        """Return the byte offset of each row from the first row of A, as an odd multiple of the stride times 1, 2, 4 or
        8. An address can scale by these factors, so that five registers address ten rows. An empty assembly statement
        hides that the multiples are related: otherwise LLVM would step from row to row by a chain of additions, which
        takes as long as the multiply-adds."""
        b = self.b
        stride = b.mul(self.row_stride, self.number(self.bytes))
        hide = ir.FunctionType(_INT64, [_INT64])
        odd: dict[int, ir.Value] = {}
        offsets = [self.number(0)]
        for i in range(1, self.rows):
            power = i & -i
            if i // power not in odd:
                multiple = b.mul(stride, self.number(i // power))
                odd[i // power] = b.asm(hide, "", "=r,0", [multiple], side_effect=False)
            offsets.append(b.mul(odd[i // power], self.number(power)))
        return offsets

    def loop(self, row_offsets: list[ir.Value]) -> None:
        b, function = self.b, self.function
        head, body, done = (function.append_basic_block(name) for name in ("head", "body", "done"))
        step = b.mul(self.k_stride, self.number(self.bytes))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        k, a, panel = b.phi(_INT64), b.phi(_BYTES), b.phi(_BYTES)
        for phi, start in ((k, self.number(0)), (a, self.a), (panel, self.panel)):
            phi.add_incoming(start, before)
        b.cbranch(b.icmp_signed("<", k, self.k), body, done)
        b.position_at_end(body)
        self.multiply_add(a, panel, row_offsets)
        width = self.number(self.vectors * self.lanes * self.bytes)
        k.add_incoming(b.add(k, self.number(1)), b.block)
        a.add_incoming(b.gep(a, [step]), b.block)
        panel.add_incoming(b.gep(panel, [width]), b.block)
        b.branch(head)
        b.position_at_end(done)

    def multiply_add(self, a: ir.Value, panel: ir.Value, row_offsets: list[ir.Value]) -> None:
        b = self.b
        columns = [self.load(b.gep(panel, [self.number(j * self.lanes * self.bytes)])) for j in range(self.vectors)]
        for offset, row in zip(row_offsets, self.sums, strict=True):
            operand = self.broadcast(b.gep(a, [offset]), self.vector)
            for slot, column in zip(row, columns, strict=True):
                b.store(self.fma(operand, column, b.load(slot)), slot)

    def broadcast(self, at: ir.Value, vector: ir.Type) -> ir.Value:
        """Return a vector with one element of A in every lane."""
        number = self.b.load(self.b.bitcast(at, vector.element.as_pointer()))
        return splat(self.b, number, self.lanes)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        b = self.b
        # An explicit flag keeps Numba from adding reassociation, which would change the order of the sum.
        if not TARGET.has_fma:
            return b.fadd(z, b.fmul(x, y, flags=("nsz",)), flags=("nsz",))
        name = f"llvm.fma.v{self.lanes}f{self.bytes * 8}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return b.call(cgutils.get_or_insert_function(b.module, kind, name), [x, y, z])

    def each(self, action: Any) -> None:
        for row, start in zip(self.sums, self.c_rows, strict=True):
            for j, slot in enumerate(row):
                action(slot, self.b.gep(start, [self.number(j * self.lanes * self.bytes)]), j)

    def load(self, at: ir.Value) -> ir.Value:
        value = self.b.load(self.b.bitcast(at, self.vector.as_pointer()))
        value.align = self.bytes
        return value

    def add(self, slot: ir.Value, value: ir.Value) -> None:
        self.b.store(self.b.fadd(value, self.b.load(slot), flags=("nsz",)), slot)

    def store(self, value: ir.Value, at: ir.Value) -> None:
        self.b.store(value, self.b.bitcast(at, self.vector.as_pointer())).align = self.bytes

    def mask(self, j: int) -> ir.Value:
        lanes = ir.Constant(ir.VectorType(_INT64, self.lanes), [j * self.lanes + lane for lane in range(self.lanes)])
        return self.b.icmp_signed("<", lanes, splat(self.b, self.columns, self.lanes))

    def masked_load(self, at: ir.Value, j: int) -> ir.Value:
        return self.masked("load", self.vector, *self.masked_place(at, j), ir.Constant(self.vector, None))

    def masked_store(self, value: ir.Value, at: ir.Value, j: int) -> None:
        self.masked("store", ir.VoidType(), value, *self.masked_place(at, j))

    def masked_place(self, at: ir.Value, j: int) -> tuple[ir.Value, ...]:
        return self.b.bitcast(at, self.vector.as_pointer()), ir.Constant(_INT32, self.bytes), self.mask(j)

    def masked(self, action: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
        name = f"llvm.masked.{action}.v{self.lanes}f{self.bytes * 8}.p0"
        kind = ir.FunctionType(result, [operand.type for operand in operands])
        return self.b.call(cgutils.get_or_insert_function(self.b.module, kind, name), operands)


class _RowTile(_Tile):
    """The tile of one row and several whole panels, `rows` here, for a product of a single row: in one panel, each step
    of its few chains would wait for the step before."""

    def __init__(self, function: ir.Function, rows: int, double: bool) -> None:
        super().__init__(function, rows, double)
        width = self.number(self.lanes * self.vectors)
        self.ldc, self.columns = width, width
        self.row_stride = self.b.mul(self.k, width)  # from panel to panel

    def multiply_add(self, a: ir.Value, panel: ir.Value, row_offsets: list[ir.Value]) -> None:
        b, operand = self.b, self.broadcast(a, self.vector)
        for offset, row in zip(row_offsets, self.sums, strict=True):
            at = b.gep(panel, [offset])
            for j, slot in enumerate(row):
                column = self.load(b.gep(at, [self.number(j * self.lanes * self.bytes)]))
                b.store(self.fma(operand, column, b.load(slot)), slot)


class _PairTile(_Tile):
    """The tile of bfloat16: A and the panel contain pairs, C is float32."""

    def __init__(self, function: ir.Function, rows: int) -> None:
        super().__init__(function, rows, double=False)
        self.words = ir.VectorType(_INT32, self.lanes)

    def columns_at(self, panel: ir.Value) -> list[ir.Value]:
        """Return the vectors of one row of the panel."""
        b, vectors = self.b, range(self.vectors)
        at = [b.gep(panel, [self.number(j * self.lanes * self.bytes)]) for j in vectors]
        return [b.bitcast(self.load(place), self.words) for place in at]

    def multiply_add(self, a: ir.Value, panel: ir.Value, row_offsets: list[ir.Value]) -> None:
        b = self.b
        columns = self.columns_at(panel)
        if TARGET.has_bf16:
            self.each_row(a, row_offsets, columns, lambda x, y, z: add_products(b, z, x, y))
            return
        # The products of the later numbers come first, as in the instruction: one half of the panel at a
        # time fits the registers.
        for half in (self.later, self.earlier):
            halves = [half(column) for column in columns]
            self.each_row(a, row_offsets, halves, lambda x, y, z, half=half: self.fma(half(x), y, z))

    def each_row(
        self, a: ir.Value, row_offsets: list[ir.Value], columns: list[ir.Value], add: Any, sums: Any = None
    ) -> None:
        b = self.b
        for offset, row in zip(row_offsets, self.sums if sums is None else sums, strict=True):
            operand = self.broadcast(b.gep(a, [offset]), self.words)
            for slot, column in zip(row, columns, strict=True):
                b.store(add(operand, column, b.load(slot)), slot)

    def later(self, pairs: ir.Value) -> ir.Value:
        upper = ir.Constant(self.words, [0xFFFF0000] * self.lanes)
        return self.b.bitcast(self.b.and_(pairs, upper), self.vector)

    def earlier(self, pairs: ir.Value) -> ir.Value:
        return self.b.bitcast(self.b.shl(pairs, ir.Constant(self.words, [16] * self.lanes)), self.vector)


class _QuadTile(_PairTile):
    """The tile of int8: A and the panel contain quads; sums are integers until they are scaled to C's float32."""

    def __init__(self, function: ir.Function, rows: int) -> None:
        super().__init__(function, rows)
        b = self.b
        self.sums = [[b.alloca(self.words) for _ in range(self.vectors)] for _ in range(rows)]
        self.k = b.sub(self.k, self.number(TAIL))
        self.tail = b.mul(self.k, self.number(self.bytes))  # the offset of the tail in a row of A
        self.starts = b.gep(self.panel, [b.mul(self.tail, self.number(self.lanes * self.vectors))])

        self.of_block = [[b.alloca(self.words) for _ in range(self.vectors)] for _ in range(rows)]

    def start_sums(self) -> None:
        b = self.b
        for j in range(self.vectors):
            start = b.bitcast(self.of_columns(j), self.words)
            for row in self.sums:
                b.store(start, row[j])

    def of_columns(self, j: int) -> ir.Value:
        """Return vector j of the two rows after the panel's quads: start values, then scales."""
        return self.load(self.b.gep(self.starts, [self.number(j * self.lanes * self.bytes)]))

    def loop(self, row_offsets: list[ir.Value]) -> None:
        if self.rows > MOST_ROWS:
            super().loop(row_offsets)
            return
        b = self.b
        place = b.gep(self.starts, [self.number(2 * self.lanes * self.vectors * self.bytes)])
        distance = b.load(b.bitcast(place, _INT64.as_pointer()))
        distance.align = self.bytes
        with b.if_else(b.icmp_signed("==", distance, self.number(0))) as (of_8_bits, of_4_bits):
            with of_8_bits:
                super().loop(row_offsets)
            with of_4_bits:
                self.loop_over_blocks(b.gep(self.panel, [distance]), row_offsets)

    def loop_over_blocks(self, panel: ir.Value, row_offsets: list[ir.Value]) -> None:
        """Write the loop over a panel in 4 bits, which is at `panel` (see four_bits.py): the sums of a block's
        products, shifted, times its factors."""
        b, width = self.b, self.lanes * self.vectors
        blocks = b.sdiv(self.k, self.number(BLOCK_QUADS))
        factors = b.gep(panel, [b.mul(blocks, self.number(BLOCK_ROWS * width * self.bytes))])
        with cgutils.for_range(b, blocks) as block:
            a = b.gep(self.a, [b.mul(block.index, self.number(BLOCK_QUADS * self.bytes))])
            at = b.gep(panel, [b.mul(block.index, self.number(BLOCK_ROWS * width * self.bytes))])
            for slot in (slot for row in self.of_block for slot in row):
                b.store(ir.Constant(self.words, None), slot)
            for n in range(BLOCK_QUADS):
                columns = self.columns_at(b.gep(at, [self.number(n // 2 * width * self.bytes)]))
                if n % 2 == 0:
                    columns = [b.shl(column, ir.Constant(self.words, [4] * self.lanes)) for column in columns]
                upper = ir.Constant(self.words, [0xF0F0F0F0] * self.lanes)
                columns = [b.and_(column, upper) for column in columns]
                self.add_quads(b.gep(a, [self.number(n * self.bytes)]), row_offsets, columns, self.of_block)
            for j in range(self.vectors):
                place = b.gep(factors, [b.add(b.mul(block.index, self.number(width)), self.number(j * self.lanes))])
                bytes_of_4 = b.load(b.bitcast(place, ir.VectorType(ir.IntType(8), self.lanes).as_pointer()))
                bytes_of_4.align = 1
                factor = b.zext(bytes_of_4, self.words)
                for total, row in zip(self.sums, self.of_block, strict=True):
                    whole = b.ashr(b.load(row[j]), ir.Constant(self.words, [4] * self.lanes))
                    b.store(b.add(b.load(total[j]), b.mul(whole, factor)), total[j])

    def multiply_add(self, a: ir.Value, panel: ir.Value, row_offsets: list[ir.Value]) -> None:
        self.add_quads(a, row_offsets, self.columns_at(panel), self.sums)

    def add_quads(
        self, a: ir.Value, row_offsets: list[ir.Value], columns: list[ir.Value], sums: list[list[ir.Value]]
    ) -> None:
        """Add the products of one quad of each row to sums."""
        b = self.b
        for step in byte_sums():
            weights = [step.of_weights(b, column) for column in columns]
            self.each_row(
                a, row_offsets, weights, lambda x, y, z, step=step: step.add(b, z, step.of_rows(b, x), y), sums
            )

    def finish_sums(self, row_offsets: list[ir.Value]) -> None:
        b = self.b
        scales = [self.of_columns(self.vectors + j) for j in range(self.vectors)]
        tail = b.gep(self.a, [self.tail])
        numbers = []
        for offset, row in zip(row_offsets, self.sums, strict=True):
            of_row = self.broadcast(b.gep(tail, [offset]), self.vector)
            numbers.append([b.alloca(self.vector) for _ in row])
            for slot, whole, scale in zip(numbers[-1], row, scales, strict=True):
                number = b.sitofp(b.load(whole), self.vector)
                b.store(b.fmul(b.fmul(number, scale, flags=("nsz",)), of_row, flags=("nsz",)), slot)
        self.sums = numbers


_TILES: dict[str, Any] = {
    "f4": lambda function, rows: _Tile(function, rows, double=False),
    "f8": lambda function, rows: _Tile(function, rows, double=True),
    "bf16": _PairTile,
    "int8": _QuadTile,
    "row_f4": lambda function, rows: _RowTile(function, rows, double=False),
    "row_f8": lambda function, rows: _RowTile(function, rows, double=True),
}
MOST_PANELS = 4
"""Panels of a tile of one row: four have eight chains or more, which keep two units of four cycles busy."""


def _tile_function(module: ir.Module, rows: int, kind: str) -> ir.Function:
    name = f"nmt_tile_{TARGET.name}_{kind}_{rows}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, _TILE_TYPE, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _TILES[kind](function, rows).emit()
    return function


def _tile(kind: str) -> Any:
    """Return tile(c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows): rows is 1 to TARGET.max_rows,
    columns at most the panel's width; further columns of C stay unchanged. For a kind of a single row, rows is the
    number of panels, from 2 to MOST_PANELS; strides of rows and columns are not read."""

    @instruction(*_TILE_ARGUMENTS)
    def code(builder: ir.IRBuilder, *arguments: ir.Value) -> None:
        *operands, height = arguments
        done = builder.append_basic_block("tile_done")
        switch = builder.switch(height, done)
        for rows in range(2, MOST_PANELS + 1) if kind.startswith("row") else TARGET.rows:
            block = builder.append_basic_block(f"tile_{rows}")
            switch.add_case(ir.Constant(_INT64, rows), block)
            builder.position_at_end(block)
            builder.call(_tile_function(builder.module, rows, kind), operands)
            builder.branch(done)
        builder.position_at_end(done)

    def tile(c, ldc, a, row_stride, k_stride, panel, k, columns, accumulate, rows):  # type: ignore[no-untyped-def]
        code(c, ldc, a, row_stride, k_stride, panel, k, columns, accumulate, rows)

    return external(tile, _TILE_ARGUMENTS, name=f"tile_{kind}")


tile_f4, tile_f8, tile_bf16, tile_int8, tile_row_f4, tile_row_f8 = map(_tile, _TILES)


_MAX_ROWS = TARGET.max_rows
_PANEL_F4, _PANEL_F8 = TARGET.panel_width(np.float32), TARGET.panel_width(np.float64)
ROW_BLOCK = bfloat16.ROW_BLOCK if TARGET.has_amx else 24 * _MAX_ROWS
"""Rows of A that are multiplied with all panels before the next rows; they stay in the L2 cache."""

PAIR_BLOCK = bfloat16.PAIR_BLOCK if TARGET.has_amx else 1 << 40
"""Pairs of a row of A that are multiplied before the next pairs: all, except with AMX, where the bits are the same."""


def _product_rows(tile, width, size):  # type: ignore[no-untyped-def]
    """Return a product of rows by tiles; panels have `width` columns of elements of `size` bytes."""

    def product_rows(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
        for m0 in range(0, M, ROW_BLOCK):
            block = min(ROW_BLOCK, M - m0)
            # Tiles of nearly equal height: a lone last row would cost as much time as five.
            tiles = (block + _MAX_ROWS - 1) // _MAX_ROWS
            height, taller = block // tiles, block % tiles
            for n0 in range(0, N, width):
                columns, panel, m = min(width, N - n0), advance(b, n0 * K * size), m0
                for n in range(tiles):
                    rows = height + (1 if n < taller else 0)
                    target = advance(c, (m * ldc + n0) * size)
                    tile(target, ldc, advance(a, m * lda * size), lda, 1, panel, K, columns, accumulate, rows)
                    m += rows

    return product_rows


def _with_row_tiles(rows_product, row_tile, width, size):  # type: ignore[no-untyped-def]
    """Return a product of rows which computes a single row by tiles of several panels."""

    def product_rows(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
        n0, left = 0, N // width if M == 1 else 0
        while left > 1:
            groups = (left + MOST_PANELS - 1) // MOST_PANELS
            panels = (left + groups - 1) // groups
            target, panel = advance(c, n0 * size), advance(b, n0 * K * size)
            row_tile(target, width, a, lda, 1, panel, K, width, accumulate, panels)
            n0 += panels * width
            left -= panels
        rows_product(a, lda, advance(b, n0 * K * size), advance(c, n0 * size), ldc, M, N - n0, K, accumulate)

    return product_rows


def _external(tile, row_tile, width, size, name):  # type: ignore[no-untyped-def]
    rows_product = inner_kernel(_product_rows(tile, width, size))
    return external(_with_row_tiles(rows_product, row_tile, width, size), bfloat16.ROW_ARGUMENTS, name=name)


product_rows_f4 = _external(tile_f4, tile_row_f4, _PANEL_F4, 4, "product_rows_f4")
product_rows_f8 = _external(tile_f8, tile_row_f8, _PANEL_F8, 8, "product_rows_f8")
# For pairs: lda and K count pairs.
product_rows_bf16 = (
    bfloat16.product_rows_bf16
    if TARGET.has_amx
    else external(_product_rows(tile_bf16, _PANEL_F4, 4), bfloat16.ROW_ARGUMENTS, name="product_rows_bf16")
)
# For quads: lda and K count words, tails included.
product_rows_int8 = external(_product_rows(tile_int8, _PANEL_F4, 4), bfloat16.ROW_ARGUMENTS, name="product_rows_int8")
PRODUCT_ROWS = {
    "float32": product_rows_f4,
    "float64": product_rows_f8,
    "uint32": product_rows_bf16,
    "int32": product_rows_int8,
}
"""By the name of the dtype of packed weights."""
