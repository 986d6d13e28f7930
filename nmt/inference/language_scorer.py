"""Score texts with a language model: the Python interface in one class.

from nmt import LanguageScorer
list(LanguageScorer.load("runs/captions").score(["A man rides a horse."]))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.inference.translation import NotPickled, check_loading, checked_texts, number_warnings, resolve_threads
from nmt.rnn.devices import choose_device
from nmt.special_tokens import EOS_ID
from nmt.storage.saved_model import SavedModel, load_saved_model
from nmt.system.lines import chunks

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.language import LanguageModel

_CHUNK = 2048
"""The number of lines scored at a time."""
_STEPS = 512
"""The number of tokens of a stream that are read at once."""


@dataclass(frozen=True)
class ScoredLine:
    """The subwords of a line with the end `</s>`, their natural log-probabilities, and the number of characters
    including the line end. A blank line has none of them. `warnings` say, for people, that a log-probability is not a
    number."""

    tokens: list[str]
    log_probs: list[float]
    characters: int
    warnings: tuple[str, ...] = ()


class LanguageScorer(NotPickled):
    """A language model with its subwords and settings.

    Args:
        model: Computes probabilities.
        subwords: Splits text into ids and joins ids to text.
        config: How text is cleaned.
        num_threads: Cores to use.
    """

    def __init__(self, model: LanguageModel, subwords: Subwords, config: Config, num_threads: int = 1) -> None:
        self.model, self.subwords, self.config, self.num_threads = model, subwords, config, num_threads

    def __repr__(self) -> str:
        """Return the language, the model and the number of threads."""
        return f"LanguageScorer({self.config.data.tgt.lang}, {self.model!r}, threads={self.num_threads})"

    @classmethod
    def load(
        cls,
        model_dir: str | Path,
        *,
        threads: int | None = None,
        checkpoint: str | None = None,
        compute_dtype: str | None = None,
        device: str | None = None,
        cells: Sequence[str] = (),
    ) -> LanguageScorer:
        """Load a model from the folder that nmt-train wrote with task: lm, or from the file that nmt-bundle made of it;
        arguments and errors are those of `Translator.load`."""
        check_loading(threads, checkpoint, compute_dtype, device)
        saved = load_saved_model(model_dir, checkpoint, task="lm", cells=cells)
        return scorer_of(saved, threads=threads, compute_dtype=compute_dtype, device=device)

    def score(self, lines: Iterable[str], *, carry: bool = True) -> Iterator[ScoredLine]:
        """Score lines of text, which are read in chunks, and yield the result of each.

        Args:
            lines: Each is cleaned as in training. With a `Lines` object, the available lines are scored before waiting
                for more.
            carry: Whether a line is scored given the previous lines, as in training, or independently.

        Raises TypeError if `lines` is a single text or contains anything but texts.
        """
        if isinstance(lines, str | bytes | Mapping) or not isinstance(lines, Iterable):
            checked_texts("LanguageScorer", "lines", lines)
        last = EOS_ID
        states: dict[str, np.ndarray] = {}
        for chunk in chunks(lines, _CHUNK):
            cleaned = self._clean(checked_texts("LanguageScorer", "lines", chunk))
            ids = self.subwords.encode(cleaned)
            ended = [[*row, EOS_ID] if row else [] for row in ids]
            if carry:
                scores, states, last = self._read(ended, states, last)
            else:
                scores = self._read_separately(ended)
            for text, row, found in zip(cleaned, ended, scores, strict=True):
                scores_of_line = [float(x) for x in found]
                characters = len(text) + 1 if row else 0
                yield ScoredLine(self.subwords.pieces(row), scores_of_line, characters, number_warnings(scores_of_line))

    def _read(
        self, rows: list[list[int]], states: dict[str, np.ndarray], last: int
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray], int]:
        """Return the log-probabilities of rows read after `states` and `last`, and what is read last."""
        tokens = np.array([last, *(token for row in rows for token in row)], np.int32)
        found = [np.zeros(0)]
        for start in range(0, len(tokens) - 1, _STEPS):
            piece = tokens[start : start + _STEPS + 1]
            count = np.array([len(piece) - 1])
            read, targets = np.ascontiguousarray(piece[:-1, None]), piece[1:, None]
            scores, states = self.model.log_probs(read, targets, count, states, self.num_threads)
            found.append(scores[0])
        ends = np.cumsum([len(row) for row in rows])
        return np.split(np.concatenate(found), ends[:-1]), states, int(tokens[-1])

    def _read_separately(self, rows: list[list[int]]) -> list[np.ndarray]:
        """Return the log-probabilities of rows that are scored independently."""
        from nmt.decode.hypotheses import length_blocks

        found = [np.zeros(0)] * len(rows)
        for block in length_blocks(rows, self.config.decoding.batch_size):
            scores = self.model.line_log_probs([rows[n] for n in block], self.num_threads)
            for n, one in zip(block, scores, strict=True):
                found[n] = one
        return found

    def _clean(self, lines: Sequence[str]) -> list[str]:
        """Return lines cleaned as in training."""
        from nmt.data.corpora.corpus import clean_line

        side = self.config.data.tgt
        return [clean_line(line, side.lowercase, side.normalize) for line in lines]


def scorer_of(
    saved: SavedModel, *, threads: int | None = None, compute_dtype: str | None = None, device: str | None = None
) -> LanguageScorer:
    """Load a language model whose files are open already; see `LanguageScorer.load`."""
    check_loading(threads, None, compute_dtype, device)
    model = saved.build(compute_dtype, choose_device(device or saved.config.device))
    return LanguageScorer(model, saved.tgt_subwords, saved.config, resolve_threads(threads, saved.config))
