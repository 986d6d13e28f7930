"""MXNet 1.9's recurrent operators, fused and cell by cell, as a peer of `rnn_ops.py`; run by a Python 3.8 that has it.

Its CPU operator knows no rows of different lengths.
"""

from __future__ import annotations

import numpy as np

for _old in ("bool", "object", "float", "int"):  # names that MXNet 1.9 uses and NumPy has dropped
    if _old not in vars(np):
        setattr(np, _old, getattr(__import__("builtins"), _old))

import mxnet as mx  # noqa: E402
from _worker import Bench, serve  # noqa: E402

_MODES = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "rnn_tanh", "rnn_relu": "rnn_relu"}
_NAMES = {"W_x": "i2h_weight", "W_h": "h2h_weight", "b_x": "i2h_bias", "b_h": "h2h_bias"}


class MXNetBench(Bench):
    """A symbol bound once for each kind of pass."""

    def __init__(self, request, arrays):
        if "lengths" in arrays:
            raise ValueError("no rows of different lengths on the CPU")
        self.cell, self.fused = request["cell"], request["fused"]
        self.layers, self.both = request["layers"], request["bidirectional"]
        self.arrays, self.H = arrays, arrays["hx"].shape[-1]
        self.ends = ["_l%d%s" % (n, e) for n in range(self.layers) for e in ("", "_reverse")[: 1 + self.both]]  # noqa: UP031
        self.values = self._values()
        symbol = self._symbol()
        self.outputs = symbol.list_outputs()
        shapes = {name: value.shape for name, value in self.values.items()}
        self.runs = {}
        for training in (False, True):
            run = symbol.simple_bind(ctx=mx.cpu(), grad_req="write" if training else "null", **shapes)
            for name, value in self.values.items():
                run.arg_dict[name][:] = value
            self.runs[training] = run
        zeros = [mx.nd.zeros(o.shape) for o in self.runs[True].outputs]
        self.d_outputs = [mx.nd.array(arrays["d_y"]), *zeros[1:]]

    def _states(self):
        return [name for name in ("hx", "cx") if name in self.arrays]

    def _values(self):
        """Arrays by the names of the symbol's arguments."""
        a, values = self.arrays, {"data": self.arrays["x"]}
        if self.fused:
            values.update({name: a[name] for name in self._states()})
            weights = [a[n + end].T.ravel() for end in self.ends for n in ("W_x", "W_h")]
            biases = [a[n + end] for end in self.ends for n in ("b_x", "b_h")]
            values["r_parameters"] = np.concatenate(weights + biases)
            return values
        for at, end in enumerate(self.ends):
            values.update({name + end: a[name][at] for name in self._states()})
            for ours, theirs in _NAMES.items():
                values[end + "_" + theirs] = a[ours + end].T if ours.startswith("W") else a[ours + end]
        return values

    def _symbol(self):
        T, data = self.arrays["x"].shape[0], mx.sym.Variable("data")
        if self.fused:
            cell = mx.rnn.FusedRNNCell(
                self.H,
                num_layers=self.layers,
                mode=_MODES[self.cell],
                bidirectional=self.both,
                prefix="r_",
                get_next_state=True,
            )
            begin = [mx.sym.Variable(name) for name in self._states()]
            y, final = cell.unroll(T, inputs=data, begin_state=begin, layout="TNC", merge_outputs=True)
            return mx.sym.Group([y, final[0]])
        stack, begin = mx.rnn.SequentialRNNCell(), []
        for layer in range(self.layers):
            ends = self.ends[layer * (1 + self.both) : (layer + 1) * (1 + self.both)]
            cells = [self._cell(end + "_") for end in ends]
            stack.add(mx.rnn.BidirectionalCell(*cells, output_prefix="bi%d_" % layer) if self.both else cells[0])  # noqa: UP031
            begin += [mx.sym.Variable(name + end) for end in ends for name in self._states()]
        y, _ = stack.unroll(T, inputs=data, begin_state=begin, layout="TNC", merge_outputs=True)
        return mx.sym.Group([y])

    def _cell(self, prefix):
        if self.cell == "lstm":
            return mx.rnn.LSTMCell(self.H, prefix=prefix, forget_bias=0.0)
        if self.cell == "gru":
            return mx.rnn.GRUCell(self.H, prefix=prefix)
        return mx.rnn.RNNCell(self.H, activation=self.cell[4:], prefix=prefix)

    def run(self, training):
        run = self.runs[training]
        run.forward(is_train=training)
        if training:
            run.backward(self.d_outputs)
            mx.nd.waitall()
        else:
            run.outputs[0].wait_to_read()
        return run

    def results(self):
        found = {}
        for mode, training in (("inference", False), ("training", True)):
            outputs = self.run(training).outputs
            found[mode + "_y"] = outputs[0].asnumpy()
            if self.fused:
                found[mode + "_hy"] = outputs[1].asnumpy()
        gradients = {name: array.asnumpy() for name, array in self.runs[True].grad_dict.items()}
        found["d_x"] = gradients["data"]
        for name in self._states():
            found["d_" + name] = (
                gradients[name] if self.fused else np.stack([gradients[name + end] for end in self.ends])
            )
        flat, at = gradients.get("r_parameters"), 0
        for kind in (("W_x", "W_h"), ("b_x", "b_h")):
            for end in self.ends:
                for name in kind:
                    if self.fused:
                        size = self.arrays[name + end].size
                        gradient, at = flat[at : at + size].reshape(self.arrays[name + end].T.shape), at + size
                    else:
                        gradient = gradients[end + "_" + _NAMES[name]]
                    found["d_" + name + end] = np.ascontiguousarray(gradient.T)
        return found


if __name__ == "__main__":
    serve("MXNet " + mx.__version__, MXNetBench)
