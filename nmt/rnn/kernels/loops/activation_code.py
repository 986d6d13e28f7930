"""Scalar sigmoid, tanh, exp, log, softplus, sqrt, relu and maximum for compiled loops, in float32 and float64.

Call them inside Numba code only. For float32 each is a short straight line of vector instructions, so that LLVM turns a
plain loop over contiguous memory into full-width vector code; float64 goes through the C library and is exact to its
last digits. The type of the argument chooses. NaN stays NaN; infinities give the limits.

float32 errors: sigmoid and tanh below 1e-6 (tanh also relative to its value, so that small inputs
keep their gradient), exp and log below 2e-6 relative, softplus below 1e-6 (relative to its value
above 1), sqrt as exact as a float. exp is 0 below -87.33, where only subnormal
numbers would remain, and infinite above 88.37, a factor of 1.4 before the largest float.

Method: the argument is split as n*ln2 + r with |r| <= ln2/2 and exp(r) - 1 is a polynomial, as in Cody and Waite,
Software Manual for the Elementary Functions (1980), chapters 6 and 13. The coefficients were fitted for this file
(weighted least squares driven to the smallest maximum error, Lawson's algorithm).
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import intrinsic, numba_types, with_arity

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
# Explicit flags keep Numba from adding those of the caller: with reassociation allowed, the rounding below would cancel
# out.
_FLAGS = ("contract",)
# (exp(r) - 1 - r) / r**2 and (2*atanh(s) - 2*s) / s**3, in powers of r and of s**2.
_EXPM1 = (0.5000000065713237, 0.1666653801429574, 0.04166626653745784, 0.008367246913811608, 0.0013947598238694557)
_ATANH = (0.6666678325905117, 0.3997660747872062, 0.29898793830642456)
# Adding this constant pushes the fraction out of the mantissa: what remains in the low bits is the
# rounded integer.
_ROUND = 12582912.0
# Beyond these the power of two alone leaves the range of a float's exponent.
_EXP_LOWEST, _EXP_HIGHEST = -87.33, 88.37
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440054690581e-4


class _Emit:
    """Write float32 arithmetic on LLVM values, one instruction per method."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder

    def number(self, value: float) -> ir.Constant:
        return ir.Constant(_FLOAT, value)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b, flags=_FLAGS)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fsub(a, b, flags=_FLAGS)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fmul(a, b, flags=_FLAGS)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fdiv(a, b, flags=_FLAGS)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        # Without the instruction llvm.fma becomes a library call for every element.
        return self.builder.fma(a, b, c) if TARGET.has_fma else self.add(self.mul(a, b), c)

    def polynomial(self, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
        result = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.number(coefficient))
        return result

    def less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fcmp_ordered("<", a, b, flags=_FLAGS)

    def clamp(self, x: ir.Value, low: float, high: float) -> ir.Value:
        # Compared this way round a NaN passes through.
        b = self.builder
        x = b.select(self.less(x, self.number(low)), self.number(low), x)
        return b.select(self.less(self.number(high), x), self.number(high), x)

    def as_int(self, x: ir.Value) -> ir.Value:
        return self.builder.bitcast(x, _INT)

    def as_float(self, x: ir.Value) -> ir.Value:
        return self.builder.bitcast(x, _FLOAT)

    def expm1_parts(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return (q, p) with exp(x) = p * (1 + q), where p is a power of two; |x| <= 87."""
        b = self.builder
        shifted = self.fma(x, self.number(math.log2(math.e)), self.number(_ROUND))
        n = self.sub(shifted, self.number(_ROUND))
        r = self.fma(n, self.number(-_LN2_HIGH), x)
        r = self.fma(n, self.number(-_LN2_LOW), r)
        q = self.fma(self.mul(r, r), self.polynomial(r, _EXPM1), r)
        exponent = b.shl(b.add(self.as_int(shifted), ir.Constant(_INT, 127)), ir.Constant(_INT, 23))
        return q, self.as_float(exponent)

    def exp_clamped(self, x: ir.Value) -> ir.Value:
        q, p = self.expm1_parts(self.clamp(x, -87.0, 87.0))
        return self.fma(q, p, p)


def _exp(e: _Emit, x: ir.Value) -> ir.Value:
    b = e.builder
    q, p = e.expm1_parts(e.clamp(x, _EXP_LOWEST, _EXP_HIGHEST))
    result = b.select(e.less(e.number(_EXP_HIGHEST), x), e.number(math.inf), e.fma(q, p, p))
    return b.select(e.less(x, e.number(_EXP_LOWEST)), e.number(0.0), result)


def _sigmoid(e: _Emit, x: ir.Value) -> ir.Value:
    one = e.number(1.0)
    return e.div(one, e.add(one, e.exp_clamped(e.mul(x, e.number(-1.0)))))


def _tanh(e: _Emit, x: ir.Value) -> ir.Value:
    # t / (t + 2) with t = exp(2x) - 1, which keeps its relative precision near 0.
    q, p = e.expm1_parts(e.clamp(e.add(x, x), -30.0, 30.0))
    t = e.fma(q, p, e.sub(p, e.number(1.0)))
    return e.div(t, e.add(t, e.number(2.0)))


def _log(e: _Emit, x: ir.Value) -> ir.Value:
    b = e.builder
    tiny = e.less(x, e.number(2.0**-126))
    bits = e.as_int(b.select(tiny, e.mul(x, e.number(2.0**25)), x))
    # Relative to 1/sqrt(2), so that the mantissa lies in [0.707, 1.414) and its logarithm around 0.
    offset = b.sub(bits, ir.Constant(_INT, 0x3F3504F3))
    exponent = b.ashr(offset, ir.Constant(_INT, 23))
    mantissa = e.as_float(b.sub(bits, b.shl(exponent, ir.Constant(_INT, 23))))
    n = b.sitofp(exponent, _FLOAT)
    n = b.select(tiny, e.sub(n, e.number(25.0)), n)
    f = e.sub(mantissa, e.number(1.0))
    s = e.div(f, e.add(f, e.number(2.0)))
    square = e.mul(s, s)
    tail = e.mul(e.mul(square, s), e.polynomial(square, _ATANH))
    result = e.fma(n, e.number(_LN2_HIGH), e.fma(n, e.number(_LN2_LOW), e.fma(s, e.number(2.0), tail)))
    result = b.select(e.less(x, e.number(math.inf)), result, x)  # +inf and NaN
    result = b.select(b.fcmp_ordered("==", x, e.number(0.0), flags=_FLAGS), e.number(-math.inf), result)
    return b.select(e.less(x, e.number(0.0)), e.number(math.nan), result)


def _softplus(e: _Emit, x: ir.Value) -> ir.Value:
    # max(x, 0) + log(1 + exp(-|x|)): nothing overflows.
    b = e.builder
    negative = e.less(x, e.number(0.0))
    size = b.select(negative, e.sub(e.number(0.0), x), x)
    rest = _log(e, e.add(e.number(1.0), e.exp_clamped(e.sub(e.number(0.0), size))))
    return e.add(b.select(negative, e.number(0.0), x), rest)


def _of_llvm(b: ir.IRBuilder, name: str, x: ir.Value) -> ir.Value:
    return b.call(b.module.declare_intrinsic(f"llvm.{name}", [x.type]), [x])


def _of_library(b: ir.IRBuilder, name: str, x: ir.Value) -> ir.Value:
    kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [x])


def _double_sigmoid(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    one = ir.Constant(ir.DoubleType(), 1.0)
    return b.fdiv(one, b.fadd(one, _of_llvm(b, "exp", b.fneg(x))))


def _relu(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    zero = ir.Constant(x.type, 0.0)
    return b.select(b.fcmp_ordered("<", x, zero, flags=_FLAGS), zero, x)


def _double_softplus(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    zero = ir.Constant(ir.DoubleType(), 0.0)
    negative = b.fcmp_ordered("<", x, zero, flags=_FLAGS)
    rest = _of_library(b, "log1p", _of_llvm(b, "exp", b.select(negative, x, b.fneg(x))))
    return b.fadd(b.select(negative, zero, x), rest)


def _maximum(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    larger = b.select(b.fcmp_ordered(">", x, y, flags=_FLAGS), x, y)
    return b.select(b.fcmp_unordered("uno", x, x, flags=_FLAGS), x, larger)


def _either(
    single: Callable[[_Emit, ir.Value], ir.Value], double: Callable[[ir.IRBuilder, ir.Value], ir.Value]
) -> Callable[[ir.IRBuilder, ir.Value], ir.Value]:
    """Return a function that writes `single` for float32 and `double` for float64."""
    return lambda b, x: single(_Emit(b), x) if x.type == _FLOAT else double(b, x)


FUNCTIONS: dict[str, Callable[..., ir.Value]] = {
    "exp": _either(_exp, lambda b, x: _of_llvm(b, "exp", x)),
    "log": _either(_log, lambda b, x: _of_llvm(b, "log", x)),
    "sigmoid": _either(_sigmoid, _double_sigmoid),
    "tanh": _either(_tanh, lambda b, x: _of_library(b, "tanh", x)),
    "relu": _relu,
    "softplus": _either(_softplus, _double_softplus),
    "sqrt": lambda b, x: _of_llvm(b, "sqrt", x),
    "maximum": _maximum,
}
"""By name, the function that writes each activation; its arguments are LLVM's builder and the values."""


def _define(name: str, doc: str, arguments: int = 1) -> Any:
    def function(typing_context: Any, *numbers: Any) -> Any:
        if len(set(numbers)) != 1 or numbers[0] not in (numba_types.float32, numba_types.float64):
            return None

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            return FUNCTIONS[name](builder, *args)

        return numbers[0](*numbers), codegen

    defined = with_arity(function, arguments, name)
    defined.__doc__ = doc
    return intrinsic(defined)


exp = _define("exp", "e**x.")
log = _define("log", "The natural logarithm; -inf at 0, NaN below.")
sigmoid = _define("sigmoid", "1 / (1 + e**-x).")
tanh = _define("tanh", "The hyperbolic tangent.")
relu = _define("relu", "max(x, 0).")
softplus = _define("softplus", "log(1 + e**x).")
sqrt = _define("sqrt", "The square root; NaN below 0.")
maximum = _define("maximum", "The larger of two numbers of one type; NaN where either is.", 2)
