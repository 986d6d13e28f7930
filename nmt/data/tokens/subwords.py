"""Convert text to subword ids and back (sentencepiece), with fixed ids for the four special tokens."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import exp, floor, log, log1p
from os import PathLike, cpu_count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece

from nmt.errors import BREAKS, DataError
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPACE, UNK_ID
from nmt.system.files import read_small

if TYPE_CHECKING:
    from nmt.config import SubwordsConfig


SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")

# The sums inside unigram training are rounded differently for each number of threads, so that
# number must not depend on the machine's cores: the same text would give different models.
_TRAINING_THREADS = 4
# Training keeps its sentences in memory; beyond this many it draws a sample, always the same one.
_TRAINING_SENTENCES = 2_000_000
# Lines of more bytes are not used for training: they are hardly sentences, and slow sentencepiece down.
_TRAINING_BYTES = 65_536
# The largest size of a model's file: a million tokens take a tenth of it.
_MOST_MODEL_BYTES = 256 * 2**20
_MODEL_KIND = "a sentencepiece model, or a .spm file of a model folder"
"""The kind of file that contains subwords, for messages."""
# A thread costs more than it saves below this many sentences.
_SENTENCES_A_THREAD = 256
# Below this number of sentences, the threads that sentencepiece starts for each list take longer than the work.
_FEW_SENTENCES = 16
_SILENT = 5


class VocabularyError(DataError):
    """The text cannot give as many or as few subwords as requested: the limit is `most` or `least`."""

    def __init__(self, line: str, *, most: int | None = None, least: int | None = None) -> None:
        super().__init__(line)
        self.most, self.least = most, least


class Subwords:
    """A trained sentencepiece model. Ids 0 to 3 are always padding, unknown, BOS and EOS. Where a model from elsewhere
    has other numbers or lacks some of the four, its ordinary tokens follow from 4 on, in their order."""

    def __init__(self, model_bytes: bytes, where: str = "subword model") -> None:
        """Load a model from what `model_bytes` returned; `where` begins the message of a DataError if it is damaged."""
        self.model_bytes = model_bytes
        self._processor = _load(model_bytes, where)
        its, size = self._processor, int(self._processor.vocab_size())
        # Our ids to the model's (-1: the model has no such token) and back.
        special = np.array([its.pad_id(), its.unk_id(), its.bos_id(), its.eos_id()], np.int32)
        self._to_model = np.concatenate([special, np.setdiff1d(np.arange(size, dtype=np.int32), special)])
        self._from_model = np.full(size, UNK_ID, dtype=np.int32)
        self._from_model[self._to_model[self._to_model >= 0]] = np.flatnonzero(self._to_model >= 0)
        self._is_own_order = bool(np.array_equal(self._to_model, np.arange(size)))

    def __repr__(self) -> str:
        return f"Subwords({self.vocab_size:,} units)"

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens, including the four special ones."""
        return len(self._to_model)

    @property
    def own_ids(self) -> list[int]:
        """Return the sentencepiece model's number for each of our ids, -1 for none."""
        return [int(i) for i in self._to_model]

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Return the number of values of each factor of a token; empty without factors (see `FactoredSubwords`)."""
        return ()

    def unit_ids(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the ids of the tokens, without factors if ids encode any."""
        return ids

    def bare(self, text: str) -> str:
        """Return a text without the factors attached to its words."""
        return text

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of each sentence, without BOS and EOS. Unknown characters become UNK_ID."""
        if not sentences:
            return []
        threads = max(1, min(cpu_count() or 1, len(sentences) // _SENTENCES_A_THREAD))
        rows: list[list[int]] = _each(partial(self._processor.encode, out_type=int, num_threads=threads), sentences)
        return rows if self._is_own_order else [self._from_model[row].tolist() for row in rows]

    def of_model(self, number: int) -> int:
        """Return our id for a number of the sentencepiece model."""
        return int(self._from_model[number])

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids. The four special ids are skipped. The text has no line break and no other
        control character. Raises IndexError for an id outside the vocabulary."""
        kept = [[int(self._to_model[i]) for i in row if i > EOS_ID] for row in rows]
        return [BREAKS.sub(" ", text) for text in _each(self._processor.decode, kept)]

    def cut(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each sentence, one for each id of `encode`; unknown ones as written."""
        return _each(partial(self._processor.encode, out_type=str), sentences)

    def unwritten(self, sentences: Sequence[str]) -> list[str]:
        """Return the distinct parts of the sentences that no token can represent, as written."""
        found: dict[str, None] = {}
        for row, pieces in zip(self.encode(sentences), self.cut(sentences), strict=True):
            found |= {piece.strip(SPACE): None for one, piece in zip(row, pieces, strict=True) if one == UNK_ID}
        return list(found)

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text of tokens as `pieces` returns them; anything that is not a token of the model is copied."""
        # sentencepiece keeps the sign for a space in a piece that it does not know.
        text = str(self._processor.decode_pieces(list(pieces))).replace(SPACE, " ").removeprefix(" ")
        return BREAKS.sub(" ", text)

    def score(self, unit: int) -> float:
        """Return the score of a token: its log probability for unigram, its negative merge rank for bpe."""
        return float(self._processor.get_score(int(self._to_model[unit])))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of ids as readable text: `▁` starts a word."""
        return [SPECIAL_PIECES[i] if i <= EOS_ID else self._processor.id_to_piece(int(self._to_model[i])) for i in ids]


def train_subwords(
    sentences: Iterable[str],
    *,
    type: str = "unigram",
    vocab_size: int = 8000,
    character_coverage: float = 1.0,
    max_sentences: int = _TRAINING_SENTENCES,
    symbols: Sequence[str] = (),
) -> Subwords:
    """Train a model on cleaned sentences; the same text gives an identical model.

    The sentences are consumed one at a time and may come from a file. Of more than `max_sentences`, a random sample of
    that many is used, always the same one.

    `type` is unigram or bpe, for which `vocab_size` is exact, or char or word, for which it is the maximum. `symbols`
    become tokens whether or not they occur in the text, and are never split. Raises DataError if the text is empty,
    VocabularyError if it cannot give as many or as few tokens, and whatever the iterator of sentences raises.
    """
    source = _Sentences(sentences)
    more: dict[str, Any] = {"user_defined_symbols": list(symbols)} if symbols else {}
    result = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_sample(source, max_sentences),
            model_writer=result,
            model_type=type,
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            hard_vocab_limit=type in ("unigram", "bpe"),
            use_all_vocab=False,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_surface="",
            # Text is Unicode-normalised before it comes here, by our own setting.
            normalization_rule_name="identity",
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=_TRAINING_BYTES,
            num_threads=_TRAINING_THREADS,
            minloglevel=_SILENT,
            **more,
        )
    except RuntimeError as error:
        if source.error is not None:
            raise source.error from None
        raise _training_error(str(error), source.count, type, vocab_size) from None
    return Subwords(result.getvalue())


class _Sentences:
    """Iterates over the sentences for C++, which turns any exception into text, and keeps the real exception."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._sentences = sentences
        self.count = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for sentence in self._sentences:
                if sentence:
                    self.count += 1
                    yield sentence
        except Exception as error:
            self.error = error
            raise


def _sample(sentences: Iterable[str], size: int) -> Iterator[str]:
    """Yield all sentences, or a random sample of `size` if there are more: each is equally likely to be in it (Li 1994,
    algorithm L: random numbers are drawn for the gaps between replacements, not for each sentence).
    The sampling of sentencepiece draws other sentences in each process, whatever its seed."""
    left = iter(sentences)
    kept = list(islice(left, size))
    draw = Random(1)
    weight = 1.0
    while kept:
        weight *= exp(log(1.0 - draw.random()) / size)
        skipped = floor(log(1.0 - draw.random()) / log1p(-weight))
        if (found := next(islice(left, skipped, None), None)) is None:
            break
        kept[draw.randrange(size)] = found
    kept.reverse()
    while kept:  # frees each sentence that sentencepiece has copied
        yield kept.pop()


def _training_error(text: str, count: int, type: str, vocab_size: int) -> Exception:
    """Return the error to raise for sentencepiece's message that it could not train on `count` sentences."""
    where = "data.subwords"
    if count == 0 or "sentences_.empty" in text or "all_chars_count" in text:
        return DataError(f"{where}: the training text must contain at least one word, got none")
    if found := re.search(r"value <= (\d+)", text):
        return VocabularyError(
            f"{where}.vocab_size must be at most {found[1]} for this text, got {vocab_size}; a corpus of {count} "
            f"sentences does not hold more {type} units: write {found[1]}, or auto",
            most=int(found[1]),
        )
    if found := re.search(r"required_chars\. \d+ vs (\d+)", text):
        return VocabularyError(
            f"{where}.vocab_size must be at least {found[1]} for the characters of this text, "
            f"got {vocab_size}; raise it, write auto, or lower {where}.character_coverage",
            least=int(found[1]),
        )
    return RuntimeError(f"sentencepiece could not train: {text}")


def _each(work: Callable[[Any], Any], rows: Sequence[Any]) -> list[Any]:
    """Return the library's result for each row; it starts threads for a long list, if the system gives some."""
    if len(rows) >= _FEW_SENTENCES:
        try:
            return list(work(list(rows)))
        except RuntimeError as error:
            if str(error) != os.strerror(errno.EAGAIN):
                raise
    return [work(row) for row in rows]


def read_model(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file of subwords. Raises DataError if it is missing."""
    try:
        return read_small(Path(path), _MOST_MODEL_BYTES)
    except OSError as error:
        raise DataError(f"{path}: must be {_MODEL_KIND}, cannot be read: {error.strerror}") from None


def _load(model_bytes: bytes, where: str) -> sentencepiece.SentencePieceProcessor:
    """Return a processor of these bytes. Raises DataError, which names `where`."""
    problem = f"{where}: must be {_MODEL_KIND}, got "
    if not model_bytes:
        raise DataError(problem + "an empty file; copy it again or train without it")
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
        processor.id_to_piece(list(range(processor.vocab_size())))
        return processor
    except (RuntimeError, UnicodeDecodeError):  # also for a piece that is not UTF-8
        got = f"{len(model_bytes)} bytes of something else or a part of one; copy it again or train without it"
        if where.endswith(".vocab"):
            got = f"a list of pieces; give {where.removesuffix('.vocab')}.model, next to it"
        elif model_bytes.startswith(b"#version"):
            got = "codes of subword-nmt; leave it out, and nmt learns subwords from plain text"
        raise DataError(problem + got) from None


VOCAB_SIZES = ((0, 1000), (100_000, 2000), (250_000, 4000), (500_000, 8000), (4_000_000, 16_000), (40_000_000, 32_000))
"""Pairs of a number of running words and the vocabulary size used from there on. An embedding is learned from the
occurrences of its subword and needs tens of them: with few sentences 1,000 to 4,000 are better than the tens of
thousands of large corpora (Sennrich and Zhang 2019; Ding et al. 2019). 8,000 is what Multi30k, of 667,000 words, was
tuned with; from there on the size grows more slowly than the square root of the text, as new words become rarer."""

_LETTERS_A_WORD = 10
"""Text without spaces between words counts as at least one word for this many characters."""

_NO_LIMIT = 1_000_000


def auto_subwords(
    settings: SubwordsConfig,
    text: Callable[[], Iterable[str]],
    notify: Callable[[str], None],
    symbols: Sequence[str] = (),
) -> Subwords:
    """Train subwords on cleaned sentences as the settings say; both `type` and `vocab_size` may be auto. Raises
    DataError if the text has no word, or cannot give the requested vocabulary. `text`: returns the sentences, from the
    beginning each time it is called; `symbols`: words that are never split, such as tags."""
    size = settings.vocab_size
    if size == "auto":
        size = _NO_LIMIT if settings.type in ("char", "word") else auto_vocab_size(words_of(text()))
    for kind in ("unigram", "bpe") if settings.type == "auto" else (settings.type,):
        try:
            found = _train(settings, text, kind, size, symbols)
            break
        except VocabularyError as error:
            limit = error
    else:
        if settings.vocab_size != "auto" or limit.most is None:
            raise limit
        found = _train(settings, text, kind, limit.most, symbols)
    if "auto" in (settings.type, settings.vocab_size):
        notify(f"subwords: {kind}, a vocabulary of {found.vocab_size:,} (auto)")
    return found


def words_of(sentences: Iterable[str]) -> int:
    """Return the number of running words: strings between spaces, and an estimate for text without spaces."""
    return sum(max(len(line.split()), len(line) // _LETTERS_A_WORD) for line in sentences)


def auto_vocab_size(words: int) -> int:
    """Return a suitable vocabulary size for a text of `words` running words."""
    return max(size for least, size in VOCAB_SIZES if words >= least)


def _train(
    settings: SubwordsConfig, text: Callable[[], Iterable[str]], kind: str, size: int, symbols: Sequence[str]
) -> Subwords:
    """Return subwords of one type. With vocab_size auto, `size` are added to more characters than that."""
    how = {"type": kind, "character_coverage": settings.character_coverage, "symbols": symbols}
    try:
        return train_subwords(text(), vocab_size=size, **how)  # type: ignore[arg-type]
    except VocabularyError as error:
        if settings.vocab_size != "auto" or error.least is None:
            raise
        return train_subwords(text(), vocab_size=size + error.least, **how)  # type: ignore[arg-type]
