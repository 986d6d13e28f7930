"""Options for the settings of a search, made from their table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nmt.cli.lines.streams import tell
from nmt.cli.options.command import NumberSetting, Setting, WholeSetting, checkpoint_option, together
from nmt.cli.options.path_types import INPUT
from nmt.search_settings import ROWS, Row

if TYPE_CHECKING:
    from nmt.config import DecodingConfig

_MOST_SHOWN = 10**9
"""Larger bounds are not shown by --help."""


def kind_of(name: str) -> click.ParamType | None:
    """Return the type of a setting's option; None for a flag."""
    row, path = ROWS[name], f"decoding.{name}"
    if row.kind is bool:
        return None
    if row.choices:
        return click.Choice(row.choices) if row.most is None else Setting(path, "|".join([*row.choices, "NUMBER"]))
    if row.kind is int:
        is_shown = row.most is not None and row.most < _MOST_SHOWN
        return WholeSetting(path, int(row.least or 0), int(row.most or 0) if is_shown else None)
    if row.kind is not float:
        return INPUT
    if row.above is not None:
        return NumberSetting(path, row.above, row.most, above=True)
    return Setting(path, "float") if row.least is None else NumberSetting(path, row.least, row.most)


def search_option(name: str, **changes: Any) -> Callable[[Any], Any]:
    """Return the option of a setting; `changes` are further arguments of `click.option`."""
    row = ROWS[name]
    default = "off" if row.kind is bool else "none" if row.default is None else row.default
    given: dict[str, Any] = {"type": kind_of(name), "default": None, "help": row.help or row.text}
    given["show_default"] = f"{default}; setting decoding.{name}"
    if row.kind is bool and "/" not in row.option:
        given["flag_value"] = not row.default
    return click.option(_flags(row), name, **given | changes)


def _flags(row: Row) -> str:
    """Return the option of a setting as click declares it."""
    return row.option or "--" + row.name.replace("_", "-")


def _shown(name: str) -> str:
    """Return the option of a setting as a user types it."""
    return _flags(ROWS[name]).partition("/")[0]


def words_of(given: dict[str, Any]) -> list[str]:
    """Return options as a user would type them, without those that are None."""
    words: list[str] = []
    for name in [name for name in ROWS if name in given]:
        on, _, off = _flags(ROWS[name]).partition("/")
        if isinstance(given[name], bool):
            words.append(on if given[name] or not off else off)
        elif given[name] is not None:
            words += [on, str(given[name])]
    return words


def tell_unused(given: dict[str, Any], decoding: DecodingConfig) -> None:
    """Warn about options that were given but have no effect; `given` has None for a key whose option was not given."""

    def is_off(name: str) -> bool:
        value = given.get(name)
        return bool((getattr(decoding, name) if value is None else value) == ROWS[name].default)

    for name, row in ROWS.items():
        if given.get(name) is not None and any(map(is_off, row.needs)):
            tell(f"warning: {_shown(name)} changes nothing without {' and '.join(map(_shown, row.needs))}")


_OF_A_MODEL = "shortlist beam_size length_penalty batch_size checkpoint compute_dtype threads device cells".split()
_NEEDED_PARAMETERS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("column", "output_column"), ("a table, .jsonl or .parquet", None)),
    "alignment_type": ("--alignments", "alignments"),
    "split": ("--format", "form"),
    "ensemble_average": ("--ensemble", "ensemble"),
    "glossary_bonus": ("--glossary", "glossary"),
    **dict.fromkeys(_OF_A_MODEL, ("MODEL", "model_dir")),
}
"""For each parameter: what it needs to have an effect, and the parameter for that, None if the command has none."""


def tell_needs() -> None:
    """Warn about options on the command line of the running command that have no effect without another one."""
    context = click.get_current_context()
    said_by = context.get_parameter_source
    typed = {x.name: x for x in context.command.params if said_by(str(x.name)) is ParameterSource.COMMANDLINE}
    for key, (needed, parameter) in _NEEDED_PARAMETERS.items():
        if key in typed and parameter not in typed:
            tell(f"warning: {max(typed[key].opts, key=len)} changes nothing without {needed}")


def search_options(names: Collection[str] = ROWS) -> Callable[[Any], Any]:
    """Return the options of these settings, or of all, but for those that commands have apart."""
    return together(*(search_option(name) for name in ROWS if name in names and name not in _APART))


_BEAM = ("beam_size", "length_penalty", "batch_size")
_APART = (*_BEAM, "n_best")
beam_options = together(*map(search_option, _BEAM), checkpoint_option)
"""The search options that several commands share."""
