"""Programs in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def python(
    program: str, *arguments: object, code: int = 0, text: str = "", timeout: float | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """A process that has run a program of Python, to which `text` was given, and that has ended with `code`."""
    given: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environment}}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, check=False, **given)
    assert done.returncode == code, done.stderr
    return done
