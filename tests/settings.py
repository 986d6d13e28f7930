"""Settings of a translator whose texts nobody reads."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.config import Config, config_from_dict


def texts_in(folder: Path, **data: Any) -> dict[str, Any]:
    """The section of the texts `train` and `dev` of a folder, with more of it."""
    texts = {part: str(folder / part) for part in ("train", "dev")}
    return {**texts, "src": {"lang": "xx"}, "tgt": {"lang": "yy"}, **data}


def settings_with(data: dict[str, Any] | None = None, **sections: Any) -> Config:
    """The least settings there are, with more of `data` and with other sections."""
    return config_from_dict({"model_dir": "unused", "data": texts_in(Path("unused"), **data or {}), **sections})


def leaves(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    """The settings of nested sections by their paths."""
    found = {}
    for key, value in values.items():
        found |= leaves(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return found


def changed(values: dict[str, Any], overrides: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """These values with others of some settings, each named by its path."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    for name, value in overrides:
        section = found
        *above, key = name.split(".")
        for part in above:
            section = section.setdefault(part, {})
        section[key] = value
    return found
