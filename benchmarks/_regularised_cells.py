"""The LSTM with noise in its recurrence while it trains, for cells.py: settings name these functions by dotted path.
The rates are low, as the trainings are short."""

from nmt.rnn import DropConnectCell, LSTMCell, RecurrentDropoutCell, ZoneoutCell
from nmt.rnn.cell import Cell


def zoneout_lstm(input_size: int, hidden_size: int) -> Cell:
    """Units that keep their old values."""
    return ZoneoutCell(LSTMCell(input_size, hidden_size), {"c": 0.25, "h": 0.025})


def drop_connect_lstm(input_size: int, hidden_size: int) -> Cell:
    """Weights of the state that are excluded."""
    return DropConnectCell(LSTMCell(input_size, hidden_size), 0.25)


def recurrent_dropout_lstm(input_size: int, hidden_size: int) -> Cell:
    """Units of the state that the gates do not see: the same ones at all steps."""
    return RecurrentDropoutCell(LSTMCell(input_size, hidden_size), 0.25)
