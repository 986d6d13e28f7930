"""Word alignments: of training pairs, learned and converted to subwords; of translations, from their attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from nmt.data.alignment.learned import LearnedAlignment
from nmt.data.corpora.corpus import ParallelCorpus
from nmt.data.corpora.readers import TokenRows
from nmt.data.tokens.subwords import Subwords
from nmt.special_tokens import EOS_ID, PAD_ID, SPACE, boundary_ids


class WordAlignments:
    """The word alignments of the pairs of a corpus. `pairs`: for each line of the training text, its links: source and
    target words, counted from 0, alternate; `subwords`: those of both sides; they show which tokens begin a word;
    `boundaries`: the tokens placed around a source (see `boundary_ids`)."""

    def __init__(self, pairs: TokenRows, subwords: tuple[Subwords, Subwords], boundaries: str = "eos") -> None:
        self._starts = [_word_starts(side) for side in subwords]
        self._before = len(boundary_ids(boundaries)[0])
        self._pairs = pairs

    @classmethod
    def learn(
        cls, corpus: ParallelCorpus, subwords: tuple[Subwords, Subwords], boundaries: str = "eos"
    ) -> WordAlignments:
        """Return those that are learned from the corpus itself (see `learned`)."""
        src, tgt = corpus.src, corpus.tgt
        model = LearnedAlignment.learn(src, tgt, (subwords[0].vocab_size, subwords[1].vocab_size))
        words = [_words_of_rows(_word_starts(side), rows) for side, rows in zip(subwords, (src, tgt), strict=True)]
        found: list[np.ndarray] = []
        for row, i, j in model.links(src, tgt):
            links = np.stack([corpus.line_numbers[row], words[0][src.starts[row] + i], words[1][tgt.starts[row] + j]])
            found.append(np.unique(links, axis=1))
        every = np.concatenate([np.zeros((3, 0), np.int64), *found], axis=1)
        counts = 2 * np.bincount(every[0], minlength=corpus.total)
        return cls(TokenRows.of_lengths(every[1:].T.astype(np.int32).ravel(), counts), subwords, boundaries)

    def of_batch(
        self, src: np.ndarray, src_lengths: np.ndarray, tgt_out: np.ndarray, tgt_lengths: np.ndarray, lines: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the alignment of a batch's subwords. `src`, `src_lengths`: int [S, B] and [B], with the boundary
        tokens; `tgt_out`, `tgt_lengths`: int [T, B] and [B], with EOS; `lines`: line numbers of the pairs [B]. Returns
        steps, rows, source positions (int64 [N]) and weights (float64 [N]): each subword of a target word is aligned
        with every subword of the source words that its word is aligned with, with equal weights."""
        found: list[tuple[np.ndarray, ...]] = [(*np.zeros((3, 0), np.int64), np.zeros(0))]
        for row, line in enumerate(lines.tolist()):
            pairs = self._pairs[line].reshape(-1, 2)
            if not len(pairs):
                continue
            source = self._words(0, src[: src_lengths[row], row])
            target = self._words(1, tgt_out[: tgt_lengths[row], row])
            linked = np.zeros((target.max(initial=0) + 1, source.max(initial=0) + 1), bool)
            linked[pairs[:, 1], pairs[:, 0]] = True
            steps, places = np.flatnonzero(target >= 0), np.flatnonzero(source >= 0)
            step, place = np.nonzero(linked[target[steps]][:, source[places]])
            counts = np.bincount(step, minlength=len(steps))
            found.append((steps[step], np.full(len(step), row), places[place], 1.0 / counts[step]))
        step, rows, position, share = (np.concatenate(column) for column in zip(*found, strict=True))
        return step, rows, position, share

    def _words(self, side: int, ids: np.ndarray) -> np.ndarray:
        """Return the word that each token belongs to, counted from 0; -1 for boundary tokens."""
        real = (ids != EOS_ID) & (ids != PAD_ID)
        if side == 0 and self._before:
            real[: self._before] = False
        words = np.full(len(ids), -1)
        begins = self._starts[side][ids[real]]
        begins[:1] = True
        words[real] = np.cumsum(begins) - 1
        return words


def _words_of_rows(starts: np.ndarray, rows: TokenRows) -> np.ndarray:
    """Return the word of each token of some rows, counted from 0 in each row."""
    first = starts[rows.tokens].astype(np.int64)
    first[rows.starts[:-1]] = 1
    count = np.cumsum(first)
    words: np.ndarray = count - np.repeat(count[rows.starts[:-1]], rows.lengths)
    return words


def _word_starts(subwords: Subwords) -> np.ndarray:
    """Return which tokens begin a word, bool [V]; special tokens do if all others are whole words."""
    pieces = subwords.pieces(range(subwords.vocab_size))
    starts = np.array([piece.startswith(SPACE) for piece in pieces])
    words = sum(
        len(piece) > 1 for piece, begins in zip(pieces[EOS_ID + 1 :], starts[EOS_ID + 1 :], strict=True) if begins
    )
    if words == len(pieces) - EOS_ID - 1:  # the vocabulary consists of words, so the unknown token is one as well
        starts[:] = True
    return starts


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
    row sums to 1. Target subwords beyond `tgt_words`, such as the end of the translation, are ignored."""
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
