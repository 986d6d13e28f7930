"""A text to go on with: the lines of one file as subwords."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmt.data.corpus import Side
from nmt.data.rows import TokenRows
from nmt.errors import DataError
from nmt.lines import chunks, read_lines
from nmt.special_tokens import EOS_ID

# Lines cleaned and cut together: enough to keep sentencepiece's threads busy, and small.
_CHUNK = 16_384


@dataclass(frozen=True)
class TextCorpus:
    """Lines of subwords, without begin and end; `total` of the file, of which blank ones are left out."""

    lines: TokenRows
    total: int

    def __len__(self) -> int:
        """Return the number of lines that were kept."""
        return len(self.lines)

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """How often each token is to be predicted in an epoch, EOS included: int64 [V]."""
        counts = np.bincount(self.lines.tokens, minlength=vocab_size)
        counts[EOS_ID] += len(self)
        return counts

    @property
    def num_tgt_tokens(self) -> int:
        """Tokens to predict in an epoch: EOS counted."""
        return len(self.lines.tokens) + len(self)

    @property
    def nbytes(self) -> int:
        """Bytes of all ids."""
        return self.lines.tokens.nbytes + self.lines.starts.nbytes


def load_text(prefix: str, side: Side) -> TextCorpus:
    """Read, clean and cut PREFIX.LANG (or .gz). Blank lines are left out.

    Raises DataError if the file is missing or damaged, or if no line is left.
    """
    path = f"{prefix}.{side.config.lang}"
    tokens, lengths, total = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], 0
    for lines in chunks(read_lines(path), _CHUNK):
        total += len(lines)
        rows = [row for row in side.subwords.encode(side.clean(lines)) if row]
        tokens.append(np.array([token for row in rows for token in row], dtype=np.int32))
        lengths.append(np.array([len(row) for row in rows], dtype=np.int64))
    starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    if len(starts) == 1:
        raise DataError(f"{path}: must hold at least one line of text, got {total} blank ones")
    return TextCorpus(TokenRows(np.concatenate(tokens), starts), total)
