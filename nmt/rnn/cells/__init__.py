"""The cells that come with the package, one idea per file."""

from nmt.rnn.cells.attention import Attention, AttentionCell, ConditionalAttentionCell
from nmt.rnn.cells.conv_s2s import (
    ConvDecoderLayer,
    ConvEncoderLayer,
    ConvEntryCell,
    ConvMemoryCell,
    ConvOutputCell,
)
from nmt.rnn.cells.convolution import ConvolutionCell, QRNNCell
from nmt.rnn.cells.elementwise.ind_rnn import IndRNNCell
from nmt.rnn.cells.elementwise.lrn import LRNCell
from nmt.rnn.cells.elementwise.min_rnn import MinGRUCell, MinLSTMCell
from nmt.rnn.cells.elementwise.rg_lru import RGLRUCell
from nmt.rnn.cells.elementwise.sru import SRUCell
from nmt.rnn.cells.elementwise.ssru import SSRUCell
from nmt.rnn.cells.elman import ElmanCell
from nmt.rnn.cells.gru import GRUCell
from nmt.rnn.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell
from nmt.rnn.cells.lstm import LSTMCell
from nmt.rnn.cells.lstm_variants import CoupledLSTMCell, LSTMVariantCell, PeepholeLSTMCell, ProjectedLSTMCell
from nmt.rnn.cells.matrix_states.linear_attention import LinearAttentionCell
from nmt.rnn.cells.matrix_states.mamba import S6Cell
from nmt.rnn.cells.matrix_states.mlstm import MLSTMCell
from nmt.rnn.cells.matrix_states.rwkv7 import RWKV7Cell
from nmt.rnn.cells.multiplicative import MILSTMCell
from nmt.rnn.cells.pointer import PointerCell
from nmt.rnn.cells.slstm import SLSTMCell
from nmt.rnn.cells.wrapping.block import BlockCell, NormedCell
from nmt.rnn.cells.wrapping.deep_transition import DeepTransitionGRUCell
from nmt.rnn.cells.wrapping.heads import HeadsCell
from nmt.rnn.cells.wrapping.learned_start import LearnedStartCell
from nmt.rnn.cells.wrapping.past import Past, SkipCell
from nmt.rnn.cells.wrapping.probe import AttentionProbe
from nmt.rnn.cells.wrapping.regularised import OutputDropoutCell, RecurrentDropoutCell, ZoneoutCell
from nmt.rnn.cells.wrapping.unrolled import UnrolledCell
from nmt.rnn.cells.wrapping.wrappers import DropoutCell, LinearCell, ResidualCell, StackCell
