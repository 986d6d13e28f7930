"""PyTorch's recurrent layers on a GPU, cuDNN inside, as a peer of `gpu.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

PEERS = ("float32", "tf32", "bfloat16")
_LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN"}
_NAMES = {"W_x": "weight_ih", "W_h": "weight_hh", "b_x": "bias_ih", "b_h": "bias_hh"}


class TorchLayer:
    """A layer of `torch.nn` with our numbers; rows of different lengths as a PackedSequence, packed beforehand."""

    def __init__(self, cell: str, arrays: dict[str, np.ndarray], dtype: str) -> None:
        import torch

        self.torch = torch
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
        x, H = arrays["x"], arrays["hx"].shape[-1]
        self.module = getattr(torch.nn, _LAYERS[cell])(x.shape[-1], H).to("cuda", kind)
        with torch.no_grad():
            for name, array in arrays.items():
                if name[:3] in _NAMES:
                    theirs = torch.from_numpy(np.ascontiguousarray(array.T if array.ndim == 2 else array))
                    getattr(self.module, _NAMES[name[:3]] + name[3:]).copy_(theirs)
        self.module.flatten_parameters()
        states = tuple(self._upload(arrays[name], kind) for name in ("hx", "cx") if name in arrays)
        self.states: Any = states if len(states) == 2 else states[0]
        given, self.d_y = self._upload(x, kind), self._upload(arrays["d_y"], kind)
        self.leaf = self.given = given.requires_grad_(True)
        self.lengths = arrays.get("lengths")
        if self.lengths is not None:
            pack = torch.nn.utils.rnn.pack_padded_sequence
            self.d_y = pack(self.d_y, torch.from_numpy(self.lengths)).data
            packed = pack(given.detach(), torch.from_numpy(self.lengths))
            self.leaf = packed.data.requires_grad_(True)
            self.given = torch.nn.utils.rnn.PackedSequence(self.leaf, packed.batch_sizes)

    def _upload(self, array: np.ndarray, kind: Any) -> Any:
        return self.torch.from_numpy(np.ascontiguousarray(array)).to("cuda", kind)

    def inference(self) -> Any:
        """Outputs alone."""
        with self.torch.inference_mode():
            return self.module(self.given, self.states)[0]

    def training(self) -> Any:
        """Outputs, and gradients of inputs and parameters."""
        self.module.zero_grad(set_to_none=True)
        self.leaf.grad = None
        y = self.module(self.given, self.states)[0]
        (y if self.lengths is None else y.data).backward(self.d_y)
        return y

    def results(self) -> dict[str, np.ndarray]:
        """y and the gradient of x, zero beyond the rows' ends."""
        y, d_x = self.training(), self.leaf.grad
        if self.lengths is not None:
            unpack = self.torch.nn.utils.rnn.pad_packed_sequence
            d_x = unpack(self.torch.nn.utils.rnn.PackedSequence(d_x, self.given.batch_sizes))[0]
            y = unpack(y)[0]
        return {"y": y.detach().float().cpu().numpy(), "d_x": d_x.float().cpu().numpy()}

    def wait(self) -> None:
        """For all that was launched."""
        self.torch.cuda.synchronize()
