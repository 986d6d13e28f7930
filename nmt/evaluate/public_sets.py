"""Test sets of sacrebleu, by name: they are downloaded once, into ~/.sacrebleu."""

from __future__ import annotations

from difflib import get_close_matches

from nmt.errors import DataError
from nmt.evaluate.scores import not_downloaded


def public_set_files(name: str) -> tuple[str, list[str]]:
    """Return the source file and the reference files of a test set.

    Args:
        name: The name of the set and its language pair: `wmt14/full:en-de`.

    Raises:
        DataError: There is none of that name, or it cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS

    named, _, pair = name.partition(":")
    if named not in DATASETS:
        near = ", ".join(get_close_matches(named, DATASETS, 5, 0.5)) or "wmt14, wmt19, mtedx/test"
        raise DataError(f"--test-set: must be one of sacrebleu's, got {named!r}; near it are {near}")
    found = DATASETS[named]
    if pair not in found.langpairs:
        pairs = ", ".join(found.langpairs)
        raise DataError(f"--test-set: must be {named}:PAIR with a pair of {pairs}, got {pair!r}; add one of them")
    try:
        return found.get_source_file(pair), found.get_reference_files(pair)
    except OSError as error:
        raise not_downloaded(f"the test set {name}", error) from None
