"""Trains with and without an interruption, and compares all bits of the checkpoints; events of a log."""

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
        found = []
        for folder, parts in (("whole", [2 * updates]), ("cut", [updates, updates])):
            data = config.data.model_copy(update={"check": False, "test": None})
            moved = config.model_copy(update={"model_dir": str(Path(name) / folder), "data": data})
            for part in parts:
                done = Trainer(moved, stop_after=part).run().update
            found.append(read_checkpoint(Path(name) / folder / LAST_NAME))
    (arrays, content), (others, other_content) = found
    differing = [key for key in arrays.keys() | others.keys() if _bytes(arrays, key) != _bytes(others, key)]
    for part in ("state", "schedule", "optimizer", "average", "subwords"):
        one, other = ({part: value[part]} for value in (content, other_content))
        for values in (one, other):
            if part == "state":
                values[part] = values[part] | {"elapsed": 0}
        differing += [part] if one != other else []
    return done, sorted(differing)


def _bytes(arrays: Any, key: str) -> bytes | None:
    return arrays[key].tobytes() if key in arrays else None


def events(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a run, all or those of a kind."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [event for event in map(json.loads, lines) if kind in (None, event["event"])]
