"""Named settings to start from: the YAML files of this folder. A configuration that names a preset gives at least its
texts, and overrides the preset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Literal, get_args

from nmt.config.yaml_text import parse_yaml

Preset = Literal["tiny", "low-resource", "character", "captions"]
NAMES: tuple[str, ...] = get_args(Preset)


def preset_values(name: str) -> dict[str, Any]:
    """Return the settings of one of NAMES, as sections of keys and values."""
    values: dict[str, Any] = parse_yaml(files(__name__).joinpath(f"{name}.yaml").read_text("utf-8"))
    return values


def over_preset(values: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset overridden by `values`."""
    found = dict(preset)
    for key, value in values.items():
        below = preset.get(key)
        found[key] = over_preset(value, below) if isinstance(value, dict) and isinstance(below, dict) else value
    return found


def settings_of_preset(values: Mapping[str, Any], preset: Mapping[str, Any]) -> list[str]:
    """Return in words what a preset sets that `values` do not: one line for each section."""
    lines = []
    for section, own in preset.items():
        listed = ", ".join(f"{key} {_text(value)}" for key, value in _not_overridden(own, values.get(section)))
        lines += [f"{section}: {listed}"] if listed else []
    return lines


def _not_overridden(preset: Mapping[str, Any], values: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys (relative to the section) and values of a preset that are not in `values`, which is the section or
    nothing."""
    values = values if isinstance(values, dict) else {}
    for key, value in preset.items():
        if isinstance(value, dict):
            yield from _not_overridden(value, values.get(key), f"{before}{key}.")
        elif key not in values:
            yield f"{before}{key}", value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
