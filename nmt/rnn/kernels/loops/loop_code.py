"""Write LLVM instructions for generated loops, directly from their source. Imports no Numba.

The source is a subset of Python with the same meaning, so that it can be read, and run, as Python. It may contain:

- one number type, `F = float32` or `F = float64` in the first line; all other numbers are int64 and never negative;
- a function of `(part, parts, table, ...)`: all further parameters are in the table, in this order, after the cache
  line of its barrier. An annotation marks a parameter as an array and gives its element type: `m: F`,
  `bounds: int64`;
- assignments to names and to elements of arrays, `+=`, `for i in range(...)` with one or two limits, `if` without
  `else`, `continue`;
- sums, differences, products, `/` of F, `//` and `%` of integers, one comparison, `a if test else b`;
- `in_turn(sum, x)`: the sum of both, for sums of many numbers that must be added in order;
- `noalias(array)`: from here until the next iteration, this array shares no memory with any other, even if it was
  assigned from one;
- calls of `min`, `max`, the activations, `scratch(n, type)` and `release(array)`, `address(array, offset)`, and of the
  functions in `_called()`, which are called by symbol.

A loop has a few hundred such lines. A general compiler for Python spends more time on inferring their types than LLVM
does on everything else; here each type is written down or follows from the line itself (docs/threads.md).
"""

from __future__ import annotations

import ast
import math
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.loops.activation_code import FUNCTIONS
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import FAST
from nmt.rnn.kernels.machine_code.native import Native
from nmt.rnn.kernels.memory.arrays import allocate, free
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.products.bfloat16 import to_pairs
from nmt.rnn.kernels.products.int8 import to_quads
from nmt.rnn.kernels.products.microkernel import PRODUCT_ROWS
from nmt.rnn.kernels.threads.atomics import barrier_wait

MAX_SCOPES = 48
"""The number of alias scopes of a function. Each array has its own scope, which tells LLVM that it overlaps no other;
further arrays share the last scope, and may overlap within it."""

_INT64, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_ELEMENTS = {
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
    "int64": _INT64,
    "uint32": ir.IntType(32),
    "int32": ir.IntType(32),
}
_FLAGS = tuple(sorted(FAST))
_IN_TURN = tuple(sorted(FAST - {"reassoc"}))
_WHOLE = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@cache
def _called() -> dict[str, Native]:
    """Return the native functions that a loop may call, by name."""
    found = barrier_wait, *PRODUCT_ROWS.values(), to_pairs, to_quads
    return {one.native.label: one.native for one in found}


def module_of(source: str, entry: str) -> ir.Module:
    """Return the LLVM module for a source, with a function `entry`. Raises SyntaxError: not in the language above."""
    first, function = ast.parse(source).body
    if not isinstance(first, ast.Assign) or not isinstance(function, ast.FunctionDef):
        raise SyntaxError(f"{ast.unparse(first)}: a loop begins with its number type, and is one function")
    writer = _LoopWriter(ast.unparse(first.value), entry)
    writer.write(function)
    return writer.module


