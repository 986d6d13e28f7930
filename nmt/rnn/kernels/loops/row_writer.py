"""The common part of the emitters: the names of sizes and memory in a generated function, and the expressions of one
row.

Each emitter decides how a row's loops run over features and source positions and how sums are computed: a subclass of
`RowWriter` writes its loops.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count

from nmt.rnn.arrays.array_names import ArrayKind, NumberedName
from nmt.rnn.compiler.program import Nest, Place, PlaceKind, Product, Program, StoredValue, memory_of
from nmt.rnn.graph import Value
from nmt.rnn.named_axes import Dims

Weight = tuple[str, int, int, bool]  # parameter, first row, rows, transposed
Terms = tuple[str, ...]
"""An offset in a place, as the terms of a sum."""


class Variable(NumberedName):
    """Numbered variables of a generated function; those of arrays are named by `Names.variable`."""

    SIZE = "d"
    OFFSET = "o"
    WEIGHT = "w"
    VALUE = "v"
    SUM = "x"


def weight_key(step: Product) -> Weight:
    """Return the key of the weight that a product reads."""
    w = step.weight
    return (w.attrs["name"], w.attrs.get("start", 0), w.attrs["rows"], step.transposed)


@dataclass
class Function:
    """A generated function and the arguments that follow the fixed ones: arrays by name (`scratch`: those that start as
    finite numbers and last for one call), then packed weights. `source` is its text, if it has one. temporary: the
    bytes of each array that it takes for itself, and whether these are for each source position, and for each row."""

    name: str
    arrays: list[str] = field(default_factory=list)
    scratch: dict[str, Place] = field(default_factory=dict)
    weights: list[Weight] = field(default_factory=list)
    source: str = ""
    temporary: dict[str, tuple[int, bool, bool]] = field(default_factory=dict)


def axis_index(axis: str) -> str:
    """Return the variable of a loop over a named axis."""
    return f"i_{axis}"


class Lines:
    """The lines of one loop level, with their indentation."""

    def __init__(self, indent: int) -> None:
        self.indent, self.lines = indent, list[str]()

    def add(self, *lines: str) -> None:
        """Append lines at this level."""
        self.lines += ["    " * self.indent + line for line in lines]


class Names:
    """The names of sizes and arrays in one function."""

    def __init__(self, program: Program, name: str, dims: dict[int, str]) -> None:
        self.program, self.dims = program, dims
        self.function = Function(name)
        self.variables: dict[str, str] = {}

    def variable(self, name: str) -> str:
        """Return the variable of an array. Names of arrays may contain any characters; if two give the same variable, a
        number makes them distinct."""
        if name not in self.variables:
            taken, plain = set(self.variables.values()), "m_" + re.sub(r"\W", "_", name, flags=re.ASCII)
            numbered = (f"{plain}_{n}" for n in count(2))
            self.variables[name] = plain if plain not in taken else next(v for v in numbered if v not in taken)
        return self.variables[name]

    def dim(self, size: int) -> str:
        """Return the variable of a size."""
        return str(size) if size == 0 else self.dims.setdefault(size, Variable.SIZE.of(len(self.dims)))

    def array(self, place: Place) -> str:
        """Return the variable of a place's array."""
        if place.kind is not PlaceKind.ROWS:
            return self.argument(place.name)
        self.function.scratch[place.name] = place
        return self.variable(place.name)

    def argument(self, name: str) -> str:
        """Return the variable of an array that is an argument."""
        if name not in self.function.arrays:
            self.function.arrays.append(name)
        return self.variable(name)

    def base(self, place: Place, row: str = "n") -> str:
        """Return the offset of the first feature of a row (and source position `s`) in a place."""
        size = f" * {self.dim(place.width)}" if place.width is not None else ""
        wide = place.source_axis
        match place.kind:
            case PlaceKind.SEQUENCE:
                return f"((t * S + s) * B + {row}){size}" if wide else f"(t * B + {row}){size}"
            case PlaceKind.BLOCK:
                return f"(((t - lowest) * S + s) * B + {row}){size}" if wide else f"((t - lowest) * B + {row}){size}"
            case PlaceKind.BEFORE | PlaceKind.AFTER:
                return f"({'before' if place.kind is PlaceKind.BEFORE else 'after'} * B + {row}){size}"
            case PlaceKind.CARRY:
                return f"(old * B + {row}){size}"
            case PlaceKind.CARRY_OUT:
                return f"((1 - old) * B + {row}){size}"
            case PlaceKind.AGAIN:
                return f"slot{size}"
            case PlaceKind.AGAIN_NEXT:
                return f"(slot + 1){size}"
            case PlaceKind.CONSTANT:  # without source positions by an index from rows to its rows
                return f"(s * C + c){size}" if wide else f"{self.argument(ArrayKind.INDEX.of(place.name))}[{row}]{size}"
            case PlaceKind.ROWS:
                return f"({row} * S + s){size}" if wide else f"{row}{size}"
            case PlaceKind.ROW:
                return f"s{size}" if wide else "0"
            case _:
                return "0"

    def constant(self, value: float) -> str:
        """Return the text of a constant of the cell."""
        return f"F({value!r})"

    def load(self, place: Place, at: Terms) -> str:
        """Return the expression for the number at an offset of a place."""
        return f"{self.array(place)}[{' + '.join(at)}]"

    def store(self, place: Place, at: Terms, value: str) -> str:
        """Return the statement that stores a value at an offset of a place."""
        return f"{self.load(place, at)} = {value}"


