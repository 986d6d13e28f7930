"""The recurrent core: any cell over time, forward and back. Arrays in, arrays out.

Names are loaded when they are first used, so that importing a cell does not import Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.rnn.arrays.weights import Weights, initial_params
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
    from nmt.rnn.check_cell import check
    from nmt.rnn.functions import (
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
    from nmt.rnn.layers.operators import GRU, LSTM, RNN
    from nmt.rnn.layers.padding import reverse_sequence
    from nmt.rnn.scan.chunks import ChunkedScan
    from nmt.rnn.scan.scan import Scan

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
    "check_cell": ("check",),
    "arrays.weights": ("Weights", "initial_params"),
    "layers.operators": ("GRU", "LSTM", "RNN"),
    "layers.padding": ("reverse_sequence",),
    "scan.chunks": ("ChunkedScan",),
    "scan.scan": ("Scan",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}
# Modules that can be imported under these names, wherever their files are.
_DOORS = {"layouts": "layers.weight_layouts", "operators": "layers.operators", "sequences": "layers.sequences"}


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return import_module(f"nmt.rnn.{_DOORS[name]}")
    if name not in __all__:
        raise AttributeError(f"module 'nmt.rnn' has no attribute {name!r}")
    module = _MODULES.get(name) or ("cells" if name.endswith("Cell") else "functions")
    return getattr(import_module(f"nmt.rnn.{module}"), name)
