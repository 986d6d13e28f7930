"""Search: a cell run over time whose state is the decoder's state and the hypotheses."""

from nmt.decode.beam import Hypothesis
from nmt.decode.penalty import LengthPenalty
from nmt.decode.search import search

__all__ = ["Hypothesis", "LengthPenalty", "search"]
