"""Compares all bits of the checkpoints of two runs, one of which may have been interrupted; events of a log."""

import json
import tempfile
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.storage.model_folder import LAST_NAME, read_checkpoint
from nmt.train.run.trainer import Trainer


def difference(config: Config, updates: int) -> tuple[int, list[str]]:
    """Return the last update, and the names of what differs after a break of `updates` updates that follow as many."""
    with tempfile.TemporaryDirectory() as name:
        folders = Path(name) / "whole", Path(name) / "cut"
        for folder, parts in zip(folders, ([2 * updates], [updates, updates]), strict=True):
            data = config.data.model_copy(update={"check": False, "test": None})
            moved = config.model_copy(update={"model_dir": str(folder), "data": data})
            for part in parts:
                done = Trainer(moved, stop_after=part).run().update
        return done, differing(*folders)


def differing(one: Path, other: Path) -> list[str]:
    """Return the names of what differs in the last checkpoints of two runs."""
    found, expected = everything(one), everything(other)
    return sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))


def everything(folder: Path) -> dict[str, Any]:
    """Return the arrays of the last checkpoint by their names, and what else it has but for times."""
    arrays, content = read_checkpoint(folder / LAST_NAME)
    found = {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
    parts = {part: content[part] for part in ("state", "schedule", "optimizer", "average", "subwords")}
    return found | parts | {"state": parts["state"] | {"elapsed": 0}}


def events(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a run, all or those of a kind."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [event for event in map(json.loads, lines) if kind in (None, event["event"])]
