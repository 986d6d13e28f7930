"""Write lines and translations to standard output, files and pipes; read several files in parallel, in chunks."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from nmt.errors import DataError, NMTWarning, one_line
from nmt.overriding import override
from nmt.system.files import explain, remedy, replacing, write_bytes
from nmt.system.lines import STDIN, Lines, read_text, source_name
from nmt.system.notices import Notices
from nmt.system.paths import is_file, shown
from nmt.system.terminal import coloured

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translation import Detail, Translation
    from nmt.inference.translator import Translator


STDOUT = "-"
STDOUT_NAME = "standard output"
_LOUD = ("warning:", "Error:")
"""Beginnings of messages that --quiet does not silence."""

Record = tuple[str, dict[str, str]]
"""A line of the input, and the lines of other files at the same position, by file name."""


class LineWriter:
    """Writes lines in UTF-8 to a binary stream; errors name the target. `name`: the user's name for it."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name

    def write(self, text: str) -> None:
        """Write one line. Raises DataError if the disk is full."""
        with write_errors(self._name):
            # Lone surrogates stand for bytes of a file name that are not UTF-8; the bytes are written unchanged.
            self._stream.write(text.encode(errors="surrogateescape") + b"\n")

    def flush(self) -> None:
        """Flush, so that readers see what was written. Raises DataError if the disk is full."""
        with write_errors(self._name):
            self._stream.flush()


@contextlib.contextmanager
def output_lines(target: str) -> Iterator[LineWriter]:
    """Yield a writer to standard output (`-`), or to a file that appears when all of it is written. Raises DataError:
    It cannot be written. An existing file of that name is unchanged."""
    if target == STDOUT:
        if sys.stdout is None:
            raise DataError(f"{STDOUT_NAME}: must be open, got a closed one; name a file to write to")
        writer = LineWriter(sys.stdout.buffer, STDOUT_NAME)
        yield writer
        writer.flush()
        return
    with contextlib.ExitStack() as stack:
        with write_errors(target):
            temporary = stack.enter_context(replacing(Path(target)))
            stream = stack.enter_context(closing_quietly(temporary.open("wb")))
        yield LineWriter(stream, target)
        with write_errors(target):
            stream.close()
            stack.close()


@contextlib.contextmanager
def closing_quietly(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Close a stream at the end of the block. An error on closing is ignored: an earlier error has the cause."""
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError):
            stream.close()


def say(text: str) -> None:
    """Write a result, one line or several, to standard output. Raises DataError."""
    with output_lines(STDOUT) as writer:
        writer.write(text)


@contextlib.contextmanager
def quietly(is_quiet: bool) -> Iterator[None]:
    """Write nothing but warnings and errors to standard error within the block, if `is_quiet`."""
    former, sys.stderr = sys.stderr, WarningsOnly(sys.stderr) if is_quiet else sys.stderr
    try:
        yield
    finally:
        sys.stderr = former


class WarningsOnly(io.TextIOBase):
    """A text stream that passes warnings and errors on to `stream`, and is no terminal: it gets no live line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @override
    def write(self, text: str) -> int:
        if text.startswith(_LOUD):
            self._stream.write(text)
        return len(text)

    @override
    def flush(self) -> None:
        self._stream.flush()

    @override
    def fileno(self) -> int:
        return self._stream.fileno()


def tell(text: str, end: str = "\n") -> None:
    """Write a message to standard error, an error or a warning as one line; if that fails, it is ignored."""
    text = one_line(text) if text.startswith(_LOUD) else text
    try:
        click.echo(coloured(text, sys.stderr) + end, nl=False, err=True)
    except OSError:
        discard(sys.stderr.fileno())


@contextlib.contextmanager
def telling_warnings() -> Iterator[None]:
    """Print each `NMTWarning` in the context as one line, and all other warnings as Python does."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NMTWarning):
            tell(f"warning: {message}")
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def telling_notices(source: str) -> Iterator[Notices]:
    """Collect warnings about the lines of a text, named as on the command line, and print them at the end."""
    notices = Notices()
    try:
        yield notices
    finally:
        for text in notices.told():
            tell(f"warning: {source_name(source)}: {text}")


def discard(handle: int) -> None:
    """Redirect a standard stream to /dev/null: its data could not be written, and would be tried again on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, handle)
    os.close(nowhere)


