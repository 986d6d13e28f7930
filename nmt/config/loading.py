"""Reads a Config from a file, a dictionary and the command line; a mistake gives an error of one line."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import ValidationError

from nmt.config.complaints import complain, complaint, lookup, shorten
from nmt.config.presets import NAMES, merged, preset_values
from nmt.config.removed import drop_removed, instead
from nmt.config.schema import Settings, config_schema
from nmt.config.section import Section
from nmt.config.yaml_text import format_yaml, parse_yaml
from nmt.errors import ConfigError
from nmt.system.files import explain, read_small, remedy, write_bytes
from nmt.system.paths import absent, exists, is_file, named, shown

AnySection = TypeVar("AnySection", bound=Section)


def checked_value(path: str, value: Any, name: str | None = None) -> Any:
    """Return the value of a setting such as `threads` or `decoding.beam_size` if the schema allows it on its own.

    NumPy's numbers are converted to Python's. Raises ConfigError, one line that starts with the path, or with `name`,
    which is what the caller's user calls the setting.
    """
    *sections, key = path.split(".")
    section: Any = Settings
    for part in sections:
        section = section.model_fields[part].annotation
    value = plain_value(value)
    try:
        if type(value) in _PLAIN_TYPES:
            _allowed(section, key, type(value).__name__, value)
        else:
            section.model_validate({key: value})
    except ValidationError as error:
        # Ignore errors about the section's other settings, which are missing here.
        for mistake in error.errors(include_url=False):
            if mistake["loc"][:1] == (key,):
                line = complaint((*sections, *mistake["loc"]), mistake, config_schema())
                raise ConfigError(line if name is None else name + line.removeprefix(path)) from None
    return value


def checked_text(path: str, text: str, name: str) -> Any:
    """Return the checked value of a setting that is typed as YAML, as for `--set`. Raises ConfigError."""
    try:
        value = parse_yaml(text)
    except ValueError:
        value = text
    return checked_value(path, value, name)


def with_values(section: AnySection, where: str, values: Mapping[str, Any]) -> AnySection:
    """Return the section at path `where` with changed values, checked singly and together. Raises ConfigError."""
    plain = {key: plain_value(value) for key, value in values.items()}
    try:
        if _PLAIN_TYPES.issuperset(map(type, plain.values())):
            return _changed(section, tuple([(key, type(value).__name__, value) for key, value in plain.items()]))
        return section.model_validate({**section.model_dump(), **plain})
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        raise ConfigError(complaint((where, *mistake["loc"]), mistake, config_schema())) from None


# Every call of a translator checks the same values again, so results are cached; by type too, since True equals 1.
_PLAIN_TYPES = frozenset({int, float, bool, str})


@lru_cache(maxsize=256)
def _allowed(section: type[Section], key: str, kind: str, value: Any) -> None:
    """Raise ValidationError if a section's setting may not have this value."""
    section.model_validate({key: value})


@lru_cache(maxsize=256)
def _changed(section: AnySection, values: tuple[tuple[str, str, Any], ...]) -> AnySection:
    """Return the section with changed values. Raises ValidationError."""
    return section.model_validate({**section.model_dump(), **{key: value for key, _, value in values}})


def plain_value(value: Any) -> Any:
    """Return a scalar of NumPy or another array package as a Python number; other values are unchanged."""
    is_scalar = getattr(value, "shape", None) == () and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else value


_MOST_BYTES = 16 * 2**20
"""Most bytes of a settings file; a larger file is not one."""

Changes = Mapping[str, Any] | Sequence[str]
"""Values by keys, `{"training.updates": 100}`, in sections or with dots; or texts, `training.updates=100`."""


