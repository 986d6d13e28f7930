"""Types of options that name a file or folder: each is checked by `nmt.system.paths` as it is parsed, before any work.

An option without one of these types names no path; a test holds all commands to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import click

from nmt.system import paths
from nmt.system.lines import STDIN


class PathType(click.ParamType):
    """A path that a user names; the value stays the text that was typed."""

    name = "path"
    check: ClassVar[Callable[[str, str], object]]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises PathError."""
        if isinstance(value, str) and not (value == STDIN and self.takes_streams):
            type(self).check(value, _called(param))
        return value

    takes_streams: ClassVar[bool] = True
    """Whether `-` is a standard stream."""


class InputPath(PathType):
    """What is read: a text, a model, a folder. Whoever opens it knows what it must be."""

    check = staticmethod(paths.named)


class OutputFile(PathType):
    """A file to write."""

    check = staticmethod(paths.check_output)


class OutputPlace(PathType):
    """A file to write, or a folder for several."""

    check = staticmethod(paths.named)


class OutputPrefix(PathType):
    """The beginning of the names of files to write."""

    check = staticmethod(paths.check_prefix)
    takes_streams = False


class OutputFolder(PathType):
    """A folder to write into."""

    check = staticmethod(paths.check_folder)
    takes_streams = False


class NewFolder(PathType):
    """A folder to make."""

    check = staticmethod(paths.check_new_folder)
    takes_streams = False


def reads(*names: str, text: str, metavar: str = "FILE", **more: Any) -> Callable[[Any], Any]:
    """Return an option that names something to read."""
    return click.option(*names, type=InputPath(), metavar=metavar, help=text, **more)


def writes(
    *names: str, text: str, metavar: str = "FILE", kind: PathType | None = None, **more: Any
) -> Callable[[Any], Any]:
    """Return an option that names something to write, a file unless `kind` says something else."""
    return click.option(*names, type=kind or OutputFile(), metavar=metavar, help=text, **more)


def _called(param: click.Parameter | None) -> str:
    """Return what the user calls a parameter: `-o`, `MODEL_DIR`."""
    if param is None:
        return "path"
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name.strip("[].")
