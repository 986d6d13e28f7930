"""Write programs, which `kernels.program.run_program` runs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nmt.rnn.arrays.workspace import LINE_BYTES
from nmt.rnn.kernels.machine_code.native import Kernel, Native
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS, TableLayout
from nmt.rnn.kernels.program.run_program import KINDS, PROGRAM, Kind, Section, Step, fill


@dataclass(frozen=True)
class Word:
    """A word of a program's table, whose number is known when the program runs: a size, or the address of a buffer or a
    function. Sums and products of words and numbers are words, which the section that is being written computes."""

    program: Program
    place: int

    def __add__(self, other: Number) -> Word:
        return self if other == 0 else self.program.computed(Step.SUM, self, other)

    def __mul__(self, other: Number) -> Word:
        return self if other == 1 else self.program.computed(Step.PRODUCT, self, other)

    __radd__, __rmul__ = __add__, __mul__


Number: TypeAlias = int | Word
Value: TypeAlias = int | float | Word | None
Array: TypeAlias = tuple[Any, ...]
"""An argument of a kernel: the dtype of an array's elements, where it is, and its extents."""


class Program:
    """A program as it is written. functions, arrays: by the words that the caller has to set to their addresses."""

    def __init__(self) -> None:
        self.size = COUNTER_WORDS + len(PROGRAM.fields)  # of the table
        self.functions: dict[int, Native] = {}
        self.arrays: dict[int, str] = {}
        self._found: dict[Any, Word] = {}  # words of functions, arrays and fields
        self._sections: dict[Section, list[int]] = {}
        self._steps: list[int] = []
        self._computed: dict[Any, Word] = {}  # in this section

    @property
    def code(self) -> np.ndarray:
        """Return the numbers of the program, int64: the place of each section, then their steps."""
        places, steps = [], [int(Step.END)]
        for section in Section:
            places.append(len(Section) + (len(steps) if section in self._sections else 0))
            steps += [*self._sections[section], Step.END] if section in self._sections else []
        return np.array([*places, *steps], np.int64)

    def begin(self, section: Section) -> None:
        """Write this section from now on."""
        self._steps = self._sections[section] = []
        self._computed = {}

    # ------------------------------------------------------------ words

    def new_word(self) -> Word:
        """Return a new word of the table."""
        self.size += 1
        return Word(self, self.size - 1)

    def field(self, name: str) -> Word:
        """Return the word of a field of the program's table."""
        return Word(self, PROGRAM.places[name])

    def function(self, native: Native) -> Word:
        """Return the word of a function."""
        if native.entry not in self._found:
            self._found[native.entry] = word = self.new_word()
            self.functions[word.place] = native
        return self._found[native.entry]

    def array(self, name: str) -> Word:
        """Return the word of an array of the model."""
        if ("array", name) not in self._found:
            self._found["array", name] = word = self.new_word()
            self.arrays[word.place] = name
        return self._found["array", name]

    def computed(self, step: Step, a: Number, b: Number) -> Word:
        """Return the result of a step for two values."""
        key = step, *_numbers(a), *_numbers(b)
        if key not in self._computed:
            self._computed[key] = self._set(self.new_word(), key)
        return self._computed[key]

    def _set(self, word: Word, step: Sequence[int]) -> Word:
        self._steps += [step[0], word.place, *step[1:]]
        return word

    # ------------------------------------------------------------ buffers

    def buffer(self, size: Number, *, zeros: bool = False, into: Word | None = None) -> Word:
        """Return new memory of so many bytes."""
        return self._set(into or self.new_word(), (Step.BUFFER, *_numbers(size), int(zeros)))

    def floats(self, *shape: Number, zeros: bool = False) -> Word:
        """Return memory for an array of float32."""
        return self.buffer(product(4, *shape), zeros=zeros)

    def words(self, values: Sequence[Value]) -> Word:
        """Return memory with these int64, at least one; or float64."""
        values = values or [0]
        return self._set(self.new_word(), (Step.TABLE, len(values), *(n for one in values for n in _numbers(one))))

    def filled(self, count: Number, value: Number = 0, step: int = 0) -> Word:
        """Return int64 numbers value, value + step, ... that nothing changes."""
        key = "filled", count, value, step
        if key not in self._computed:
            self._computed[key] = self.buffer(8 * count)
            self.fill(self._computed[key], count, value, step)
        return self._computed[key]

    def fill(
        self, out: Word, count: Number, value: Number = 0, step: Number = 0, *, first: int = 0, stride: Number = 1
    ) -> None:
        """Set every so many of `count` int64 to value, value + step, ..."""
        self.kernel(fill, ("int64", out, count), first, stride, value, step)

    # ------------------------------------------------------------ tables and calls

    def table(self, layout: TableLayout, values: Mapping[str, Value]) -> Word:
        """Return a table with named fields, 0 where there is no value."""
        if unknown := values.keys() - layout.places.keys():
            raise RuntimeError(f"{layout.name}: has no {', '.join(sorted(unknown))}")
        return self.words([*_COUNTERS, *(values.get(field.name) for field in layout.fields)])

    def arrays_of(self, layout: TableLayout, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Word]:
        """Return memory, all zeros, for arrays of a table whose fields have these values."""
        found = {}
        for name in names:
            field = layout.by_name[name]
            size = _LETTER if len(field.element) == 1 else np.dtype(field.element).itemsize
            extents = (values[extent] if isinstance(extent, str) else extent or 1 for extent in field.shape)
            found[name] = self.buffer(product(size, *extents), zeros=True)
        return found

    def set(self, name: str, value: Number) -> None:
        """Set a field of the program's table."""
        self._set(self.field(name), (Step.SUM, *_numbers(value), *_numbers(0)))

    def load(self, address: Word, number: int) -> Word:
        """Return a number of those at an address."""
        return self._set(self.new_word(), (Step.LOAD, address.place, number))

    def call(self, code: Word, table: Word, temporary: Number = 0, parts: Number = 1) -> None:
        """Call a function that takes so many bytes for itself and is shared by so many threads."""
        self.note_temporary(temporary)
        self._steps += [Step.CALL, code.place, table.place, *_numbers(parts)]

    def note_temporary(self, size: Number) -> None:
        """Note that a function takes so many bytes for itself."""
        if size != 0:
            most = self.field("temporary")
            self._set(most, (Step.MOST, *_numbers(most), *_numbers(size)))

    def kernel(self, kernel: Kernel, *given: Array | Value, temporary: Number = 0) -> None:
        """Call a kernel, whose numbers are int64."""
        types = tuple(f"{one[0]} {len(one) - 2}" if isinstance(one, tuple) else "int64" for one in given)
        values = [value for one in given for value in (one[1:] if isinstance(one, tuple) else (one,))]
        self.call(self.function(kernel.native(types)), self.words([*_COUNTERS, *values]), temporary)


_COUNTERS = (0,) * COUNTER_WORDS
_LETTER = 4
"""Bytes of an element whose type is a letter: float32, or a word of packed weights."""


def product(*factors: Number) -> Number:
    """Return a product."""
    known, unknown = 1, list[Word]()
    for factor in factors:
        if isinstance(factor, int):
            known *= factor
        else:
            unknown.append(factor)
    found: Number = known
    for factor in unknown:
        found = factor * found
    return found


def pieces(*sizes: Number) -> Number:
    """Return the bytes of as many pieces of memory, each of which begins on a cache line."""
    found: Number = len(sizes) * LINE_BYTES
    for size in sizes:
        found = size + found
    return found


def _numbers(value: Value) -> list[int]:
    if isinstance(value, Word):
        return [value.place * KINDS + Kind.WORD]
    if isinstance(value, float):
        return [int(Kind.REAL), struct.unpack("q", struct.pack("d", value))[0]]
    return [int(value or 0) * KINDS + Kind.CONSTANT]
