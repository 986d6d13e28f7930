"""nmt-score: what a model thinks of given translations or, a language model, of text."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.command import (
    Command,
    cells_option,
    checkpoint_option,
    compute_dtype_option,
    device_option,
    threads_option,
    version_option,
)
from nmt.cli.search_options import language_model_options

if TYPE_CHECKING:
    from nmt.cli.streams import LineWriter

_CHUNK = 2048
"""Pairs read at a time."""


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR")
@click.option("--src", metavar="FILE", help="Source text, a sentence a line; a language model has none.")
@click.option("--tgt", metavar="FILE", required=True, help="Its translations, line by line; or text.")
@click.option("--independent", is_flag=True, help="Language models: score each line by itself, not after the others.")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where to write; - is stdout.")
@click.option("--output-format", type=click.Choice(["tsv", "json"]), default="tsv", help="Columns or JSON objects.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    show_default="decoding.batch_size of the config, there 64",
    help="Sentences scored together: speed, not results.",
)
@language_model_options()
@checkpoint_option()
@compute_dtype_option()
@threads_option()
@device_option()
@cells_option()
@version_option()
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
    """Score translations with the model in MODEL_DIR: the natural logarithm of their probability.

    Each pair gives a line of four columns between tabs: number of the line (from 0), log-probability,
    number of subwords with the end of the sentence, perplexity of a subword. With --output-format
    json it gives an object, which has the subwords and their log-probabilities too. Standard error
    gets the perplexity of the whole. With --lm what is added up is not the logarithm of a probability
    but what a search with --lm ranks by.

    A language model (task: lm) scores text: --tgt alone. Each line is read after those before it, as
    in training, unless --independent; a blank line has nothing to score.

    \b
    Examples:
        nmt-score runs/de-en --src test.de --tgt test.en
        nmt-score runs/captions --tgt test.en
    """
    from nmt.cli.streams import output_lines

    if src is not None and independent:
        raise click.UsageError("--independent is for language models, which have no --src.")
    if src is None and (lm is not None or lm_weight is not None):
        raise click.UsageError("--lm and --lm-weight are for translations, which have --src.")
    with output_lines(output) as writer:
        if src is None:
            _score_text(writer, model_dir, tgt, not independent, output_format, loading)
        else:
            how = {"batch_size": batch_size, "lm_weight": lm_weight}
            _score_pairs(writer, model_dir, src, tgt, output_format, how, {"lm": lm, **loading})


def _score_pairs(
    writer: LineWriter,
    model_dir: str,
    src: str,
    tgt: str,
    form: str,
    how: dict[str, Any],
    loading: dict[str, Any],
) -> None:
    from nmt.cli.streams import chunks, in_step, input_lines
    from nmt.translator import Translator

    pairs = in_step(input_lines(src), {tgt: input_lines(tgt)})
    total, count, number = 0.0, 0, 0
    translator = Translator.load(model_dir, **loading)
    for chunk in chunks(pairs, _CHUNK):
        targets = [beside[tgt] for _, beside in chunk]
        for detail in translator.score([line for line, _ in chunk], targets, **how):
            more = {"alignment": [list(pair) for pair in detail.alignment]}
            writer.write(_line(form, number, detail.tokens, detail.log_probs, more))
            total, count, number = total + sum(detail.log_probs), count + len(detail.tokens), number + 1
        writer.flush()
    click.echo(f"perplexity {perplexity(total, count):.4f} of {count} subwords in {number} lines", err=True)


def _score_text(writer: LineWriter, model_dir: str, text: str, carry: bool, form: str, loading: dict[str, Any]) -> None:
    from nmt.cli.streams import input_lines
    from nmt.generator import Generator

    total, count, number, characters = 0.0, 0, 0, 0
    for line in Generator.load(model_dir, **loading).score(input_lines(text), carry=carry):
        writer.write(_line(form, number, line.tokens, line.log_probs, {}))
        total, count, number = total + sum(line.log_probs), count + len(line.tokens), number + 1
        characters += line.characters
    bits = -total / math.log(2) / max(1, characters)
    click.echo(
        f"perplexity {perplexity(total, count):.4f} of {count} subwords in {number} lines, "
        f"{bits:.4f} bits for each of {characters} characters",
        err=True,
    )


def perplexity(log_prob: float, count: int) -> float:
    """The perplexity of a token, of `count` whose log-probabilities sum to `log_prob`; infinite if too large."""
    mean = -log_prob / max(1, count)
    return math.exp(mean) if mean < 700 else math.inf


def _line(form: str, number: int, tokens: list[str], log_probs: list[float], more: dict[str, Any]) -> str:
    total, count = sum(log_probs), len(tokens)
    if form == "tsv":
        return f"{number}\t{total:.6f}\t{count}\t{perplexity(total, count):.6f}"
    record = {
        "line": number,
        "log_prob": round(total, 6),
        "perplexity": perplexity(total, count),
        "tokens": tokens,
        "token_log_probs": [round(x, 6) for x in log_probs],
        **more,
    }
    return json.dumps(record, ensure_ascii=False)


if __name__ == "__main__":
    score()
