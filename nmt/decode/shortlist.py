"""Lexical shortlists: the target tokens that a sentence's translation may contain, so few that the output layer no
longer dominates the work.

A token is a candidate of a sentence if it is one of the frequent tokens, or a translation of one of the source tokens
(Jean et al. 2015, section 2.3, and Junczys-Dowmunt et al. 2018, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nmt.errors import ShapeError
from nmt.special_tokens import EOS_ID, UNK_ID


class Shortlist:
    """Candidates by source token.

    Args:
        starts: int64 [source vocabulary + 1].
        tokens: int32 [n]; the candidates of source token s are tokens[starts[s] : starts[s + 1]].
        always: int32 [m], candidates of every sentence.
        vocab_size: The size of the target vocabulary.

    Raises:
        ShapeError: The arrays do not fit one another.
    """

    def __init__(self, starts: np.ndarray, tokens: np.ndarray, always: np.ndarray, vocab_size: int) -> None:
        whole = len(starts) > 0 and starts[0] == 0 and starts[-1] == len(tokens) and (np.diff(starts) >= 0).all()
        every = np.concatenate([tokens, always])
        if not whole or (len(every) and not 0 <= every.min() <= every.max() < vocab_size):
            raise ShapeError(
                f"Shortlist: must have rising starts up to {len(tokens)} and tokens below {vocab_size}, got others"
            )
        self.starts, self.tokens, self.vocab_size = starts, tokens, vocab_size
        self.always = np.union1d(always, [UNK_ID, EOS_ID]).astype(np.int32)
        self._always_there = np.zeros(vocab_size, np.bool_)
        self._always_there[self.always] = True

    def candidates(self, src_ids: Sequence[int], needed: Iterable[int] = ()) -> np.ndarray:
        """Return the sorted candidates of a sentence, int32 [U]. They depend only on its tokens and on `needed`, the
        tokens that the options force, not on the rest of the batch."""
        parts = [self.tokens[self.starts[s] : self.starts[s + 1]] for s in set(src_ids) if s + 1 < len(self.starts)]
        # Scanning all tokens takes a tenth of the time of sorting a sentence's candidates.
        there = self._always_there.copy()
        there[np.concatenate([*parts, np.fromiter(needed, np.int32)])] = True
        return np.flatnonzero(there).astype(np.int32)
