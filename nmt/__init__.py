"""nmt: neural machine translation with small recurrent models, fast on a CPU.

from nmt import Translator
print(Translator.load("runs/multi30k_de_en").translate("ein hund läuft ."))
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, which takes longer to import than all that a command needs to know of signals
if TYPE_CHECKING:
    from typing import Any

    from nmt.config import Config
    from nmt.errors import NMTError
    from nmt.evaluate.scores import Score
    from nmt.evaluate.scores import score_translations as evaluate
    from nmt.inference.pivot import Pivot
    from nmt.inference.translation import Constraints, Translation
    from nmt.inference.translator import Translator
    from nmt.learning.learning_translator import LearningTranslator
    from nmt.train.run.trainer import TrainingResult
    from nmt.train.run.training import train

__version__ = "0.1.0"
_PLACES = {
    "Config": "nmt.config",
    "Constraints": "nmt.inference.translation",
    "LearningTranslator": "nmt.learning.learning_translator",
    "NMTError": "nmt.errors",
    "Pivot": "nmt.inference.pivot",
    "Score": "nmt.evaluate.scores",
    "TrainingResult": "nmt.train.run.trainer",
    "Translation": "nmt.inference.translation",
    "Translator": "nmt.inference.translator",
}
"""The modules of the public names; `evaluate` and `train` are packages that can be called."""
__all__ = [
    "Config",
    "Constraints",
    "LearningTranslator",
    "NMTError",
    "Pivot",
    "Score",
    "TrainingResult",
    "Translation",
    "Translator",
    "__version__",
    "evaluate",
    "train",
]


def __getattr__(name: str) -> Any:
    """Public names are loaded when first used: `import nmt` alone costs nothing."""
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name in __all__:
        return import_module(f"nmt.{name}")
    if name in ("Generator", "LanguageScorer"):
        from nmt.config.removed import instead

        raise ImportError(f"nmt.{name} {instead(f'nmt.{name}')}")
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
