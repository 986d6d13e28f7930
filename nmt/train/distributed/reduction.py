"""Adding up the gradients of all ranks, while the backward pass still computes others.

Arrays are cut into pieces. Of each piece rank r owns the r-th part: it gets that part from every rank, adds the parts
in the order of ranks, 0 first, and gives the sum to all (a reduce-scatter and an all-gather: Thakur et al. 2005,
section 4.5, with a stated order of sums). So the bits do not depend on the MPI library, on time or on how ranks lie on
machines, and those of N ranks are those of one process that adds up the gradients of N batches. On the wire a rank
sends and gets 2 (N - 1) / N times the bytes of the gradients.

Of an embedding table only the rows of words that occur in some rank's batches are sent: the others are zero everywhere.
With bfloat16 on the wire the parts and the sum are rounded, all additions are of float32, and all ranks, the owner too,
go on with the rounded sum.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

PIECE_BYTES = 4 << 20
"""Of the float32 numbers of a piece: large enough to be sent at full speed, small enough that the first goes early."""
_POLL_SECONDS = 1e-4
SPARSE_SHARE = 0.8
"""Rows of a table are sent by themselves where they are at most so much of it: they have to be copied."""


class Wire(Protocol):
    """What is asked of MPI: exchanges of flat arrays of one dtype, begun by one call and over when `Test` says so."""

    rank: int
    size: int

    def scatter_parts(self, sent: np.ndarray, received: np.ndarray, counts: Sequence[int]) -> Any:
        """Send part r of `sent` to rank r; get the own part of every rank, one after another."""

    def gather_parts(self, own: np.ndarray, received: np.ndarray, counts: Sequence[int]) -> Any:
        """Send the own part to all; get part r of rank r."""

    def either(self, bits: np.ndarray) -> np.ndarray:
        """Return bytes in which a bit is set that is so in some rank's."""


@dataclass
class Traffic:
    """What went over the wire for one update, of this rank, and when."""

    sent_bytes: int = 0
    waited: float = 0.0
    """Seconds from the end of the backward pass to the last sum."""
    spans: list[tuple[str, float, float]] = field(default_factory=list)
    """Of each piece the first name in it, when it was begun and done, by time.perf_counter."""


