"""Nearest-neighbour translation: pairs of a text that are similar to a sentence are read while it is translated.

The outputs of the decoder for the words of those pairs are keys, and the words that follow are values (Khandelwal et
al. 2021); only the most similar pairs count (Deguchi et al. 2023), so that other sentences are translated as without.
The search mixes the probabilities of the model and of the values. A weight follows from the distance of the nearest
key, from whether the keys agree, and from whether the model is sure; the pairs themselves teach it, each word of them
by the others. Nothing is trained and nothing kept but the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.data.corpora.sources import sources_of
from nmt.decode.ensemble import Ensemble
from nmt.decode.hypotheses import Decoder, States
from nmt.errors import NMTError, how_to_install
from nmt.model.translation import TranslationModel
from nmt.rnn.kernels.search.choose import top_tokens
from nmt.special_tokens import EOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.config import Config, CorpusConfig

MOST_READ, LEAST_ALIKE = 16, 0.4
"""The most pairs that are read for a sentence, and their least similarity."""
Rows = list[tuple[list[int], list[int]]]
"""Pairs as subwords of the source and of the target."""
Similar = Callable[[str, Sequence[str]], list[tuple[str, float, int]]]
"""Returns the texts that are most similar to one, the most similar first: each with its similarity, in percent, and its
place."""

_DIMENSIONS = 64
_MOST_KEYS, _MOST_KEPT = 1_500, 2_000
"""Keys of one sentence, and pairs whose keys are kept for the next sentences."""
_NEAREST, _WIDENS, _FARTHEST = 0.003, 0.2, 12.0
"""A key counts exp(-x), x = (distance - least) / (_NEAREST + _WIDENS * least), if x is less than _FARTHEST."""
_EDGES = np.array([0.003, 0.03, 0.1, 0.2, 0.35], np.float32)
"""Distances between the ranges that have weights of their own; 1 is the mean distance of two keys of a sentence."""
_PRIOR = np.array(
    [
        [[0.15, 0.15], [0.15, 0.45]],
        [[0.15, 0.29], [0.37, 0.39]],
        [[0.11, 0.13], [0.33, 0.35]],
        [[0.08, 0.04], [0.27, 0.19]],
        [[0.03, 0.02], [0.19, 0.07]],
        [[0.00, 0.00], [0.00, 0.00]],
    ]
)
"""Weights by the range of the distance, whether the keys agree, and whether the model is sure: half of what explains
captions and Cherokee best (results/learning.md); they count as _COUNT words of the pairs."""
_COUNT, _PASSES = 8.0, 4
_EQUAL, _KNOWN, _KNOWN_UP_TO = 100.0, 0.98, 3
"""The similarity of equal sources, and the weights of the first ranges then: farther away are translations that a
prefix or a forbidden word has led elsewhere."""
_TEACHES, _TEACHES_FULLY = 60.0, 90.0
"""The similarity of a sentence to the most similar pair, in percent, from which the pairs teach the weights: text of
another kind than theirs is left to the model."""
_AGREE, _SURE = 0.8, np.log(0.5)


def projection_of(model: TranslationModel | Ensemble) -> np.ndarray:
    """Return the matrix [H, 64] between whose products distances are about those of the scores of all tokens: the main
    directions of the output layer. Of an ensemble, whose outputs are joined, each model has 64 columns of its own."""
    if isinstance(model, Ensemble):
        parts = [projection_of(one) for one in model.models]  # type: ignore[arg-type]
        joined = np.zeros((sum(map(len, parts)), _DIMENSIONS * len(parts)), np.float32)
        for n, part in enumerate(parts):
            start = sum(map(len, parts[:n]))
            joined[start : start + len(part), n * _DIMENSIONS :][:, : part.shape[1]] = part
        return joined
    layer = model.output_layer
    matrix = np.asarray(layer.weights[layer.matrix], np.float64)
    rows = matrix if layer.tied else matrix.T
    rows = rows - rows.mean(axis=0)
    values, directions = np.linalg.eigh(rows.T @ rows / len(rows))
    return (directions * np.sqrt(np.maximum(values, 0.0)))[:, : -_DIMENSIONS - 1 : -1].astype(np.float32)


@dataclass(frozen=True)
class Keys:
    """The words of a pair: keys [T, 64], the tokens that follow, their log-probabilities by the model, and those of its
    most probable tokens."""

    keys: np.ndarray
    tokens: np.ndarray
    log_probs: np.ndarray
    best: np.ndarray


_parts = attrgetter("keys", "tokens", "log_probs", "best")


class Near:
    """The pairs that are similar to a sentence, at most by `similarity` percent, and the weights that they teach."""

    def __init__(self, pairs: Sequence[Keys], similarity: float) -> None:
        of = np.repeat(np.arange(len(pairs)), [len(one.tokens) for one in pairs])
        keys, tokens, log_probs, best = (np.concatenate(part) for part in zip(*map(_parts, pairs), strict=True))
        is_equal = similarity == _EQUAL
        # The model alone decides where a sentence ends.
        here = np.flatnonzero(is_equal | (tokens != EOS_ID))
        self._keys, of = keys[here], of[here]
        self._tokens, value = np.unique(tokens[here], return_inverse=True)
        self._is_token = (value[:, None] == np.arange(len(self._tokens))).astype(np.float32)
        is_known = is_equal & (np.arange(len(_PRIOR)) < _KNOWN_UP_TO)
        self._prior = np.where(is_known[:, None, None], _KNOWN, _PRIOR)
        self._weights = self._prior
        distances = _distances(self._keys, self._keys)
        self._unit = max(float(distances.mean()), 1e-9)
        share = min(1.0, (similarity - _TEACHES) / (_TEACHES_FULLY - _TEACHES))
        if len(pairs) > 1 and share > 0:
            distances[of[:, None] == of] = np.inf
            found, places = self._found(distances, best[here])
            self._learn(places, found[np.arange(len(value)), value], np.exp(log_probs[here]), share)

    def _found(self, distances: np.ndarray, best: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Return the probabilities of the values [R, values], and the places of the weights, for distances [R, keys]
        and the model's highest log-probabilities [R]."""
        distances = distances / self._unit
        least = distances.min(axis=1, keepdims=True)
        x = (distances - least) / (_NEAREST + _WIDENS * least)
        found = np.where(x < _FARTHEST, np.exp(-x), 0.0) @ self._is_token
        found /= found.sum(axis=1, keepdims=True)
        agree = found.max(axis=1) > _AGREE
        return found, (np.searchsorted(_EDGES, least[:, 0]), agree.astype(int), (best > _SURE).astype(int))

    def _learn(self, places: tuple[np.ndarray, ...], mine: np.ndarray, model: np.ndarray, share: float) -> None:
        """Estimate the weights by expectation maximisation, from the probabilities of the words that are there; each
        counts as this share of a word."""
        seen = np.full(_PRIOR.shape, _COUNT)
        np.add.at(seen, places, share)
        for _ in range(_PASSES):
            weight, explained = self._weights[places], _COUNT * self._prior
            np.add.at(explained, places, share * weight * mine / (weight * mine + (1 - weight) * model + 1e-30))
            self._weights = explained / seen

    def mix(self, log_probs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities [R, V] of model and pairs together; `outputs` [R, 64], projected."""
        found, places = self._found(_distances(outputs, self._keys), log_probs.max(axis=1))
        weights = self._weights[places][:, None].astype(np.float32)
        mixed = log_probs + np.log1p(-weights)
        with np.errstate(divide="ignore"):
            mixed[:, self._tokens] = np.logaddexp(mixed[:, self._tokens], np.log(weights * found))
        return mixed


def _distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the squared distances of all rows [R, D] from all others."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)
    return np.maximum(squares - 2 * (one @ other.T), 0.0)


def finder(what: str, *, least: float, most: int) -> Similar:
    """Return a function that finds at most `most` texts of this similarity at least, 0 to 1, the share of characters
    that are kept (Indel similarity). `what` needs it. Raises NMTError without rapidfuzz."""
    try:
        from rapidfuzz import fuzz, process
    except ImportError:
        raise NMTError(
            f"{what}: must have the library of the extra [learn], got no rapidfuzz; " + how_to_install("learn")
        ) from None
    return partial(process.extract, scorer=fuzz.ratio, score_cutoff=100 * least, limit=most)


def pairs_of(config: Config, corpora: str | Sequence[CorpusConfig]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of texts that have both sides, with the tags of their corpora. Raises DataError."""
    langs = config.data.src.lang, config.data.tgt.lang
    for source in sources_of(corpora):
        source.check(langs)
        tag = "" if source.tag is None else f"{source.tag} "
        for part in source.parts(langs):
            for src, tgt in part.rows():
                if src and tgt:
                    yield tag + src, tgt


class Recall:
    """Pairs that are read while translating. It never changes: `with_pairs` returns another.

    Args:
        similar: Finds sources that are similar to a text.
        texts: Returns rows of subwords of the source as texts.
        projection: See `projection_of`.
    """

    def __init__(
        self, similar: Similar, texts: Callable[[Sequence[Sequence[int]]], list[str]], projection: np.ndarray
    ) -> None:
        self._similar, self._texts, self._projection = similar, texts, projection
        self._pairs: Rows = []
        self._sources: list[str] = []
        self._last: dict[str, int] = {}  # the last place of each source
        self._kept: dict[int, Keys] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def digest(self) -> str:
        """Return a digest of the pairs."""
        return sha256(repr(self._pairs).encode()).hexdigest()

    def with_pairs(self, pairs: Rows) -> Recall:
        """Return the same with more pairs, as `rows_of` returns them; without those that have unknown subwords in their
        sources, which would be similar to any others."""
        found, known = self.for_another(), [one for one in pairs if UNK_ID not in one[0]]
        sources = self._texts([source for source, _ in known])
        found._pairs, found._sources = self._pairs + known, self._sources + sources
        found._last = self._last | dict(zip(sources, range(len(self._pairs), len(found._pairs)), strict=True))
        return found

    def for_another(self) -> Recall:
        """Return the same pairs for another model, whose keys are others."""
        found = copy(self)
        found._kept = {}
        return found

    def reading(self, model: TranslationModel | Ensemble) -> Reading:
        """Return a model, always the same one, as one that reads the pairs in each step of a search."""
        return Reading(model, self)

    def confirmed_length(self, source: Sequence[int]) -> int:
        """Return the length of the confirmed translation of a source, with EOS, 0 if there is none."""
        place = None if UNK_ID in source else self._last.get(self._texts([source])[0])
        return 0 if place is None else len(self._pairs[place][1]) + 1

    def near(self, source: Sequence[int], model: TranslationModel | Ensemble, threads: int) -> Near | None:
        """Return the pairs that are similar to a source; None if no pair is."""
        if UNK_ID in source:
            return None
        (text,), similarity = self._texts([source]), _EQUAL
        if text in self._last:  # what a person has confirmed last is the translation
            places = [self._last[text]]
        elif found := self._similar(text, self._sources):
            places, similarity = [place for *_, place in found], found[0][1]
        else:
            return None
        ends = np.cumsum([len(self._pairs[n][1]) + 1 for n in places])
        places = places[: max(1, int(np.searchsorted(ends, _MOST_KEYS)))]
        if len(self._kept) > _MOST_KEPT:
            self._kept = {}
        kept = self._kept  # other threads may replace it
        lacking = [n for n in places if n not in kept]
        kept |= zip(lacking, self._keys([self._pairs[n] for n in lacking], model, threads), strict=True)
        return Near([kept[n] for n in places], similarity)

    def _keys(self, pairs: Rows, model: TranslationModel | Ensemble, threads: int) -> list[Keys]:
        """Return the keys of pairs, which the model reads word by word as in a search."""
        if not pairs:
            return []
        decoder = model.search_decoder(threads, max(len(source) for source, _ in pairs) + 1)
        targets = [[*target, decoder.eos_id] for _, target in pairs]
        lengths = [len(target) for target in targets]
        rows = np.full((max(lengths), len(pairs)), decoder.eos_id, np.int32)
        for n, target in enumerate(targets):
            rows[: len(target), n] = target
        found = []
        ids, states, tokens = decoder.admit([[*source] for source, _ in pairs])
        parent = np.arange(len(pairs))
        for following in rows:
            outputs, states = decoder.step(tokens, states, parent, ids)
            scores, tokens = decoder.log_probs(outputs), following
            found.append((self.projected(outputs), scores[parent, following], scores.max(axis=1)))
        decoder.release(ids)
        decoder.close()
        keys, log_probs, best = (np.stack(part) for part in zip(*found, strict=True))
        return [
            Keys(keys[:length, n], rows[:length, n], log_probs[:length, n], best[:length, n])
            for n, length in enumerate(lengths)
        ]

    def projected(self, outputs: np.ndarray) -> np.ndarray:
        """Return outputs of the decoder [R, H or more] as keys [R, 64]."""
        return np.stack([row @ self._projection for row in outputs[:, : len(self._projection)]])


class Reading:
    """A model whose search reads similar pairs."""

    loop_obstacle = "similar pairs are read in each step"

    def __init__(self, model: TranslationModel | Ensemble, recall: Recall) -> None:
        self._model, self._recall, self.confirmed_length = model, recall, recall.confirmed_length

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def search_decoder(self, threads: int | None = None, longest: int = 0) -> ReadingDecoder:
        """Return a decoder that reads similar pairs; see `SearchModel`."""
        return ReadingDecoder(self._model, self._recall, threads or 1, longest)


class ReadingDecoder:
    """The decoder of a model that reads similar pairs; see `Decoder`. A sentence without any has the model's scores."""

    def __init__(self, model: TranslationModel | Ensemble, recall: Recall, threads: int, longest: int) -> None:
        self._inner: Decoder = model.search_decoder(threads, longest)
        self._model, self._recall, self._threads = model, recall, threads
        self.eos_id = self._inner.eos_id
        self._near: dict[int, Near] = {}  # by sentence
        self._sentence_ids = np.zeros(0, np.int64)  # of the rows of the last step
        self.close = self._inner.close

    def admit(
        self, src_ids: list[list[int]], candidates: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, States, np.ndarray]:
        """Admit sentences, and find the pairs that are similar to each; see `Decoder.admit`."""
        found = self._inner.admit(src_ids, candidates)
        for number, source in zip(found[0].tolist(), src_ids, strict=True):
            near = self._recall.near(source, self._model, self._threads)
            if near is not None:
                self._near[number] = near
        return found

    def release(self, sentence_ids: np.ndarray) -> None:
        """Release these sentences; see `Decoder.release`."""
        self._inner.release(sentence_ids)
        for number in sentence_ids.tolist():
            self._near.pop(number, None)

    def step(
        self, tokens: np.ndarray, states: States, parent: np.ndarray, sentence_ids: np.ndarray
    ) -> tuple[np.ndarray, States]:
        """Run one step; see `Decoder.step`."""
        self._sentence_ids = sentence_ids
        return self._inner.step(tokens, states, parent, sentence_ids)

    def best_tokens(self, outputs: np.ndarray, first_token: int, places: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best tokens of each row; see `Decoder.best_tokens`."""
        if not self._near.keys() & set(self._sentence_ids.tolist()):
            return self._inner.best_tokens(outputs, first_token, places)
        scores = self.log_probs(outputs)
        scores[:, :first_token] = -np.inf
        return top_tokens(scores, places)

    def log_probs(self, outputs: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens; see `Decoder.log_probs`."""
        found = self._inner.log_probs(outputs)
        for number in np.unique(self._sentence_ids).tolist():
            if number in self._near:
                rows = np.flatnonzero(self._sentence_ids == number)
                found[rows] = self._near[number].mix(found[rows], self._recall.projected(outputs[rows]))
        return found
