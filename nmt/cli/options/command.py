"""The base class of commands, which turns errors into a message and an exit code, and the types of options."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import shlex
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import IO, Any, ClassVar

import click

from nmt.cli.entry import end_by_signals
from nmt.cli.lines.streams import STDOUT_NAME, quietly, tell, telling_warnings, write_errors
from nmt.cli.options import help_page
from nmt.cli.options.foreign_options import about_extra, advice, nearest, resolved
from nmt.errors import NMTError, how_to_install, lacking_resource, most_like
from nmt.system.files import ON_WINDOWS
from nmt.system.notices import telling_of_compilation

QUIET = "nmt.quiet"
"""The key of a click context's `meta` that is true with --quiet."""
VERBOSE = "nmt.verbose"
"""The key that is true with --verbose."""


class Command(click.Command):
    """A click command that prints an NMTError as `Error: ...` and exits with 1; bugs keep their traceback. It has the
    options --quiet, --verbose, --version and --help-all, and shows the others in the groups of `help_page`.

    Exit codes: 0 done, 1 an error in the user's data or settings, 2 a wrong option, 128 + n ended by signal n: 130 by
    SIGINT, 143 by SIGTERM, 141 if the reader of standard output closed it.
    """

    def __init__(self, *arguments: Any, **extra: Any) -> None:
        super().__init__(*arguments, **extra)
        self.params += [_told_option(QUIET), _told_option(VERBOSE), _version_option(), help_page.help_all_option()]
        usual = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
        self.context_settings = {**usual, **self.context_settings}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        help_page.write_options(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `_parse`."""
        ctx.meta[_ARGUMENTS] = list(args)
        with _telling_of_spaces(ctx):
            return self._parse(ctx, args)

    def _parse(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, in which options may have names of other toolkits; reject a single-value option given
        twice, whose first value would be silently ignored."""
        if not ctx.resilient_parsing:
            known = {name for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
            args = resolved(args, known)
            try:
                _, extra, order = self.make_parser(ctx).parse_args(args=list(args))
            except click.NoSuchOption as error:
                if (clause := advice(error.option_name, self, known)) is None:
                    raise nearest(error, ctx) from None
                raise click.UsageError(f"No such option {error.option_name!r}; {clause}", ctx) from None
            if extra and (about := about_extra(extra, self, known)):
                raise click.UsageError(about, ctx)
            for param in order:
                once = isinstance(param, click.Option) and not (param.multiple or param.is_flag or param.count)
                if once and order.count(param) > 1:
                    raise click.UsageError(f"{max(param.opts, key=len)} must be given once, got it twice.", ctx)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            message = error.message.replace("valid integer range", "whole number").replace(
                "valid float range", "number"
            )
            if near := _nearest_choice(error):
                message = f"{message.rstrip('.')}; did you mean {near}?"
            name = _variable_of(error.param, ctx)
            if name is None and message == error.message:
                raise
            raise click.BadParameter(message, ctx, error.param, name or error.param_hint) from None

    def main(self, *arguments: Any, **extra: Any) -> Any:
        """Run the command; arguments are taken as they were typed, since on Windows click would expand * and ~."""
        return super().main(*arguments, **{"windows_expand_args": False, **extra})

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parse the arguments; --help and --version print here."""
        with _one_line(), write_errors(STDOUT_NAME):
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with signals and errors handled."""
        former = end_by_signals()
        try:
            with _one_line(), quietly(ctx.meta.get(QUIET, False)), telling_of_compilation(tell), telling_warnings():
                with _telling_of_spaces(ctx):
                    return super().invoke(ctx)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


_ARGUMENTS = "nmt.arguments"  # the key of those that were typed, in a context's `meta`


@contextlib.contextmanager
def _telling_of_spaces(ctx: click.Context) -> Iterator[None]:
    """Turn errors of the user into one of a path with spaces, where arguments are parts of one."""
    try:
        yield
    except (click.UsageError, NMTError):
        if (meant := _with_spaces(ctx.meta[_ARGUMENTS])) is None:
            raise
        command = f"{ctx.command_path} {as_typed(meant)}"
        raise click.UsageError(f"a path with spaces stands in quotation marks: {command}", ctx) from None


def _with_spaces(args: list[str]) -> list[str] | None:
    """Return the arguments with those joined, up to twelve, that only together are a path; None without any."""
    is_missing = [not os.path.exists(word) for word in args]
    for start in range(len(args)):
        for end in range(start + 2, min(start + 12, len(args)) + 1):
            if any(is_missing[start:end]) and os.path.exists(name := " ".join(args[start:end])):
                return [*args[:start], name, *args[end:]]
    return None


def as_typed(words: list[str]) -> str:
    """Return arguments as a user types them, in quotation marks where those are needed."""
    import subprocess  # imported late, since --help must be fast

    return subprocess.list2cmdline(words) if ON_WINDOWS else shlex.join(words)


def _nearest_choice(error: click.BadParameter) -> str:
    """Return the choice that was probably meant; an empty text if none is near."""
    kind = None if error.param is None else error.param.type
    typed = re.match("'(.*?)' is", error.message)
    if not isinstance(kind, click.Choice) or typed is None:
        return ""
    choices = list(map(str, kind.choices))
    word = "cuda" if typed[1] == "gpu" else typed[1]
    return most_like(word, choices) or next((one for one in choices if word and one.startswith(word)), "")


def _variable_of(param: click.Parameter | None, ctx: click.Context) -> str | None:
    """Return the variable of the environment that a parameter's value came from, None if it came from elsewhere."""
    if param is None or param.name is None:
        return None
    if ctx.get_parameter_source(param.name) is not click.core.ParameterSource.ENVIRONMENT:
        return None
    return param.envvar if isinstance(param.envvar, str) else f"{ctx.auto_envvar_prefix}_{param.name.upper()}"


class Refusal(click.ClickException):
    """An error of the user, printed as one line in the colours of all messages. `error`: the exception of click."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.message)
        self._error = error
        context = click.get_current_context(silent=True)
        self._shows_place = context is not None and context.meta.get(VERBOSE, False)
        self.exit_code = error.exit_code  # type: ignore[misc]  # click reads it of the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it to standard error, one line, with --help if an option is wrong; --verbose puts a traceback first."""
        if self._shows_place:
            tell("".join(traceback.format_exception(self.__cause__ or self)), end="")
        context = self._error.ctx if isinstance(self._error, click.UsageError) else None
        message = self._error.format_message()
        if isinstance(self._error, click.MissingParameter):
            message = " ".join(message.split())  # its choices are a line each
        stop = "" if message.endswith((".", "?")) else "."
        tell(f"Error: {message}" + (f"{stop} See {context.command_path} --help." if context else ""))


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Turn errors of the user and the system into a one-line `Refusal`; end silently if the output's reader is gone."""
    try:
        yield
    except Refusal:
        raise
    except click.ClickException as error:
        raise Refusal(error) from error
    except NMTError as error:
        raise Refusal(click.ClickException(str(error))) from error
    except BrokenPipeError:
        raise click.exceptions.Exit(128 + getattr(signal, "SIGPIPE", 13)) from None
    except (MemoryError, RuntimeError) as error:
        if (lacking := lacking_resource(error)) is None:
            raise
        raise Refusal(click.ClickException(str(lacking))) from None
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            raise
        from nmt.system.files import explain, remedy
        from nmt.system.paths import shown

        where = shown(error.filename) if isinstance(error.filename, str) else "the system"
        raise Refusal(
            click.ClickException(f"{where}: must be usable, got {explain(error)}; {remedy(error)}")
        ) from error


_OF_THE_MACHINE = frozenset(
    getattr(errno, name, None)
    for name in "EACCES EPERM EROFS ENAMETOOLONG ELOOP ENOSPC EDQUOT EMFILE ENFILE EIO ENOMEM EAGAIN".split()
) - {None}
"""System errors that a correct program can meet, such as missing permissions or a full disk."""


class Setting(click.ParamType):
    """An option for one setting of a config, with the values that the schema allows. `path`: the path of the setting,
    such as `decoding.beam_size`; `name`: what --help shows as its value."""

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the validated value. The schema is loaded only here, since --help must be fast."""
        from nmt.config import checked_text, checked_value

        try:
            return checked_text(self.path, value, "it") if isinstance(value, str) else checked_value(self.path, value)
        except NMTError as error:
            self.fail(str(error), param, ctx)


class WholeSetting(Setting, click.IntRange):
    """A setting that is an integer. --help shows the bounds given here, since loading the schema is slow; a test
    compares them with the schema. A bound that only a typing error would exceed is None."""

    def __init__(self, path: str, least: int, most: int | None = None) -> None:
        click.IntRange.__init__(self, least, most)
        self.path = path


class NumberSetting(Setting, click.FloatRange):
    """A setting that is a number of at least `least`, or above it; bounds as in `WholeSetting`."""

    def __init__(self, path: str, least: float = 0, most: float | None = None, *, above: bool = False) -> None:
        click.FloatRange.__init__(self, least, most, min_open=above)
        self.path = path


class FiniteRange(click.FloatRange):
    """A float range that rejects NaN and infinity: click compares, and every comparison with NaN is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class ByteSize(click.IntRange):
    """A number of bytes: a whole number, also with a unit, as in 64M (MiB) or 2GB (10^9)."""

    _UNITS: ClassVar[dict[str, int]] = {
        **{unit: 2 ** (10 * n) for n, letter in enumerate("KMG", 1) for unit in (letter, f"{letter}iB")},
        **{f"{letter}B": 10 ** (3 * n) for n, letter in enumerate("KMG", 1)},
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, str) and not value.lstrip("-").isdecimal():
            if (found := re.fullmatch(rf"(\d+) ?({'|'.join(self._UNITS)})", value)) is None:
                self.fail(f"{value!r} is not a number of bytes, such as 67108864, 64M or 2G.", param, ctx)
            value = int(found[1]) * self._UNITS[found[2]]
        return int(super().convert(value, param, ctx))


def flag(*names: str, text: str) -> Callable[[Any], Any]:
    """Return an option without a value."""
    return click.option(*names, is_flag=True, help=text)


def chooses(*names: str, among: Sequence[str], text: str, **more: Any) -> Callable[[Any], Any]:
    """Return an option with one of some values."""
    return click.option(*names, type=click.Choice(among), help=text, **more)


checkpoint_option = click.option(
    "--checkpoint",
    metavar="NAME",
    show_default="best, or last if there is no best yet",
    help="Checkpoint to load: best, last, or a numbered one such as best-600.",
)
"""The option that selects the parameters to load."""
cells_option = click.option(
    "--cells",
    metavar="MODULE",
    multiple=True,
    help="Import this module for cells that the model names (this runs its code); may be repeated.",
)
"""The option of all commands that run a trained model."""


def _version_option() -> click.Option:
    """Return the `--version` option; the version is looked up only when requested."""

    def version(ctx: click.Context) -> str:
        import nmt

        return f"{ctx.command_path} {nmt.__version__}"

    return help_page.text_option("--version", version, "Show the version and exit.")


_TOLD = {
    QUIET: (["-q", "--quiet"], "Show warnings and errors only, no progress."),
    VERBOSE: (["-v", "--verbose"], "Also show where in the code an error arose."),
}


def _told_option(key: str) -> click.Option:
    """Return the `--quiet` or `--verbose` option; `Command` obeys it. `key`: that of a context's `meta`."""

    def remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[key] = value or ctx.meta.get(key, False)  # that of `nmt -q COMMAND` is given on

    names, text = _TOLD[key]
    return click.Option(names, is_flag=True, expose_value=False, callback=remember, help=text)


threads_option = click.option(
    "--threads",
    type=WholeSetting("threads", 1, 1024),
    show_default="all cores; setting threads",
    help="Number of CPU cores to use.",
)
"""The option that all commands share."""
device_option = chooses(
    "--device",
    among=["cpu", "cuda", "auto"],
    show_default="cpu; setting device",
    text="Device to compute on; auto uses the GPU if a usable one is found.",
)
"""The option of all commands that compute."""
compute_dtype_option = chooses(
    "--compute-dtype",
    among=["float32", "bfloat16", "int8"],
    show_default="float32; setting compute_dtype",
    text="Number format of matrix products: bfloat16 is faster on CPUs with instructions for it, int8 on any CPU.",
)
"""The option of all commands that use a model."""


class ColumnPair(click.ParamType):
    """Two columns of a table, as SRC,TGT: numbers from 1 or names."""

    name = "SRC,TGT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int | str, ...]:
        """Return the columns."""
        found = tuple(int(one) if one.isdigit() else one for one in map(str.strip, str(value).split(",")))
        if len(found) != 2 or "" in found or 0 in found:
            self.fail(f"must be SRC,TGT, two numbers from 1 or names, got {value}.", param, ctx)
        return found


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that applies all of these options, in this order."""
    return lambda function: reduce(lambda done, option: option(done), reversed(options), function)


table_options = together(
    click.option(
        "--columns",
        type=ColumnPair(),
        metavar="SRC,TGT",
        show_default="found by headings and texts",
        help="Columns of a table: numbers from 1, letters, headings, or fields such as lx,ge.",
    ),
    chooses(
        "--header",
        among=["yes", "no"],
        show_default="found by its words",
        text="Whether the first row of a table has headings, which are skipped.",
    ),
    click.option(
        "--sheet",
        metavar="NAME",
        show_default="the only one with cells",
        help="Sheet of a workbook (.xlsx, .xls, .ods).",
    ),
)
"""The options of all commands that read pairs, which say how a table is read; see `table_of`."""
running_options = together(compute_dtype_option, threads_option, device_option, cells_option)
"""The options of all commands that run a model."""
NOT_SAID: Mapping[str, Any] = {"columns": (None, None), "header": None, "sheet": None}
"""The values of `table_of` without options."""


def table_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take the values of `table_options` out of a command's options; return them as `Source` names them."""
    columns, header, sheet = (options.pop(name) for name in ("columns", "header", "sheet"))
    return {"columns": columns or (None, None), "header": header and header == "yes", "sheet": sheet}


def require_extra(extra: str, *modules: str) -> None:
    """Raise NMTError, for the running command, if a library of an extra is not installed."""
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            what = f"nmt-{click.get_current_context().command.name}: must have the libraries of the extra [{extra}]"
            raise NMTError(f"{what}, got no {error.name}; {how_to_install(extra)}") from None
