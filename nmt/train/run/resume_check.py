"""`nmt-train --check-resume`: check that a run gives identical results when it is interrupted and resumed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, ConfigError
from nmt.storage.model_folder import CONFIG_NAME, LAST_NAME, SUBWORD_NAMES, read_checkpoint
from nmt.train.run.trainer import Trainer

if TYPE_CHECKING:
    from nmt.config import Config


def check_resume(
    config: Config,
    updates: int,
    *,
    threads: int | None = None,
    device: str | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> str:
    """Train for twice `updates` without and with an interruption in the middle, and compare all bits.

    Files are written only in a temporary folder, which is removed. Events such as validations are checked only if they
    fall within these updates.

    Args:
        updates: Updates before the interruption, and again after it.

    Returns:
        A description of what was compared.

    Raises:
        CheckpointError: The two differ; the message names the first difference.
        ConfigError: With these settings the run ends before it can be interrupted.
        NMTError: Training is not possible.
    """
    with tempfile.TemporaryDirectory(prefix="nmt-check-resume-") as name:
        whole, cut = Path(name) / "whole", Path(name) / "cut"
        notify(f"check-resume: {2 * updates} updates in one go")
        done = _run(config, whole, 2 * updates, threads, device)
        if done <= updates:
            raise ConfigError(
                f"--check-resume: the run must have more than the {updates} updates before its interruption, got "
                f"{done} in all; ask for fewer, or raise training.epochs"
            )
        cut.mkdir()
        for file in (CONFIG_NAME, *SUBWORD_NAMES.values()):  # reuse the subwords, which are the same
            if (whole / file).exists():
                shutil.copyfile(whole / file, cut / file)
        notify(f"check-resume: {updates} updates, an interruption, and {done - updates} more")
        _run(config, cut, updates, threads, device)
        _run(config, cut, done - updates, threads, device)
        return _compared(whole / LAST_NAME, cut / LAST_NAME)


def _run(config: Config, folder: Path, updates: int, threads: int | None, device: str | None) -> int:
    """Train some more updates in a folder; return the number of the last update."""
    data = config.data.model_copy(update={"check": False, "test": None})
    training = config.training.model_copy(update={"loggers": ()})
    moved = config.model_copy(update={"model_dir": str(folder), "data": data, "training": training})
    return Trainer(moved, threads=threads, device=device, stop_after=updates).run().update


def _compared(whole: Path, cut: Path) -> str:
    """Return in words what is equal in two checkpoints. Raises CheckpointError if something differs."""
    (arrays, content), (others, other_content) = read_checkpoint(whole), read_checkpoint(cut)
    for name in sorted(arrays.keys() | others.keys()):
        if name not in arrays or name not in others:
            raise _differs(f"{name} in one alone")
        one, other = arrays[name], others[name]
        if one.tobytes() != other.tobytes():
            count = int(np.sum(one != other)) if one.shape == other.shape else one.size
            raise _differs(f"{count:,} of {one.size:,} numbers of {name} that are others")
    numbers, other_numbers = _numbers(content), _numbers(other_content)
    for name in sorted(numbers.keys() | other_numbers.keys()):
        if numbers.get(name) != other_numbers.get(name):
            raise _differs(f"{name} {other_numbers.get(name)} instead of {numbers.get(name)}")
    kinds: dict[str, int] = {}
    for name in arrays:
        kind = name.partition("/")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    counts = ", ".join(f"{count} arrays of {kind}" for kind, count in sorted(kinds.items()))
    return f"update {content['state']['update']}\t{counts}, {len(numbers)} numbers"


def _numbers(content: dict[str, Any]) -> dict[str, str]:
    """Return a checkpoint's plain values, except for times and paths."""
    parts = {key: content[key] for key in ("state", "schedule", "optimizer", "average", "subwords")}
    flat: dict[str, str] = {}
    for key, value in parts.items():
        values = value if isinstance(value, dict) else {"": value}
        flat |= {f"{key}.{name}".rstrip("."): json.dumps(one) for name, one in values.items() if name != "elapsed"}
    return flat


def _differs(fact: str) -> CheckpointError:
    return CheckpointError(
        f"--check-resume: a run that is interrupted must give identical results to one that is not, got {fact}; do not "
        "trust "
        "resumed runs with these settings on this machine, and report it"
    )
