"""Load the models that the options of nmt-translate name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translator


def load_translator(model_dir: str, options: dict[str, Any]) -> Translator | Pivot:
    """Load the translator, and the other models of its ensemble or of --then. A language model is for the last one.
    Raises NMTError."""
    from nmt.inference.translator import Translator

    kinds = {name: options[name] for name in ("threads", "checkpoint", "compute_dtype", "device", "cells")}
    if options["then"]:
        from nmt.inference.pivot import Pivot

        found: Translator | Pivot = Translator.load(model_dir, **kinds)
        for number, place in enumerate(options["then"], start=1):
            lm = options["lm"] if number == len(options["then"]) else None
            found = Pivot(found, Translator.load(place, lm=lm, **kinds))
        return found
    translator = Translator.load(model_dir, lm=options["lm"], **kinds)
    if options["ensemble"]:
        kinds["threads"] = translator.num_threads
        others = [Translator.load(other, lm=False, **kinds) for other in options["ensemble"]]
        translator = translator.together_with(others, options["ensemble_average"])
    return translator
