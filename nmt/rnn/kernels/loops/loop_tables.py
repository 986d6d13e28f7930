"""The tables that generated functions read, with numbers and addresses of arrays; and how threads share single
steps."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.division import Sharing
from nmt.rnn.kernels.loops.emit_cpu import INTEGERS, NUMBERS
from nmt.rnn.kernels.machine_code.jit import inner_kernel
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads.atomics import WORD
from nmt.rnn.kernels.threads.pool import address_of, start_of, task_table
from nmt.rnn.rows import TimeBlock


def divisions(sharing: Sharing, most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return how threads share a single step of 0, 1, ... `most` rows: int64 [most + 1, 3], with 1 if they divide units
    (else 0), the number of threads that have a part, and the address of their bounds; and the arrays at these
    addresses."""
    return _divisions(sharing, most, tuning.ALONE_BELOW, tuning.ALONE_A_STEP)


@lru_cache(maxsize=32)
def _divisions(sharing: Sharing, most: int, *limits: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compute and cache `divisions`; the limits that `Sharing` reads are part of the key."""
    if sharing.threads == 1 and sharing.division != "units":  # the same formula for every number of rows
        rows = np.arange(most + 1, dtype=np.int64)
        bounds = np.stack([np.zeros_like(rows), rows], axis=1)
        addresses = address_of(bounds) + bounds.itemsize * 2 * rows
        return np.stack([np.zeros_like(rows), np.ones_like(rows), addresses], axis=1), [bounds]
    found = [sharing.of_step(rows) for rows in range(most + 1)]
    table = [(units, len(bounds) - 1, address_of(bounds)) for units, bounds in found]
    return np.array(table, np.int64), [bounds for _, bounds in found]


class Table:
    """The arguments of a generated function (see `emit_cpu`): numbers and addresses, and the arrays at these addresses.

    `names` are the names of the arrays in the function; one array may have several.
    """

    def __init__(
        self, numbers: tuple[int, ...], names: list[str], arrays: list[np.ndarray], parts: int, sharing: Sharing
    ) -> None:
        self.names, self.arrays, self.parts, self.sharing = names, arrays, parts, sharing
        self.numbers = task_table(numbers, arrays)

    def of(self, block: TimeBlock) -> Table:
        """Return a copy for one block of time; it shares the arrays."""
        found, numbers = object.__new__(Table), self.numbers[:]
        numbers[_START], numbers[_START + 1] = block.start, block.stop
        found.__dict__ = self.__dict__ | {"numbers": numbers}
        return found

    @property
    def address(self) -> int:
        """Return where it is in memory."""
        return start_of(self.numbers)

    def replace_array(self, place: int, array: np.ndarray) -> None:
        """Use another array, of the same element type, as names[place]."""
        if array is not self.arrays[place]:
            self.numbers[_ADDRESSES + place] = address_of(array)
            self.arrays[place] = array

    def word(self, place: int) -> int:
        """Return the address of the word with the address of names[place], for compiled code that changes it."""
        return self.address + WORD * (_ADDRESSES + place)

    def restore(self, place: int) -> None:
        """Set the address of names[place] again after compiled code has changed it."""
        self.numbers[_ADDRESSES + place] = address_of(self.arrays[place])

    def resize(self, rows: int) -> None:
        """Set the number of rows, all of a single step; the arrays must have room for them."""
        units, bounds = self.sharing.of_step(rows)
        self.parts = len(bounds) - 1
        self.arrays[_BOUNDS] = bounds
        self.numbers[_UNITS_WORD], self.numbers[_ROWS_WORD] = units, rows
        self.numbers[_BOUNDS_WORD] = address_of(bounds)


_START = COUNTER_WORDS + NUMBERS.index("start")
_ADDRESSES = COUNTER_WORDS + len(NUMBERS)
_BOUNDS = INTEGERS.index("bounds")
# The words of a table that `resize` changes.
_UNITS_WORD, _ROWS_WORD = COUNTER_WORDS + NUMBERS.index("units"), COUNTER_WORDS + NUMBERS.index("B")
_BOUNDS_WORD = _ADDRESSES + _BOUNDS


@inner_kernel
def resize_table(table, divisions, rows):  # type: ignore[no-untyped-def]
    """Do what `Table.resize` does, in compiled code: set the number of rows of the table at an address, and divide them
    according to `divisions`."""
    numbers = array_at(table, 1, np.int64)
    numbers[_ROWS_WORD] = rows
    numbers[_UNITS_WORD], numbers[_BOUNDS_WORD] = divisions[rows, 0], divisions[rows, 2]
