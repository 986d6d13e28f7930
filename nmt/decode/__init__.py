"""Search: a cell run over time whose state is the decoder's state and the hypotheses."""

from nmt.decode.ensemble import Ensemble
from nmt.decode.hypotheses import Hypothesis
from nmt.decode.live_search import LiveSearch
from nmt.decode.rules.options import SearchOptions, Shortlist
from nmt.decode.search import Forced, SearchPath, SearchPlan, force, search, search_plan
from nmt.decode.session import Session
from nmt.search_settings import LengthPenalty

__all__ = ["Ensemble", "Forced", "Hypothesis", "LengthPenalty", "LiveSearch", "SearchOptions", "SearchPath"]
__all__ += ["SearchPlan", "Session", "Shortlist", "force", "search", "search_plan"]
