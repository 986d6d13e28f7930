"""Read the training text of a language model: lines of one language as subwords."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.corpora.corpus import CHUNK, Side
from nmt.data.corpora.readers import Alone, Readers, rows_before
from nmt.data.corpora.rows import TokenRows
from nmt.data.corpora.sources import name_of, sources_of
from nmt.data.quality.faults import pair_hashes
from nmt.data.quality.filter import LineFilter
from nmt.errors import DataError
from nmt.special_tokens import EOS_ID
from nmt.system.lines import chunks

if TYPE_CHECKING:
    from nmt.config import CorpusConfig


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
    readers = Alone() if readers is None else readers
    # The arrays of each chunk of this reader, by chunk number.
    tokens: dict[int, np.ndarray] = {}
    lengths: dict[int, np.ndarray] = {}
    hashes: dict[int, np.ndarray] = {}
    total = 0
    for number, lines in enumerate(chunks(_lines(corpora, side.config.lang), CHUNK)):
        total += len(lines)
        if number % readers.size != readers.rank:
            if not number and rules is not None:
                rules.learn([lines])
            continue
        clean = side.clean(lines)
        if rules is not None:
            kept = np.flatnonzero(rules.keep([lines], [clean])).tolist()
            clean = [clean[index] for index in kept]
        cut = side.subwords.encode(clean)
        if rules is not None and rules.drops_duplicates:
            hashes[number] = pair_hashes(clean, clean)[[bool(row) for row in cut]]
        rows = [row for row in cut if row]
        tokens[number] = np.array([token for row in rows for token in row], dtype=np.int32)
        lengths[number] = np.array([len(row) for row in rows], dtype=np.int64)
    left_out = ""
    if rules is not None:
        rules.add_up(readers.all_say(rules.counts))
        left_out = rules.told()
        if rules.drops_duplicates:
            first = rules.first_of_each(readers.gathered(hashes, np.int64))
            before = rows_before(lengths, readers)
            for number, of_chunk in lengths.items():
                keep = first[before[number] : before[number + 1]]
                tokens[number] = tokens[number][np.repeat(keep, of_chunk)]
                lengths[number] = of_chunk[keep]
    starts = np.concatenate([[0], np.cumsum(readers.gathered(lengths, np.int64))]).astype(np.int64)
    if len(starts) == 1:
        what = f"none of {total} that data.filter lets through ({left_out})" if left_out else f"{total} blank ones"
        where = f"{corpora}.{side.config.lang}" if isinstance(corpora, str) else name_of(corpora)
        raise DataError(f"{where}: must contain at least one line of text, got {what}")
    rows_kept = TokenRows(readers.gathered(tokens, np.int32), starts)
    return TextCorpus(rows_kept, total, rules.told() if rules is not None else "")


def _lines(corpora: str | Sequence[CorpusConfig], lang: str) -> Iterator[str]:
    """Yield the lines of a text, unchanged."""
    for source in sources_of(corpora):
        for part in source.parts([lang]):
            for (line,) in part.rows():
                yield str(line)