class _LoopWriter:
    """Write one function. Names that are assigned to have stack memory, for LLVM to turn into registers."""

    def __init__(self, number: str, entry: str) -> None:
        self.number = number
        self.module = ir.Module(entry)
        kind = ir.FunctionType(ir.VoidType(), [_INT64, _INT64, _BYTES])
        self.function = ir.Function(self.module, kind, entry)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        F = _ELEMENTS[number]
        self.values: dict[str, ir.Value] = {
            "ZERO": ir.Constant(F, 0.0),
            "ONE": ir.Constant(F, 1.0),
            "LOWEST": ir.Constant(F, -math.inf),
            "inf": ir.Constant(F, math.inf),
            "nan": ir.Constant(F, math.nan),
            "PANEL": ir.Constant(_INT64, TARGET.panel_width(np.float32)),
        }
        self.memory: dict[str, ir.Value] = {}
        self.next_round: list[ir.Block] = []  # of the enclosing loops
        self.scopes: dict[str, int] = {}
        domain = self.module.add_metadata(["nmt rows"])
        self._scope = [self.module.add_metadata([f"nmt place {n}", domain]) for n in range(MAX_SCOPES)]
        self._marks: dict[int, tuple[Any, Any]] = {}

    def write(self, function: ast.FunctionDef) -> None:
        """Write the whole function."""
        parameters = function.args.args
        given = {parameter.arg: value for parameter, value in zip(parameters, self.function.args, strict=False)}
        words = self.builder.bitcast(self.function.args[2], _INT64.as_pointer())
        for n, parameter in enumerate(parameters[len(given) :], COUNTER_WORDS):
            word = self.builder.load(self.builder.gep(words, [ir.Constant(_INT64, n)]))
            if parameter.annotation is not None:
                word = self.builder.inttoptr(word, _ELEMENTS[self._number(parameter.annotation)].as_pointer())
            given[parameter.arg] = word
        self.values |= given
        self._statements(function.body)
        self.builder.ret_void()
        _allow_reordering(self.function)

    def _number(self, name: ast.expr) -> str:
        """Return the name of a number type, which F may stand for."""
        text = ast.unparse(name)
        return self.number if text == "F" else text

    # ------------------------------------------------------------ statements

    def _statements(self, body: list[ast.stmt]) -> None:
        for one in body:
            if self.builder.block.is_terminated:
                raise SyntaxError(f"{ast.unparse(one)}: nothing follows a continue")
            self._statement(one)

    def _statement(self, one: ast.stmt) -> None:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, self._value(value))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=array), slice=index)], value=value):
                self._mark(self.builder.store(self._value(value), self._place(array, index)), array)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._assign(name, self._arithmetic(op, self._name(name), self._value(value)))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=limits)):
                self._for(name, limits, one.body)
            case ast.If(test=test, orelse=[]):
                self._if(self._test(test), one.body)
            case ast.Continue():
                self.builder.branch(self.next_round[-1])
            case ast.Expr(value=ast.Call(func=ast.Name(id="noalias"), args=[ast.Name(id=array)])):
                self._limit_scope(array)
            case ast.Expr(value=ast.Call(func=ast.Name(id="release"), args=[array])):
                free(self.builder, self._value(array))
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments)):
                self._call(name, [self._value(argument) for argument in arguments])
            case _:
                raise SyntaxError(f"{ast.unparse(one)}: no such statement in a generated loop")

    def _assign(self, name: str, value: ir.Value) -> None:
        if name not in self.memory:
            with self.builder.goto_entry_block():
                self.memory[name] = self.builder.alloca(value.type, name=name)
        self.builder.store(value, self.memory[name])

    def _for(self, name: str, limits: list[ast.expr], body: list[ast.stmt]) -> None:
        values = [self._value(limit) for limit in limits]
        start, stop = values if len(values) == 2 else (ir.Constant(_INT64, 0), values[0])
        append = self.function.append_basic_block
        test, inside, step, after = append("test"), append("body"), append("step"), append("after")
        self._assign(name, start)
        self.builder.branch(test)
        self.builder.position_at_end(test)
        self.builder.cbranch(self.builder.icmp_signed("<", self._name(name), stop), inside, after)
        self.builder.position_at_end(inside)
        self.next_round.append(step)
        self._statements(body)
        self.next_round.pop()
        self._branch(step)
        self.builder.position_at_end(step)
        self._assign(name, self.builder.add(self._name(name), ir.Constant(_INT64, 1)))
        self.builder.branch(test)
        self.builder.position_at_end(after)

    def _if(self, test: ir.Value, body: list[ast.stmt]) -> None:
        inside, after = self.function.append_basic_block("then"), self.function.append_basic_block("after")
        self.builder.cbranch(test, inside, after)
        self.builder.position_at_end(inside)
        self._statements(body)
        self._branch(after)
        self.builder.position_at_end(after)

    def _branch(self, block: ir.Block) -> None:
        if not self.builder.block.is_terminated:
            self.builder.branch(block)

    def _call(self, name: str, arguments: list[ir.Value]) -> None:
        native = _called()[name]
        kind = ir.FunctionType(ir.VoidType(), [_BYTES if one == "voidptr" else _INT64 for one in native.argument_types])
        symbol = str(native.symbol)
        callee = self.module.globals.get(symbol) or ir.Function(self.module, kind, symbol)
        self.builder.call(callee, arguments)

    # ------------------------------------------------------------ expressions

    def _value(self, node: ast.expr) -> ir.Value:
        match node:
            case ast.Constant(value=int(number)):
                return ir.Constant(_INT64, number)
            case ast.Constant(value=float(number)):
                return ir.Constant(_ELEMENTS[self.number], number)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Subscript(value=ast.Name(id=array), slice=index):
                load = self.builder.load(self._place(array, index))
                self._mark(load, array)
                return load
            case ast.BinOp(left=left, op=op, right=right):
                return self._arithmetic(op, self._value(left), self._value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._value(operand)
                zero = ir.Constant(value.type, 0 if value.type == _INT64 else -0.0)
                return self._arithmetic(ast.Sub(), zero, value)
            case ast.IfExp(test=test, body=then, orelse=other):
                return self.builder.select(self._test(test), self._value(then), self._value(other))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._result(name, arguments)
        raise SyntaxError(f"{ast.unparse(node)}: no such expression in a generated loop")

    def _name(self, name: str) -> ir.Value:
        return self.builder.load(self.memory[name]) if name in self.memory else self.values[name]

    def _place(self, array: str, index: ast.expr) -> ir.Value:
        return self.builder.gep(self._name(array), [self._value(index)], inbounds=True)

    def _arithmetic(self, op: ast.operator, left: ir.Value, right: ir.Value) -> ir.Value:
        if left.type != _INT64:
            return getattr(self.builder, _REAL[type(op)])(left, right, flags=_FLAGS)
        if type(op) in _WHOLE:
            return getattr(self.builder, _WHOLE[type(op)])(left, right)
        if not isinstance(op, (ast.FloorDiv, ast.Mod)):
            raise SyntaxError(f"{type(op).__name__}: no such operation on integers in a generated loop")
        return self.builder.udiv(left, right) if isinstance(op, ast.FloorDiv) else self.builder.urem(left, right)

    def _test(self, node: ast.expr) -> ir.Value:
        """Write a condition: a comparison, or a number, which must not be 0."""
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(_COMPARED[type(op)], self._value(left), self._value(right))
        return self._compare("!=", self._value(node), ir.Constant(_INT64, 0))

    def _compare(self, sign: str, left: ir.Value, right: ir.Value) -> ir.Value:
        if left.type == _INT64:
            return self.builder.icmp_signed(sign, left, right)
        return self.builder.fcmp_ordered(sign, left, right, flags=_FLAGS)

    def _result(self, name: str, arguments: list[ast.expr]) -> ir.Value:
        """Write the call of a function that returns a value."""
        match name, arguments:
            case "scratch", [count, kind]:
                pointer = allocate(self.builder, self._value(count), np.dtype(self._number(kind)).itemsize)
                return self.builder.bitcast(pointer, _ELEMENTS[self._number(kind)].as_pointer())
            case "address", [array, offset]:
                place = self.builder.gep(self._value(array), [self._value(offset)])
                return self.builder.bitcast(place, _BYTES)
        values = [self._value(argument) for argument in arguments]
        match name, values:
            case "in_turn", [total, summand]:
                return self.builder.fadd(total, summand, flags=_IN_TURN)
            case (("min" | "max"), [left, right]):
                is_right = self._compare("<" if name == "min" else ">", right, left)
                return self.builder.select(is_right, right, left)
        return FUNCTIONS[name](self.builder, *values)

    # ------------------------------------------------------------ memory

    def _mark(self, instruction: ir.Instruction, array: str) -> None:
        """Declare that the number of type F that an instruction loads or stores belongs to no other array. The emitter
        has placed the arrays so, and the slot of a state (or of its gradient) that a step writes has a variable of its
        own. See "noalias" and "alias.scope" in the LLVM language reference."""
        pointer = self.memory[array].type.pointee if array in self.memory else self.values[array].type
        if pointer.pointee != _ELEMENTS[self.number]:
            return
        scope = self._scope_of(array)
        if scope not in self._marks:
            others = [one for n, one in enumerate(self._scope) if n != scope]
            self._marks[scope] = self.module.add_metadata([self._scope[scope]]), self.module.add_metadata(others)
        here, elsewhere = self._marks[scope]
        instruction.set_metadata("alias.scope", here)
        instruction.set_metadata("noalias", elsewhere)

    def _scope_of(self, array: str) -> int:
        return self.scopes.setdefault(array, min(len(self.scopes), MAX_SCOPES - 1))

    def _limit_scope(self, array: str) -> None:
        """Limit an array's alias scope to one iteration of the loop: the slot written now is read in the next one."""
        scopes = self.module.add_metadata([self._scope[self._scope_of(array)]])
        name = "llvm.experimental.noalias.scope.decl"
        kind = ir.FunctionType(ir.VoidType(), [ir.MetaDataType()])
        declare = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        self.builder.call(declare, [scopes])


def _allow_reordering(function: ir.Function) -> None:
    """Give all arithmetic on F without explicit flags the fast-math flags of kernels (see jit.FAST)."""
    real = (ir.FloatType(), ir.DoubleType())
    for block in function.blocks:
        for instruction in block.instructions:
            if isinstance(instruction, ir.CallInstr):
                if instruction.type in real:
                    instruction.fastmath.update(_FLAGS)
            elif instruction.opname in ("fadd", "fsub", "fmul", "fdiv", "fcmp") and not instruction.flags:
                instruction.flags.extend(_FLAGS)
