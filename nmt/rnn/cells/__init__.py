"""The cells we ship, one idea a file."""

from nmt.rnn.cells.attention import AttentionCell
from nmt.rnn.cells.elman import ElmanCell
from nmt.rnn.cells.gru import GRUCell
from nmt.rnn.cells.lstm import LSTMCell
from nmt.rnn.cells.probe import AttentionProbe, CoverageCell
from nmt.rnn.cells.wrappers import DropoutCell, LinearCell, ResidualCell, StackCell

__all__ = [
    "AttentionCell",
    "AttentionProbe",
    "CoverageCell",
    "DropoutCell",
    "ElmanCell",
    "GRUCell",
    "LSTMCell",
    "LinearCell",
    "ResidualCell",
    "StackCell",
]
