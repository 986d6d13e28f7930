"""Test sets of sacrebleu, by name: they are downloaded once, into ~/.sacrebleu."""

from __future__ import annotations

from difflib import get_close_matches

from nmt.errors import DataError
from nmt.evaluate.scores import not_downloaded
from nmt.system.notices import Show, tell_nobody


def public_set_files(name: str, notify: Show = tell_nobody) -> tuple[str, list[str]]:
    """Return the source file and the reference files of a test set. Of a set that has a pair in the other direction
    alone, the first reference becomes the source.

    Args:
        name: The name of the set and its language pair: `wmt14/full:en-de`.
        notify: Receives a warning if the direction is the other one.

    Raises:
        DataError: There is none of that name, or it cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS

    named, _, pair = name.partition(":")
    if named not in DATASETS:
        near = ", ".join(get_close_matches(named, DATASETS, 5, 0.5)) or "wmt14, wmt19, mtedx/test"
        raise DataError(f"--test-set: must be one of sacrebleu's, got {named!r}; near it are {near}")
    found = DATASETS[named]
    reverse = "-".join(reversed(pair.split("-")))
    if pair not in found.langpairs and reverse not in found.langpairs:
        pairs, got = ", ".join(found.langpairs), repr(pair) if pair else "no pair"
        raise DataError(f"--test-set: must be {named}:PAIR with a pair of {pairs}, got {got}; use one of them")
    try:
        if pair in found.langpairs:
            return found.get_source_file(pair), found.get_reference_files(pair)
        notify(f"warning: {named} has {reverse} alone: its reference is the source here, and its source the reference")
        return found.get_reference_files(reverse)[0], [found.get_source_file(reverse)]
    except OSError as error:
        raise not_downloaded(f"the test set {name}", error) from None
