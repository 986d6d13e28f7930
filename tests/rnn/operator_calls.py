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


def _results(run, layer, x, hx=None, cx=None, lengths=None):
    """Host arrays by name: y, hy and, where there is one, cy."""
    states = [cast(layer, state) for state in (hx, cx)[: len(layer.states)]]
    found = run(cast(layer, x), *states, lengths=None if lengths is None else np.asarray(lengths, np.int32))
    return dict(zip(("y", "hy", "cy"), map(layer.device.download, found), strict=False))


def infer(layer, *given, **named):
    """layer(...), results by name."""
    return _results(layer, layer, *given, **named)


def forward(layer, *given, **named):
    """layer.forward(...), which keeps what backward needs; results by name."""
    return _results(layer.forward, layer, *given, **named)


def backward(layer, d_y, d_hy=None, d_cy=None):
    """layer.backward(...) of the last forward, gradients on the host."""
    download = layer.device.download
    found = layer.backward(*(cast(layer, d) for d in (d_y, d_hy, d_cy)[: 1 + len(layer.states)]))
    arrays = {f.name: getattr(found, f.name) for f in fields(found) if f.name != "params"}
    moved = {name: None if array is None else download(array) for name, array in arrays.items()}
    return replace(found, **moved, params={name: download(g) for name, g in found.params.items()})