class Config(Settings):
    """All settings of a model and its training (configs/reference.yaml); immutable, and each of them checked.

    Sections are attributes: `config.training.updates`.
    """

    def __new__(cls, *given: Any, **values: Any) -> "Config":
        """Return an object for pydantic to fill. Raises TypeError for an argument without a name."""
        if given:
            raise TypeError(f"Config: must be given settings by name, got {shorten(given[0])}; see Config.from_dict")
        return super().__new__(cls)

    @classmethod
    def load(cls, path: str | PathLike[str], changes: Changes = ()) -> "Config":
        """Read a settings file, with other values of some keys. Raises ConfigError, which names the file and key."""
        if not isinstance(path, str | PathLike):
            raise TypeError(
                f"Config.load: must be given the path of a settings file, got {shorten(path)}; Config.from_dict takes "
                "a dict of settings"
            )
        return load_config(path, changes)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], changes: Changes = ()) -> "Config":
        """Return the settings of a dictionary with the sections and keys of a settings file; a path counts as text, and
        a tuple as a list. Raises ConfigError as `load` does."""
        if not isinstance(values, Mapping):
            raise TypeError(f"Config.from_dict: must be given a dict of settings, got {type(values).__name__}")
        return config_from_dict(_plain_copy(values), "config", changes)

    def with_changes(self, changes: Changes) -> "Config":
        """Return the settings with other values of some keys: `config.with_changes({"training.updates": 100})`. Raises
        ConfigError for an unknown key, or for a value that does not fit its key or the other settings."""
        return config_from_dict(self.model_dump(mode="json", exclude_unset=True), "config", changes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all settings as a YAML file, which `load` reads as the same settings; a file of settings is replaced
        when the new one is complete. Raises ConfigError if it cannot be written, or another file is there."""
        place = named(path, "Config.save")
        if is_file(place):
            try:
                load_config(place)
            except ConfigError as error:
                raise ConfigError(
                    f"{shown(path)}: must be a new file or one of settings, got another file ({error}); name another"
                ) from None
        try:
            write_bytes(place, dump_config(self).encode())
        except OSError as error:
            raise ConfigError(f"{shown(path)}: must be written, got {explain(error)}; {remedy(error)}") from error


def load_config(path: str | PathLike[str], overrides: Changes = (), *, trained: bool = False) -> Config:
    """Read a configuration file; each override `a.b=value` (a YAML value), or key of a mapping, replaces one key.

    The key `preset` names settings that apply where the file gives none (see presets). `trained`: the settings of a
    model that is trained, whose training may have used what is removed since.

    Raises ConfigError, one line: `FILE: KEY.PATH must be ..., got ...; did you mean X?`. A mistake in an override is
    reported with `--set a.b=value`, or `changes`, in the place of the file.
    """
    where = shown(path)
    try:
        text = read_small(named(path, "config"), _MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(absent(path)) from None
    except OSError as error:
        inside = named(path) / "config.yaml"
        advice = f"did you mean {shown(inside)}?" if exists(inside) else "give the path of a YAML file"
        raise ConfigError(f"{where}: must be a file of settings, got {explain(error)}; {advice}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: must be UTF-8 text, got the byte {error.object[error.start]:#04x}") from None
    try:
        values = parse_yaml(text)
    except ValueError as error:
        known = "nmt-train takes such a table" if where.endswith(".tsv") else "a table must be named .tsv"
        advice = f"; {known}" if "\t" in text.partition("\n")[0] else ""
        if "escape" in str(error):
            advice = r"; within double quotes \ begins an escape: write paths in single quotes"
        raise ConfigError(f"{where}: must be YAML: {error}{advice}") from None
    if not isinstance(values, dict):
        got = "an empty file" if values is None else shorten(values)
        advice = (
            "a table has one object a line, NAME.jsonl" if isinstance(values, list) else "see configs/reference.yaml"
        )
        raise ConfigError(f"{where}: must contain sections of keys and values, got {got}; {advice}")
    data = values.get("data")
    if "joeynmt_version" in values or ("testing" in values and isinstance(data, dict) and "trg" in data):
        raise ConfigError(f"{where}: must be settings of nmt, got JoeyNMT's, whose conversion {instead('joeynmt')}")
    return config_from_dict(values, where, overrides, trained=trained)


def config_from_dict(
    values: dict[str, Any], where: str = "config", overrides: Changes = (), *, trained: bool = False
) -> Config:
    """Return the checked configuration of a dictionary, as `load_config` does for a file; an error starts with
    `where`. Overrides are written into the dictionary."""
    changed = {_override(values, name, value, text): text for name, value, text in _each(overrides)}
    return _build(drop_removed(values, trained=trained), where, changed)


def changed_values(changes: Changes) -> dict[str, Any]:
    """Return changes as sections of keys and values, unchecked. Raises ConfigError if one is no change."""
    values: dict[str, Any] = {}
    for name, value, text in _each(changes):
        _override(values, name, value, text)
    return values


def dump_config(config: Config) -> str:
    """Return the configuration with all keys, as YAML that `load_config` reads back as an equal configuration."""
    return format_yaml(config.to_dict())


def _build(values: dict[str, Any], where: str, changed: dict[tuple[str, ...], str]) -> Config:
    """Return the validated settings. Raises ConfigError, which names `where`, or the override of a key by `changed`."""
    if (name := values.get("preset")) in NAMES:
        values = merged(preset_values(name), values)
    folder = values.get("model_dir")
    if "name" not in values and isinstance(folder, str) and PurePath(folder).name:
        values = {"name": PurePath(folder).name, **values}
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        path, line = complain(error, config_schema())
    # The path of an unknown key may be shorter than the override's (data.trg.lang): compare what both have.
    # A conflict between keys has the path of a whole section: name the file.
    if path and "properties" not in lookup(config_schema(), path):
        for keys, text in changed.items():
            shorter = min(len(path), len(keys))
            if path[:shorter] == keys[:shorter]:
                where = text
    raise ConfigError(f"{where}: {line}")


def _each(overrides: Changes) -> Iterator[tuple[str, Any, str]]:
    """Yield dotted key, value and name in errors of each override. Raises ConfigError, TypeError for another type."""
    if isinstance(overrides, Mapping):
        for name, value in overrides.items():
            if isinstance(value, Mapping) and value:
                yield from ((f"{name}.{key}", inner, text) for key, inner, text in _each(value))
            else:
                yield str(name), _plain_copy(value), "changes"
        return
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        raise TypeError(f"changes: must be a dict, or a list of texts, got {shorten(overrides)}")
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: must be KEY.PATH=VALUE; for example training.batch_size=2048")
        try:
            yield name, parse_yaml(value), f"--set {text}"
        except ValueError as error:
            raise ConfigError(f"--set {text}: the value must be YAML: {error}") from None


def _override(values: dict[str, Any], name: str, value: Any, where: str) -> tuple[str, ...]:
    """Write a value into a dictionary under a dotted key; return the path of the key. Raises ConfigError."""
    keys = tuple(name.strip().split("."))
    if not all(keys):
        raise ConfigError(f"{where}: must be KEY.PATH=VALUE; for example training.batch_size=2048")
    section = values
    for depth, key in enumerate(keys[:-1], start=1):
        inner = section.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{where}: {'.'.join(keys[:depth])} must be a section of keys and values, got {shorten(inner)}"
            )
        section = inner
    section[keys[-1]] = value
    return keys


def _plain_copy(value: Any) -> Any:
    """Return a copy of a value as YAML would give it: paths as texts, NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: _plain_copy(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_copy(inner) for inner in value]
    return fspath(value) if isinstance(value, PathLike) else plain_value(value)
