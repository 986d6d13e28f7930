"""Search: a cell run over time whose state is the decoder's state and the hypotheses."""

from nmt.decode.ensemble import Ensemble as Ensemble
from nmt.decode.ensemble import Fusion as Fusion
from nmt.decode.hypotheses import Hypothesis as Hypothesis
from nmt.decode.live_search import LiveSearch as LiveSearch
from nmt.decode.rules.options import SearchOptions as SearchOptions
from nmt.decode.rules.options import Shortlist as Shortlist
from nmt.decode.search import Forced as Forced
from nmt.decode.search import SearchPath as SearchPath
from nmt.decode.search import SearchPlan as SearchPlan
from nmt.decode.search import force as force
from nmt.decode.search import search as search
from nmt.decode.search import search_plan as search_plan
from nmt.decode.session import Session as Session
from nmt.search_settings import LengthPenalty as LengthPenalty
