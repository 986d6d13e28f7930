"""Recurrent layers without fusion: what a framework does that runs a cell operation by operation.

Every step multiplies its input and its hidden state separately, and every elementwise operation is a
pass of its own from memory to memory; the gradients likewise, step by step, each weight gradient
added up at every step. Products are our own, on weights packed once a call, so that the comparison
with the fused operators shows what fusing is worth and nothing else.
"""

from typing import Any

import numpy as np
from _cases import Arrays, Shape

from nmt.rnn.kernels.loops import activation_code
from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.products.gradients import weight_gradient
from nmt.rnn.kernels.products.packing import pack, pack_transposed, packed_size
from nmt.rnn.kernels.products.product import product, sum_rows
from nmt.rnn.kernels.threads.pool import run_parallel

# Below this many elements a pass ends sooner than a second thread begins.
_ALONE = 1 << 17


def _pass(function: Any) -> Any:
    """A compiled pass: out[r, o:o+n] = function of a[r, ac:ac+n] and b[r, bc:bc+n] for the first `rows` rows."""

    @kernel
    def run(part, parts, out, o, a, ac, b, bc, n, rows):  # type: ignore[no-untyped-def]
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            target, left, right = out[r, o : o + n], a[r, ac : ac + n], b[r, bc : bc + n]
            for j in range(n):
                target[j] = function(left[j], right[j])

    return run


@kernel
def _plus(x, y):  # type: ignore[no-untyped-def]
    return x + y


@kernel
def _times(x, y):  # type: ignore[no-untyped-def]
    return x * y


@kernel
def _minus(x, y):  # type: ignore[no-untyped-def]
    return x - y


@kernel
def _one_minus(x, _):  # type: ignore[no-untyped-def]
    return type(x)(1) - x


@kernel
def _take(x, _):  # type: ignore[no-untyped-def]
    return x


@kernel
def _sigmoid(x, _):  # type: ignore[no-untyped-def]
    return activation_code.sigmoid(x)


@kernel
def _tanh(x, _):  # type: ignore[no-untyped-def]
    return activation_code.tanh(x)


@kernel
def _relu(x, _):  # type: ignore[no-untyped-def]
    return activation_code.relu(x)


@kernel
def _sigmoid_gradient(d, y):  # type: ignore[no-untyped-def]
    return d * y * (type(y)(1) - y)


@kernel
def _tanh_gradient(d, y):  # type: ignore[no-untyped-def]
    return d * (type(y)(1) - y * y)


@kernel
def _relu_gradient(d, y):  # type: ignore[no-untyped-def]
    return d if y > 0 else type(d)(0)


add, mul, sub, one_minus, copy = (_pass(f) for f in (_plus, _times, _minus, _one_minus, _take))
sigmoid, tanh, relu = _pass(_sigmoid), _pass(_tanh), _pass(_relu)
sigmoid_gradient, tanh_gradient, relu_gradient = map(_pass, (_sigmoid_gradient, _tanh_gradient, _relu_gradient))


