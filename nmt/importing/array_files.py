"""Read named arrays from npz files, without pickles."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from nmt.errors import CheckpointError
from nmt.system.files import explain

_MOST_INFLATION = 50
"""Weights hardly compress: a member whose uncompressed size is more than this many times its bytes is a zip bomb."""


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file by name. Raises CheckpointError if it is damaged, something else, or contains
    objects."""
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
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise CheckpointError(f"{problem}Python objects, which are never loaded") from None
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); restore a copy") from error
    except Exception as error:  # noqa: BLE001 - what NumPy's and zlib's parsers raise for broken bytes is not documented
        raise CheckpointError(f"{problem}a damaged one ({explain(error)[:80]}); restore a copy") from error
    if wrong := [name for name, array in found.items() if not isinstance(array, np.ndarray) or array.dtype.hasobject]:
        raise CheckpointError(f"{problem}{wrong[0]!r:.60} that is none")
    return found
