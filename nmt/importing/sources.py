"""Detect what kind of model a file or folder contains, and import it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.removed import instead
from nmt.errors import CheckpointError, ConfigError
from nmt.importing import described, fairseq, joeynmt, marian, opennmt
from nmt.importing.imported import Imported, Tensors
from nmt.importing.marian import START, read_marian
from nmt.importing.torch_file import read_torch
from nmt.storage.model_folder import BEST_NAME
from nmt.storage.tensor_file import read_foreign_tensors
from nmt.system.files import explain
from nmt.system.paths import absent, exists, is_file, is_folder, listed, named

SUFFIXES = (".npz", ".safetensors", ".pt", ".ckpt", ".pth", ".bin")
"""The suffixes of files that may be models."""


def _has(*names: str) -> Callable[[Any], bool]:
    """Return the check of a file's content for all of these names."""
    return lambda values: isinstance(values, dict) and all(name in values for name in names)


KINDS: dict[str, tuple[Callable[[Any], bool], Callable[[Path, Any], Imported]]] = {
    opennmt.KIND: (_has(*opennmt.NAMES), opennmt.read),
    joeynmt.KIND: (_has(*joeynmt.NAMES), joeynmt.read),
    fairseq.KIND: (fairseq.knows, fairseq.read),
    marian.KIND: (_has(marian.SETTINGS), marian.read),
}
"""The supported systems by name: how a file's content (tensors, or what torch.save wrote) is recognised, and read."""


def import_model(source: Path, kind: str | None = None, member: str | None = None) -> Imported:
    """Read a model of another system.

    Args:
        source: A file, a folder, or a description in YAML (see `described`).
        kind: The system, one of KINDS; None to detect it.
        member: Which file of a folder, if there are several: its path there, or the end of it.

    Raises:
        CheckpointError: It is none of these, damaged, or something that cannot be represented exactly.
        ConfigError: There is no such kind.
    """
    if kind is not None and kind not in KINDS:
        advice = instead(f"nmt-import --from {kind}")
        names = ", ".join(KINDS)
        raise ConfigError(f"from: {kind} {advice}" if advice else f"from: must be one of {names}, got {kind!r:.40}")
    source = named(source, "the model")
    if source.suffix == ".nmt" or exists(source / BEST_NAME):
        raise CheckpointError(f"{source}: must be a model of another system, got one of nmt; use it as it is")
    if source.suffix in described.SUFFIXES and kind is not None:
        raise CheckpointError(
            f"{source}: must be a file of parameters with --from {kind}, got YAML; give that file (.npz, .pt, .bin, "
            ".safetensors), or a description in YAML without --from"
        )
    if source.suffix in described.SUFFIXES:
        description = described.read_description(source)
        path = source.parent / description["file"]
        arrays = described.tensors_below(path, _content(path), description.get("below"))
        return described.read(source, description, Tensors(path, arrays))
    path = _file_of(source, member)
    content = _content(path)
    for name, (knows, read) in KINDS.items():
        if kind in (None, name) and knows(content):
            return read(path, content)
    wanted = kind or f"one of {', '.join(KINDS)}"
    raise CheckpointError(
        f"{source}: must be a model of {wanted}, got {_shown(content)}; docs/migration.md says how to describe another"
    )


def _shown(content: Any) -> str:
    """Return a description of a file's content, for an error message."""
    if not isinstance(content, dict):
        return "something else"
    names = [str(name)[:40] for name in content]
    return f"a file with {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}" if names else "an empty file"


def _file_of(source: Path, member: str | None) -> Path:
    """Return the one file of a source that contains a model. Raises CheckpointError."""
    if is_folder(source):
        there = {str(p.relative_to(source)): p for p in listed(source) if p.suffix in SUFFIXES}
        return there[_chosen(source, list(there), member)]
    if not is_file(source):
        raise CheckpointError(absent(source, "file or folder"))
    if source.suffix == ".whl":
        raise CheckpointError(f"{source}: must be a file or folder, got a wheel, whose import {instead('wheel')}")
    if member is not None:
        raise CheckpointError(f"{source}: must be a folder for a member, got one file; leave it out")
    return source


def _chosen(source: Path, names: list[str], member: str | None) -> str:
    """Return the name that matches `member`, or the only one. Raises CheckpointError."""
    found = names if member is None else [n for n in names if n == member or n.endswith(f"/{member}")]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
    if not names:
        raise CheckpointError(f"{source}: must contain a model, a file ending in {', '.join(SUFFIXES)}, got none")
    if member is None:
        raise CheckpointError(f"{source}: must be one model, got {len(names)} ({shown}); name one by --member")
    raise CheckpointError(f"{source}: must contain {member!r:.80} once, got {len(found)} among {shown}")


def _content(path: Path) -> Any:
    """Return the content of a file, whose format its first bytes show. Raises CheckpointError."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; check the path") from error
    if path.suffix == ".npz":
        return read_npz(path)
    if path.suffix == ".safetensors" or start[8:9] == b"{":
        return read_foreign_tensors(path)
    return read_marian(path) if start.startswith(START) else read_torch(path)


_MOST_INFLATION = 50
"""Weights hardly compress: a member whose uncompressed size is more than this many times its bytes is a zip bomb."""


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file by name. Raises CheckpointError if it is damaged, or contains objects."""
    problem = f"{path}: must be an npz file of numbers, got "
    found: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.file_size > _MOST_INFLATION * max(info.compress_size, 4096):
                    raise CheckpointError(f"{problem}a member that unpacks to {info.file_size:,} bytes; restore a copy")
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                found[name] = arrays[name]
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; restore a copy") from error
    except CheckpointError:
        raise
    except Exception as error:  # noqa: BLE001 - what NumPy's and zlib's parsers raise for broken bytes is not documented
        if isinstance(error, ValueError) and "allow_pickle" in str(error):
            raise CheckpointError(f"{problem}Python objects, which are never loaded") from None
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); restore a copy") from error
    if wrong := [name for name, array in found.items() if not isinstance(array, np.ndarray) or array.dtype.hasobject]:
        raise CheckpointError(f"{problem}{wrong[0]!r:.60} that is none")
    return found
