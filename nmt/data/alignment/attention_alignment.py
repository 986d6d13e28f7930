"""Turn attention between subwords into alignments between words.

Words are separated by spaces in the detokenised text and counted from 0; a subword that starts with `▁` begins a word.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from nmt.special_tokens import SPACE

_LEAST_ATTENTION = 0.1
"""A source word whose attention, summed over all target subwords, is less than this counts as never attended to."""


def words_of(pieces: Sequence[str]) -> list[int]:
    """Return the word of each subword; a lone space belongs to the next word, or to the last one."""
    found: list[int] = []
    word, pending = -1, True
    for piece in pieces:
        pending = pending or piece.startswith(SPACE)
        if piece.strip(SPACE):
            word += pending
            pending = False
            found.append(word)
        else:
            found.append(word + 1)
    return [max(0, min(number, word)) for number in found]


def hard_alignment(weights: np.ndarray, src_words: Sequence[int], tgt_words: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs (source word, target word), ordered by source word, then target word. Each target subword is aligned
    with the source subword that it attends to most, or with none if that is the end of the sentence."""
    pairs = {
        (src_words[int(s)], tgt_words[t])
        for t, s in enumerate(weights[: len(tgt_words)].argmax(axis=1).tolist())
        if s < len(src_words)
    }
    return sorted(pairs)


def soft_alignment(weights: np.ndarray, src_words: Sequence[int], tgt_words: Sequence[int]) -> np.ndarray:
    """Return the attention between words: [target words, source words + 1]; the last column is the end of the source.

    Attention is averaged over the subwords of a target word and summed over the subwords of a source word, so that each
    row sums to 1. Target subwords beyond `tgt_words`, such as the end of the translation, are ignored.
    """
    num_src, num_tgt = max(src_words, default=-1) + 1, max(tgt_words, default=-1) + 1
    found = np.zeros((num_tgt, num_src + 1))
    for t, word in enumerate(tgt_words):
        found[word, :num_src] += np.bincount(src_words, weights[t, : len(src_words)], minlength=num_src)[:num_src]
        found[word, num_src] += weights[t, len(src_words)]
    return found / np.bincount(tgt_words, minlength=num_tgt)[:, None]


def pharaoh(pairs: Sequence[tuple[int, int]]) -> str:
    """Return the pairs in Pharaoh format: `0-0 1-2 ...`."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def never_attended(weights: np.ndarray, src_words: Sequence[int]) -> list[int]:
    """Return the source words that receive almost no attention; `weights` [T, S] covers all target subwords and EOS."""
    totals = np.bincount(src_words, weights[:, : len(src_words)].sum(axis=0), minlength=max(src_words, default=-1) + 1)
    return [int(n) for n in np.flatnonzero(totals < _LEAST_ATTENTION)]


def with_unknown_replaced(
    pieces: Sequence[str],
    unknown: Sequence[bool],
    weights: np.ndarray,
    source: str,
    src_words: Sequence[int],
    dictionary: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Return the target subwords with each unknown one replaced by the source word that it attends to most, or by that
    word's entry in the dictionary; a run of unknown subwords with the same source word gives it once (Jean et al. 2015,
    section 3.3; Luong et al. 2015b, section 3).
    """
    words = source.split(" ")  # as `words_of` counts them: a no-break space is a part of its word
    found: list[str] = []
    last = -1
    for t, piece in enumerate(pieces):
        if not unknown[t]:
            found.append(piece)
            last = -1
            continue
        word = src_words[int(weights[t, : len(src_words)].argmax())] if src_words else -1
        if 0 <= word < len(words) and word != last:
            text = dictionary.get(words[word]) or dictionary.get(words[word].lower()) or words[word]
            found.append(text if found and found[-1] == SPACE else SPACE + text)
        last = word
    return found
