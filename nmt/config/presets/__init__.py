"""Named settings to start from: the YAML files of this folder. A configuration that names a preset gives at least its
texts, and overrides the preset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Literal, get_args

from nmt.config.yaml_text import parse_yaml

Preset = Literal["tiny", "low-resource", "character", "edits", "captions"]
OF_WORDS = "character", "edits"
"""Those for lists of words."""
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


def settings_of_preset(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return in words which of `values`, all settings of a config, are as the preset has them: one line for each
    section."""
    lines = []
    for section, own in preset_values(name).items():
        listed = ", ".join(f"{key} {_text(value)}" for key, value in _kept(own, values[section]))
        lines += [f"preset {name}: {section}: {listed}"] if listed else []
    return lines


def _kept(preset: Mapping[str, Any], values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys (relative to the section) and values of a preset that are also in `values`."""
    for key, value in preset.items():
        if isinstance(value, dict):
            yield from _kept(value, values[key], f"{before}{key}.")
        elif values[key] == value:
            yield f"{before}{key}", value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
