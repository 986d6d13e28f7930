"""TensorBoard curves, if `training.tensorboard` asks for them (extra `tensorboard`)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError
from nmt.system.extras import how_to_install

FOLDER_NAME = "tensorboard"
_KINDS = ("train", "validation", "test")
_NO_CURVES = ("update", "epoch", "best", "time")


class Board:
    """Writes the numbers in a run's events as scalars, one curve for each, by update. Raises ConfigError if the
    TensorBoard library is not installed.

    Args:
        folder: The model folder; the files are in its subfolder `tensorboard`, one for each start of the run.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ConfigError(
                "training.tensorboard: must be false without the library that writes its files, got true; "
                + how_to_install("tensorboard")
            ) from None
        self._writer: Any = SummaryWriter(str(folder / FOLDER_NAME), write_to_disk=True)

    def event(self, kind: str, values: Mapping[str, Any]) -> None:
        """Add the numbers in an event of metrics.jsonl. A failure to write never ends a run."""
        update = values.get("update")
        if kind not in _KINDS or not isinstance(update, int):
            return
        with contextlib.suppress(OSError):
            for name, value in values.items():
                if isinstance(value, int | float) and name not in _NO_CURVES:
                    self._writer.add_scalar(f"{kind}/{name}", value, update)
            self._writer.flush()

    def close(self) -> None:
        """Flush the curves and close the files."""
        with contextlib.suppress(OSError):
            self._writer.close()
