"""Reads a Config from a file, a dictionary and the command line; a mistake gives an error of one line."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.complaints import complain, lookup, shorten
from nmt.config.joeynmt.settings import convert, is_joeynmt
from nmt.config.presets import NAMES, over_preset, preset_values, told
from nmt.config.schema import Config, config_schema
from nmt.config.yaml_text import format_yaml, parse_yaml
from nmt.errors import ConfigError
from nmt.system.files import read_small
from nmt.system.paths import shown

_MOST_BYTES = 16 * 2**20
"""Most bytes of a settings file; a larger file is not one."""


def load_config(
    path: str | PathLike[str], overrides: Sequence[str] = (), tell: Callable[[str], None] | None = None
) -> Config:
    """Read a configuration file; each override `a.b=value` (a YAML value) replaces one key.

    The file may be one of JoeyNMT (docs/import.md); `tell` is then called with a line for each conversion. Overrides
    always use our names. The key `preset` names settings that apply where the file gives none (see presets); `tell` is
    called with what they set.

    Raises ConfigError, one line: `FILE: KEY.PATH must be ..., got ...; did you mean X?`. A mistake in an override is
    reported with `--set a.b=value` in the place of the file.
    """
    where = shown(path)
    try:
        text = read_small(Path(path), _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}; give the path of a YAML file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: must be UTF-8 text, got the byte {error.object[error.start]:#04x}") from None
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{where}: must be YAML: {error}") from None
    if not isinstance(values, dict):
        got = "an empty file" if values is None else shorten(values)
        raise ConfigError(f"{where}: must contain sections of keys and values, got {got}; see configs/reference.yaml")
    if is_joeynmt(values):
        values, lines = convert(values, where)
        if tell is not None:
            for line in lines:
                tell(f"{where}: {line}")
        where += " as settings of nmt"
    changed = {_override(values, text): text for text in overrides}
    name = values.get("preset")
    if name in NAMES and tell is not None:
        for line in told(values, preset_values(name)):
            tell(f"preset {name}: {line}")
    return _build(values, where, changed)


def config_from_dict(values: dict[str, Any], where: str = "config") -> Config:
    """Return the checked configuration of a dictionary, as `load_config` does for a file; an error starts with
    `where`."""
    return _build(values, where, {})


def dump_config(config: Config) -> str:
    """Return the configuration with all keys, as YAML that `load_config` reads back as an equal configuration."""
    return format_yaml(config.to_dict())


def _build(values: dict[str, Any], where: str, changed: dict[tuple[str, ...], str]) -> Config:
    """Return the validated settings. Raises ConfigError, which names `where` or the override at fault; `changed` maps
    keys to overrides."""
    name = values.get("preset")
    if name in NAMES:
        values = over_preset(values, preset_values(name))
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        path, line = complain(error, config_schema())
    # The path of an unknown key may be shorter than the override's (data.trg.lang): compare what both have.
    # A conflict between keys has the path of a whole section: name the file.
    if not _is_section(path):
        for keys, text in changed.items():
            shorter = min(len(path), len(keys))
            if path[:shorter] == keys[:shorter]:
                where = f"--set {text}"
    raise ConfigError(f"{where}: {line}")


def _is_section(path: tuple[str | int, ...]) -> bool:
    return not path or "properties" in lookup(config_schema(), path)


def _override(values: dict[str, Any], text: str) -> tuple[str, ...]:
    """Apply an override `a.b=value` to the values; return the path of the changed key."""
    name, equals, value = text.partition("=")
    keys = tuple(name.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"--set {text}: must be KEY.PATH=VALUE; for example training.batch_size=2048")
    section = values
    for depth, key in enumerate(keys[:-1], start=1):
        inner = section.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(
                f"--set {text}: {'.'.join(keys[:depth])} must be a section of keys and values, got {shorten(inner)}"
            )
        section = inner
    try:
        section[keys[-1]] = parse_yaml(value)
    except ValueError as error:
        raise ConfigError(f"--set {text}: the value must be YAML: {error}") from None
    return keys
