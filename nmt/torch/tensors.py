"""Tensors of torch as arrays of the core: which of them it can compute with, and whether one has changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.utils.rnn import PackedSequence

_SAMPLE = 16
_said: set[str] = set()


def say_once(text: str) -> None:
    """Warn of something once in a process."""
    if text not in _said:
        _said.add(text)
        warnings.warn(f"nmt.torch: {text}", RuntimeWarning, stacklevel=4)


def array_of(tensor: Tensor) -> np.ndarray:
    """Return the array of the same memory."""
    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()


def mode() -> str | None:
    """Return the mode of torch in which the core cannot compute, as a warning names it; None if there is none."""
    if torch.is_autocast_enabled("cpu"):
        return "autocast"
    if forward_ad._current_level >= 0 or torch._C._functorch.maybe_current_level() is not None:
        return "transforms of functions and forward-mode gradients"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() or torch._C._len_torch_dispatch_stack():
        return "compiled, traced and exported code"
    return None


def obstacle(tensors: Iterable[Tensor]) -> str | None:
    """Return why the core cannot compute with these tensors, as a warning names it; None if it can."""
    dtype = None
    for one in tensors:
        dtype = dtype or one.dtype
        if type(one) is not Tensor and type(one) is not torch.nn.Parameter:
            return f"tensors of the type {type(one).__name__}"
        if one.device.type != "cpu" or one.layout is not torch.strided:
            return f"tensors on {one.device.type}, {one.layout}"
        if one.dtype is not dtype:
            return f"tensors of {dtype} and {one.dtype}"
        if dtype not in (torch.float32, torch.float64):
            return f"tensors of {dtype}"
    return None


def padded(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """Return a packed sequence as x [T, B, D], rows sorted by length, and their lengths."""
    sizes = packed.batch_sizes
    x, lengths = torch._VF._pad_packed_sequence(packed.data, sizes, False, 0.0, len(sizes))
    return x, lengths


def repacked(packed: PackedSequence, y: Tensor, lengths: Tensor) -> PackedSequence:
    """Return y [T, B, n] packed as another sequence of the same lengths."""
    return packed._replace(data=torch._VF._pack_padded_sequence(y, lengths, False)[0])


class Seen:
    """A parameter as it was when its numbers were taken."""

    def __init__(self, tensor: Tensor) -> None:
        flat = array_of(tensor)
        self._tensor, self._place, self._version = tensor, tensor.data_ptr(), _version(tensor)
        self._is_plain = flat.flags.c_contiguous
        self._some = flat.reshape(-1)[:: max(1, flat.size // _SAMPLE)]
        self._numbers, self._copy = self._some.tobytes(), tensor.detach().clone()

    def is_same(self, tensor: Tensor) -> bool:
        """Return whether this is that parameter, and unchanged.

        What is written through `.data`, or an array of the same memory, counts no version: it is noticed if it changes
        one of some of the numbers, as most of what does so will.
        """
        return (
            tensor is self._tensor
            and tensor.data_ptr() == self._place
            and self._is_plain
            and _version(tensor) == self._version
            and self._some.tobytes() == self._numbers
        )

    def is_whole(self, tensor: Tensor) -> bool:
        """Return the same, with a look at all numbers."""
        return self.is_same(tensor) and torch.equal(self._copy, tensor)


def _version(tensor: Tensor) -> int:
    """Return how often a tensor was written to; tensors of the inference mode do not count."""
    return -1 if tensor.is_inference() else tensor._version
