"""Read the training text of a language model: lines of one language as subwords."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np

from nmt.data.corpora.corpus import CHUNK, Collected, Side, Tokenizer, clean_line, clean_lines
from nmt.data.corpora.readers import Readers, TokenRows
from nmt.data.corpora.sources import format_of, name_of, sources_of
from nmt.data.quality.filter import LineFilter
from nmt.errors import DataError
from nmt.special_tokens import EOS_ID
from nmt.system.lines import chunks

if TYPE_CHECKING:
    from nmt.config import CorpusConfig, SideConfig


@dataclass(frozen=True)
class TextCorpus:
    """Lines of subwords, without BOS and EOS. `total` counts the lines of the files, including blank ones, which are
    dropped. `filtered` is a text that says how many lines each rule of `data.filter` removed."""

    lines: TokenRows
    total: int
    filtered: str = ""

    def __len__(self) -> int:
        """Return the number of lines that were kept."""
        return len(self.lines)

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """Return how often each token is to be predicted in an epoch, EOS included: int64 [V]."""
        counts = np.bincount(self.lines.tokens, minlength=vocab_size)
        counts[EOS_ID] += len(self)
        return counts

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of tokens to predict in an epoch, EOS counted."""
        return len(self.lines.tokens) + len(self)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of all ids."""
        return self.lines.tokens.nbytes + self.lines.starts.nbytes


def load_text(
    corpora: str | Sequence[CorpusConfig], side: Side, rules: LineFilter | None = None, readers: Readers | None = None
) -> TextCorpus:
    """Read, clean and tokenize PREFIX.LANG (or .gz, .zst), or a list of corpora, one after another. Drop blank lines
    and those that `rules` remove. `readers` share the work; all of them must call this function.

    Raises DataError if a file is missing or damaged, or if no line is left.
    """
    collected = Collected(Tokenizer((side,), True, rules), readers)
    for lines in chunks(_lines(corpora, side.config.lang), CHUNK):
        collected.add([(line,) for line in lines])
    (rows,), _, _ = collected.gathered()
    filtered = "" if rules is None else rules.summary()
    if not len(rows):
        what = f"{collected.total} blank ones"
        if filtered:
            what = f"none of {collected.total} that data.filter lets through ({filtered})"
        where = f"{corpora}.{side.config.lang}" if isinstance(corpora, str) else name_of(corpora)
        raise DataError(f"{where}: must hold at least one line of text, got {what}")
    return TextCorpus(rows, collected.total, filtered)


def _lines(corpora: str | Sequence[CorpusConfig], lang: str) -> Iterator[str]:
    """Yield the lines of a text, unchanged."""
    for source in sources_of(corpora):
        for part in source.parts([lang]):
            for (line,) in part.rows():
                yield str(line)


def training_text(
    corpora: str | Sequence[CorpusConfig], sides: Sequence[SideConfig], every_side: Sequence[SideConfig] | None = None
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
    corpora: str | Sequence[CorpusConfig],
    sides: Sequence[SideConfig],
    every_side: Sequence[SideConfig],
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
