"""The recurrent core: any cell over time, forward and back. Arrays in, arrays out.

Names are loaded when they are first used, so that importing a cell does not import Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.rnn.arrays.weights import Weights, initial_params
    from nmt.rnn.cell import Axes, Captured, Cell, Param, Scope, Shape, State
    from nmt.rnn.cells.attention import AttentionCell
    from nmt.rnn.cells.convolution import ConvolutionCell, QRNNCell
    from nmt.rnn.cells.elementwise import IndRNNCell, LRNCell, MinGRUCell, MinLSTMCell, RGLRUCell, SRUCell, SSRUCell
    from nmt.rnn.cells.elman import ElmanCell
    from nmt.rnn.cells.gru import DeepTransitionGRUCell, GRUCell
    from nmt.rnn.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell, MILSTMCell
    from nmt.rnn.cells.lstm import LSTMCell
    from nmt.rnn.cells.lstm_variants import (
        CoupledLSTMCell,
        LSTMVariantCell,
        PeepholeLSTMCell,
        ProjectedLSTMCell,
        SLSTMCell,
    )
    from nmt.rnn.cells.matrix_states import LinearAttentionCell, MLSTMCell, RWKV7Cell, S6Cell
    from nmt.rnn.cells.wrapping import (
        BlockCell,
        DropoutCell,
        HeadsCell,
        LearnedStartCell,
        LinearCell,
        NormedCell,
        OutputDropoutCell,
        Past,
        RecurrentDropoutCell,
        ResidualCell,
        SkipCell,
        StackCell,
        UnrolledCell,
        ZoneoutCell,
    )
    from nmt.rnn.check_cell import check
    from nmt.rnn.functions import (
        axes,
        concat,
        dot,
        exp,
        flat,
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
        total,
        transposed_matmul,
        weighted_sum,
    )
    from nmt.rnn.layers.layer_stack import reverse_sequence
    from nmt.rnn.layers.operators import GRU, LSTM, RNN
    from nmt.rnn.scan.chunks import ChunkedScan
    from nmt.rnn.scan.scan import Scan

_HOMES = {
    "arrays.weights": "Weights initial_params",
    "cell": "Axes Captured Cell Param Scope Shape State",
    "cells": """
        AttentionCell BlockCell ConvolutionCell CoupledLSTMCell DeepTransitionGRUCell
        DropoutCell ElmanCell GRUCell HeadsCell IndRNNCell LayerNormGRUCell LayerNormLSTMCell LearnedStartCell
        LinearAttentionCell LinearCell LRNCell LSTMCell LSTMVariantCell MILSTMCell MinGRUCell MinLSTMCell
        MLSTMCell NormedCell OutputDropoutCell Past PeepholeLSTMCell ProjectedLSTMCell QRNNCell
        RecurrentDropoutCell ResidualCell RGLRUCell RWKV7Cell S6Cell SkipCell SLSTMCell SRUCell SSRUCell
        StackCell UnrolledCell ZoneoutCell
    """,
    "check_cell": "check",
    "functions": """
        axes concat dot exp flat maximum mean positive relu sigmoid softmax softplus split sqrt tanh total
        transposed_matmul weighted_sum
    """,
    "layers.operators": "GRU LSTM RNN",
    "layers.layer_stack": "reverse_sequence",
    "scan.chunks": "ChunkedScan",
    "scan.scan": "Scan",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
# Modules that can be imported under these names, wherever their files are.
_ALIASES = {"layouts": "layers.weight_layouts", "operators": "layers.operators", "sequences": "layers.layer_stack"}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _ALIASES:
        return import_module(f"nmt.rnn.{_ALIASES[name]}")
    if name not in _MODULES:
        raise AttributeError(f"module 'nmt.rnn' has no attribute {name!r}")
    return getattr(import_module(f"nmt.rnn.{_MODULES[name]}"), name)
