"""Output to a terminal on standard error: colours, and a last line that changes during work. A file or pipe gets plain
text, line by line. The progress of commands is shown by tqdm (nmt.cli.lines.streams)."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

_RED, _YELLOW, _GREEN = "\x1b[1;31m", "\x1b[33m", "\x1b[32m"
_PLAIN = "\x1b[0m"
_ERROR, _WARNING = "Error:", "warning:"
BEST = "  *"
"""Ending of the line of a validation that is the best so far."""


def is_live(stream: TextIO | None) -> bool:
    """Return whether a line of this stream can be rewritten."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def live(text: str) -> str:
    """Return the text that replaces the terminal's last line, cut to its width: a second line could not be replaced."""
    return f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K"


def coloured(text: str, stream: TextIO | None) -> str:
    """Return a line in the colours of `stream`: `Error:` in red, `warning:` in yellow, the best validation so far in
    green. It is unchanged if that is not a terminal, or if NO_COLOR is set to anything (no-color.org)."""
    if not is_live(stream) or os.environ.get("NO_COLOR"):
        return text
    for word, colour in ((_ERROR, _RED), (_WARNING, _YELLOW)):
        if text.startswith(word):
            return f"{colour}{word}{_PLAIN}{text[len(word) :]}"
    return f"{_GREEN}{text}{_PLAIN}" if text.endswith(BEST) else text


def reason(said: bytes, code: int) -> str:
    """Return the last line of a command's messages that says why it has ended with this exit code."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(_ERROR)]
    return (errors or lines or [f"exit code {code}"])[-1].removeprefix(_ERROR).strip()[:500]
