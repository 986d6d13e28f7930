"""The names of recurrent cells in settings and tools, and the functions that make them."""

from collections.abc import Callable
from functools import partial

from nmt.rnn.cell import Cell
from nmt.rnn.cells.convolution import ConvolutionCell, QRNNCell
from nmt.rnn.cells.elman import ElmanCell
from nmt.rnn.cells.gru import GRUCell
from nmt.rnn.cells.ind_rnn import IndRNNCell
from nmt.rnn.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell
from nmt.rnn.cells.lstm import LSTMCell
from nmt.rnn.cells.lstm_variants import CoupledLSTMCell, PeepholeLSTMCell, ProjectedLSTMCell
from nmt.rnn.cells.min_rnn import MinGRUCell, MinLSTMCell
from nmt.rnn.cells.multiplicative import MILSTMCell
from nmt.rnn.cells.slstm import SLSTMCell
from nmt.rnn.cells.sru import SRUCell
from nmt.rnn.cells.ssru import SSRUCell
from nmt.rnn.cells.wrapping.deep_transition import DeepTransitionGRUCell

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
}
"""Functions of (input_size, hidden_size); the cell's output has hidden_size numbers."""
