"""PyTorch's recurrent layers as a peer of `rnn_ops.py`; run by a Python that has PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from _worker import Bench, serve

_LAYERS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN, "rnn_relu": torch.nn.RNN}
_NAMES = {"W_x": "weight_ih", "W_h": "weight_hh", "b_x": "bias_ih", "b_h": "bias_hh"}


class TorchBench(Bench):
    """A layer of `torch.nn`; rows of different lengths as a PackedSequence that is packed beforehand."""

    def __init__(self, request, arrays):
        torch.set_num_threads(request["threads"])
        dtype = getattr(torch, request["dtype"])
        kind = {"nonlinearity": request["cell"][4:]} if request["cell"].startswith("rnn") else {}
        x, H = torch.from_numpy(arrays["x"]), arrays["hx"].shape[-1]
        layers, both = request["layers"], request["bidirectional"]
        self.module = _LAYERS[request["cell"]](x.shape[-1], H, layers, bidirectional=both, **kind).to(dtype)
        self.names = {}
        with torch.no_grad():
            for ours, array in arrays.items():
                if ours[:3] not in _NAMES:
                    continue
                theirs = _NAMES[ours[:3]] + ours[3:]
                self.names[ours] = theirs
                getattr(self.module, theirs).copy_(torch.from_numpy(array.T if array.ndim == 2 else array))
        given = [torch.from_numpy(arrays[name]).to(dtype) for name in ("hx", "cx") if name in arrays]
        self.states = [state.requires_grad_(True) for state in given]
        self.d_y = torch.from_numpy(arrays["d_y"]).to(dtype)
        self.x = x.to(dtype)
        self.lengths = None
        if "lengths" in arrays:
            self.lengths = torch.from_numpy(arrays["lengths"])
            self.d_y = torch.nn.utils.rnn.pack_padded_sequence(self.d_y, self.lengths).data
            packed = torch.nn.utils.rnn.pack_padded_sequence(self.x, self.lengths)
            self.leaf = packed.data.requires_grad_(True)
            self.given = torch.nn.utils.rnn.PackedSequence(self.leaf, packed.batch_sizes)
        else:
            self.leaf = self.given = self.x.requires_grad_(True)

    def _forward(self):
        states = tuple(self.states) if len(self.states) == 2 else self.states[0]
        y, final = self.module(self.given, states)
        return y, final if len(self.states) == 2 else (final,)

    def run(self, training):
        if not training:
            self.module.eval()
            with torch.inference_mode():
                return self._forward()
        self.module.train()
        for leaf in (*self.module.parameters(), *self.states, self.leaf):
            leaf.grad = None
        y, final = self._forward()
        (y if self.lengths is None else y.data).backward(self.d_y)
        return y, final

    def results(self):
        found = {}
        for mode, training in (("inference", False), ("training", True)):
            y, final = self.run(training)
            y = y if self.lengths is None else torch.nn.utils.rnn.pad_packed_sequence(y)[0]
            found.update({mode + "_y": y, mode + "_hy": final[0]})
        d_x = self.leaf.grad
        if self.lengths is not None:
            batch_sizes = self.given.batch_sizes
            d_x = torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.PackedSequence(d_x, batch_sizes))[0]
        found["d_x"] = d_x
        for name, state in zip(("d_hx", "d_cx")[: len(self.states)], self.states, strict=True):
            found[name] = state.grad
        for ours, theirs in self.names.items():
            gradient = getattr(self.module, theirs).grad
            found["d_" + ours] = gradient.T if gradient.ndim == 2 else gradient
        return {name: np.ascontiguousarray(array.detach().float().numpy()) for name, array in found.items()}


if __name__ == "__main__":
    serve("PyTorch " + torch.__version__, TorchBench)
