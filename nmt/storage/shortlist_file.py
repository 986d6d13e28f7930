"""Store a shortlist on disk: in a separate file next to a model, or as tensors of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, ShapeError
from nmt.storage.tensor_file import tensors_made_with, write_tensors
from nmt.system.files import writing

if TYPE_CHECKING:
    from nmt.decode.rules.options import Shortlist

PREFIX = "shortlist/"


def shortlist_tensors(shortlist: Shortlist) -> dict[str, np.ndarray]:
    """Return the arrays of a shortlist by their names in a file."""
    arrays = {"starts": shortlist.starts.astype(np.int64), "tokens": shortlist.tokens, "always": shortlist.always}
    return {PREFIX + name: array for name, array in arrays.items()}


def shortlist_from(tensors: dict[str, np.ndarray], vocab_size: int, where: Path) -> Shortlist | None:
    """Return the shortlist whose arrays `shortlist_tensors` returned, or None if they are missing. Raises
    CheckpointError, which names `where`."""
    if not any(name.startswith(PREFIX) for name in tensors):
        return None
    from nmt.decode.rules.options import Shortlist

    try:
        starts, tokens, always = (tensors[PREFIX + name] for name in ("starts", "tokens", "always"))
        if [a.dtype for a in (starts, tokens, always)] != [np.int64, np.int32, np.int32] or starts.ndim != 1:
            raise ShapeError("other arrays")
        return Shortlist(starts, tokens.reshape(-1), always.reshape(-1), vocab_size)
    except (KeyError, ShapeError) as error:
        raise CheckpointError(
            f"{where}: must contain a shortlist for a vocabulary of {vocab_size}, got another one; make it again with "
            "nmt-shortlist"
        ) from error


def save_shortlist(path: Path, shortlist: Shortlist, content: dict[str, Any]) -> None:
    """Write a shortlist with its metadata, which include the digest of its subwords. Raises CheckpointError."""
    with writing(path):
        write_tensors(path, shortlist_tensors(shortlist), content)


def load_shortlist(path: Path, vocab_size: int, digest: str) -> Shortlist | None:
    """Return the shortlist made for these subwords, or None if there is no file. Raises CheckpointError."""
    tensors = tensors_made_with(path, digest, "make it again with nmt-shortlist, or remove it")
    return None if tensors is None else shortlist_from(tensors, vocab_size, path)
