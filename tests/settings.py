"""Settings of a translator whose texts nobody reads."""

import json
from collections.abc import Iterable
from typing import Any

from nmt.config import Config, config_from_dict


def settings_with(data: dict[str, Any] | None = None, **sections: Any) -> Config:
    """The least settings there are, with more of `data` and with other sections."""
    texts = {"train": "unused", "dev": "unused", "src": {"lang": "xx"}, "tgt": {"lang": "yy"}}
    return config_from_dict({"model_dir": "unused", "data": texts | (data or {}), **sections})


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
