"""`python -m docs.show CELL`: print what the compiler makes of a cell."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path

from docs.show.dot import drawn
from docs.show.loading import load_cell
from docs.show.report import Report
from nmt.errors import NMTError
from nmt.rnn.arguments import whole_number
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.system.files import write_bytes

_NARROWEST, _WIDEST = 60, 200
_DTYPES = ("float32", "float64", "bfloat16", "int8")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    found = argparse.ArgumentParser(
        prog="python -m docs.show",
        description="Shows what the compiler makes of a cell: what it does before, in and after the time loop, what it "
        "keeps for the backward pass, and which work of a row it fuses into one loop (docs/compiler.md).",
    )
    names = ", ".join(CELLS_BY_NAME)
    found.add_argument("cell", metavar="CELL", help=f"{names}; or FILE.py:CLASS for one of your own")
    found.add_argument("--input", type=int, default=3, metavar="N", help="width of the input (3)")
    found.add_argument("--hidden", type=int, default=4, metavar="N", help="hidden units (4)")
    found.add_argument("--dtype", choices=_DTYPES, default="float32", help="numbers of the products (float32)")
    found.add_argument("--inference", action="store_true", help="without gradients and dropout")
    found.add_argument(
        "--recompute",
        choices=("attention", "gates"),
        default="attention",
        help="what the backward pass computes again: values of source positions, or (gates) activations too",
    )
    found.add_argument("--columns", type=int, metavar="N", help="width of the text, 60 to 200 (that of the terminal)")
    found.add_argument("--source", action="store_true", help="the generated loops as well")
    found.add_argument(
        "-o", "--output", metavar="FILE", help="draw a picture into this file too: .dot, or .svg by Graphviz"
    )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print a report; return 1 after a user's error, which is one line, 2 after a wrong option."""
    given = parser().parse_args(arguments)
    try:
        columns = _columns(given.columns)
        sizes = whole_number("show", "input", given.input), whole_number("show", "hidden", given.hidden)
        report = Report(
            load_cell(given.cell, *sizes), given.dtype, training=not given.inference, recompute=given.recompute
        )
        if given.output is not None:
            _write(given.output, report.dot())
        sys.stdout.write(report.text(columns))
        if given.source:
            sys.stdout.write("\n" + report.source())
        sys.stdout.flush()
    except NMTError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    except BrokenPipeError:
        # The reader has closed the pipe; print nothing more, not even when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return 0


def _columns(given: int | None) -> int:
    """Return the width of lines: as given, else the terminal's width within readable limits."""
    if given is None:
        return min(max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST), _WIDEST)
    if not _NARROWEST <= given <= _WIDEST:
        raise NMTError(f"show: columns must be from {_NARROWEST} to {_WIDEST}, got {given}")
    return given


def _write(path: str, source: str) -> None:
    if not path.endswith((".dot", ".svg")):
        raise NMTError(f"show: output must be a file that ends in .dot or .svg, got {path}; give it that name")
    picture = drawn(source) if path.endswith(".svg") else source
    try:
        write_bytes(Path(path), picture.encode())
    except OSError as error:
        raise NMTError(f"show: output must be a file that can be written, got {path}: {error.strerror}") from error


if __name__ == "__main__":
    raise SystemExit(main())
