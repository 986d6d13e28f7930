"""Commands on a terminal that is none."""

import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def on_terminal(
    command: Sequence[str],
    columns: int,
    env: Mapping[str, str] | None = None,
    typed: bytes = b"",
    until: bytes | None = None,
) -> tuple[str, int]:
    """Run a command of ours with all its streams on a terminal of so many columns; what it wrote, and its exit code.
    `typed`: what is typed at once; `until`: end the command when it has written this."""
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    env = kept | {"TERM": "xterm"} | dict(env or {})
    with subprocess.Popen([str(BIN / command[0]), *command[1:]], **streams, env=env) as process:
        os.close(theirs)
        os.write(ours, typed)
        written = b""
        with suppress(OSError):  # Linux says so when the last writer has gone
            while data := os.read(ours, 65536):
                written += data
                if until is not None and until in written:
                    process.terminate()
                    until = None
        status = process.wait()
    os.close(ours)
    return written.decode(), status
