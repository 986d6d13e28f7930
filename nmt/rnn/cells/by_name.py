"""The names of recurrent cells in settings and tools, and the functions that make them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nmt.rnn import cells
from nmt.rnn.cell import Cell


def _attention(**options: Any) -> Callable[[int, int], Cell]:
    """Return the function of a layer of linear attention with these options."""
    return lambda D, H: cells.NormedCell(cells.LinearAttentionCell(D, H, **options))


CELLS_BY_NAME: dict[str, Callable[[int, int], Cell]] = {
    "lstm": cells.LSTMCell,
    "gru": cells.GRUCell,
    "gru_reset_before": partial(cells.GRUCell, reset_after=False),
    "rnn_tanh": cells.ElmanCell,
    "rnn_relu": partial(cells.ElmanCell, nonlinearity="relu"),
    "layer_norm_lstm": cells.LayerNormLSTMCell,
    "layer_norm_gru": cells.LayerNormGRUCell,
    "mi_lstm": cells.MILSTMCell,
    "mi_lstm_layer_norm": partial(cells.MILSTMCell, layer_norm=True),
    "peephole_lstm": cells.PeepholeLSTMCell,
    "coupled_lstm": cells.CoupledLSTMCell,
    # The memory is twice as wide as the output.
    "projected_lstm": lambda D, H: cells.ProjectedLSTMCell(D, 2 * H, H),
    "deep_transition_gru": cells.DeepTransitionGRUCell,
    "sru": cells.SRUCell,
    "ssru": cells.SSRUCell,
    "qrnn": cells.QRNNCell,
    "min_gru": cells.MinGRUCell,
    "min_lstm": cells.MinLSTMCell,
    "slstm": cells.SLSTMCell,
    "ind_rnn": cells.IndRNNCell,
    "convolution": cells.ConvolutionCell,
    "lrn": cells.LRNCell,
    "hawk": lambda D, H: cells.NormedCell(cells.BlockCell(D, cells.RGLRUCell(H, H), convolved=False, gate="gelu")),
    "mamba": lambda D, H: cells.NormedCell(cells.BlockCell(D, cells.S6Cell(H, H))),
    "linear_attention": _attention(decay="none"),
    "retnet": _attention(decay="constant"),
    "gla": _attention(decay="key"),
    "hgrn2": _attention(decay="tied"),
    "gated_delta_net": _attention(decay="head", delta=True, window=4),
    "kda": _attention(decay="key", delta=True, window=4),
    "mlstm": lambda D, H: cells.NormedCell(cells.MLSTMCell(D, H)),
    "rwkv7": lambda D, H: cells.NormedCell(cells.RWKV7Cell(D, H)),
}
"""Functions of (input_size, hidden_size); the cell's output has hidden_size numbers."""
