"""A shortlist of output words, learnt from what the model itself attends to over its training text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, ShapeError
from nmt.files import explain
from nmt.tensor_file import map_tensors, write_tensors

if TYPE_CHECKING:
    from nmt.decode import Shortlist
    from nmt.translator import Translator

PREFIX = "shortlist/"
_LEAST_WEIGHT = 0.05
"""Less attention is noise, and there is much of it."""


class ShortlistLearner:
    """Collects how much attention each pair of subwords gets; sizes are those of the vocabularies.

    Memory follows the different pairs of subwords, not the text.
    """

    def __init__(self, src_vocab_size: int, tgt_vocab_size: int) -> None:
        self._sizes = src_vocab_size, tgt_vocab_size
        self._pairs: np.ndarray = np.zeros(0, np.int64)  # source * target size + target, rising
        self._mass: np.ndarray = np.zeros(0)
        self._counts = np.zeros(tgt_vocab_size, np.int64)

    def add(
        self, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]], attentions: Iterable[np.ndarray]
    ) -> None:
        """Sentences with their translations and the attention [T, S + 1] of each, the source's end last."""
        pairs, mass = [self._pairs], [self._mass]
        for src, tgt, weights in zip(src_ids, tgt_ids, attentions, strict=True):
            t, s = np.nonzero(weights[: len(tgt), : len(src)] >= _LEAST_WEIGHT)
            pairs.append(np.array(src, np.int64)[s] * self._sizes[1] + np.array(tgt, np.int64)[t])
            mass.append(weights[t, s].astype(np.float64))
            self._counts += np.bincount(tgt, minlength=self._sizes[1])
        self._pairs, place = np.unique(np.concatenate(pairs), return_inverse=True)
        self._mass = np.bincount(place, np.concatenate(mass), minlength=len(self._pairs))

    def shortlist(self, per_source: int, frequent: int) -> Shortlist:
        """For each source subword the `per_source` target subwords with most of its attention, for all sentences the
        `frequent` most frequent ones."""
        from nmt.decode import Shortlist

        src_size, tgt_size = self._sizes
        source, target = np.divmod(self._pairs, tgt_size)
        order = np.lexsort((target, -self._mass, source))
        source, target = source[order], target[order]
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        kept = rank < per_source
        starts = np.searchsorted(source[kept], np.arange(src_size + 1))
        common = np.argsort(-self._counts, kind="stable")[:frequent]
        always = common[self._counts[common] > 0]
        return Shortlist(starts, target[kept].astype(np.int32), always.astype(np.int32), tgt_size)


@dataclass(frozen=True)
class Misses:
    """How many of `tokens` target subwords, ends counted, are no candidates of their sentence, and how many
    candidates there are in the mean."""

    tokens: int
    missing: int
    candidates: float

    @property
    def rate(self) -> float:
        """The share that is missing, in percent."""
        return 100.0 * self.missing / max(1, self.tokens)


def count_misses(shortlist: Shortlist, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]]) -> Misses:
    """Look up target subwords (without the end, which is a candidate always)."""
    missing = total = 0
    for src, tgt in zip(src_ids, tgt_ids, strict=True):
        candidates = shortlist.candidates(src)
        missing += int((~np.isin(np.array(tgt, np.int64), candidates)).sum())
        total += len(candidates)
    return Misses(sum(len(tgt) + 1 for tgt in tgt_ids), missing, total / max(1, len(src_ids)))


def learn_from(
    translator: Translator, learner: ShortlistLearner, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]
) -> None:
    """Force translations through the model and add what it attends to. Raises ShapeError for a model without
    attention."""
    from nmt.decode import force
    from nmt.special_tokens import EOS_ID

    size = translator.config.decoding.batch_size
    targets = [[*row, EOS_ID] for row in tgt_ids]
    options = {"batch_size": size, "threads": translator.num_threads}
    forced = force(translator.model, src_ids, targets, attention=True, **options)
    learner.add(src_ids, tgt_ids, (one.attention for one in forced if one.attention is not None))


def shortlist_tensors(shortlist: Shortlist) -> dict[str, np.ndarray]:
    """The arrays of a shortlist by their names in a file."""
    arrays = {"starts": shortlist.starts.astype(np.int64), "tokens": shortlist.tokens, "always": shortlist.always}
    return {PREFIX + name: array for name, array in arrays.items()}


def shortlist_from(tensors: dict[str, np.ndarray], vocab_size: int, where: Path) -> Shortlist | None:
    """What `shortlist_tensors` gave; None where it is not there. Raises CheckpointError, which names `where`."""
    from nmt.decode import Shortlist

    if not any(name.startswith(PREFIX) for name in tensors):
        return None
    try:
        starts, tokens, always = (tensors[PREFIX + name] for name in ("starts", "tokens", "always"))
        if [a.dtype for a in (starts, tokens, always)] != [np.int64, np.int32, np.int32] or starts.ndim != 1:
            raise ShapeError("other arrays")
        return Shortlist(starts, tokens.reshape(-1), always.reshape(-1), vocab_size)
    except (KeyError, ShapeError) as error:
        raise CheckpointError(
            f"{where}: must hold a shortlist for a vocabulary of {vocab_size}, got another one; make it again with "
            "nmt-shortlist"
        ) from error


def save_shortlist(path: Path, shortlist: Shortlist, content: dict[str, Any]) -> None:
    """Write a shortlist with what is known of it, the digest of its subwords among it. Raises CheckpointError."""
    try:
        write_tensors(path, shortlist_tensors(shortlist), content)
    except OSError as error:
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; make room and run again") from error


def load_shortlist(path: Path, vocab_size: int, digest: str) -> Shortlist | None:
    """Read a shortlist made for these subwords; None where there is no file. Raises CheckpointError."""
    if not path.is_file():
        return None
    tensors, content = map_tensors(path)
    if content.get("subwords") != digest:
        raise CheckpointError(
            f"{path}: must have been learnt with the subwords beside it, got other ones; make it again with "
            "nmt-shortlist, or remove it"
        )
    return shortlist_from(tensors, vocab_size, path)
