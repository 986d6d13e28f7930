"""nmt-score: what a model thinks of given translations."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click

from nmt.cli.command import Command, device_option, threads_option, version_option

if TYPE_CHECKING:
    from nmt.translator import Detail

_CHUNK = 2048
"""Pairs read at a time."""


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR")
@click.option("--src", metavar="FILE", required=True, help="Source text, a sentence a line.")
@click.option("--tgt", metavar="FILE", required=True, help="Its translations, line by line.")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where to write; - is stdout.")
@click.option("--output-format", type=click.Choice(["tsv", "json"]), default="tsv", help="Columns or JSON objects.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    show_default="decoding.batch_size of the config, there 64",
    help="Sentences scored together: speed, not results.",
)
@click.option(
    "--checkpoint",
    type=click.Choice(["best", "last"]),
    show_default="best, or last where there is no best yet",
    help="Which parameters of the model folder to use.",
)
@threads_option()
@device_option()
@version_option()
def score(
    model_dir: str,
    src: str,
    tgt: str,
    output: str,
    output_format: str,
    batch_size: int | None,
    checkpoint: str | None,
    threads: int | None,
    device: str | None,
) -> None:
    """Score translations with the model in MODEL_DIR: the natural logarithm of their probability.

    Each pair gives a line of four columns between tabs: number of the line (from 0), log-probability,
    number of subwords with the end of the sentence, perplexity of a subword. With --output-format
    json it gives an object, which has the subwords and their log-probabilities too. Standard error
    gets the perplexity of the whole.

    \b
    Example:
        nmt-score runs/de-en --src test.de --tgt test.en
    """
    from nmt.cli.streams import chunks, in_step, input_lines, output_lines
    from nmt.translator import Translator

    pairs = in_step(input_lines(src), {tgt: input_lines(tgt)})
    total, count, number = 0.0, 0, 0
    with output_lines(output) as writer:
        translator = Translator.load(model_dir, threads=threads, checkpoint=checkpoint, device=device)
        for chunk in chunks(pairs, _CHUNK):
            targets = [beside[tgt] for _, beside in chunk]
            for detail in translator.score([line for line, _ in chunk], targets, batch_size=batch_size):
                writer.write(_columns(number, detail) if output_format == "tsv" else _record(number, detail))
                total, count, number = total + sum(detail.log_probs), count + len(detail.tokens), number + 1
            writer.flush()
    click.echo(f"perplexity {perplexity(total, count):.4f} of {count} subwords in {number} lines", err=True)


def perplexity(log_prob: float, count: int) -> float:
    """The perplexity of a token, of `count` whose log-probabilities sum to `log_prob`; infinite if too large."""
    mean = -log_prob / max(1, count)
    return math.exp(mean) if mean < 700 else math.inf


def _columns(number: int, detail: Detail) -> str:
    total, count = sum(detail.log_probs), len(detail.tokens)
    return f"{number}\t{total:.6f}\t{count}\t{perplexity(total, count):.6f}"


def _record(number: int, detail: Detail) -> str:
    total, count = sum(detail.log_probs), len(detail.tokens)
    record = {
        "line": number,
        "log_prob": round(total, 6),
        "perplexity": perplexity(total, count),
        "tokens": detail.tokens,
        "token_log_probs": [round(x, 6) for x in detail.log_probs],
        "alignment": [list(pair) for pair in detail.alignment],
    }
    return json.dumps(record, ensure_ascii=False)


if __name__ == "__main__":
    score()
