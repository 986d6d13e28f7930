"""Build a library for C of a cell: its step as a function that takes no memory, with the parameters inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nmt.errors import NMTError
from nmt.exporting.c.building import (
    FLAGS,
    Compiler,
    compiled_objects,
    constant_bytes,
    joined,
    levels_of,
    levels_text,
    save_libraries,
)
from nmt.exporting.c.plan_writer import braced, table
from nmt.exporting.plans import Plans
from nmt.rnn.arguments import whole_number
from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.arrays.weights import Weights, check_params
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.compiler.program import PlaceKind, RowWork
from nmt.rnn.kernels.loops.emit_cpu import INTEGERS, NUMBERS
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.scan import Scan
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder

_HERE = Path(__file__).parent
_LINE = 64
_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class CellSizes:
    """Bytes that a library of a cell needs: the `state` of all its streams, which the caller has; and inside, by level
    of processors, the `parameters`; and all of its `code`."""

    state: int
    parameters: dict[str, int]
    code: int

    def __str__(self) -> str:
        parameters = ", ".join(f"{level} {size:,}" for level, size in self.parameters.items())
        return f"{self.state:,} bytes of state, {self.code:,} of code, parameters: {parameters}"


def export_cell(
    cell: Cell | Scan | LayeredScan,
    weights: Mapping[str, np.ndarray],
    folder: str | PathLike[str],
    *,
    name: str = "net",
    streams: int = 1,
    levels: Sequence[str] = (),
) -> CellSizes:
    """Write a new folder with a library for C that takes single steps of a cell, and return the bytes that it needs.

    weights: all parameters of the cell by name, float32. name: begins the names of files and functions. streams: rows
    that take a step together. levels: those of processors that the library has, all that differ where empty. See
    docs/deploy.md. Raises NMTError for what C cannot have, ShapeError for other parameters, ConfigError without a
    compiler, PathError.
    """
    cell = _checked(cell, name)
    out, streams = check_new_folder(Path(folder)), whole_number("export_cell", "streams", streams)
    scan, held = Scan(cell, threads=1), Weights(weights)
    for key, array in held.items():
        if not isinstance(array, np.ndarray):
            raise NMTError(f"export_cell: {key} must be an array of NumPy, got {type(array).__name__}; move it there")
    check_params(type(cell).__name__, scan.params, held, _FLOAT)
    layout, compiler = _Layout(scan, held, streams), Compiler("export_cell")
    chosen = levels_of(compiler, levels, int8=False)
    with writing(out), TemporaryDirectory(prefix="nmt-") as place, new_folder(out) as made:
        work = Path(place)
        for file, text in _texts(layout, name).items():
            write_bytes(work / file, text.encode())
        built = [_level(compiler, work / level, layout) for level in chosen]
        write_bytes(work / "levels.h", levels_text(compiler, chosen).encode())
        compiler.run(*FLAGS, "-iquote", work, "-iquote", _HERE, "-c", work / "cell.c", "-o", work / "cell.o")
        public = re.findall(rf"\b({name}_\w+)\(", (work / f"{name}.h").read_text("utf-8"))
        whole = joined(compiler, [work / "cell.o", *(one for one, _ in built)], public, work / f"{name}.o")
        save_libraries(compiler, whole, made, name)
        for file in (f"{name}.h", f"{name}_example.c"):
            write_bytes(made / file, (work / file).read_bytes(), sync=True)
        parameters = {level: size for level, (_, size) in zip(chosen, built, strict=True)}
        return CellSizes(layout.size, parameters, compiler.code_size(whole) - sum(parameters.values()))


def _checked(cell: Cell | Scan | LayeredScan, name: str) -> Cell:
    """Return the cell. Raises NMTError: it has what a library cannot have, or the name is none of C."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise NMTError(f"export_cell: name must be of a-z, 0-9 and _, got {name!r}")
    if name in {path.stem for path in _HERE.glob("*.h")} | {"layout", "levels"}:
        raise NMTError(f"export_cell: name must not be that of a header which the library is made of, got {name}")
    where = f"export_cell: {type(cell if isinstance(cell, Cell) else cell.cell).__name__}"
    if not isinstance(cell, Cell):
        if cell.packed != _FLOAT:
            raise NMTError(f"{where} must compute in float32, got products of {cell.packed}")
        if isinstance(cell, LayeredScan) and any(cell.delays):
            raise NMTError(f"{where} must have no delays, got {cell.delays}")
        cell = cell.cell
    for what, names in (("captured arrays", cell.captured()), ("further sequences", cell.sequences())):
        if names:
            raise NMTError(f"{where} must read x and its states alone, got {what}: {', '.join(names)}")
    return cell


