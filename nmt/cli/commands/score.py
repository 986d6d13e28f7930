"""nmt-score: compute a model's probability of given translations, or of text for a language model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.judging import langs_of, tell_doubts
from nmt.cli.lines.streams import LineWriter, check_apart, finite, in_step, output_lines, tell, telling_notices
from nmt.cli.options.command import Command, checkpoint_option, running_options, table_of, table_options
from nmt.cli.options.path_types import InputPath, reads, writes
from nmt.cli.options.search_options import language_model_options, search_option
from nmt.system.lines import chunks, open_lines
from nmt.system.notices import Notices

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_CHUNK = 2048
"""Number of pairs to read at a time."""


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=InputPath())
@reads("--src", text="Source text, one sentence per line; not for language models.")
@reads("--tgt", required=True, text="Translations to score, one per line; for a language model, the text.")
@table_options()
@click.option("--independent", is_flag=True, help="Language models only: score each line without the lines before it.")
@writes("-o", "--output", default="-", text="Output file; - is stdout.")
@click.option(
    "--output-format", type=click.Choice(["tsv", "json"]), default="tsv", help="Write columns or JSON objects."
)
@search_option("batch_size")
@language_model_options()
@checkpoint_option()
@running_options()
def score(
    model_dir: str,
    src: str | None,
    tgt: str,
    independent: bool,
    output: str,
    output_format: str,
    batch_size: int | None,
    lm: str | None,
    lm_weight: float | None,
    **loading: Any,
) -> None:
    """Compute how probable a model finds given translations or text.

    Each pair gives a line of four tab-separated columns: number of the line (from 0), log-probability, number of
    subwords including the end of the sentence, perplexity per subword. With --output-format json it gives an object
    that also contains the subwords and their log-probabilities. The total perplexity goes to standard error. With --lm
    the sum is not the logarithm of a probability but the score by which a search with --lm ranks.

    A language model (task: lm) scores text, given by --tgt alone. Each line is read after the lines before it, as in
    training, unless --independent is given; a blank line has nothing to score.

    \b
    Examples:
        nmt-score runs/de-en --src test.de --tgt test.en
        nmt-score runs/captions --tgt test.en
    """
    from nmt.storage.model_folder import model_files
    from nmt.storage.saved_model import load_saved_model

    table = table_of(loading)
    if src is not None and independent:
        raise click.UsageError("--independent is for language models, which have no --src.")
    if src is None and (lm is not None or lm_weight is not None):
        raise click.UsageError("--lm and --lm-weight are for translations, which have --src.")
    language_model = None
    if src is None:
        language_model = load_saved_model(model_dir, loading.pop("checkpoint"), cells=loading.pop("cells"))
        if language_model.config.task != "lm":
            raise click.UsageError("Give --src, the text that --tgt translates: MODEL contains a translator.")
    inputs: dict[str, str | list[Path]] = {"--tgt": tgt, "a file of the model": model_files(Path(model_dir))}
    check_apart({"-o": output}, inputs if src is None else {"--src": src, **inputs})
    name = src if src is not None else tgt
    with telling_notices(name) as notices, output_lines(output) as writer:
        report = _Report(writer, notices, output_format)
        if language_model is not None:
            _score_text(report, language_model, tgt, not independent, loading)
        elif src is not None:
            how = {"batch_size": batch_size, "lm_weight": lm_weight}
            _score_pairs(report, model_dir, src, tgt, how, {"lm": lm, **loading}, **table)


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
    report: _Report, model_dir: str, src: str, tgt: str, how: dict[str, Any], loading: dict[str, Any], **table: Any
) -> None:
    """Score translations, pair by pair. `how`: arguments of `Translator.score`; `loading`: those of
    `Translator.load`; `table`: see `side_lines`."""
    from nmt.data.corpora.sources import side_lines
    from nmt.inference.translation import CUT, NOT_A_NUMBER
    from nmt.inference.translator import Translator

    translator = Translator.load(model_dir, **loading)
    langs = langs_of(translator.config.data)
    tell_doubts(langs, [(src, "--src", 0), (tgt, "--tgt", 1)], **table)
    pairs = in_step(side_lines(src, 0, langs, **table), {tgt: side_lines(tgt, 1, langs, **table)})
    for chunk in chunks(pairs, _CHUNK):
        targets = [parallel[tgt] for _, parallel in chunk]
        for detail in translator.score([line for line, _ in chunk], targets, **how):
            more = {"alignment": [list(pair) for pair in detail.alignment]}
            # Other warnings of a detail, such as words without attention, apply to half the lines of any text.
            warnings = [text for text in detail.warnings if text in (CUT, NOT_A_NUMBER)]
            report.add(detail.tokens, detail.log_probs, warnings, more)
        report.writer.flush()
    tell(report.summary())


def _score_text(report: _Report, saved: SavedModel, text: str, carry: bool, loading: dict[str, Any]) -> None:
    """Score lines with a language model; with `carry` each is read after the lines before it."""
    from nmt.inference.language_scorer import scorer_of

    characters = 0
    lines = open_lines(text)
    for line in scorer_of(saved, **loading).score(lines, carry=carry):
        report.add(line.tokens, line.log_probs, line.warnings, {})
        characters += line.characters
        if not lines.ready():
            report.writer.flush()
    bits = -report.total / math.log(2) / max(1, characters)
    tell(f"{report.summary()}, {bits:.4f} bits for each of {characters} characters")


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
