"""Arrays with one copy per machine, assembled from pieces that ranks on all machines hold.

A copy is a file in the machine's temporary folder that its ranks map. It is unlinked before they use it, so that it
vanishes with them, however they end. Unlike shared memory (/dev/shm), which containers often keep small, it may be
larger than main memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from nmt.errors import DataError
from nmt.system.files import explain
from nmt.train.log.memory import format_bytes


class Machines:
    """The machines of all ranks.

    Args:
        machine: The name of this rank's machine; it must be the same for all ranks on it and for no others.
    """

    def __init__(self, world: Any, machine: str) -> None:
        self._world = world
        names = world.allgather(machine)
        order = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self._machine_of = [order[name] for name in names]
        self._here = world.Split(order[machine], world.Get_rank())
        self._is_first_here = self._here.Get_rank() == 0
        self._firsts = world.Split(0 if self._is_first_here else 1, world.Get_rank())
        self.ranks_here: int = self._here.Get_size()
        """Number of ranks on this machine."""

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """Return the whole array (see `Readers`). Raises DataError if the temporary folder has no room."""
        sizes = self._world.allgather({number: len(piece) for number, piece in own.items()})
        owners = {number: rank for rank, of_rank in enumerate(sizes) for number in of_rank}
        places, end = {}, 0
        for number in sorted(owners):
            places[number] = slice(end, end + sizes[owners[number]][number])
            end = places[number].stop
        whole = self._mapped(end, np.dtype(dtype))
        for number, piece in own.items():
            whole[places[number]] = piece
        self._here.Barrier()
        if self._is_first_here and self._firsts.Get_size() > 1:
            for number, place in places.items():
                content = whole[place].view(np.uint8)
                self._firsts.Bcast([content, MPI.BYTE], root=self._machine_of[owners[number]])
        self._here.Barrier()
        whole.flags.writeable = False
        return whole

    def _mapped(self, size: int, dtype: np.dtype) -> np.ndarray:
        """Return an array in memory that all ranks of this machine map."""
        if not size:
            return np.zeros(0, dtype)
        path = self._here.bcast(_new_file(size * dtype.itemsize) if self._is_first_here else None)
        try:
            with open(path, "r+b") as file:
                memory = mmap.mmap(file.fileno(), size * dtype.itemsize)
        except OSError as error:
            raise DataError(
                f"{path}: the temporary folder must be the same one for all ranks of a machine, got "
                f"{explain(error)}; set TMPDIR to a folder that they all see"
            ) from error
        self._here.Barrier()  # all have mapped it
        if self._is_first_here:
            os.unlink(path)
        return np.frombuffer(memory, dtype)


def _new_file(size: int) -> str:
    """Return a file of the given size with its disk space reserved: writing to the map cannot fail."""
    handle, path = tempfile.mkstemp(prefix="nmt-text-")
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:
            os.truncate(handle, size)
    except OSError as error:
        Path(path).unlink()
        raise DataError(
            f"{Path(path).parent}: must have room for {format_bytes(size)} of the training text, got "
            f"{explain(error)}; set TMPDIR to another folder"
        ) from error
    finally:
        os.close(handle)
    return path
