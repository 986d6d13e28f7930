"""Read the settings of other systems: YAML or JSON inside a model's file or next to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.config.yaml_text import parse_yaml
from nmt.errors import CheckpointError
from nmt.system.files import explain, read_small

_MOST_BYTES = 2**26


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a file. Raises CheckpointError if it is missing, or something else."""
    try:
        content = read_small(path, _MOST_BYTES)
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the settings next to the model, got {explain(error)}; put them there"
        ) from error
    return parse_settings(path, content)


def parse_settings(path: Path, content: bytes) -> dict[str, Any]:
    """Return the settings in bytes of YAML, or of JSON if the file is named so, because YAML does not allow tabs.
    Raises CheckpointError."""
    name, parse = ("JSON", json.loads) if path.suffix == ".json" else ("YAML", parse_yaml)
    try:
        values = parse(content.decode())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: must have settings in {name}, got {explain(error)[:80]}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: must have a section of settings, got {values!r:.40}")
    return values


def check_settings(where: Path, values: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise CheckpointError if a setting requires something that our models cannot do: `allowed` has the possible
    values, the first of which is the default."""
    for name, promised in allowed.items():
        value = values.get(name, promised[0])
        if not isinstance(value, str | int | float | None) or value not in promised:
            texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in promised if v is not None)
            shown = " or ".join(dict.fromkeys(texts)) or "omitted"
            raise CheckpointError(
                f"{where}: {name} must be {shown}, got {value!r:.40}; it cannot be represented exactly"
            )
