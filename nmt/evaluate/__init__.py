"""Score translations, with confidence intervals, and test whether one system is better than another.

The package can be called: `nmt.evaluate(...)` is `score_translations`.
"""

from nmt.system.callable_package import make_callable

make_callable(__name__, "nmt.evaluate.scores", "score_translations")
