"""nmt-translate: read sentences, write translations."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.command import Command, beam_options, device_option, threads_option, version_option

if TYPE_CHECKING:
    from nmt.translator import Translation, Translator

_CHUNK_BATCHES = 32
"""Batches read at a time: enough to put lines of like lengths together, and little memory."""


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR")
@click.argument("source", metavar="[INPUT]", default="-")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where to write; - is stdout.")
@beam_options()
@click.option(
    "--n-best",
    type=click.IntRange(min=1),
    help="Write up to this many translations of each line, as columns (see above).",
)
@click.option("--scores", is_flag=True, help="Write the score beside each translation, as columns.")
@click.option(
    "--compute-dtype",
    type=click.Choice(["float32", "bfloat16"]),
    show_default="compute_dtype of the config, there float32",
    help="What is multiplied: bfloat16 is faster on a processor that has instructions for it.",
)
@threads_option()
@device_option()
@version_option()
def translate(
    model_dir: str,
    source: str,
    output: str,
    n_best: int | None,
    scores: bool,
    compute_dtype: str | None,
    threads: int | None,
    device: str | None,
    checkpoint: str | None,
    **search: Any,
) -> None:
    """Translate INPUT, one sentence a line, with the model in MODEL_DIR (written by nmt-train).

    INPUT is a text file in UTF-8, plain or .gz; - or none is standard input. Each line gives one
    line of detokenised text, in order; a blank line gives an empty line. Lines are read and written
    in chunks; with --batch-size 1, or typed at a terminal, each line is answered before the next is
    read.

    With --n-best or --scores each translation is a line of four columns between tabs: number of the
    input line (from 0), rank (from 1), score, text. The score is the natural logarithm of the
    probability after the length penalty; higher is better.

    \b
    Examples:
        nmt-translate runs/de-en test.de -o test.en
        echo 'Guten Morgen!' | nmt-translate runs/de-en --n-best 3
    """
    from nmt.cli.meter import Meter
    from nmt.cli.streams import chunks, input_lines, output_lines
    from nmt.translator import Translator  # Numba loads only when there is work to do

    beam_size = search["beam_size"]
    if n_best is not None and beam_size is not None and n_best > beam_size:
        raise click.UsageError(f"--n-best {n_best} needs --beam-size {n_best} or more.")
    lines = input_lines(source)
    with output_lines(output) as writer, contextlib.closing(Meter()) as meter:
        options = {"checkpoint": checkpoint, "compute_dtype": compute_dtype, "device": device}
        translator = Translator.load(model_dir, threads=threads, **options)
        search["n_best"] = n_best or 1
        search["beam_size"] = max(beam_size or translator.config.decoding.beam_size, n_best or 1)
        columns = scores or n_best is not None
        size = _chunk_size(source, search["batch_size"] or translator.config.decoding.batch_size)
        for line in _translated(translator, chunks(lines, size), search, columns, meter.add):
            writer.write(line)
            if size == 1:
                writer.flush()


def _chunk_size(source: str, batch_size: int) -> int:
    is_typed = source == "-" and sys.stdin.isatty()
    return 1 if is_typed or batch_size == 1 else batch_size * _CHUNK_BATCHES


def _translated(
    translator: Translator,
    pieces: Iterable[list[str]],
    search: dict[str, Any],
    columns: bool,
    on_batch: Any,
) -> Iterator[str]:
    number = 0
    for piece in pieces:
        for found in translator.translate_nbest(piece, on_batch=on_batch, **search):
            yield from _columns(number, found) if columns else [found[0].text]
            number += 1


def _columns(number: int, found: list[Translation]) -> Iterator[str]:
    for rank, translation in enumerate(found, start=1):
        yield f"{number}\t{rank}\t{translation.score:.6f}\t{translation.text}"


if __name__ == "__main__":
    translate()
