"""How the tests build and call the operators: one place that knows their interface."""

import numpy as np

from nmt.rnn import operators


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
        layer.params[name][...] = value
    return layer


def cast(array, dtype):
    """`array` in dtype; None stays None."""
    return None if array is None else np.ascontiguousarray(array, dtype)


def states(layer, hx, cx):
    """The state arguments this operator takes."""
    dtype = layer.params["W_h_l0"].dtype
    hx, cx = cast(hx, dtype), cast(cx, dtype)
    return (hx, cx) if isinstance(layer, operators.LSTM) else (hx,)


def counts(lengths):
    """Lengths as an integer array; None stays None."""
    return None if lengths is None else np.asarray(lengths, np.int32)


def named(results):
    """The results as a dict: y, hy and, where there is one, cy."""
    return dict(zip(("y", "hy", "cy"), results, strict=False))


def infer(layer, x, hx=None, cx=None, lengths=None):
    """layer(...), results by name."""
    x = cast(x, layer.params["W_h_l0"].dtype)
    return named(layer(x, *states(layer, hx, cx), lengths=counts(lengths)))


def forward(layer, x, hx=None, cx=None, lengths=None):
    """layer.forward(...), which keeps what backward needs; results by name."""
    x = cast(x, layer.params["W_h_l0"].dtype)
    return named(layer.forward(x, *states(layer, hx, cx), lengths=counts(lengths)))


def backward(layer, d_y, d_hy=None, d_cy=None):
    """layer.backward(...) of the last forward."""
    dtype = layer.params["W_h_l0"].dtype
    cotangents = [cast(d, dtype) for d in (d_y, d_hy, d_cy)]
    return layer.backward(*cotangents) if isinstance(layer, operators.LSTM) else layer.backward(*cotangents[:2])
