"""Single settings given in a call or on the command line, validated by the schema like those of a file."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError

from nmt.config.complaints import complaint
from nmt.config.schema import Settings, config_schema
from nmt.config.section import Section
from nmt.config.yaml_text import parse_yaml
from nmt.errors import ConfigError

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