class Reduction:
    """Sums of named arrays over all ranks, update by update: `begin`, `ready` some number of times, `finish`.

    Args:
        wire: To the other ranks.
        arrays: Of host memory, float32, contiguous; the same ones every time. They end as the sums.
        wire_dtype: float32, or bfloat16 to send half the bytes.
    """

    def __init__(self, wire: Wire, arrays: Mapping[str, np.ndarray], wire_dtype: str = "float32") -> None:
        self._wire, self._arrays = wire, arrays
        self._order = list(arrays)[::-1]  # about as the backward pass is done with them, and the same everywhere
        self._rounded = _bfloat16() if wire_dtype == "bfloat16" else None
        self.traffic = Traffic()
        self._ready: set[str] = set()
        self._rows: dict[str, np.ndarray] = {}
        self._change = threading.Condition()
        self._is_awaited = False
        self._jobs: queue.SimpleQueue[Mapping[str, np.ndarray]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="gradients", daemon=True).start()

    def begin(self, rows: Mapping[str, np.ndarray]) -> None:
        """Start an update. `rows`: of arrays that are zero but in some rows, the same arrays in every rank, which rows
        those are here, bool [rows]."""
        self.traffic = Traffic()
        self._ready.clear()
        self._is_awaited = False
        self._jobs.put(rows)

    def ready(self, *names: str) -> None:
        """Say that arrays, or those whose names begin so before a dot, will not change any more."""
        with self._change:
            self._ready.update(
                own for own in self._order if any(own == name or own.startswith(f"{name}.") for name in names)
            )
            self._change.notify()

    def finish(self) -> None:
        """Wait until all arrays are the sums of all ranks'; those that were not said to be ready are now."""
        began = time.perf_counter()
        self._is_awaited = True
        with self._change:
            self._ready.update(self._order)
            self._change.notify()
        error = self._done.get()
        self.traffic.waited = time.perf_counter() - began
        if error is not None:
            raise error

    def _serve(self) -> None:
        """The thread that exchanges: one update after another, each in the same order in all ranks."""
        while True:
            rows = self._jobs.get()
            try:
                self._reduce_all(rows)
                self._done.put(None)
            except BaseException as error:  # finish() raises it where somebody sees it
                self._done.put(error)

    def _reduce_all(self, rows: Mapping[str, np.ndarray]) -> None:
        """All arrays in their order, small neighbours together, each as soon as it is ready."""
        self._rows = self._common_rows(rows)
        for names in self._pieces_of_names():
            with self._change:
                self._change.wait_for(lambda names=names: self._ready.issuperset(names))  # type: ignore[misc]
            began = time.perf_counter()
            self._reduce(names)
            self.traffic.spans.append((names[0], began, time.perf_counter()))

    def _common_rows(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the rows that some rank has, by table, where they are few."""
        if not rows:
            return {}
        names = sorted(rows)
        packed = self._wire.either(np.packbits(np.concatenate([rows[name] for name in names])))
        self.traffic.sent_bytes += packed.nbytes
        flags = np.unpackbits(packed).astype(bool)
        found, at = {}, 0
        for name in names:
            count = len(rows[name])
            indices = np.flatnonzero(flags[at : at + count])
            at += count
            if len(indices) <= SPARSE_SHARE * count:
                found[name] = indices
        return found

    def _pieces_of_names(self) -> list[list[str]]:
        """Return names in their order, small arrays of one part of the model together."""
        pieces: list[list[str]] = []
        size = 0
        for name in self._order:
            array = self._arrays[name]
            fits = pieces and size + array.nbytes <= PIECE_BYTES and _part(name) == _part(pieces[-1][0])
            if fits and name not in self._rows and pieces[-1][0] not in self._rows:
                pieces[-1].append(name)
                size += array.nbytes
            else:
                pieces.append([name])
                size = array.nbytes
        return pieces

    def _reduce(self, names: list[str]) -> None:
        """The arrays of one piece, by way of a copy where they do not lie in one."""
        first = self._arrays[names[0]]
        if names[0] in self._rows:
            rows = self._rows[names[0]]
            flat = first[rows]
            self._sum(flat.reshape(-1))
            first[rows] = flat
        elif len(names) == 1:
            self._sum(first.reshape(-1))
        else:
            flat = np.concatenate([self._arrays[name].reshape(-1) for name in names])
            self._sum(flat)
            at = 0
            for name in names:
                array = self._arrays[name]
                array[...] = flat[at : at + array.size].reshape(array.shape)
                at += array.size

    def _sum(self, flat: np.ndarray) -> None:
        """A flat array, piece by piece."""
        step = PIECE_BYTES // 4
        for at in range(0, len(flat), step):
            self._sum_piece(flat[at : at + step])

    def _sum_piece(self, flat: np.ndarray) -> None:
        """Exchange parts, add those of which this rank is the owner in the order of ranks, exchange the sums."""
        wire, rounded = self._wire, self._rounded
        share = -(-len(flat) // wire.size)
        counts = [max(0, min(share, len(flat) - rank * share)) for rank in range(wire.size)]
        sent = flat if rounded is None else flat.astype(rounded).view(np.uint16)
        received = np.empty((wire.size, counts[wire.rank]), sent.dtype)
        self._wait(wire.scatter_parts(sent, received.reshape(-1), counts))
        parts = received if rounded is None else received.view(rounded)
        total = parts[0].astype(np.float32)
        for part in parts[1:]:
            total += part if rounded is None else part.astype(np.float32)
        if rounded is None:
            self._wait(wire.gather_parts(total, flat, counts))
        else:
            sums = np.empty(len(flat), np.uint16)
            self._wait(wire.gather_parts(total.astype(rounded).view(np.uint16), sums, counts))
            flat[...] = sums.view(rounded)
        own = counts[wire.rank]
        self.traffic.sent_bytes += sent.itemsize * (len(flat) - own + own * (wire.size - 1))

    def _wait(self, request: Any) -> None:
        """Until an exchange is over. While others compute this thread sleeps in between; MPI moves bytes when asked."""
        while not request.Test():
            time.sleep(0 if self._is_awaited else _POLL_SECONDS)


def _part(name: str) -> str:
    return name.partition(".")[0]


def _bfloat16() -> np.dtype:
    """NumPy's dtype of bfloat16, which another package brings."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
