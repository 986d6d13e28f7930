"""Translating with a trained model: the Python interface in one class.

from nmt import Translator
Translator.load("runs/de-en").translate(["Guten Morgen!"])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import CheckpointError
from nmt.model_folder import (
    BEST_NAME,
    LAST_NAME,
    PARAMS_PREFIX,
    build_model,
    load_folder_config,
    load_subwords,
    read_checkpoint,
    set_params,
    subwords_digest,
)
from nmt.rnn.device import choose_device

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.subwords import Subwords
    from nmt.decode import Hypothesis, LengthPenalty
    from nmt.model.translation import TranslationModel

MAX_SOURCE_SUBWORDS = 1000
"""A line with more is cut, with a warning: what no model learned from is not worth its memory."""

_logger = logging.getLogger("nmt")


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    """Detokenised, without line breaks."""
    score: float
    """What the search ranked by: the log-probability after the length penalty."""
    log_prob: float
    """Sum of the subwords' natural log-probabilities, the end of sentence included."""


class Translator:
    """A model with its subwords and settings.

    Args:
        model: Gives the search its probabilities.
        src_subwords: Cut the source into ids.
        tgt_subwords: Join ids into text; the same object where the languages share one model.
        config: How text is cleaned, and the defaults of the search.
        num_threads: Cores to use.
    """

    def __init__(
        self,
        model: TranslationModel,
        src_subwords: Subwords,
        tgt_subwords: Subwords,
        config: Config,
        num_threads: int = 1,
    ) -> None:
        self.model = model
        self.src_subwords = src_subwords
        self.tgt_subwords = tgt_subwords
        self.config = config
        self.num_threads = num_threads

    @classmethod
    def load(
        cls,
        model_dir: str | Path,
        *,
        threads: int | None = None,
        checkpoint: str | None = None,
        compute_dtype: str | None = None,
        device: str | None = None,
    ) -> Translator:
        """Load a model from the folder that nmt-train wrote.

        Args:
            model_dir: The folder.
            threads: Cores to use; None takes the configured number, or all.
            checkpoint: `best` or `last`; None takes the best, or the last where there is no best
                yet.
            compute_dtype: `float32` or `bfloat16`, what is multiplied; None takes the configured
                one. Any model runs in either.
            device: `cpu`, `cuda` or `auto`, where it computes; None takes the configured one. Any model runs on
                either.

        Raises:
            DeviceError: There is no usable card, and the device is `cuda`.
            CheckpointError: The folder or a file in it is missing, damaged, or does not fit the
                rest.
            ConfigError: Its config.yaml was changed into something impossible.
        """
        folder = Path(model_dir)
        config = load_folder_config(folder)
        place = choose_device(device or config.device)
        path = find_checkpoint(folder, checkpoint)
        src_subwords, tgt_subwords = load_subwords(folder, joint=config.data.subwords.joint)
        tensors, metadata = read_checkpoint(path, prefix=PARAMS_PREFIX)
        if metadata.get("subwords") != subwords_digest(src_subwords, tgt_subwords):
            raise CheckpointError(
                f"{path}: must have been trained with the subwords beside it, got other ones; "
                "put back the .spm files that belong to it"
            )
        model = build_model(config, src_subwords.vocab_size, tgt_subwords.vocab_size, compute_dtype, place)
        set_params(model, tensors, path)
        num_threads = resolve_threads(threads, config)
        return cls(model, src_subwords, tgt_subwords, config, num_threads)

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: LengthPenalty | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Translate sentences; None stands for the configured value.

        Args:
            sentences: One sentence each, as a person writes them. They are cleaned as in training.
            beam_size: Hypotheses kept; 1 is greedy search.
            length_penalty: `none`, `average`, or the alpha of GNMT.
            batch_size: Sentences in work at a time. It changes the speed, not the translations.

        Returns:
            One line for each sentence, in order; a blank sentence gives an empty line.
        """
        best = self.translate_nbest(
            sentences, beam_size=beam_size, length_penalty=length_penalty, batch_size=batch_size
        )
        return [translations[0].text for translations in best]

    def translate_nbest(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: LengthPenalty | None = None,
        n_best: int = 1,
        batch_size: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[Translation]]:
        """Translate sentences and keep scores and, with `n_best`, the runners-up.

        Args:
            sentences, beam_size, length_penalty, batch_size: See `translate`.
            n_best: Most translations for each sentence; at most the beam size is found.
            on_batch: Called with the number of sentences translated since its last call; may raise to stop.

        Returns:
            For each sentence its translations, the best first, at least one.
        """
        from nmt.decode import search

        if isinstance(sentences, str):
            raise TypeError("Translator: sentences must be a list of strings, got one string")
        decoding = self.config.decoding
        beam_size = decoding.beam_size if beam_size is None else beam_size
        penalty = decoding.length_penalty if length_penalty is None else length_penalty
        ids = self._encode(sentences)
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0)] for _ in sentences]
        if on_batch is not None and (blank := sum(not row for row in ids)):
            on_batch(blank)
        there = [index for index, row in enumerate(ids) if row]
        found = search(
            self.model,
            [ids[index] for index in there],
            beam_size=beam_size,
            length_penalty=penalty,
            n_best=min(n_best, beam_size),
            max_length_ratio=decoding.max_length_ratio,
            max_length_extra=decoding.max_length_extra,
            batch_size=batch_size or decoding.batch_size,
            threads=self.num_threads,
            on_ended=on_batch,
        )
        for index, hypotheses in zip(there, found, strict=True):
            results[index] = self._decode(hypotheses) or results[index]
        return results

    def _encode(self, sentences: Sequence[str]) -> list[list[int]]:
        from nmt.data.corpus import clean_line

        side = self.config.data.src
        cleaned = [clean_line(text, side.lowercase, side.normalize) for text in sentences]
        ids = self.src_subwords.encode(cleaned)
        for index, row in enumerate(ids):
            if len(row) > MAX_SOURCE_SUBWORDS:
                _logger.warning(
                    "warning: a line of %d subwords is cut to %d (it begins %r)",
                    len(row),
                    MAX_SOURCE_SUBWORDS,
                    sentences[index][:40],
                )
                ids[index] = row[:MAX_SOURCE_SUBWORDS]
        return ids

    def _decode(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        texts = self.tgt_subwords.decode([list(hypothesis.ids) for hypothesis in hypotheses])
        return [
            Translation(text, hypothesis.score, hypothesis.log_prob)
            for text, hypothesis in zip(texts, hypotheses, strict=True)
        ]


def find_checkpoint(folder: Path, checkpoint: str | None = None) -> Path:
    """Return the file to load: the one asked for, or the best, or the last.

    Raises:
        CheckpointError: There is none.
    """
    names = {"best": [BEST_NAME], "last": [LAST_NAME], None: [BEST_NAME, LAST_NAME]}[checkpoint]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise CheckpointError(
        f"{folder}: must hold {' or '.join(names)}, got neither; train it first (nmt-train)"
        if len(names) > 1
        else f"{folder}: must hold {names[0]}, got none; leave out --checkpoint or train further"
    )


def resolve_threads(threads: int | None, config: Config) -> int:
    """Return the number of threads asked for, or configured, or that of the cores."""
    from nmt.rnn.kernels.threads import default_threads

    return threads or config.threads or default_threads()
