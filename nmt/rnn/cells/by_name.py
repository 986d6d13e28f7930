"""The names of recurrent cells in settings and tools, and the functions that make them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nmt.rnn.cell import Cell
from nmt.rnn.cells.convolution import ConvolutionCell, QRNNCell
from nmt.rnn.cells.elementwise import IndRNNCell, LRNCell, MinGRUCell, MinLSTMCell, RGLRUCell, SRUCell, SSRUCell
from nmt.rnn.cells.elman import ElmanCell
from nmt.rnn.cells.gru import DeepTransitionGRUCell, GRUCell
from nmt.rnn.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell, MILSTMCell
from nmt.rnn.cells.lstm import LSTMCell
from nmt.rnn.cells.lstm_variants import CoupledLSTMCell, PeepholeLSTMCell, ProjectedLSTMCell, SLSTMCell
from nmt.rnn.cells.matrix_states import LinearAttentionCell, MLSTMCell, RWKV7Cell, S6Cell
from nmt.rnn.cells.wrapping import BlockCell, NormedCell


def _attention(**options: Any) -> Callable[[int, int], Cell]:
    """Return the function of a layer of linear attention with these options."""
    return lambda D, H: NormedCell(LinearAttentionCell(D, H, **options))


CELLS_BY_NAME: dict[str, Callable[[int, int], Cell]] = {
    "lstm": LSTMCell,
    "gru": GRUCell,
    "gru_reset_before": partial(GRUCell, reset_after=False),
    "rnn_tanh": ElmanCell,
    "rnn_relu": partial(ElmanCell, nonlinearity="relu"),
    "layer_norm_lstm": LayerNormLSTMCell,
    "layer_norm_gru": LayerNormGRUCell,
    "mi_lstm": MILSTMCell,
    "mi_lstm_layer_norm": partial(MILSTMCell, layer_norm=True),
    "peephole_lstm": PeepholeLSTMCell,
    "coupled_lstm": CoupledLSTMCell,
    # The memory is twice as wide as the output.
    "projected_lstm": lambda D, H: ProjectedLSTMCell(D, 2 * H, H),
    "deep_transition_gru": DeepTransitionGRUCell,
    "sru": SRUCell,
    "ssru": SSRUCell,
    "qrnn": QRNNCell,
    "min_gru": MinGRUCell,
    "min_lstm": MinLSTMCell,
    "slstm": SLSTMCell,
    "ind_rnn": IndRNNCell,
    "convolution": ConvolutionCell,
    "lrn": LRNCell,
    "hawk": lambda D, H: NormedCell(BlockCell(D, RGLRUCell(H, H), convolved=False, gate="gelu")),
    "mamba": lambda D, H: NormedCell(BlockCell(D, S6Cell(H, H))),
    "linear_attention": _attention(decay="none"),
    "retnet": _attention(decay="constant"),
    "gla": _attention(decay="key"),
    "hgrn2": _attention(decay="tied"),
    "gated_delta_net": _attention(decay="head", delta=True, window=4),
    "kda": _attention(decay="key", delta=True, window=4),
    "mlstm": lambda D, H: NormedCell(MLSTMCell(D, H)),
    "rwkv7": lambda D, H: NormedCell(RWKV7Cell(D, H)),
}
"""Functions of (input_size, hidden_size); the cell's output has hidden_size numbers."""
