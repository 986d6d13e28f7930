"""Score translations, with confidence intervals, and test whether one system is better than another.

The package can be called: `nmt.evaluate(...)` is `score_translations`.
"""

from nmt.evaluate.scores import ALL_METRICS as ALL_METRICS
from nmt.evaluate.scores import HIGHER_IS_BETTER as HIGHER_IS_BETTER
from nmt.evaluate.scores import METRICS as METRICS
from nmt.evaluate.scores import TOKENIZERS as TOKENIZERS
from nmt.evaluate.scores import References as References
from nmt.evaluate.scores import Score as Score
from nmt.evaluate.scores import Utility as Utility
from nmt.evaluate.scores import bleu_interval as bleu_interval
from nmt.evaluate.scores import expected_utilities as expected_utilities
from nmt.evaluate.scores import format_table as format_table
from nmt.evaluate.scores import reference_texts as reference_texts
from nmt.evaluate.scores import score_translations as score_translations
from nmt.evaluate.scores import sentence_utility as sentence_utility
from nmt.evaluate.scores import split_references as split_references
from nmt.system.callable_package import make_callable

make_callable(__name__, "nmt.evaluate.scores", "score_translations")
