"""Shortlists that follow what was learnt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nmt.decode.shortlist import Shortlist


def with_pairs(shortlist: Shortlist, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Shortlist:
    """Return a shortlist with which the target of each pair of subwords can be said. A token that is missing becomes a
    candidate of that source token of the pair that has the fewest: the rarest, so that other sentences stay short."""
    for source, target in pairs:
        known = np.unique([token for token in source if token + 1 < len(shortlist.starts)]).astype(np.int64)
        missing = np.setdiff1d(np.asarray(target, np.int32), shortlist.candidates(source))
        if not len(missing) or not len(known):
            continue
        at = int(known[np.argmin(np.diff(shortlist.starts)[known])])
        starts = shortlist.starts.copy()
        starts[at + 1 :] += len(missing)
        tokens = np.insert(shortlist.tokens, int(shortlist.starts[at + 1]), missing)
        shortlist = Shortlist(starts, tokens.astype(np.int32), shortlist.always, shortlist.vocab_size)
    return shortlist
