"""nmt-score: compute a model's probability of given translations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nmt.cli.lines.judging import langs_of, tell_doubts
from nmt.cli.lines.streams import LineWriter, check_apart, finite, in_step, output_lines, tell, telling_notices
from nmt.cli.options.command import Command, checkpoint_option, running_options, table_of, table_options
from nmt.cli.options.path_types import INPUT, chooses, reads, writes
from nmt.cli.options.search_options import search_option
from nmt.system.lines import chunks
from nmt.system.notices import Notices

_CHUNK = 2048
"""Number of pairs to read at a time."""


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@reads("--src", required=True, text="Source text, one sentence per line.")
@reads("--tgt", required=True, text="Translations to score, one per line.")
@table_options
@writes("-o", "--output", default="-", text="Output file; - is stdout.")
@chooses("--output-format", among=["tsv", "json"], default="tsv", text="Write columns or JSON objects.")
@search_option("batch_size")
@checkpoint_option
@running_options
def score(
    model_dir: str, src: str, tgt: str, output: str, output_format: str, batch_size: int | None, **loading: Any
) -> None:
    """Compute how probable a model finds given translations.

    Each pair gives a line of four tab-separated columns: number of the line (from 0), log-probability, number of
    subwords including the end of the sentence, perplexity per subword. With --output-format json it gives an object
    that also contains the subwords and their log-probabilities. The total perplexity goes to standard error.

    \b
    Example:
        nmt-score runs/de-en --src test.de --tgt test.en
    """
    from nmt.storage.model_folder import model_files

    table = table_of(loading)
    check_apart({"-o": output}, {"--src": src, "--tgt": tgt, "a file of the model": model_files(Path(model_dir))})
    with telling_notices(src) as notices, output_lines(output) as writer:
        _score_pairs(_Report(writer, notices, output_format), model_dir, src, tgt, batch_size, loading, **table)


@dataclass
class _Report:
    """Writes the scores of each line, and sums them."""

    writer: LineWriter
    notices: Notices
    form: str
    total: float = 0.0  # sum of log-probabilities
    count: int = 0  # number of subwords
    number: int = 0  # number of the next line

    def add(self, tokens: list[str], log_probs: list[float], warnings: Iterable[str], more: dict[str, Any]) -> None:
        self.writer.write(_line(self.form, self.number, tokens, log_probs, more))
        self.notices.add(self.number, warnings)
        self.total, self.count, self.number = self.total + sum(log_probs), self.count + len(tokens), self.number + 1

    def summary(self) -> str:
        mean = perplexity(self.total, self.count)
        return f"perplexity {mean:.4f} of {self.count} subwords in {self.number} lines"


def _score_pairs(
    report: _Report, model_dir: str, src: str, tgt: str, batch_size: int | None, loading: dict[str, Any], **table: Any
) -> None:
    """Score translations, pair by pair. `loading`: arguments of `Translator.load`; `table`: see `side_lines`."""
    from nmt.data.corpora.sources import side_lines
    from nmt.inference.translation import CUT, NOT_A_NUMBER
    from nmt.inference.translator import Translator

    translator = Translator.load(model_dir, **loading)
    langs = langs_of(translator.config.data)
    tell_doubts(langs, [(src, "--src", 0), (tgt, "--tgt", 1)], **table)
    pairs = in_step(side_lines(src, 0, langs, **table), {tgt: side_lines(tgt, 1, langs, **table)})
    for chunk in chunks(pairs, _CHUNK):
        targets = [parallel[tgt] for _, parallel in chunk]
        for detail in translator.score([line for line, _ in chunk], targets, batch_size=batch_size):
            more = {"alignment": [list(pair) for pair in detail.alignment]}
            # Other warnings of a detail, such as words without attention, apply to half the lines of any text.
            warnings = [text for text in detail.warnings if text in (CUT, NOT_A_NUMBER)]
            report.add(detail.tokens, detail.log_probs, warnings, more)
        report.writer.flush()
    tell(report.summary())


def perplexity(log_prob: float, count: int) -> float:
    """Return the perplexity per token of `count` tokens whose log-probabilities sum to `log_prob`; infinite if too
    large."""
    mean = -log_prob / max(1, count)
    return math.inf if mean >= 700 else math.exp(mean)


def _line(form: str, number: int, tokens: list[str], log_probs: list[float], more: dict[str, Any]) -> str:
    """Return a scored line as tab-separated columns, or as a JSON object with `more`."""
    total, count = sum(log_probs), len(tokens)
    if form == "tsv":
        return f"{number}\t{total:.6f}\t{count}\t{perplexity(total, count):.6f}"
    record = {
        "line": number,
        "log_prob": finite(total),
        "perplexity": finite(perplexity(total, count)),
        "tokens": tokens,
        "token_log_probs": [finite(x) for x in log_probs],
        **more,
    }
    return json.dumps(record, ensure_ascii=False)
