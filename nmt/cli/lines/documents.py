"""Translate a document for nmt-translate --format."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.judging import tell_if_strange
from nmt.cli.lines.streams import STDOUT, STDOUT_NAME, output_lines, tell, telling_notices, write_errors
from nmt.errors import DataError
from nmt.system.files import explain, replacing
from nmt.system.lines import STDIN, source_name
from nmt.system.paths import absent

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translation, Translator

_MOST_BYTES = 2**28
_CHUNK_BATCHES = 32
_FOR_LINES = ("scores", "n_best", "output_format", "alignments", "plot_attention", "prefix", "resume")
"""Names of the options that apply only to lines."""


def check_document_options(source: str, options: dict[str, Any]) -> None:
    """Raise UsageError for options that do not apply to a document."""
    if given := [f"--{name.replace('_', '-')}" for name in _FOR_LINES if options.get(name)]:
        raise click.UsageError(f"--format {options['form']} goes without {', '.join(given)}, which are for lines.")
    if options["form"] == "auto" and source == STDIN:
        raise click.UsageError("--format auto needs the name of a file; name the format of standard input.")


def translate_document(
    translator: Translator | Pivot,
    source: str,
    options: dict[str, Any],
    search: dict[str, Any],
    phrases: tuple[list[tuple[str, str]], list[str]],
) -> None:
    """Translate and write a document. `phrases`: the glossary's pairs, and the forbidden ones. Raises DataError."""
    from nmt.cli.lines.meter import Meter
    from nmt.documents.document import left_text, read_document
    from nmt.documents.forms import format_of
    from nmt.documents.passage import MENDED, sentence_splitter
    from nmt.inference.pipeline import check_no_factors, phrases_for
    from nmt.inference.translator import Constraints

    check_no_factors(translator, "--format")
    glossary, forbidden = phrases
    form = format_of(source) if options["form"] == "auto" else options["form"]
    splitter = sentence_splitter(translator.config.data.src.lang) if options["split"] else None
    languages = translator.config.data.src.lang, translator.config.data.tgt.lang
    numbers = not options["leave_numbers"]
    document = read_document(_read(source), form, source_name(source), splitter, languages, numbers=numbers)
    if document.left and options["strict"]:
        left = left_text(document.left)
        raise DataError(
            f"{source_name(source)}: must be all translated, got {left}; correct them or leave --strict out"
        )
    sentences = [one for passage in document.passages for one in passage.sentences]
    tell_if_strange(translator, source_name(source), (one.asked for one in sentences))
    found: list[Translation] = []
    size = _CHUNK_BATCHES * search["batch_size"]
    with telling_notices(source) as notices, contextlib.closing(Meter(total=len(sentences))) as meter:
        for start in range(0, len(sentences), size):
            chunk = sentences[start : start + size]
            for details in (False, True):
                if texts := [one.asked for one in chunk if one.needs_detail == details]:
                    constraints = Constraints(
                        prefixes=options["prefix_text"],
                        glossary=[phrases_for(translator, text, glossary) for text in texts] if glossary else None,
                        forbidden=forbidden,
                    )
                    own = search | {"details": details, "constraints": constraints}
                    found += [one[0] for one in translator.translate_nbest(texts, on_batch=meter.add, **own)]
            found[start:] = _in_order(chunk, found[start:])
            for number, one in enumerate(found[start:], start=start):
                notices.add(number, [*one.warnings, *([MENDED] if chunk[number - start].changes(one) else [])])
    rest = iter(found)
    texts = [passage.joined([next(rest) for _ in passage.sentences]) for passage in document.passages]
    _write(options["output"], document.write(texts))
    if document.left:
        tell(f"warning: {source_name(source)}: left untranslated: {left_text(document.left)}")


def _in_order(chunk: list[Any], found: list[Translation]) -> list[Translation]:
    """Return translations in the order of the sentences, given first those without details and then those with them."""
    plain = sum(not one.needs_detail for one in chunk)
    without, with_detail = iter(found[:plain]), iter(found[plain:])
    return [next(with_detail) if one.needs_detail else next(without) for one in chunk]


def _read(source: str) -> bytes:
    """Return all bytes of a file or of standard input. Raises DataError."""
    name = source_name(source)
    try:
        if source == STDIN:
            if sys.stdin is None:
                raise DataError(f"{name}: must be open, got a closed one; give the path of a file")
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise DataError(absent(name)) from None
    except OSError as error:
        raise DataError(f"{name}: must be readable, got {explain(error)}; give a file that can be read") from None
    if len(content) > _MOST_BYTES:
        raise DataError(f"{name}: must have at most {_MOST_BYTES:,} bytes, got more; give a smaller file")
    return content


def _write(target: str, content: bytes) -> None:
    """Write the document; a file appears only when it is complete. Raises DataError."""
    if target == STDOUT:
        with output_lines(STDOUT), write_errors(STDOUT_NAME):
            sys.stdout.buffer.write(content)
        return
    with write_errors(target), replacing(Path(target)) as temporary:
        temporary.write_bytes(content)
