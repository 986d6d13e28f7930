"""The recurrent core: any cell over time, forward and back. Arrays in, arrays out.

Names are loaded when first used, so that looking at a cell takes no Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.rnn.cell import Captured, Cell, Param, Scope, Shape, State
    from nmt.rnn.cells import (
        AttentionCell,
        ConvolutionCell,
        CoupledLSTMCell,
        DeepTransitionGRUCell,
        DropConnectCell,
        DropoutCell,
        ElmanCell,
        GRUCell,
        IndRNNCell,
        LayerNormGRUCell,
        LayerNormLSTMCell,
        LearnedStartCell,
        LinearCell,
        LSTMCell,
        LSTMVariantCell,
        MILSTMCell,
        MinGRUCell,
        MinLSTMCell,
        OutputDropoutCell,
        Past,
        PeepholeLSTMCell,
        ProjectedLSTMCell,
        QRNNCell,
        RecurrentDropoutCell,
        ResidualCell,
        SkipCell,
        SLSTMCell,
        SRUCell,
        SSRUCell,
        StackCell,
        UnrolledCell,
        ZoneoutCell,
    )
    from nmt.rnn.checking import check
    from nmt.rnn.chunks import ChunkedScan
    from nmt.rnn.graph import (
        concat,
        dot,
        exp,
        maximum,
        mean,
        positive,
        relu,
        sigmoid,
        softmax,
        softplus,
        split,
        sqrt,
        tanh,
        transposed_matmul,
        weighted_sum,
    )
    from nmt.rnn.operators import GRU, LSTM, RNN
    from nmt.rnn.padding import reverse_sequence
    from nmt.rnn.scan import Scan
    from nmt.rnn.weights import Weights, initial_params

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AttentionCell",
    "ConvolutionCell",
    "CoupledLSTMCell",
    "DeepTransitionGRUCell",
    "DropConnectCell",
    "IndRNNCell",
    "LSTMVariantCell",
    "LearnedStartCell",
    "LayerNormGRUCell",
    "LayerNormLSTMCell",
    "MILSTMCell",
    "MinGRUCell",
    "MinLSTMCell",
    "OutputDropoutCell",
    "Past",
    "PeepholeLSTMCell",
    "ProjectedLSTMCell",
    "QRNNCell",
    "RecurrentDropoutCell",
    "SLSTMCell",
    "SRUCell",
    "SSRUCell",
    "SkipCell",
    "UnrolledCell",
    "ZoneoutCell",
    "maximum",
    "mean",
    "positive",
    "softplus",
    "sqrt",
    "check",
    "Captured",
    "Cell",
    "ChunkedScan",
    "DropoutCell",
    "ElmanCell",
    "GRUCell",
    "LSTMCell",
    "LinearCell",
    "Param",
    "ResidualCell",
    "Scan",
    "Scope",
    "Shape",
    "StackCell",
    "State",
    "Weights",
    "concat",
    "dot",
    "exp",
    "initial_params",
    "relu",
    "reverse_sequence",
    "sigmoid",
    "softmax",
    "split",
    "tanh",
    "transposed_matmul",
    "weighted_sum",
]

_HOMES = {
    "cell": ("Captured", "Cell", "Param", "Scope", "Shape", "State"),
    "cells": ("Past",),
    "checking": ("check",),
    "chunks": ("ChunkedScan",),
    "operators": ("GRU", "LSTM", "RNN"),
    "padding": ("reverse_sequence",),
    "scan": ("Scan",),
    "weights": ("Weights", "initial_params"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nmt.rnn' has no attribute {name!r}")
    module = _MODULES.get(name) or ("cells" if name.endswith("Cell") else "graph")
    return getattr(import_module(f"nmt.rnn.{module}"), name)
