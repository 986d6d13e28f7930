"""nmt-generate: continue or generate lines with a language model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.streams import (
    FORMATS,
    check_apart,
    finite,
    output_lines,
    output_of,
    tell_to_type,
    telling_notices,
)
from nmt.cli.options.command import Command, running_options
from nmt.cli.options.path_types import InputPath, OutputFile
from nmt.cli.options.search_options import beam_options, kind_of, search_options, tell_unused
from nmt.search_settings import Place, usable
from nmt.system.lines import Lines, chunks, open_lines

if TYPE_CHECKING:
    from nmt.inference.translation import Translation

_CHUNK_BATCHES = 8
"""Number of batches of prompts to read at a time."""


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=InputPath())
@click.argument("source", metavar="[PROMPTS]", required=False, type=InputPath())
@click.option("--prompt", metavar="TEXT", multiple=True, help="Beginning of a line to continue; may be repeated.")
@click.option("-o", "--output", type=OutputFile(), metavar="FILE", default="-", help="Output file; - is stdout.")
@click.option("-n", "--samples", type=kind_of("n_best"), default=1, help="Number of lines to write per prompt.")
@click.option("--max-length", type=kind_of("max_length_extra"), default=100, help="Maximum number of subwords to add.")
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default="text",
    help="Write text, columns, or one JSON object per prompt (see above).",
)
@search_options({*usable(Place.LANGUAGE_MODEL)} - {"sampling"})
@click.option("--sampling/--no-sampling", default=True, help="Sample lines, or search for the most probable ones.")
@beam_options()
@running_options()
def generate(model_dir: str, source: str | None, **options: Any) -> None:
    """Generate or continue lines with a language model.

    MODEL is written by nmt-train with task: lm. Each line of PROMPTS (a UTF-8 text file, plain or .gz, or - for
    standard input) and each --prompt is the beginning of a line, in whole words; without prompts, lines start from
    nothing. Lines are sampled from the model's distribution; --no-sampling searches for the most probable ones. The
    same model, prompt and --seed give the same lines.

    Text output is the whole line including its prompt, with --samples lines per prompt. The tab-separated columns are
    number of the prompt (from 0), rank (from 1), score, text. The score is the natural logarithm of the probability of
    the added text, with --no-sampling after the length penalty.

    \b
    Examples:
        nmt-generate runs/captions -n 5
        nmt-generate runs/captions --prompt 'A man' --sampling-temperature 0.7
    """
    from nmt.cli.lines.meter import Meter
    from nmt.inference.generator import Generator
    from nmt.storage.model_folder import model_files

    loading = {name: options.pop(name) for name in ("threads", "checkpoint", "compute_dtype", "device", "cells")}
    output, form = options.pop("output"), options.pop("output_format")
    inputs: dict[str, str | list[Path]] = {"a file of the model": model_files(Path(model_dir))}
    check_apart({"-o": output}, inputs if source is None else {"PROMPTS": source, **inputs})
    prompts = _prompts(source, options.pop("prompt"))
    with contextlib.ExitStack() as stack:
        notices = stack.enter_context(telling_notices(source or "--prompt"))
        writer = stack.enter_context(output_lines(output))
        meter = stack.enter_context(contextlib.closing(Meter("generated", source)))
        generator = Generator.load(model_dir, **loading)
        tell_unused(options, generator.config.decoding)
        if source is not None:
            tell_to_type(source, "the beginning of a line")
        size = (options["batch_size"] or generator.config.decoding.batch_size) * _CHUNK_BATCHES
        number = 0
        for chunk in chunks(prompts, size):
            found = generator.generate(chunk, on_batch=meter.add, **options)
            for prompt, lines in zip(chunk, found, strict=True):
                for text in _written(form, number, prompt, lines):
                    writer.write(text)
                notices.add(number, [text for line in lines for text in line.warnings])
                number += 1
            writer.flush()


def _prompts(source: str | None, given: tuple[str, ...]) -> Lines[str]:
    """Return the prompts of the command line, then those of the file; one empty prompt if there are none."""
    if source is None:
        return Lines(iter(given or ("",)))
    lines = open_lines(source)
    return Lines(chain(given, lines), lines.ready)


def _written(form: str, number: int, prompt: str, lines: list[Translation]) -> Iterator[str]:
    """Yield the lines of output for one prompt: text, columns or a JSON object."""
    if form == "text":
        yield from (line.text for line in lines)
    elif form == "tsv":
        yield from output_of(form, number, prompt, lines)
    else:
        written = [
            {"text": line.text, "log_prob": finite(line.log_prob), "confidence": round(line.confidence, 6)}
            for line in lines
        ]
        yield json.dumps({"number": number, "prompt": prompt, "lines": written}, ensure_ascii=False)
