"""The training task: pairs of sentences, the model, BLEU and chrF. The training loop knows only updates."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.alignment.edits import Edits
from nmt.data.alignment.word_alignment import WordAlignments
from nmt.data.batching.batches import TrainBatches
from nmt.data.calibration import learn_known
from nmt.data.corpora.corpus import ParallelCorpus, Side, load_parallel
from nmt.data.corpora.prepare import training_filter
from nmt.data.corpora.readers import Readers, TokenRows
from nmt.data.quality.overlap import sketch_of
from nmt.data.tokens.factors import feature_ids
from nmt.errors import ConfigError
from nmt.evaluate.scores import Score, score_translations
from nmt.inference.translation import MAX_SOURCE_SUBWORDS
from nmt.inference.translator import Translator
from nmt.model.copying import EditActions, means_of_unseen
from nmt.storage.model_folder import build_model
from nmt.train.log.progress import TrainingLog, format_bytes
from nmt.train.tasks.prepare import sides_of_run
from nmt.train.tasks.validation import Validator, translations

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.config.data_section import DataConfig
    from nmt.model.translation import TranslationModel
    from nmt.rnn.device import Device
    from nmt.train.distributed.ranks import Ranks


class Task:
    """A training corpus, with its model, batches and metrics; several readers share the pairs of data.train."""

    def __init__(self, config: Config, src: Side, tgt: Side, readers: Readers | None = None) -> None:
        self.config, self._src, self._tgt = config, src, tgt
        self.subwords = src.subwords, tgt.subwords
        """Subwords of both sides; the same object twice if they share it."""
        rules = training_filter(config.data, (src.config, tgt.config))
        self.corpus = load_parallel(config.data.train, src, tgt, rules=rules, readers=readers)
        _check_weights(self.corpus)
        self._read = self.corpus
        self._edits: Edits | None = None
        self._alignments: WordAlignments | None = None
        if config.model.decoder.edit_actions:
            self._edits = Edits.learn(self.corpus.src, self.corpus.tgt, tgt.subwords.vocab_size)
            self.corpus = self._as_actions(self.corpus)
        self._dev: ParallelCorpus | None = None
        self._test: ParallelCorpus | None = None

    def held_out(self, notify: Callable[[str], None]) -> Task:
        """Load the pairs of data.dev and data.test as well; return the task itself."""
        data, train = self.config.data, self.corpus
        filtered = f"; removed by data.filter: {train.filtered}" if train.filtered else ""
        self._dev = _truncated(load_parallel(data.dev, self._src, self._tgt, training=False), data, notify)
        self._dev = self._as_actions(self._dev)
        self._test = load_parallel(data.test, self._src, self._tgt, training=False) if data.test else None
        notify(
            f"data: {len(train):,} training pairs of {train.total:,} lines"
            f" ({train.skipped_empty:,} skipped with an empty side, "
            f"{train.skipped_long:,} over max_length{filtered}), "
            f"{len(train.tgt.tokens):,} target subwords; {len(self._dev):,} validation pairs"
        )
        return self

    def _as_actions(self, corpus: ParallelCorpus) -> ParallelCorpus:
        """Return a corpus with the most probable edit actions as its target, if the decoder writes these."""
        if self._edits is None:
            return corpus
        written, moves = self._edits.best(corpus.src, corpus.tgt)
        ids = EditActions(self._tgt.subwords.vocab_size).ids(written.tokens, moves)
        return replace(corpus, tgt=TokenRows(ids, written.starts))

    @property
    def fingerprint(self) -> list[int]:
        """Return what identifies the training corpus: counts of pairs and target subwords, a checksum of the pairs."""
        corpus = self.corpus
        return [len(corpus), len(corpus.tgt.tokens), corpus.tgt.checksum(corpus.src.checksum())]

    @property
    def seen(self) -> str:
        """Return fingerprints of the pairs as they were read (see `sketch_of`)."""
        return sketch_of(self._read.src, self._read.tgt)

    @property
    def dev_fingerprint(self) -> list[int]:
        """Return numbers that identify the validation text: that of its pairs, and the CRC-32 of their texts."""
        dev = _loaded(self._dev)
        return [len(dev), zlib.crc32("\n".join([*dev.src_texts, *dev.references]).encode())]

    def alignments(self, notify: Callable[[str], None]) -> WordAlignments | None:
        """Return the word alignments of the training pairs, if the settings ask for them; `notify` is called with a
        line when they have been learned. Raises DataError if they do not fit."""
        if not self.config.training.guided_alignment:
            return None
        if self._alignments is None:
            began = time.monotonic()
            self._alignments = WordAlignments.learn(self.corpus, self.subwords, self.config.model.encoder.boundaries)
            notify(f"alignment: learned from the training pairs in {time.monotonic() - began:.0f} s")
        return self._alignments

    def build_model(self, device: Device) -> TranslationModel:
        """Return a new translation model."""
        sizes = [subwords.vocab_size for subwords in self.subwords]
        model: TranslationModel = build_model(
            self.config, sizes[0], sizes[1], device=device, src_factor_sizes=self.subwords[0].factor_sizes
        )
        # src_word_dropout learns unknown words; a row of a tied table is the weight of a token as well.
        if (model.actions is not None or model.copies) and not (model.tied or self.config.training.src_word_dropout):
            first = 0 if model.actions is None else model.actions.tokens
            ids = self.corpus.src.tokens, self.corpus.tgt.tokens
            model.means = means_of_unseen(*ids, feature_ids(self._src.subwords), first)
        model.initialize(self.config.seed, self.corpus.target_counts(sizes[1]))
        return model

    def batches(self, size: int) -> TrainBatches:
        """Return the corpus in batches of `size` (see training.batch_type)."""
        training = self.config.training
        seed, around = self.config.seed, self.config.model.encoder.boundaries
        return TrainBatches(self.corpus, size, training.batch_type, seed, training.shuffle, around)

    @property
    def dev_size(self) -> tuple[int, int]:
        """Return the number of validation pairs, and of their target tokens with EOS."""
        dev = _loaded(self._dev)
        return len(dev), dev.num_tgt_tokens

    def validator(
        self,
        model: TranslationModel,
        size: int,
        num_threads: int,
        check: Callable[[], None],
        ranks: Ranks,
        pairs: int = 0,
    ) -> Validator:
        """Return the validator of loss, BLEU and chrF, which reads as many pairs, evenly spaced, 0 for all. It calls
        `check` now and then, which raises to stop early; ranks share the work."""
        dev = _evenly_spaced(_loaded(self._dev), pairs)
        kind, around = self.config.training.batch_type, self.config.model.encoder.boundaries
        batches = list(TrainBatches(dev, size, kind, shuffle=False, boundaries=around).epoch(0))
        known = cache(lambda: learn_known(self._src.subwords, self._read.src))
        translator = Translator(model, *self.subwords, self.config, num_threads)
        return Validator(batches, translator, dev.src_texts, dev.references, check, ranks, known=known)

    def test(
        self, model: TranslationModel, num_threads: int, check: Callable[[], None], ranks: Ranks
    ) -> dict[str, Score]:
        """Return the scores of the translations of data.test; empty if that is not configured. Called by all ranks."""
        if self._test is None:
            return {}
        translator = Translator(model, *self.subwords, self.config, num_threads)
        found = translations(translator, self._test.src_texts, lambda count: check(), ranks)
        return score_translations([one.text for one in found], self._test.references)


def load_task(config: Config, folder: Path, log: TrainingLog, ranks: Ranks, tried: Task | None = None) -> Task:
    """Read all texts and split them into subwords, which are trained or copied into the folder first if needed. Raises
    DataError if a text or subword model is missing, damaged or does not fit its partner, and CheckpointError if the
    folder cannot be written, or lost its subwords. `log`: receives the sizes of the texts and the numbers of filtered
    lines; `ranks`: rank 0 trains the subwords and the others read them; each tokenizes a share of the training text.
    Called by all; `tried`: a task whose training text has been read by the same settings of text and model."""
    sides = ranks.first_then_others(lambda: sides_of_run(config, folder, log.line, log.live))
    if tried is not None:
        tried.config = config
    task = (tried or Task(config, *sides, ranks)).held_out(log.line)
    if ranks.size > 1:
        log.line(
            f"training text: {format_bytes(task.corpus.nbytes)} on each machine; each of {ranks.size} ranks has "
            "tokenized a share of it"
        )
    return task


def _check_weights(corpus: ParallelCorpus) -> None:
    """Raise ConfigError if the weights of corpora leave some epoch without anything to learn from."""
    shares = [size * weight for size, weight in corpus.parts]
    if shares and max(shares) < 1:
        raise ConfigError(
            f"data.train: weights must leave at least one pair of a corpus in every epoch, got {max(shares):.3g} of "
            "the largest; raise the weights"
        )


def _truncated(dev: ParallelCorpus, config: DataConfig, notify: Callable[[str], None]) -> ParallelCorpus:
    """Return the validation pairs with sides truncated to MAX_SOURCE_SUBWORDS, or to max_length if that is more: the
    cost of attention grows with the square of the length. The texts stay as they are."""
    sides, long = [], np.zeros(len(dev), bool)
    for rows, side in ((dev.src, config.src), (dev.tgt, config.tgt)):
        most = max(MAX_SOURCE_SUBWORDS, side.max_length)
        is_long = rows.lengths > most
        long |= is_long
        sides.append(rows.taken(np.arange(len(rows)), most) if is_long.any() else rows)
    if not long.any():
        return dev
    lines = ", ".join(f"{number + 1:,}" for number in dev.line_numbers[long][:5].tolist())
    notify(
        f"warning: data.dev: {long.sum():,} of {len(dev):,} lines have a side of more than {MAX_SOURCE_SUBWORDS:,} "
        f"subwords and are truncated for the loss, line {lines}{', ...' * bool(long.sum() > 5)}; split them into "
        "sentences"
    )
    return replace(dev, src=sides[0], tgt=sides[1])


def _evenly_spaced(dev: ParallelCorpus, count: int) -> ParallelCorpus:
    """Return `count` pairs at equal distances, from the first on; all pairs if there are no more, or if it is 0."""
    if not 0 < count < len(dev):
        return dev
    chosen = np.arange(count) * len(dev) // count
    src_texts, references = ([texts[n] for n in chosen.tolist()] for texts in (dev.src_texts, dev.references))
    return replace(
        dev,
        src=dev.src.taken(chosen),
        tgt=dev.tgt.taken(chosen),
        line_numbers=dev.line_numbers[chosen],
        src_texts=src_texts,
        references=references,
        parts=(),
    )


def _loaded(corpus: ParallelCorpus | None) -> ParallelCorpus:
    if corpus is None:
        raise RuntimeError("only the training pairs are loaded")
    return corpus
