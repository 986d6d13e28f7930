"""Search: a cell run over time whose state is the decoder's state and the hypotheses."""

from nmt.decode.ensemble import Ensemble
from nmt.decode.forced import Forced, force
from nmt.decode.fusion import Fusion
from nmt.decode.hypotheses import Hypothesis
from nmt.decode.live_search import LiveSearch
from nmt.decode.plan import SearchPath, SearchPlan, search_plan
from nmt.decode.rules.options import SearchOptions
from nmt.decode.search import search
from nmt.decode.session import Session
from nmt.decode.shortlist import Shortlist
from nmt.search_settings import LengthPenalty

__all__ = [
    "Ensemble",
    "Forced",
    "Fusion",
    "Hypothesis",
    "LengthPenalty",
    "LiveSearch",
    "SearchOptions",
    "SearchPath",
    "SearchPlan",
    "Session",
    "Shortlist",
    "force",
    "search",
    "search_plan",
]
