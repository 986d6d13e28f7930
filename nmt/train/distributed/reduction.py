"""Summation of the gradients of all ranks, while the backward pass still computes other gradients.

Arrays are split into pieces. Rank r owns the r-th part of each piece: it receives that part from every rank, adds the
parts in the order of ranks, 0 first, and sends the sum to all (a reduce-scatter and an all-gather: Thakur et al. 2005,
section 4.5, with a fixed order of summation). So the result does not depend, bit by bit, on the MPI library, on timing
or on the placement of ranks, and N ranks give the same bits as one process that adds the gradients of N batches. Each
rank sends and receives 2 (N - 1) / N times the bytes of the gradients.

With bfloat16, parts and sums are rounded before they are sent, additions are done in float32, and all ranks, including
the owner, use the rounded sum.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nmt.rnn.cell import belongs

PIECE_BYTES = 4 << 20
"""Bytes of the float32 numbers of a piece: enough to be sent at full speed, few enough for the first to be early."""
_POLL_SECONDS = 1e-4


class Wire(Protocol):
    """The exchanges needed from MPI, of flat arrays of one dtype; they are complete when `Test` returns true."""

    rank: int
    size: int

    def scatter_parts(self, sent: np.ndarray, received: np.ndarray, counts: Sequence[int]) -> Any:
        """Start to send part r of `sent` to rank r, and to receive this rank's parts in the order of ranks."""

    def gather_parts(self, own: np.ndarray, received: np.ndarray, counts: Sequence[int]) -> Any:
        """Start to send this rank's part to all and to receive part r from rank r."""


class Reduction:
    """Sums named arrays over all ranks. For each update call `begin`, then `ready` any number of times, then `finish`.
    `arrays`: contiguous float32 arrays in host memory, the same for every update. They are replaced by the sums.
    `wire_dtype`: float32, or bfloat16 to send half the bytes."""

    def __init__(self, wire: Wire, arrays: Mapping[str, np.ndarray], wire_dtype: str = "float32") -> None:
        self._wire, self._arrays = wire, arrays
        self._order = list(arrays)[::-1]  # roughly the order of the backward pass; the same in all ranks
        self._rounded: np.dtype | None = None
        if wire_dtype == "bfloat16":
            import ml_dtypes

            self._rounded = np.dtype(ml_dtypes.bfloat16)
        self.sent_bytes = 0
        """Bytes that this rank has sent for the last update."""
        self._ready: set[str] = set()
        self._change = threading.Condition()
        self._is_awaited = False
        self._jobs: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="gradients", daemon=True).start()

    def begin(self) -> None:
        """Start an update."""
        self.sent_bytes = 0
        self._ready.clear()
        self._is_awaited = False
        self._jobs.put(None)

    def ready(self, *names: str) -> None:
        """Declare that arrays will not change any more, given by name or by the part of their names before a dot."""
        with self._change:
            self._ready.update(own for own in self._order if belongs(own, names))
            self._change.notify()

    def finish(self) -> None:
        """Wait until all arrays are the sums over all ranks; arrays not yet declared ready are ready now."""
        self._is_awaited = True
        with self._change:
            self._ready.update(self._order)
            self._change.notify()
        if (error := self._done.get()) is not None:
            raise error

    def _serve(self) -> None:
        """Exchange arrays in a thread, update by update, each as soon as it is ready, in one order in all ranks."""
        while True:
            self._jobs.get()
            try:
                for names in self._pieces_of_names():
                    with self._change:
                        self._change.wait_for(lambda names=names: self._ready.issuperset(names))  # type: ignore[misc]
                    self._reduce(names)
                self._done.put(None)
            except BaseException as error:  # finish() raises it in the calling thread
                self._done.put(error)

    def _pieces_of_names(self) -> list[list[str]]:
        """Return groups of names in their order; small arrays of one part of the model share a group."""
        pieces: list[list[str]] = []
        size = 0
        for name in self._order:
            array = self._arrays[name]
            fits = pieces and size + array.nbytes <= PIECE_BYTES and _part(name) == _part(pieces[-1][0])
            if fits:
                pieces[-1].append(name)
                size += array.nbytes
            else:
                pieces.append([name])
                size = array.nbytes
        return pieces

    def _reduce(self, names: list[str]) -> None:
        """Reduce the arrays of one group piece by piece, several as a copy of all."""
        arrays = [self._arrays[name] for name in names]
        views = [array.reshape(-1) for array in arrays]
        flat, step = views[0] if len(views) == 1 else np.concatenate(views), PIECE_BYTES // 4
        for at in range(0, len(flat), step):
            self._sum(flat[at : at + step])
        if len(arrays) > 1:
            for array, part in zip(arrays, np.split(flat, np.cumsum([one.size for one in arrays[:-1]])), strict=True):
                array[...] = part.reshape(array.shape)

    def _sum(self, flat: np.ndarray) -> None:
        """Exchange parts, add those that this rank owns in the order of ranks, and exchange the sums."""
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
        self.sent_bytes += sent.itemsize * (len(flat) - own + own * (wire.size - 1))

    def _wait(self, request: Any) -> None:
        """Wait until an exchange is complete; MPI makes progress when it is polled."""
        while not request.Test():
            time.sleep(0 if self._is_awaited else _POLL_SECONDS)


def _part(name: str) -> str:
    return name.partition(".")[0]