@contextlib.contextmanager
def write_errors(name: str) -> Iterator[None]:
    """Turn errors of writing `name` into one-line errors. BrokenPipeError is passed on, since a reader that closes the
    pipe is no error: the command ends silently."""
    try:
        yield
    except OSError as error:
        if name == STDOUT_NAME:
            with contextlib.suppress(OSError):  # a stand-in without a file
                discard(sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        if sys.platform == "win32" and name == STDOUT_NAME and error.errno == errno.EINVAL:  # its word for that
            raise BrokenPipeError from error
        raise DataError(f"{name}: must be writable, got {explain(error)}; {remedy(error)}") from error


def check_page(output: str, earlier: str) -> None:
    """Raise DataError if a file to write exists and is no HTML page. earlier: What is replaced, `an earlier report`."""
    try:
        if output == STDOUT or not is_file(Path(output)):
            return
        with Path(output).open("rb") as file:
            start = file.read(64).lstrip().lower()
    except OSError as error:
        raise DataError(f"{shown(output)}: must be writable, got {explain(error)}; choose another place") from None
    if start and not start.startswith(b"<!doctype html"):
        raise DataError(f"{shown(output)}: must be new or {earlier}, got another file; choose another name")


def check_apart(outputs: Mapping[str, str], inputs: Mapping[str, str | list[Path]]) -> None:
    """Raise DataError if an output is also an input or another output, by any name, link or stream, since it would be
    overwritten, or if two inputs are both standard input. `outputs`: paths or `-`, by their names in the error;
    `inputs`: the same, or lists of files that must not be overwritten."""
    streams = [name for name, source in inputs.items() if source == STDIN]
    if len(streams) > 1:
        raise DataError(
            f"{' and '.join(streams)}: must not both be standard input, got - twice; give one of them as a file"
        )
    taken: dict[tuple[int, int] | str, str] = {}
    for name, source in inputs.items():
        for path in [source, f"{source}.gz"] if isinstance(source, str) else source:
            if (known := _identity(path, 0)) is not None:
                taken[known] = name if isinstance(source, list) else f"that of {name}"
    for name, target in outputs.items():
        if (known := _identity(target, 1)) is None:
            continue
        if known in taken:
            raise DataError(
                f"{STDOUT_NAME if target == STDOUT else target}: must be a file of its own, got {taken[known]}; write "
                "elsewhere"
            )
        taken[known] = f"that of {name}"


def _identity(path: str | Path, stream: int) -> tuple[int, int] | str | None:
    """Return the device and inode of the file behind a path, or behind `-` for a standard stream; the resolved path if
    it does not exist; None if it is not a regular file."""
    try:
        found = os.fstat(stream) if path == STDIN else os.stat(path)
    except OSError:
        return None if path == STDIN else os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def in_step(lines: Lines[str], others: Mapping[str, Lines[str]]) -> Lines[Record]:
    """Return each line with the lines of other files at the same position; `others` maps names to files. Raises
    DataError: A file has more or fewer lines."""
    return Lines(_in_step(lines, others), lambda: all(one.ready() for one in (lines, *others.values())))


def _in_step(lines: Lines[str], others: Mapping[str, Lines[str]]) -> Iterator[Record]:
    """Yield lines with those of the other files. Raises DataError where another file ends early, or goes on."""
    count = 0
    for count, line in enumerate(lines, start=1):
        parallel = {name: next(other, None) for name, other in others.items()}
        for name, other in parallel.items():
            if other is None:
                raise DataError(
                    f"{name}: must have one line for each input line, got {count - 1}; add the missing ones"
                )
        yield line, {name: other for name, other in parallel.items() if other is not None}
    for name, lines_left in others.items():
        if next(lines_left, None) is not None:
            raise DataError(f"{name}: must have as many lines as the input, {count}, got more; remove the others")


def load_translator(model_dir: str, options: dict[str, Any]) -> Translator | Pivot:
    """Load the translator, and the other models of its ensemble or of --then. Raises NMTError."""
    from nmt.inference.translator import Translator

    kinds = {name: options[name] for name in ("threads", "checkpoint", "compute_dtype", "device", "cells")}
    if options["then"]:
        from nmt.inference.pivot import Pivot

        found: Translator | Pivot = Translator.load(model_dir, **kinds)
        for place in options["then"]:
            found = Pivot(found, Translator.load(place, **kinds))
        return found
    translator = Translator.load(model_dir, **kinds)
    if options["ensemble"]:
        kinds["threads"] = translator.num_threads
        others = [Translator.load(other, **kinds) for other in options["ensemble"]]
        translator = translator.together_with(others, options["ensemble_average"])
    return with_memory(translator, options["memory"])


def with_memory(translator: Translator, path: str | None) -> Translator:
    """Return a translator as one that reads the pairs of a text while translating. Raises NMTError."""
    if path is None:
        return translator
    from nmt.data.corpora.judged_texts import judged_corpus
    from nmt.data.corpora.sources import Source
    from nmt.inference.nearest import pairs_of
    from nmt.inference.pipeline import reading

    pairs, data = [*pairs_of(translator.config, path)], translator.config.data
    for line in judged_corpus(Source(path), (data.src.lang, data.tgt.lang)):
        tell(f"warning: {line}")
    found = reading(translator, pairs, path)
    tell(f"{path}: {len(found.recall or ()):,} pairs are read while translating")
    return found


def phrases(path: str | None) -> list[str]:
    """Return the non-blank lines of a file; an empty list for None."""
    return [] if path is None else [line for line in read_text(path) if line.strip()]


def phrase_pairs(path: str | None) -> list[tuple[str, str]]:
    """Read phrases and their translations, separated by a tab, or else by `=`. Raises DataError: another line."""
    found = []
    for line in phrases(path):
        columns = [one.strip() for one in (line.split("\t") if "\t" in line else line.split("=", 1))]
        if len(columns) != 2 or not all(columns):
            raise DataError(
                f"{path}: a line must be a phrase, a tab and its translation, or both with = between, "
                f"got {line!r}; correct the line"
            )
        found.append((columns[0], columns[1]))
    return found


FORMATS = ("text", "tsv", "json")


def output_of(form: str, number: int, source: str, found: list[Translation]) -> Iterator[str]:
    """Yield the output lines for input line `number`, given its translations `found`, best first."""
    if form == "text":
        yield found[0].text
    elif form == "tsv":
        for rank, translation in enumerate(found, start=1):
            yield f"{number}\t{rank}\t{translation.score:.6f}\t{translation.text}"
    else:
        record = {"line": number, "source": source, "translations": [_record(t) for t in found]}
        yield json.dumps(record, ensure_ascii=False)


def alignment_line(detail: Detail | None, *, soft: bool) -> str:
    """Return a translation's alignment in Pharaoh format; if `soft`, its word attention: for each target word the
    weights of all source words and of the source's end, separated by commas; spaces separate target words."""
    from nmt.data.alignment.word_alignment import pharaoh, soft_alignment, words_of

    if detail is None:
        return ""
    if not soft:
        return pharaoh(detail.alignment)
    tokens = detail.tokens[:-1] if detail.tokens[-1:] == ["</s>"] else detail.tokens
    weights = soft_alignment(detail.attention, words_of(detail.src_tokens), words_of(tokens))
    return " ".join(",".join(f"{weight:.6g}" for weight in row) for row in weights)


def write_plot(path: Path, detail: Detail) -> None:
    """Write the attention of a translation as an SVG file."""
    from nmt.report.page import attention_svg

    svg = attention_svg(detail.attention, [*detail.src_tokens, "</s>"], detail.tokens)
    with write_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, svg.encode())


def _record(translation: Translation) -> dict[str, Any]:
    """Return a translation as a JSON object, including its details if it has any."""
    record: dict[str, Any] = {
        "text": translation.text,
        "score": finite(translation.score),
        "log_prob": finite(translation.log_prob),
        "confidence": round(translation.confidence, 6),
    }
    detail = translation.detail  # None for a blank line
    record["tokens"] = detail.tokens if detail else []
    record["token_log_probs"] = [finite(x) for x in detail.log_probs] if detail else []
    record["alignment"] = [list(pair) for pair in detail.alignment] if detail else []
    record["unseen"] = [*translation.unseen]
    record["warnings"] = [*translation.warnings, *(detail.warnings if detail else [])]
    return record


def finite(number: float) -> float | None:
    """Return a number with six decimals for JSON, None for infinity and NaN."""
    return round(number, 6) if math.isfinite(number) else None
