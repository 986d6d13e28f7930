"""Yield the cleaned lines of a text, for training subwords and for comparisons with other texts."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np

from nmt.data.corpora.corpus import CHUNK, clean_line, clean_lines
from nmt.data.corpora.sources import format_of, sources_of
from nmt.data.quality.filter import LineFilter

if TYPE_CHECKING:
    from nmt.config import CorpusConfig, SideConfig


def training_text(
    corpora: "str | Sequence[CorpusConfig]",
    sides: Sequence["SideConfig"],
    every_side: Sequence["SideConfig"] | None = None,
) -> Iterator[str]:
    """Yield the cleaned lines of one or both sides without tags, for training subwords. Files of lines are read one
    after the other; a table has the columns of `every_side`, if those are more than `sides`."""
    for source in sources_of(corpora):
        if format_of(source.path) == "lines":
            for side in sides:
                for part in source.parts([side.lang]):
                    lines = (str(line) for (line,) in part.rows())
                    while chunk := list(islice(lines, CHUNK)):
                        yield from clean_lines(chunk, side.lowercase, side.normalize)
            continue
        both = every_side or sides
        wanted = [(number, side) for number, side in enumerate(both) if side in sides]
        for part in source.parts([side.lang for side in both]):
            for row in part.rows():
                for number, side in wanted:
                    yield clean_line(str(row[number]), side.lowercase, side.normalize)


def filtered_text(
    corpora: "str | Sequence[CorpusConfig]",
    sides: Sequence["SideConfig"],
    every_side: Sequence["SideConfig"],
    rules: LineFilter,
) -> Iterator[str]:
    """Yield the lines of `training_text` without the pairs that `rules` drop, which check every side."""
    parts = [part for source in sources_of(corpora) for part in source.parts([side.lang for side in every_side])]
    rows = (row for part in parts for row in part.rows() if None not in row)
    while chunk := list(islice(rows, CHUNK)):
        raw = cast(list[tuple[str, ...]], list(zip(*chunk, strict=True)))
        clean = [
            clean_lines(lines, side.lowercase, side.normalize) for lines, side in zip(raw, every_side, strict=True)
        ]
        kept = np.flatnonzero(rules.keep(raw, clean)).tolist()
        for lines, side in zip(clean, every_side, strict=True):
            if side in sides:
                yield from (lines[number] for number in kept)
