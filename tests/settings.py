"""Settings of a translator whose texts nobody reads."""

from typing import Any

from nmt.config import Config, config_from_dict


def settings_with(data: dict[str, Any] | None = None, **sections: Any) -> Config:
    """The least settings there are, with more of `data` and with other sections."""
    texts = {"train": "unused", "dev": "unused", "src": {"lang": "xx"}, "tgt": {"lang": "yy"}}
    return config_from_dict({"model_dir": "unused", "data": texts | (data or {}), **sections})