@kernel
def _add_bias(part, parts, out, bias, rows):  # type: ignore[no-untyped-def]
    for r in range(rows * part // parts, rows * (part + 1) // parts):
        target = out[r]
        for j in range(len(bias)):
            target[j] += bias[j]


class _Step:
    """One layer in one direction, step by step, over the rows that still run."""

    def __init__(self, cell: str, H: int, threads: int, p: Arrays) -> None:
        self.cell, self.H, self.threads, self.p = cell, H, threads, p
        self.packed: Arrays = {}

    def pack(self, transposed: bool) -> None:
        """Lay the weights out for the products."""
        for name in ("W_x", "W_h"):
            matrix, key = self.p[name], f"{name}{'t' if transposed else ''}"
            K, N = matrix.shape[::-1] if transposed else matrix.shape
            out = self.packed.setdefault(key, np.empty(packed_size(K, N, "f4"), "f4"))
            run_parallel(pack_transposed if transposed else pack, self.threads, matrix, 0, len(matrix), out)

    def new(self, rows: int, width: int = 1) -> np.ndarray:
        """Memory for `width` arrays [rows, H] side by side."""
        return np.empty((rows, width * self.H), "f4")

    def product(self, x: np.ndarray, name: str, rows: int) -> np.ndarray:
        """x @ W, or x @ W.T for a name that ends in t."""
        K, N = self.p[name[:3]].shape[::-1] if name.endswith("t") else self.p[name].shape
        out = np.empty((rows, N), "f4")
        segments = np.array([[0, rows]])
        run_parallel(product, self.threads, x, 0, self.packed[name], out, 0, K, N, segments, 0)
        return out

    def each(self, operation: Any, *arguments: Any, columns: int | None = None) -> np.ndarray:
        """One pass over H columns (or `columns`): operation(out, a, b), each an array or (array, first gate)."""
        places = [a if isinstance(a, tuple) else (a, 0) for a in arguments]
        out, rows, n = places[0][0], len(places[0][0]), columns or self.H
        places += [places[-1]] * (3 - len(places))
        flat = [part for array, gate in places for part in (array, gate * self.H)]
        run_parallel(operation, self.threads if rows * n > _ALONE else 1, *flat, n, rows)
        return out

    def bias(self, out: np.ndarray, name: str) -> None:
        """Add a bias to every row."""
        run_parallel(_add_bias, self.threads if out.size > _ALONE else 1, out, self.p[name], len(out))

    # ------------------------------------------------------------ forward: (h, c) and what backward needs

    def forward(self, x: np.ndarray, h: np.ndarray, c: np.ndarray | None) -> tuple[np.ndarray, Any, Any]:
        """One step."""
        rows = len(x)
        a, u = self.product(x, "W_x", rows), self.product(h, "W_h", rows)
        self.bias(a, "b_x")
        self.bias(u, "b_h")
        if self.cell == "lstm":
            return self._lstm(a, u, c)
        if self.cell == "gru":
            return self._gru(a, u, h)
        self.each(add, a, a, u)
        h = self.each(tanh if self.cell == "rnn_tanh" else relu, self.new(rows), a)
        return h, None, h

    def _lstm(self, a: np.ndarray, u: np.ndarray, c: Any) -> tuple[np.ndarray, Any, Any]:
        rows, each = len(a), self.each
        each(add, a, a, u, columns=4 * self.H)
        i, f, g, o = (self.new(rows) for _ in range(4))
        for gate, (out, operation) in enumerate(((i, sigmoid), (f, sigmoid), (g, tanh), (o, sigmoid))):
            each(operation, out, (a, gate))
        kept = each(mul, self.new(rows), f, c)
        c_new = each(add, self.new(rows), kept, each(mul, self.new(rows), i, g))
        t = each(tanh, self.new(rows), c_new)
        return each(mul, self.new(rows), o, t), c_new, (i, f, g, o, c, t)

    def _gru(self, a: np.ndarray, u: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, Any, Any]:
        rows, each = len(a), self.each
        r, z, n, m, rest = (self.new(rows) for _ in range(5))
        each(sigmoid, r, each(add, r, a, u))
        each(sigmoid, z, each(add, z, (a, 1), (u, 1)))
        each(mul, m, r, (u, 2))
        each(tanh, n, each(add, n, (a, 2), m))
        each(one_minus, rest, z)
        new = each(mul, self.new(rows), rest, n)
        old = each(mul, m, z, h)
        return each(add, new, new, old), None, (r, z, n, rest, h, u)

    # ------------------------------------------------------------ backward

    def backward(self, kept: Any, d_h: np.ndarray, d_c: Any) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """Gradients of both products' results, of the old h without its product's share, and of the old c."""
        if self.cell == "lstm":
            return self._lstm_backward(kept, d_h, d_c)
        if self.cell == "gru":
            return self._gru_backward(kept, d_h)
        d_a = self.each(tanh_gradient if self.cell == "rnn_tanh" else relu_gradient, self.new(len(d_h)), d_h, kept)
        return d_a, d_a, None, None

    def _lstm_backward(self, kept: Any, d_h: np.ndarray, d_c: Any) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        (i, f, g, o, c, t), rows, each = kept, len(d_h), self.each
        d_a = self.new(rows, 4)
        d_o = each(mul, self.new(rows), d_h, t)
        d_t = each(mul, self.new(rows), d_h, o)
        each(tanh_gradient, d_t, d_t, t)
        d_c = each(add, self.new(rows), d_c, d_t)
        d_i, d_f = each(mul, self.new(rows), d_c, g), each(mul, self.new(rows), d_c, c)
        d_g = each(mul, self.new(rows), d_c, i)
        each(sigmoid_gradient, (d_a, 0), d_i, i)
        each(sigmoid_gradient, (d_a, 1), d_f, f)
        each(tanh_gradient, (d_a, 2), d_g, g)
        each(sigmoid_gradient, (d_a, 3), d_o, o)
        return d_a, d_a, None, each(mul, self.new(rows), d_c, f)

    def _gru_backward(self, kept: Any, d_h: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        (r, z, n, rest, h, u), rows, each = kept, len(d_h), self.each
        d_a, d_u, d_z, d_n, d_r = (self.new(rows, 3), self.new(rows, 3), *(self.new(rows) for _ in range(3)))
        each(mul, d_n, d_h, rest)
        each(tanh_gradient, (d_a, 2), d_n, n)
        each(mul, d_z, d_h, each(sub, d_r, h, n))
        each(sigmoid_gradient, (d_a, 1), d_z, z)
        each(mul, d_r, (d_a, 2), (u, 2))
        each(sigmoid_gradient, (d_a, 0), d_r, r)
        each(copy, d_u, d_a, columns=2 * self.H)
        each(mul, (d_u, 2), (d_a, 2), r)
        return d_a, d_u, each(mul, d_z, d_h, z), None

    def add_gradients(self, x: np.ndarray, h: np.ndarray, d_a: np.ndarray, d_u: np.ndarray, found: Arrays) -> None:
        """The weights' gradients of one step, added to `found`."""
        rows, N = np.array([[0, len(d_a)]]), d_a.shape[1]
        for name, left, d in (("x", x, d_a), ("h", h, d_u)):
            K = left.shape[1]
            run_parallel(weight_gradient, self.threads, left, 0, K, d, 0, N, rows, found[f"W_{name}"], 1)
            run_parallel(sum_rows, 1, d, 0, N, rows, found[f"b_{name}"], 1)


class Unfused:
    """A stack of layers run cell by cell; rows sorted by length, and lengths in one direction only."""

    def __init__(self, cell: str, shape: Shape, params: Arrays, arrays: Arrays, threads: int) -> None:
        self.shape, self.arrays, self.params = shape, arrays, params
        lengths = shape.lengths()
        self.active = [shape.N if lengths is None else int((lengths > t).sum()) for t in range(shape.T)]
        ends = [f"_l{n}{end}" for n in range(shape.layers) for end in ("", "_reverse")[: shape.directions]]
        own = ({name: params[name + end] for name in ("W_x", "W_h", "b_x", "b_h")} for end in ends)
        self.ends, self.steps = ends, [_Step(cell, shape.H, threads, p) for p in own]

    def forward(self, training: bool) -> tuple[np.ndarray, np.ndarray, list[Any]]:
        """y, hy and the tapes."""
        below, tapes = self.arrays["x"], []
        final = np.empty_like(self.arrays["hx"])
        for layer in range(self.shape.layers):
            above = np.zeros((self.shape.T, self.shape.N, self.shape.H * self.shape.directions), "f4")
            for direction in range(self.shape.directions):
                at = layer * self.shape.directions + direction
                tapes.append((below, self._layer(at, direction, below, above, final, training)))
            below = above
        return below, final, tapes

    def _layer(
        self, at: int, direction: int, x: np.ndarray, y: np.ndarray, final: np.ndarray, training: bool
    ) -> list[Any]:
        step, tape = self.steps[at], []
        step.pack(transposed=False)
        h, c = self.arrays["hx"][at], self.arrays["cx"][at] if "cx" in self.arrays else None
        for t in range(self.shape.T)[:: -1 if direction else 1]:
            rows = self.active[t]
            final[at, rows : len(h)] = h[rows:]
            old, c = h[:rows], None if c is None else c[:rows]
            h, c, kept = step.forward(x[t, :rows], old, c)
            step.each(copy, (y[t, :rows], direction), h)
            if training:
                tape.append((t, old, kept))
        final[at, : len(h)] = h
        return tape

    def backward(self, tapes: list[Any]) -> Arrays:
        """Gradients of x, the states and the parameters."""
        shape, d_above, found = self.shape, self.arrays["d_y"], {}
        for name in ("hx", "cx"):
            if name in self.arrays:
                found[f"d_{name}"] = np.zeros_like(self.arrays[name])
        for layer in range(shape.layers)[::-1]:
            d_below = np.zeros_like(tapes[layer * shape.directions][0])
            for direction in range(shape.directions):
                at = layer * shape.directions + direction
                self._layer_backward(at, direction, tapes[at], d_above, d_below, found)
            d_above = d_below
        return found | {"d_x": d_above}

    def _layer_backward(
        self, at: int, direction: int, tape: Any, d_y: np.ndarray, d_x: np.ndarray, found: Arrays
    ) -> None:
        step, (x, steps), end = self.steps[at], tape, self.ends[at]
        step.pack(transposed=True)
        own = {name: np.zeros_like(array) for name, array in step.p.items()}
        found.update({f"d_{name}{end}": array for name, array in own.items()})
        d_h = np.zeros((self.shape.N, self.shape.H), "f4")
        d_c = np.zeros_like(d_h)
        for t, h_old, kept in reversed(steps):
            rows = self.active[t]
            total = step.each(add, step.new(rows), (d_y[t, :rows], direction), d_h)
            d_a, d_u, d_old, d_c_old = step.backward(kept, total, d_c[:rows])
            step.add_gradients(x[t, :rows], h_old, d_a, d_u, own)
            d_in = step.product(d_a, "W_xt", rows)
            step.each(add, d_x[t, :rows], d_x[t, :rows], d_in, columns=d_in.shape[1])
            through = step.product(d_u, "W_ht", rows)
            d_h[:rows] = through if d_old is None else step.each(add, through, through, d_old)
            if d_c_old is not None:
                d_c[:rows] = d_c_old
        found["d_hx"][at] = d_h
        if "d_cx" in found:
            found["d_cx"][at] = d_c