class RowWriter:
    """Write the loop nests of one row into `row`. Each line goes to the block of the indices on which it depends:
    `row`, `s_block` (source position), `j_block` (feature), or `inner` (both); in loops over named axes to that of the
    innermost axis it depends on, `axis_blocks`. A subclass has methods `sum_last` and `sum_s`, which write sums over
    features and over source positions."""

    row: Lines
    axis_blocks: dict[str, Lines]
    s_block: Lines
    j_block: Lines
    inner: Lines

    def __init__(self, names: Names, indent: int) -> None:
        self.w = names
        self.places = names.program.places
        self.row = Lines(indent)
        self.locals: dict[int, str] = {}  # variables of the row that later nests read
        self.row_bases: dict[str, str] = {}  # variables of the row's offsets, for all nests
        self.offsets = 0
        self.uses_captured = False

    def begin(self, nest: Nest) -> None:
        """Forget the values computed in former loops: start a new nest."""
        self.uses_captured |= nest.source_axis
        self.names: dict[int, str] = dict(self.locals)
        self.source_bases: dict[str, str] = {}
        self.axis_blocks = {}
        self.indices: dict[Dims, str] = {}  # variables of offsets within the features, by all axes but the last
        self.done: set[int] = set()

    def computes(self, entry: StoredValue) -> bool:
        """Return whether this entry computes its value rather than copying it."""
        return not entry.add and self.places.get(entry.value.id) == entry.place and entry.value.id not in self.done

    # ------------------------------------------------------------ places in the loops

    def block(self, v: Value) -> Lines:
        """Return the block in which a value is computed."""
        if v.dims:
            return self.axis_blocks[v.dims[-1][0]]
        if v.width is not None:
            return self.inner if "S" in v.axes else self.j_block
        return self.s_block if "S" in v.axes else self.row

    def base(self, place: Place) -> str:
        """Return the variable of the offset of the row (and position) in a place."""
        self.uses_captured |= place.kind is PlaceKind.CONSTANT and place.source_axis
        block, bases = (self.s_block, self.source_bases) if place.source_axis else (self.row, self.row_bases)
        text = self.w.base(place)
        if text == "0":
            return text
        if text not in bases:
            bases[text] = Variable.OFFSET.of(self.offsets)
            block.add(f"{bases[text]} = {text}")
            self.offsets += 1
        return bases[text]

    def at(self, place: Place, offset: int, feature: bool, dims: Dims = ()) -> Terms:
        """Return the offset of the number at the current position of the loops."""
        index = self.index(dims) if dims else ("j" if feature else "0",)
        parts = self.base(place), self.w.dim(offset), *index
        return tuple(part for part in parts if part != "0") or ("0",)

    def index(self, dims: Dims) -> Terms:
        """Return the offset of the number of these named axes within the features."""
        *outer, (last, _) = dims
        if not outer:
            return (axis_index(last),)
        if dims not in self.indices:
            text = axis_index(outer[0][0])
            for axis, size in outer[1:]:
                text = f"({text} * {size} + {axis_index(axis)})"
            self.indices[dims] = Variable.OFFSET.of(self.offsets)
            self.offsets += 1
            line = f"{self.indices[dims]} = {text} * {dims[-1][1]}"
            self.axis_blocks[outer[-1][0]].add(line)
        return self.indices[dims], axis_index(last)

    # ------------------------------------------------------------ expressions

    def name(self, v: Value, computing: bool = False) -> str:
        """Return the variable that has the value `v` at the current position of the loops."""
        if v.id in self.names and not computing:
            return self.names[v.id]
        if v.op == "const":
            return self.w.constant(v.attrs["value"])
        base, offset = memory_of(v, self.places)  # of a view that was kept for the backward pass, the view itself
        if base.id in self.places and (base is not v or not computing):
            place = self.places[base.id]
            text = self.w.load(place, self.at(place, offset, v.width is not None, v.dims))
        elif v.is_view:
            raise RuntimeError(f"no memory for {v}")
        else:
            text = v.rule.code.replace("positive({})", "(ONE if {} > ZERO else ZERO)").format(
                *(self.name(a) for a in v.args)
            )
        name = Variable.VALUE.of(v.id)
        self.block(v).add(f"{name} = {text}")
        self.names[v.id] = name
        return name

    def entry(self, entry: StoredValue) -> None:
        """Write the computation or copy of one entry."""
        v, place = entry.value, entry.place
        if self.computes(entry):
            self.done.add(v.id)
            if v.op in ("sum_last", "sum_s", "total"):  # by the method of that name
                getattr(self, v.op)(v, place)
                return
            name = self.name(v, computing=True)
        else:
            name = self.name(v)
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = name
            return
        # a broadcast value is written once per feature of its place
        at = self.at(place, entry.offset, v.width is not None, v.dims)
        self.put(self.block(v), place, at, f"{self.w.load(place, at)} + {name}" if entry.add else name)

    def put(self, block: Lines, place: Place, at: Terms, value: str) -> None:
        """Write a store of a number into a block."""
        block.add(self.w.store(place, at, value))

    def total(self, v: Value, place: Place) -> None:
        """Write a sum over a named axis."""
        raise NotImplementedError
