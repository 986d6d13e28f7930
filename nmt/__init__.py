"""nmt: neural machine translation with small recurrent models, fast on a CPU.

from nmt import Translator
print(Translator.load("runs/multi30k_de_en").translate(["ein hund läuft ."]))
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, which takes longer to import than all that a command needs to know of signals
if TYPE_CHECKING:
    from typing import Any

    from nmt.inference.generator import Generator
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["Generator", "Pivot", "Translation", "Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are loaded when first used: `import nmt` alone costs nothing."""
    if name in ("Translation", "Translator"):
        return getattr(import_module("nmt.inference.translator"), name)
    if name == "Generator":
        return import_module("nmt.inference.generator").Generator
    if name == "Pivot":
        return import_module("nmt.inference.pivot").Pivot
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
