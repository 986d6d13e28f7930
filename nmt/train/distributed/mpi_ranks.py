"""Ranks joined by MPI. Importing this module starts MPI, so it is imported only for training with MPI."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import stat
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from mpi4py import MPI

from nmt.errors import DataError, DeviceError, NMTError, how_to_install
from nmt.overriding import override
from nmt.rnn.cores import granted_cores
from nmt.system.files import explain
from nmt.train.distributed.ranks import Interrupted, Ranks
from nmt.train.distributed.reduction import Reduction
from nmt.train.log.progress import format_bytes

T = TypeVar("T")

_TURN_SECONDS, _MOST_TURNS_SECONDS = 0.1, 5.0
_READ_SECONDS = 2.0
_TYPES = {np.dtype(np.float32): MPI.FLOAT, np.dtype(np.uint16): MPI.UINT16_T}


class MPIRanks(Ranks):
    """All processes that the launcher started (see `Ranks`)."""

    def __init__(self) -> None:
        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise DeviceError(
                "mpiexec: the MPI library must let threads take turns (MPI_THREAD_SERIALIZED), got one that does not; "
                f"build it with threads, or use MPICH: {how_to_install('mpi')}"
            )
        self._world = MPI.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self.host = socket.gethostname()
        self._machines = Machines(self._world, f"{self.host} {_boot()}")
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        self._places = self._world.allgather((self.host, sorted(own)))
        local = [cores for host, cores in self._places if host == self.host]
        self._shares_cores = any(local.count(cores) > 1 for cores in local)
        if self._shares_cores:
            cores = min(len(set().union(*local)), granted_cores() or 1024)
            self.threads = max(1, cores // len(local))

    @override
    def all_gather(self, value: T) -> list[T]:
        return list(self._world.allgather(value))

    @override
    def broadcast(self, value: T) -> T:
        result: T = self._world.bcast(value, root=0)
        return result

    @override
    def first_then_others(self, work: Callable[[], T]) -> T:
        if self.rank == 0:
            result = work()
            self._world.Barrier()
            return result
        self._world.Barrier()
        return work()

    @override
    def collect(self, work: Callable[[], T]) -> list[T]:
        result: tuple[T] | None
        try:
            result = (work(),)
        except Interrupted:
            result = None
        found = self._world.allgather(result)
        if any(one is None for one in found):
            raise Interrupted
        return [one[0] for one in found]

    @override
    def total(self, numbers: np.ndarray) -> np.ndarray:
        result = np.empty_like(numbers)
        self._world.Allreduce(numbers, result, op=MPI.SUM)
        return result

    @override
    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        return self._machines.gathered(own, dtype)

    @override
    def reduction(self, gradients: Mapping[str, np.ndarray], wire_dtype: str) -> Reduction:
        return Reduction(MPIWire(self._world), gradients, wire_dtype)

    def warnings(self, threads: int) -> list[str]:
        """Return a warning for each machine with more computing threads than cores (see `Ranks.warnings`)."""
        of_ranks = self._world.allgather(threads)
        found = []
        for host in dict.fromkeys(host for host, _ in self._places):
            here = [rank for rank, (name, _) in enumerate(self._places) if name == host]
            cores = len(set().union(*(self._places[rank][1] for rank in here)))
            wanted = sum(of_ranks[rank] for rank in here)
            if wanted > cores:
                found.append(
                    f"warning: {host}: {len(here)} ranks compute with {wanted} threads on {cores} cores; start fewer, "
                    "or give each its own (mpiexec -bind-to core, srun --cpus-per-task)"
                )
        return found

    @override
    def end(self) -> None:
        self._world.Barrier()

    @contextlib.contextmanager
    @override
    def together(self) -> Iterator[None]:
        try:
            yield
        except (NMTError, MemoryError) as error:
            # Rank 0 reports an error that occurs in all ranks, and ends the others before they report it too.
            time.sleep(min(self.rank * _TURN_SECONDS, _MOST_TURNS_SECONDS))
            little = "memory: must suffice for the model and a batch, got too little; lower the batch size"
            text = str(error) if isinstance(error, NMTError) else little
            name = f" (rank {self.rank} of {self.size} on {self.host})" if self.rank else ""
            self._abort(f"Error: {text}{name}\n")
        except Exception:
            self._abort(traceback.format_exc())

    def _abort(self, text: str) -> None:
        """Report the reason and end all ranks at once."""
        with contextlib.suppress(OSError, ImportError):
            os.write(2, text.encode())
            await_reader(2)
        self._world.Abort(1)
        os._exit(1)  # some libraries return from Abort


def await_reader(handle: int) -> None:
    """Wait, _READ_SECONDS at most, until a pipe is read: a launcher that ends all ranks does not read the rest."""
    import fcntl
    import termios

    unread, until = bytearray(4), time.monotonic() + _READ_SECONDS
    while stat.S_ISFIFO(os.fstat(handle).st_mode) and time.monotonic() < until:
        fcntl.ioctl(handle, termios.FIONREAD, unread)
        if not any(unread):
            return
        time.sleep(0.01)


class MPIWire:
    """The `Wire` over MPI, with a communicator of its own so that no other messages interfere."""

    def __init__(self, world: Any) -> None:
        self._comm = world.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()

    def scatter_parts(self, sent: np.ndarray, received: np.ndarray, counts: Sequence[int]) -> Any:
        """Start to send part r of `sent` to rank r and to receive this rank's part from every rank."""
        kind, own = _TYPES[sent.dtype], [counts[self.rank]] * self.size
        return self._comm.Ialltoallv([sent, list(counts), _starts(counts), kind], [received, own, _starts(own), kind])

    def gather_parts(self, own: np.ndarray, received: np.ndarray, counts: Sequence[int]) -> Any:
        """Start to send this rank's part to all and to receive part r from rank r."""
        kind = _TYPES[own.dtype]
        return self._comm.Iallgatherv([own, len(own), kind], [received, list(counts), _starts(counts), kind])


def _starts(counts: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(counts[:-1]).tolist()]


def _boot() -> str:
    """Return the identifier of this boot of the machine's system: machines may share a name such as `localhost`."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Machines:
    """The machines of all ranks, and arrays with one copy per machine, which ranks on all machines hold pieces of.

    A copy is a file in the machine's temporary folder that its ranks map. It is unlinked before they use it, so that it
    vanishes with them, however they end. Unlike shared memory (/dev/shm), which containers often keep small, it may be
    larger than main memory.

    `machine`: the name of this rank's machine; it must be the same for all ranks on it and for no others.
    """

    def __init__(self, world: Any, machine: str) -> None:
        self._world = world
        names = world.allgather(machine)
        order = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self._machine_of = [order[name] for name in names]
        self._here = world.Split(order[machine], world.Get_rank())
        self._is_first_here = self._here.Get_rank() == 0
        self._firsts = world.Split(0 if self._is_first_here else 1, world.Get_rank())

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
