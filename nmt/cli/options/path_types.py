"""Types of options that name a file or folder; `nmt.system.paths` checks each while arguments are parsed, before any
work.

An option without one of these types must not name a path; a test checks this for all commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nmt.system import paths
from nmt.system.lines import STDIN


class PathType(click.ParamType):
    """A path given by the user; its value is the text as typed. `check`: checks a path, named for an error by the
    parameter; `takes_streams`: whether `-` means a standard stream."""

    name = "path"

    def __init__(self, check: Callable[[str, str], object], *, takes_streams: bool = True) -> None:
        self._check, self._takes_streams = check, takes_streams

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises PathError."""
        if isinstance(value, str) and not (value == STDIN and self._takes_streams):
            self._check(value, _called(param))
        return value


INPUT = PathType(paths.named)
"""A path to read: a text, a model, a folder. The code that opens it checks its kind."""
OUTPUT_FILE = PathType(paths.check_output)
OUTPUT_PLACE = PathType(paths.named)
"""A file to write, or a folder for several."""
OUTPUT_PREFIX = PathType(paths.check_prefix, takes_streams=False)
"""A prefix of the names of files to write."""
OUTPUT_FOLDER = PathType(paths.check_folder, takes_streams=False)
NEW_FOLDER = PathType(paths.check_new_folder, takes_streams=False)
NEW_PLACE = PathType(paths.named, takes_streams=False)
"""A folder to create or a file to write, whichever other options ask for; the command checks which."""


def reads(*names: str, text: str, metavar: str = "FILE", **more: Any) -> Callable[[Any], Any]:
    """Return an option that names a path to read."""
    return click.option(*names, type=INPUT, metavar=metavar, help=text, **more)


def writes(
    *names: str, text: str, metavar: str = "FILE", kind: PathType = OUTPUT_FILE, **more: Any
) -> Callable[[Any], Any]:
    """Return an option that names a path to write, a file unless `kind` is given."""
    return click.option(*names, type=kind, metavar=metavar, help=text, **more)


def new_folder(text: str) -> Callable[[Any], Any]:
    """Return the option -o that names the folder of a new model."""
    return writes("-o", "--output", kind=NEW_FOLDER, metavar="DIR", required=True, text=text)


def _called(param: click.Parameter | None) -> str:
    """Return the user's name for a parameter: `-o`, `MODEL`."""
    if param is None:
        return "path"
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name.strip("[].")
