"""Output heads: the loss of a decoder's outputs, and its gradient. A model chooses its head when it is made."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.model.batch_pass import BatchPass, Objective, RealTargets, SentencePairs, real_positions
from nmt.model.copying import Copies, copy_loss, source_rows
from nmt.rnn.arrays.device_operations import OutputGradients
from nmt.rnn.device import Device

if TYPE_CHECKING:
    from nmt.model.network import Network


class PlainHead:
    """The softmax of the output layer over the decoder's outputs."""

    shows_attention = False
    """Whether it reads attention weights, which the decoder then appends to its outputs."""

    def __init__(self, network: Network) -> None:
        self.network: Network = weakref.proxy(network)  # which has this object, and is freed when it is replaced
        self.width = network.decoder.cell.output_size

    def loss(self, y: Any, batch: Any, how: BatchPass) -> tuple[Any, Any]:
        """Return sums of the loss over the real positions (see `Device.output_loss`) of outputs y [T, B, H] or [T, B,
        H + n] with attention weights, and its gradient with respect to y or the first H columns; None in a pass without
        gradients."""
        return self._loss_of(y if y.shape[-1] == self.width else self._columns(y, self.width), batch, how)

    def _columns(self, y: Any, count: int) -> Any:
        device = self.network.device
        return device.xp.ascontiguousarray(device.host(y)[..., :count])

    def _loss_of(self, y: Any, batch: SentencePairs, how: BatchPass) -> tuple[Any, Any]:
        """Return sums and gradient of y [T, B, H], the input of the output layer."""
        device, dtype, H = self.network.device, self.network.dtype, y.shape[-1]
        target, real = how.target, how.real or RealTargets.of(batch)
        rows = real.rows
        d_y = None if target is None else how.allocate(y.shape, dtype)
        with how.allocate.temporary():
            h, d_h = (how.allocate((len(rows), H), dtype) for _ in range(2))
            device.take_rows(y.reshape(-1, H), device.index(rows), h, how.threads)
            sums = self._loss_of_rows(h, d_h, real.tokens, how)
            if d_y is not None:
                device.spread_rows(d_h, rows, d_y.reshape(-1, H), how.threads)
        if target is not None:
            target.ready("output")  # not of a tied matrix, which has another name: its gradient is final later
        return sums, d_y

    def _loss_of_rows(self, h: Any, d_h: Any, targets: np.ndarray, how: BatchPass) -> Any:
        """Return sums of the loss over h [R, H], the input of the output layer, against targets [R]; with a target of
        the pass, write the gradient of h to d_h and add those of the parameters."""
        device, layer = self.network.device, self.network.output_layer
        into, scale = self._gradients(d_h, how)
        divergence = how.objective.r_drop
        return device.output_loss(h, layer, targets, how.label_smoothing, into, scale, how.threads, divergence)

    def _gradients(self, d_h: Any, how: BatchPass) -> tuple[OutputGradients | None, float]:
        """Return where the output layer's gradients go, and their factor."""
        if how.target is None:
            return None, 1.0
        layer, arrays = self.network.output_layer, how.target.arrays
        return OutputGradients(d_h, arrays[layer.matrix], arrays[layer.bias]), how.target.scale


class CopyingHead(PlainHead):
    """The pointer-generator's mixture of that softmax with copies of the source (see copying.py)."""

    shows_attention = True

    def loss(self, y: Any, batch: Any, how: BatchPass) -> tuple[Any, Any]:
        """Return sums, and the gradient of all of y [T, B, H + n]; see `PlainHead.loss`."""
        device, rows = self.network.device, real_positions(batch)
        outputs = device.host(y).reshape(-1, y.shape[-1])
        src = batch.src if how.objective.copied is None else how.objective.copied
        ids, targets = source_rows(src, rows % y.shape[1]), batch.tgt_out.reshape(-1)[rows]
        h, copies = Copies.split(outputs[rows], ids, self.width)
        into, scale = self._gradients(np.empty_like(h), how)
        given = self.network.output_layer, h, copies, targets, how.label_smoothing, into, scale, how.threads
        sums, d_gate, d_weights = copy_loss(*given)
        if how.target is None or into is None:
            return sums, None
        d_y = np.zeros_like(outputs)
        d_y[rows] = np.concatenate([device.host(into.h), d_gate[:, None], d_weights], axis=1)
        how.target.ready("output")
        return sums, d_y.reshape(y.shape)


class EditsHead(PlainHead):
    """The softmax over edit actions; the source token at the pointer is the decoder's last output."""

    def loss(self, y: Any, batch: Any, how: BatchPass) -> tuple[Any, Any]:
        """Return sums, and the gradient of all of y; see `PlainHead.loss`."""
        network, h = self.network, self._columns(y, self.width - 1)
        actions: Any = network.actions
        tgt_out = actions.targets(batch.tgt_out, y[..., -1].astype(batch.tgt_out.dtype))
        sums, d_h = self._loss_of(h, replace(batch, tgt_out=tgt_out), how)
        if d_h is None:
            return sums, None
        return sums, np.concatenate([network.device.host(d_h), np.zeros_like(d_h[..., :1])], axis=2)


class AttentionLossHead:
    """Another head, whose loss has terms of the attention weights as well."""

    shows_attention = True

    def __init__(self, head: PlainHead) -> None:
        self._head = head

    def loss(self, y: Any, batch: Any, how: BatchPass) -> tuple[Any, Any]:
        """Return sums, and the gradient of all of y [T, B, H + n]; see `PlainHead.loss`."""
        device, H, target = self._head.network.device, self._head.width, how.target
        scale = target.scale if target else 1.0
        sums, d_y = device.host(self._head.loss(y, batch, how))
        found = attention_loss(device, y[..., H:], how.objective, scale)
        sums[1] += found[0]
        if d_y.shape != y.shape:
            return sums, device.xp.concatenate([d_y, found[1]], axis=2)
        d_y[..., H:] += found[1]
        return sums, d_y


_LEAST = 1e-8
"""The least attention: smaller values are raised to it, so that their logarithm is finite."""


def attention_loss(device: Device, weights: Any, objective: Objective, scale: float) -> tuple[Any, Any]:
    """Return the cross entropy between the alignment's shares and attention, weights [T, B, n], that is added to the
    loss (Chen et al. 2016, section 3.1, equation 5), and its gradient with respect to these, times `scale`."""
    xp = device.xp
    gradient, total = xp.zeros_like(weights), xp.zeros((), "float64")
    if (found := objective.alignment) is not None:
        at = device.index(found.step), device.index(found.row), device.index(found.position)
        share = device.upload(found.share.astype(weights.dtype))
        there = xp.maximum(weights[at], weights.dtype.type(_LEAST))
        total -= objective.guided_alignment * (share * xp.log(there)).astype("float64").sum()
        gradient[at] -= weights.dtype.type(objective.guided_alignment * scale) * share / there
    return total, gradient
