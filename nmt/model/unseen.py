"""Means of what is known for letters and features that training never has, in models that copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.special_tokens import EOS_ID, UNK_ID, UNKNOWN_FEATURE_ID


@dataclass(frozen=True)
class RowMean:
    """A row of a parameter that is the mean of others, `rows`, after each update. No batch reads it."""

    name: str
    row: int
    rows: np.ndarray


def means_of_unseen(src: np.ndarray, tgt: np.ndarray, features: Sequence[int], copy_of: int = 0) -> list[RowMean]:
    """Return the means that stand for what training never has, given all its source and target ids, the ids of
    features, and the id of the copy of token 0.

    An unknown letter and its copy are read as the mean of those that are copied, an unknown feature as that of all
    features. Where training has unknown letters, they are learned instead.
    """
    letters, known = np.setdiff1d(src, features), np.intersect1d(src, features)
    letters = np.intersect1d(letters[letters > EOS_ID], tgt - copy_of)
    means = [RowMean("src_embeddings", UNKNOWN_FEATURE_ID, known)]
    if UNK_ID not in src:
        means.append(RowMean("src_embeddings", UNK_ID, letters))
        means.append(RowMean("tgt_embeddings", copy_of + UNK_ID, copy_of + letters))
    return [one for one in means if len(one.rows)]
