"""Standard error as a person sees it: colours, and a last line that changes while work goes on.

Only a terminal gets either: what goes to a file or into a pipe is plain text, line by line. Three colours and a line
that is cut are all that is needed, so no library draws them.
"""

from __future__ import annotations

import os
import shutil
from typing import TextIO

_RED, _YELLOW, _GREEN = "\x1b[1;31m", "\x1b[33m", "\x1b[32m"
_PLAIN = "\x1b[0m"
_ERROR, _WARNING = "Error:", "warning:"
BEST = "  *"
"""Ends the line of a validation that is the best so far."""


def is_live(stream: TextIO | None) -> bool:
    """Return whether a line of this stream can be written anew."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def live(text: str) -> str:
    """Return what writes `text` in place of the terminal's last line, cut to its width: what goes on in a second line
    could not be taken back."""
    return f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K"


def coloured(text: str, stream: TextIO | None) -> str:
    """Return a line as `stream` gets it: `Error:` in red, `warning:` in yellow, the best validation so far in green.
    Plain where that is no terminal, or where NO_COLOR is set to anything (no-color.org)."""
    if not is_live(stream) or os.environ.get("NO_COLOR"):
        return text
    for word, colour in ((_ERROR, _RED), (_WARNING, _YELLOW)):
        if text.startswith(word):
            return f"{colour}{word}{_PLAIN}{text[len(word) :]}"
    return f"{_GREEN}{text}{_PLAIN}" if text.endswith(BEST) else text
