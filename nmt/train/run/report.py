"""The lines of a training run: progress, validations, samples and the end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nmt.system.terminal import BEST
from nmt.train.log.progress import TrainingLog, format_seconds, perplexity

if TYPE_CHECKING:
    from nmt.model.network import LossStats
    from nmt.train.tasks.validation import Validator
    from nmt.train.updates.dealing import UpdateBatches
    from nmt.train.updates.state import TrainingState

_LIVE_SECONDS = 0.2


class Reporter:
    """Sums the results of updates and reports them at intervals. `label_smoothing`: label smoothing of the training:
    the loss then differs from the likelihood, and lines show both."""

    def __init__(self, log: TrainingLog, label_smoothing: float = 0.0, *, adds: bool = False) -> None:
        self.log = log
        self._minimised = "whole loss" if adds else "smoothed loss" if label_smoothing else ""
        self._sums: dict[str, float] = defaultdict(float)
        """Sums over the updates since the last line of progress; `src` and `tgt` are the tokens of timed updates."""
        self._is_warm = False
        self._live_at = 0.0
        self._validated_update = 0

    def add(self, batches: UpdateBatches, stats: LossStats, seconds: float) -> None:
        """Add an update that was not skipped; `seconds` is the duration of its training step alone.

        The time of a run's first update is not counted, since it compiles or loads the kernels.
        """
        found = {"updates": 1, "nll": stats.nll, "loss": stats.loss, "correct": stats.correct, "tokens": stats.tokens}
        if self._is_warm:
            found |= {"src": batches.num_src_tokens, "tgt": stats.tokens, "seconds": seconds}
        for name, value in found.items():
            self._sums[name] += value
        self._is_warm = True

    def progress(self, state: TrainingState, *, learning_rate: float, norm: float, left: float, elapsed: float) -> None:
        """Write the line for the updates since the last one, and reset the sums.

        Rates count tokens without padding over the time of the training steps alone. `ppl` is e to the power of `nll`,
        the negative log-likelihood, which equals `loss` unless the loss is smoothed or has further terms; in
        metrics.jsonl `loss` is always the minimised quantity.
        """
        sums, self._sums = self._sums, defaultdict(float)
        if not sums["updates"]:
            return
        seconds = max(sums["seconds"], 1e-9)
        loss, nll, accuracy = (sums[name] / sums["tokens"] for name in ("loss", "nll", "correct"))
        src_rate, tgt_rate = sums["src"] / seconds, sums["tgt"] / seconds
        named = f"{self._minimised} {loss:.4f}  nll {nll:.4f}" if self._minimised else f"loss {loss:.4f}"
        self.log.line(
            f"epoch {state.epoch:>3}  update {state.update:>6}  {named}"
            f"  ppl {perplexity(nll):.2f}  lr {learning_rate:.3g}  grad {norm:.2f}"
            + (f"  src {src_rate:,.0f}/s" if state.src_tokens else "")
            + f"  tgt {tgt_rate:,.0f}/s  left {format_seconds(left)}"
        )
        self.log.event(
            "train",
            epoch=state.epoch,
            update=state.update,
            loss=loss,
            nll=nll,
            ppl=perplexity(nll),
            accuracy=accuracy,
            learning_rate=learning_rate,
            gradient_norm=norm,
            src_tokens_per_second=src_rate,
            tgt_tokens_per_second=tgt_rate,
            src_tokens=state.src_tokens,
            tgt_tokens=state.tgt_tokens,
            skipped=state.skipped,
            elapsed=elapsed,
        )

    def live(self, text: str) -> None:
        """Show `text` on the terminal's last line, at most a few times a second."""
        now = time.monotonic()
        if now - self._live_at >= _LIVE_SECONDS:
            self._live_at = now
            self.log.live(text)

    def validation(
        self, state: TrainingState, scores: Mapping[str, float], *, is_best: bool, seconds: float, elapsed: float
    ) -> None:
        """Write the scores of a validation, with a `*` if they are the best so far."""
        self._validated_update = state.update
        self.log.line(
            f"validation  update {state.update:>6}  {format_scores(scores)}"
            f"  took {format_seconds(seconds)}" + (BEST if is_best else "")
        )
        self.log.event(
            "validation",
            epoch=state.epoch,
            update=state.update,
            **scores,
            best=is_best,
            seconds=seconds,
            elapsed=elapsed,
        )

    def samples(self, indices: Sequence[int], validator: Validator) -> None:
        """Write sample translations of the last validation, and the confidence intervals of its scores."""
        samples = list(validator.samples(indices))
        for sample in samples:
            for name, text in sample.items():
                self.log.line(f"  {name:<10}  {text}")
        if samples or validator.intervals:
            self.log.event("samples", update=self._validated_update, intervals=validator.intervals, samples=samples)

    def signatures(self, signatures: Mapping[str, str]) -> None:
        """Write the signatures of the scores, which say how they were computed."""
        for name, signature in signatures.items():
            self.log.line(f"{name} signature {signature}")
        if signatures:
            self.log.event("signatures", **signatures)


def format_scores(scores: Mapping[str, float]) -> str:
    """Return scores as text: `loss 2.1034  ppl 8.19  accuracy 55.2%  bleu 30.12  chrf 54.80`."""
    formats = {"loss": "{:.4f}", "accuracy": "{:.1%}"}
    return "  ".join(f"{name} {formats.get(name, '{:.2f}').format(score)}" for name, score in scores.items())
