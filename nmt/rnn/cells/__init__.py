"""The cells that come with the package, one idea per file."""

from nmt.rnn.cells.attention import Attention, AttentionCell, ConditionalAttentionCell
from nmt.rnn.cells.convolution import (
    ConvDecoderLayer,
    ConvEncoderLayer,
    ConvEntryCell,
    ConvMemoryCell,
    ConvolutionCell,
    ConvOutputCell,
    QRNNCell,
)
from nmt.rnn.cells.elementwise import IndRNNCell, LRNCell, MinGRUCell, MinLSTMCell, RGLRUCell, SRUCell, SSRUCell
from nmt.rnn.cells.elman import ElmanCell
from nmt.rnn.cells.gru import DeepTransitionGRUCell, GRUCell
from nmt.rnn.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell, MILSTMCell
from nmt.rnn.cells.lstm import LSTMCell
from nmt.rnn.cells.lstm_variants import CoupledLSTMCell, LSTMVariantCell, PeepholeLSTMCell, ProjectedLSTMCell, SLSTMCell
from nmt.rnn.cells.matrix_states import LinearAttentionCell, MLSTMCell, RWKV7Cell, S6Cell
from nmt.rnn.cells.wrapping import (
    AttentionProbe,
    BlockCell,
    DropoutCell,
    HeadsCell,
    LearnedStartCell,
    LinearCell,
    NormedCell,
    OutputDropoutCell,
    Past,
    PointerCell,
    RecurrentDropoutCell,
    ResidualCell,
    SkipCell,
    StackCell,
    UnrolledCell,
    ZoneoutCell,
)
