"""nmt-score: compute a model's probability of given translations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.judging import langs_of, tell_doubts
from nmt.cli.lines.streams import check_apart, finite, in_step, output_lines, tell, telling_notices
from nmt.cli.options.command import Command, checkpoint_option, chooses, running_options, table_of, table_options
from nmt.cli.options.path_types import INPUT, reads, writes
from nmt.cli.options.search_options import search_option
from nmt.system.lines import chunks

if TYPE_CHECKING:
    from nmt.inference.translation import Detail

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
    from nmt.data.corpora.sources import side_lines
    from nmt.inference.translation import CUT, NOT_A_NUMBER
    from nmt.inference.translator import Translator
    from nmt.storage.model_folder import model_files

    table = table_of(loading)
    check_apart({"-o": output}, {"--src": src, "--tgt": tgt, "a file of the model": model_files(Path(model_dir))})
    total, count, number = 0.0, 0, 0  # of log-probabilities, subwords and lines
    with telling_notices(src) as notices, output_lines(output) as writer:
        translator = Translator.load(model_dir, **loading)
        langs = langs_of(translator.config.data)
        tell_doubts(langs, [(src, "--src", 0), (tgt, "--tgt", 1)], **table)
        pairs = in_step(side_lines(src, 0, langs, **table), {tgt: side_lines(tgt, 1, langs, **table)})
        for chunk in chunks(pairs, _CHUNK):
            targets = [parallel[tgt] for _, parallel in chunk]
            for detail in translator.score([line for line, _ in chunk], targets, batch_size=batch_size):
                writer.write(_line(output_format, number, detail))
                # Other warnings of a detail, such as words without attention, apply to half the lines of any text.
                notices.add(number, [text for text in detail.warnings if text in (CUT, NOT_A_NUMBER)])
                total, count, number = total + sum(detail.log_probs), count + len(detail.tokens), number + 1
            writer.flush()
        tell(f"perplexity {perplexity(total, count):.4f} of {count} subwords in {number} lines")


def perplexity(log_prob: float, count: int) -> float:
    """Return the perplexity per token of `count` tokens of which `log_prob` is the sum; infinite if too large."""
    mean = -log_prob / max(1, count)
    return math.inf if mean >= 700 else math.exp(mean)


def _line(form: str, number: int, detail: Detail) -> str:
    """Return a scored line as tab-separated columns, or as a JSON object."""
    total, count = sum(detail.log_probs), len(detail.tokens)
    if form == "tsv":
        return f"{number}\t{total:.6f}\t{count}\t{perplexity(total, count):.6f}"
    record = {
        "line": number,
        "log_prob": finite(total),
        "perplexity": finite(perplexity(total, count)),
        "tokens": detail.tokens,
        "token_log_probs": [finite(x) for x in detail.log_probs],
        "alignment": [list(pair) for pair in detail.alignment],
    }
    return json.dumps(record, ensure_ascii=False)
