"""How the tests build and call the operators: one place that knows their interface."""

from dataclasses import fields, replace

import numpy as np

from nmt.rnn.layers import operators


def build(kind, input_size, hidden_size, params, dtype, **options):
    """The operator for an oracle's cell name, holding `params` (cast to dtype)."""
    if kind == "lstm":
        layer = operators.LSTM(input_size, hidden_size, dtype=dtype, **options)
    elif kind.startswith("gru"):
        layer = operators.GRU(input_size, hidden_size, reset_after=kind == "gru", dtype=dtype, **options)
    else:
        nonlinearity = kind.removeprefix("rnn_")
        layer = operators.RNN(input_size, hidden_size, nonlinearity=nonlinearity, dtype=dtype, **options)
    assert set(layer.params) == set(params)
    for name, value in params.items():
        assert layer.params[name].shape == value.shape, name
        assert layer.params[name].dtype == dtype, name
        layer.params[name][...] = cast(layer, value)
    return layer


def cast(layer, array):
    """`array` in the layer's dtype, on its device; None stays None."""
    return None if array is None else layer.device.upload(np.ascontiguousarray(array, layer.dtype))


def states(layer, hx, cx):
    """The state arguments this operator takes."""
    hx, cx = cast(layer, hx), cast(layer, cx)
    return (hx, cx) if isinstance(layer, operators.LSTM) else (hx,)


def counts(lengths):
    """Lengths as an integer array; None stays None."""
    return None if lengths is None else np.asarray(lengths, np.int32)


def named(layer, results):
    """The results as a dict of host arrays: y, hy and, where there is one, cy."""
    return dict(zip(("y", "hy", "cy"), map(layer.device.download, results), strict=False))


def infer(layer, x, hx=None, cx=None, lengths=None):
    """layer(...), results by name."""
    x = cast(layer, x)
    return named(layer, layer(x, *states(layer, hx, cx), lengths=counts(lengths)))


def forward(layer, x, hx=None, cx=None, lengths=None):
    """layer.forward(...), which keeps what backward needs; results by name."""
    x = cast(layer, x)
    return named(layer, layer.forward(x, *states(layer, hx, cx), lengths=counts(lengths)))


def backward(layer, d_y, d_hy=None, d_cy=None):
    """layer.backward(...) of the last forward, gradients on the host."""
    cotangents = [cast(layer, d) for d in (d_y, d_hy, d_cy)]
    is_lstm = isinstance(layer, operators.LSTM)
    found = layer.backward(*cotangents) if is_lstm else layer.backward(*cotangents[:2])
    download = layer.device.download
    arrays = {f.name: getattr(found, f.name) for f in fields(found) if f.name != "params"}
    moved = {name: None if array is None else download(array) for name, array in arrays.items()}
    return replace(found, **moved, params={name: download(g) for name, g in found.params.items()})