class _Layout:
    """Lay out all that a step reads: `words` of its table, each as its kind in cell_level.h with a number, a place in
    the memory of the state, or the name of a constant; `stacks` and `places` of arrays in that memory, of `size` bytes;
    and the `constants` that all levels share."""

    def __init__(self, scan: Scan, weights: Weights, streams: int) -> None:
        self.cell, self.weights, self.streams, self.size = scan.cell, weights, streams, 0
        self.plans = Plans(weights, _FLOAT)
        facts = self.plans.scan(scan, "", single_step=True)
        plan, B = facts["plan"], streams
        if len(plan["steps"]) != 1:
            raise NMTError(f"export_cell: {type(scan.cell).__name__} must compute something, got no operation")
        (step,) = plan["steps"]
        self.step = self.plans.functions[step["code"]]
        num_words = COUNTER_WORDS + len(NUMBERS) + len(INTEGERS)
        num_words += sum(len(step[key]) for key in ("arrays", "scratch", "weights"))
        self._take(4 + 2 * num_words)  # the head of cell.c
        widths = {ArrayKind.STATE.of(key): int(width) for key, width in facts["states"].items()}
        self.stacks = {key: self._take(2 * B * width) for key, width in widths.items()}
        self.places = self.stacks | {key: self._take(B * width) for key, (width, _) in plan["arrays"].items()}
        ones = np.ones(B, np.int64)
        integers = np.array([0, B]), np.array(plan["dims"], np.int64), ones, ones, np.arange(B)
        named = {ArrayKind.PARAMETER.of(key): key for key in facts["learned"].values()} | step["parameters"]
        self.constants = dict(zip(INTEGERS, integers, strict=True))
        self.constants |= {key: weights[parameter] for key, parameter in named.items()}
        self.learned = {ArrayKind.STATE.of(key): ArrayKind.PARAMETER.of(one) for key, one in facts["learned"].items()}
        numbers = {"stop": 1, "T": 1, "B": B, "C": B, "S": 1}
        self.words: list[tuple[str, int | str]] = [("NUMBER", 0)] * COUNTER_WORDS
        self.words += [("NUMBER", numbers.get(key, 0)) for key in NUMBERS] + [("CONSTANT", key) for key in INTEGERS]
        self.x = len(self.words) + step["arrays"].index("x") if "x" in step["arrays"] else 0
        self.words += [self._operand(key) for key in step["arrays"]]
        self.words += [("MEMORY", self._take(B * width)) for width, _ in step["scratch"].values()]
        self.words += [("CONSTANT", f"{number}") for number in step["weights"]]
        self.scratch = self.size, _row_bytes(scan.compiled(training=False, single_step=True).step.plan)
        self._take(self.scratch[1] // 4)
        name, width, _, is_after = plan["outputs"]["y"]
        self.y = self.places[name] + 4 * B * width * is_after

    def _take(self, count: int) -> int:
        """Return the place of so many floats, in cache lines of their own."""
        place = self.size
        self.size += -(-4 * count // _LINE) * _LINE
        return place

    def _operand(self, name: str) -> tuple[str, int | str]:
        if name in self.constants:
            return "CONSTANT", name
        if parse(name).kind is ArrayKind.INDEX:
            return "CONSTANT", "owner"
        return ("NUMBER", 0) if name == "x" else ("MEMORY", self.places[name])

    def content(self, panel_width: int) -> tuple[bytes, dict[str, int]]:
        """Return all constants, with the weights packed for a level, and the place of each."""
        packed = {
            f"{number}": _packed(self.weights[name][start : start + rows], panel_width, transposed=transposed)
            for (name, start, rows, transposed), number in self.plans.weight_keys.items()
        }
        places, content = dict[str, int](), bytearray()
        for key, array in (self.constants | packed).items():
            places[key] = len(content)
            content += array.tobytes() + bytes(-array.nbytes % _LINE)
        return bytes(content), places


def _row_bytes(plan: Plan) -> int:
    """Return the bytes of the scratch of one row, which a step asks for with nmt_allocate, in whole cache lines."""
    work = [step for step in plan.forward.loop.steps if isinstance(step, RowWork)]
    places = {entry.place for step in work for nest in step.nests for entry in nest.entries}
    widths = {place.name: place.width or 1 for place in places if place.kind is PlaceKind.ROW}
    return sum((4 * width // _LINE + 1) * _LINE for width in widths.values())


def _packed(rows: np.ndarray, panel_width: int, *, transposed: bool) -> np.ndarray:
    """Return a matrix as kernels/products/packing.py packs it at a level whose panels have this width."""
    matrix = rows.T if transposed else rows
    K, N = matrix.shape
    padded = np.pad(matrix, ((0, 0), (0, -N % panel_width)))
    return padded.reshape(K, -1, panel_width).transpose(1, 0, 2)


def _texts(layout: _Layout, name: str) -> dict[str, str]:
    """Return the sources that all levels share, with `name` in place of net."""
    sizes = {
        "INPUT_SIZE": layout.cell.input_size,
        "OUTPUT_SIZE": layout.cell.output_size,
        "STREAMS": layout.streams,
        "STATE_BYTES": layout.size,
        "ALIGNMENT": _LINE,
    }
    defined = "\n".join(f"#define NET_{key} {value}" for key, value in sizes.items())
    _, places = layout.content(1)  # constants that begin states come first, at the same places at all levels
    stacks = [
        braced([place, 4 * int(width), places[learned] if (learned := layout.learned.get(key)) else -1])
        for (key, place), width in zip(layout.stacks.items(), layout.cell.states().values(), strict=True)
    ]
    numbers = {"NUM_WORDS": len(layout.words), "X_WORD": layout.x, "Y_AT": layout.y}
    numbers |= dict(zip(("SCRATCH_AT", "SCRATCH_BYTES"), layout.scratch, strict=True))
    known = {
        f"{name}.h": (_HERE / "cell.h").read_text("utf-8").replace("/* SIZES */", defined),
        "cell.c": (_HERE / "cell.c").read_text("utf-8"),
        f"{name}_example.c": (_HERE / "cell_example.c").read_text("utf-8"),
    }
    texts = {
        file: re.sub(r"\bNET_", f"{name.upper()}_", re.sub(r"\b(lib)?net(?=[_.])", rf"\g<1>{name}", text))
        for file, text in known.items()
    }
    counts = "".join(f"#define {key} {value}\n" for key, value in numbers.items())
    return texts | {"layout.h": counts + table("stack", "stacks", [*stacks, "{0}"])}


def _level(compiler: Compiler, folder: Path, layout: _Layout) -> tuple[Path, int]:
    """Return an object of one level, and the bytes of its constants."""
    asked = {"source": layout.step.source, "name": layout.step.name}
    compiled, answer = compiled_objects(compiler, folder, "nmt.exporting.c.cell_level", asked)
    content, places = layout.content(answer["panel_width"])
    write_bytes(folder / "constants", content)
    words = [braced([kind, places[value] if isinstance(value, str) else value]) for kind, value in layout.words]
    lines = [
        '#include "cell_level.h"\n',
        constant_bytes("nmt_constants", folder / "constants"),
        "void nmt_step(int64_t, int64_t, void *);\n",
        table("word", "words", words),
        f"const level nmt_level_{folder.name} = {{nmt_step, words, nmt_constants}};\n",
    ]
    write_bytes(folder / "level.c", "".join(lines).encode())
    made = folder / "level.o"
    compiler.run(*FLAGS, "-iquote", _HERE, f"-Wa,-I{folder}", "-c", folder / "level.c", "-o", made)
    return joined(compiler, [made, *compiled], [f"nmt_level_{folder.name}"], folder / "whole.o"), len(content)
