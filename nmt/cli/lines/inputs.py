"""Read what the options of nmt-translate name: models, and files of phrases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nmt.errors import DataError
from nmt.system.lines import read_text

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


def phrases(path: str | None) -> list[str]:
    """Return the non-blank lines of a file; an empty list for None."""
    return [] if path is None else [line for line in read_text(path) if line.strip()]


def phrase_pairs(path: str | None) -> list[tuple[str, str]]:
    """Read phrases and their translations, separated by a tab, or by `=` in a line without a tab. Raises DataError for
    any other line."""
    found = []
    for line in phrases(path):
        columns = [one.strip() for one in (line.split("\t") if "\t" in line else line.split("=", 1))]
        if len(columns) != 2 or not all(columns):
            raise DataError(
                f"{path}: a line must be a phrase, a tab and its translation, or both with = between, "
                f"got {line!r}; correct the line"
            )
        found.append((columns[0], columns[1]))
    return found
