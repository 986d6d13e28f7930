"""Read files of phrases."""

from __future__ import annotations


def phrases(path: str | None) -> list[str]:
    """Return the non-blank lines of a file; an empty list for None."""
    from nmt.system.lines import read_text

    return [] if path is None else [line for line in read_text(path) if line.strip()]


def phrase_pairs(path: str | None) -> list[tuple[str, str]]:
    """Read phrases and their translations, separated by a tab, or by `=` in a line without a tab. Raises DataError for
    any other line."""
    from nmt.errors import DataError

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
