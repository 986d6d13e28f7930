"""Write the listings of docs/lstm-step.md, which follows one LSTM step from its equation to vector instructions.

Every listing is what the compiler makes of `LSTMCell` in this checkout; the text between them is written by hand. The
connections are recorded while the compiler works: a graph value remembers the line of the cell, or the gradient rule,
that created it; an LLVM instruction has the line of the emitted loop as its debug location, which LLVM keeps up to the
assembly. Debug locations must not change the code: `Loop` compiles with and without them and compares.

Machine code depends on the processor, so it is made for AVX2 whatever this machine has, in a process of its own: the
kernels choose their target when they are imported. `make docs` runs `renew`, which leaves the page as it is on machines
other than x86-64 with Linux, where LLVM does not write this assembly. Another version of LLVM may write other
instructions; the page names the version.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from llvmlite import binding, ir

from docs.show.naming import Naming, shape, through
from docs.show.reading import works
from docs.show.text import RUNS, sum_of, table
from nmt.rnn.cells import LSTMCell, lstm
from nmt.rnn.compiler import differentiate
from nmt.rnn.compiler.direction import Pass
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import Plan, make_plan
from nmt.rnn.compiler.trace import trace
from nmt.rnn.graph import Graph, Value, topological
from nmt.rnn.kernels.loops.emit_cpu import emit
from nmt.rnn.kernels.loops.loop_code import _LoopWriter
from nmt.rnn.kernels.loops.row_writer import Function
from nmt.rnn.kernels.machine_code import objects
from nmt.rnn.kernels.products.microkernel import _tile_function
from nmt.rnn.ops import OpKind
from nmt.system.files import write_bytes

LEVEL = "avx2"
ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "lstm-step.md"
D, H = 3, 4
COLUMNS = 118
_MARK = re.compile(r"(<!-- lstm_step: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.S)
_HEXADECIMAL = re.compile(r"\b0x([0-9a-f]{16})\b")


# ---------------------------------------------------------------- what created each value


class Origins:
    """The origin of each value, by its id: a line of the cell, or the forward value whose gradient rule made it."""

    def __init__(self) -> None:
        self.cell_lines: dict[int, int] = {}
        self.forward: dict[int, int] = {}

    def note(self, value: Value) -> None:
        """Find what is creating a value among the callers of this function."""
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename == lstm.__file__:
                self.cell_lines[value.id] = frame.f_lineno
            elif frame.f_code is differentiate.differentiate.__code__:
                known = frame.f_locals
                self.forward[value.id] = (known["v"] if "g" in known else known["output"]).id
            frame = frame.f_back

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the origins of all values that are created in the block."""
        plain = Graph._make

        def make(graph: Graph, *arguments: object) -> Value:
            count = len(graph.values)
            value = plain(graph, *arguments)
            if len(graph.values) > count:
                self.note(value)
            return value

        Graph._make = make
        try:
            yield
        finally:
            Graph._make = plain


@dataclass
class Line:
    """One line of the equation: a named value, and all values that only its computation needs."""

    number: int
    target: Value
    values: list[Value]


def equation(plan: Plan) -> list[Line]:
    """Return the lines: the products, the values that the cell notes, the new states; in the order of the graph."""
    traced = plan.trace
    results = [*traced.outputs.values(), *traced.new.values()]
    named = {v.id: v for v in topological(results) if v.kind is OpKind.PRODUCT}
    named |= {v.id: v for v in (*traced.noted.values(), *traced.new.values())}
    lines, taken = [], set()
    for number, i in enumerate(sorted(named), 1):
        needed = topological([named[i]], stop=frozenset(taken | (named.keys() - {i})))
        own = [v for v in needed if v.id not in taken and (v.id == i or v.id not in named)]
        taken |= {v.id for v in own}
        lines.append(Line(number, named[i], own))
    return lines


# ---------------------------------------------------------------- formulas


class Formula:
    """The equation's lines as text or, with `latex`, as LaTeX. A slice of H columns is written in terms of H."""

    def __init__(self, lines: list[Line], names: Naming, *, latex: bool) -> None:
        self.names, self.latex = names, latex
        self.symbols = {line.target.id: names.name(line.target) for line in lines}
        if latex:
            products = iter("ur")  # of the input and of the recurrent state
            for line in lines:
                name = next(products) if line.target.kind is OpKind.PRODUCT else self.symbols[line.target.id]
                self.symbols[line.target.id] = f"{name.removesuffix(chr(39))}_t"

    def of(self, v: Value) -> str:
        """Return the right-hand side for a value."""
        return self._sum(v, top=True)

    def _sum(self, v: Value, *, top: bool = False) -> str:
        v = through(v)
        if not top and v.id in self.symbols:
            return self.symbols[v.id]
        if v.kind is OpKind.LEAF:
            return self._leaf(v)
        args = v.args
        match v.op:
            case "add":
                return f"{self._sum(args[0])} + {self._sum(args[1])}"
            case "mul":
                return f"{self._sum(args[0])} {chr(92) + 'odot' if self.latex else '*'} {self._sum(args[1])}"
            case "matmul":
                return f"{self._sum(args[0])} {'' if self.latex else '@ '}{self._sum(args[1])}"
            case "slice":
                start, stop = v.attrs["start"] // H, (v.attrs["start"] + v.attrs["size"]) // H
                return f"{self._sum(args[0])}[{_times_h(start)}:{_times_h(stop)}]"
            case "sigmoid" | "tanh":
                name = {"sigmoid": r"\sigma", "tanh": r"\tanh"}[v.op] if self.latex else v.op
                return f"{name}({self._sum(args[0])})"
        raise ValueError(f"{v.op}: no notation for this operation")

    def _leaf(self, v: Value) -> str:
        name = self.names.name(v)
        if not self.latex:
            return name
        return f"{name}_{{t-1}}" if v.op == "state" else f"{name}_t" if v.op == "input" else name


def _times_h(count: int) -> str:
    return {0: "0", 1: "H"}.get(count, f"{count}H")


# ---------------------------------------------------------------- machine code


class _LocatedWriter(_LoopWriter):
    """Write a loop with the line of its source as the debug location of each instruction."""

    def write(self, function: ast.FunctionDef) -> None:
        module = self.module
        file = module.add_debug_info("DIFile", {"filename": "loop", "directory": "."})
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_C"),
                "file": file,
                "isOptimized": True,
                "runtimeVersion": 0,
                "emissionKind": ir.DIToken("LineTablesOnly"),
            },
            is_distinct=True,
        )
        kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([None])})
        self._scope_of_lines = module.add_debug_info(
            "DISubprogram",
            {"name": "loop", "file": file, "line": 1, "type": kind, "unit": unit, "isDefinition": True},
            is_distinct=True,
        )
        self._lines: dict[int, int] = {}
        number = ir.IntType(32)
        module.add_named_metadata("llvm.dbg.cu", unit)
        module.add_named_metadata("llvm.module.flags", [number(2), "Debug Info Version", number(3)])
        self.function.set_metadata("dbg", self._scope_of_lines)
        self.builder.debug_metadata = self._location(function.lineno)
        super().write(function)

    def instructions(self) -> dict[int, list[ir.Instruction]]:
        """Return the instructions of each line of the source."""
        found = defaultdict(list)
        for block in self.function.blocks:
            for one in block.instructions:
                found[self._lines[id(one.metadata["dbg"])]].append(one)
        return found

    def _location(self, line: int) -> ir.DIValue:
        at = {"line": line, "column": 1, "scope": self._scope_of_lines}
        found = self.module.add_debug_info("DILocation", at)
        self._lines[id(found)] = line
        return found

    def _statement(self, one: ast.stmt) -> None:
        around = self.builder.debug_metadata
        self.builder.debug_metadata = self._location(one.lineno)
        super()._statement(one)
        self.builder.debug_metadata = around


@dataclass
class Loop:
    """An emitted loop: its source, its LLVM instructions by line, and the assembly of its fastest inner loop."""

    source: str
    instructions: dict[int, list[ir.Instruction]] = field(init=False)

    def __post_init__(self) -> None:
        first, function = ast.parse(self.source).body
        located, plain = (kind(ast.unparse(first.value), "loop") for kind in (_LocatedWriter, _LoopWriter))
        for writer in (located, plain):
            writer.write(function)
        self.instructions = located.instructions()
        self._assembly = assembly(located.module, "loop")
        if _instructions(self._assembly) != _instructions(assembly(plain.module, "loop")):
            raise RuntimeError("debug locations have changed the machine code")

    @cached_property
    def vector(self) -> list[tuple[int, str]]:
        """Return the instructions of the vectorised inner loop, each with the line of the source it comes from."""
        return hottest(self._assembly)


def assembly(module: ir.Module, entry: str) -> str:
    """Return the assembly of a module after the passes that `objects.object_of` runs."""
    parsed = binding.parse_assembly(str(module))
    objects.object_of(parsed, entry)
    return objects._target_machine().emit_assembly(parsed)


def _instructions(text: str) -> list[str]:
    return [line.split("#")[0].strip() for line in text.splitlines() if re.match(r"\t[a-z]", line)]


def hottest(text: str) -> list[tuple[int, str]]:
    """Return the loop without inner loops that has the most 256-bit instructions, each with its debug line (or 0)."""
    loops, line = [], 0
    body: list[tuple[int, str]] = []
    label = ""
    for one in text.splitlines():
        if found := re.match(r"(\.LBB\w+):", one):
            label, body = found[1], []
        elif found := re.match(r"\t\.loc\t\d+ (\d+)", one):
            line = int(found[1])
        elif re.match(r"\t[a-z]", one):
            body.append((line, one.split("#")[0].strip().replace("\t", " ")))
            if re.match(rf"\tj\w+\t{re.escape(label)}$", one):
                loops.append(list(body))
    return max(loops, key=lambda found: sum("ymm" in text for _, text in found))


def product_loop() -> list[str]:
    """Return the inner loop of a product's largest register tile."""
    module = ir.Module("tile")
    function = _tile_function(module, objects.TARGET.max_rows, "f4")
    function.linkage = "external"
    return [text for _, text in hottest(assembly(module, function.name))]


# ---------------------------------------------------------------- listings


class Step:
    """The compiled step. Each method below `listings` returns one listing of the page."""

    def __init__(self) -> None:
        self.origins = Origins()
        with self.origins.recorded():
            self.plan = make_plan(trace(LSTMCell(D, H), training=True), training=True)
        self.values = {v.id: v for v in self.plan.trace.graph.values}
        self.lines = equation(self.plan)
        self.names = Naming(self.plan.trace, self.plan.gradients)
        self.owner = {v.id: line.number for line in self.lines for v in line.values}
        self.forward = Loop(_source(self.plan.forward, "forward"))
        self.backward = Loop(_source(self.plan.backward, "backward"))

    def listings(self) -> dict[str, str]:
        """Return all listings by name, as Markdown."""
        texts = {
            "cell": self.cell(),
            "graph": self.graph(),
            "phases": self.phases(self.plan.forward),
            "gradient": self.gradient(),
            "sums": "\n".join(table([sum_of(placed, self.names) for placed in self.plan.sinks], COLUMNS)),
            "gradient_phases": self.phases(self.plan.backward),
            "loop": self.source(self.forward),
            "gradient_loop": self.source(self.backward),
            "product": "\n".join(product_loop()),
            "vector": self.vector(self.forward),
            **{f"line_{name}": self.whole_line(name) for name in ("c", "f")},
        }
        texts = {name: f"```text\n{text.rstrip()}\n```\n" for name, text in texts.items()}
        return texts | {"equation": self.equation(), "counts": self.counts(), "version": f"{version()}\n"}

    # ------------------------------------------------------------ numbers in the margin

    def line_of(self, i: int) -> int:
        """Return the number of the line of the equation that a value belongs to, or whose gradient it is; 0: none."""
        return self.owner.get(self.origins.forward.get(i, i), 0)

    def lines_of_source(self, loop: Loop) -> dict[int, int]:
        """Return the number of the line of the equation for each line of an emitted loop that belongs to one."""
        found = {}
        products = iter(w.product.out for one in (self.plan.forward, self.plan.backward) for w in works(one)
                        if w.product is not None and w.phase is Phase.LOOP)  # fmt: skip
        of_products = [next(products), next(products)]
        for number, text in enumerate(loop.source.splitlines(), 1):
            value = re.search(r"^ +v(\d+) = |= v(\d+)$", text)
            if value:
                found[number] = self.line_of(int(value[1] or value[2]))
            elif "product_rows" in text:
                found[number] = self.line_of(of_products[loop is self.backward].id)
        return {number: line for number, line in found.items() if line}

    # ------------------------------------------------------------ from the equation to the plan

    def equation(self) -> str:
        """Return the equation, typeset."""
        formula = Formula(self.lines, self.names, latex=True)
        rows = [f"({n.number}) & {formula.symbols[n.target.id]} & = {formula.of(n.target)}" for n in self.lines]
        body = " \\\\\n".join(rows).replace(":", "{:}")
        return f"$$\n\\begin{{array}}{{rrl}}\n{body}\n\\end{{array}}\n$$\n"

    def cell(self) -> str:
        """Return the lines of the cell's step, with the lines of the equation that each begins or finishes."""
        text = Path(lstm.__file__).read_text("utf-8").splitlines()
        method = next(n for n in ast.walk(ast.parse("\n".join(text))) if getattr(n, "name", "") == "step")
        of_line = defaultdict(set)
        for i, line in self.origins.cell_lines.items():
            if i in self.owner:
                of_line[line].add(self.owner[i])
        return "\n".join(
            f"{', '.join(f'({n})' for n in sorted(of_line[at])):<22} {at}  {text[at - 1].removeprefix('    ')}"
            for at in range(method.lineno, method.end_lineno + 1)
        )

    def graph(self) -> str:
        """Return the values of the graph."""
        rows = [("line", "value", "operation", "shape", "made by lstm.py")]
        for line in self.lines:
            for v in line.values:
                if v.kind is not OpKind.LEAF and v.op != "slice":
                    at = f"line {self.origins.cell_lines[v.id]}"
                    rows.append((f"({line.number})", self.names.name(v), self.names.operation(v), shape(v), at))
        return "\n".join(table(rows, COLUMNS))

    def phases(self, one: Pass) -> str:
        """Return the work of one direction by phase."""
        rows = []
        for phase, words in RUNS.items():
            here = [work for work in works(one) if work.phase == phase]
            rows.append(f"{words}{'' if here else ': nothing'}")
            for work in here:
                numbers = sorted({self.line_of(v.id) for v in work.values} - {0})
                rows.append(f"  {', '.join(f'({n})' for n in numbers):<34} {work.title}")
                if work.product is not None:
                    out = work.product.out
                    rows.append(f"  {'':34} {self.names.name(out)} = {self.names.operation(out)}")
        return "\n".join(rows)

    def gradient(self) -> str:
        """Return the values of the gradient graph, each with the forward value whose rule made it."""
        rows = [("line", "value", "operation", "rule of")]
        for i, forward in self.origins.forward.items():
            v, source = self.values[i], self.values[forward]
            if v.kind is not OpKind.LEAF and v.op != "slice" and through(v) is v:
                rule = f"{self.names.name(source)} = {self.names.operation(source)}"
                rows.append((f"({self.line_of(i)})", self.names.name(v), self.names.operation(v), rule))
        return "\n".join(table(rows, COLUMNS))

    # ------------------------------------------------------------ from the loop to machine code

    def source(self, loop: Loop) -> str:
        """Return the source of an emitted loop from the start of a time step, with the line of the equation."""
        of_line = self.lines_of_source(loop)
        lines = loop.source.splitlines()
        first = next(n for n, text in enumerate(lines) if text.lstrip().startswith("for step"))
        shown = [
            f"{f'({of_line[n]})' if n in of_line else '':<4}{n:>3}  {text.removeprefix('    ')}".rstrip()
            for n, text in enumerate(lines, 1)
        ]
        return "\n".join(["...", *shown[first:]])

    def vector(self, loop: Loop) -> str:
        """Return the vectorised inner loop: line of the equation, line of the emitted loop, instruction."""
        of_line, lines, last = self.lines_of_source(loop), loop.source.splitlines(), 0
        shown = []
        for at, text in loop.vector:
            if at != last and at:
                shown.append(f"{f'({of_line[at]})' if at in of_line else '':<4}{at:>3}  {lines[at - 1].strip()}")
            shown.append(f"{'':11}{text}")
            last = at
        return "\n".join(shown)

    def whole_line(self, name: str) -> str:
        """Return all that becomes of one line of the equation, named by its value without the prime."""
        line = next(n for n in self.lines if self.names.name(n.target).rstrip("'") == name)
        formula = Formula(self.lines, self.names, latex=False)
        cell, source = Path(lstm.__file__).read_text("utf-8").splitlines(), self.forward.source.splitlines()
        made = sorted({self.origins.cell_lines[v.id] for v in line.values if v.id in self.origins.cell_lines})
        graph = [v for v in line.values if v.kind is not OpKind.LEAF and v.op != "slice"]
        shown = [
            *_labelled("equation", [f"{self.names.name(line.target)} = {formula.of(line.target)}"]),
            *_labelled("lstm.py", [f"{at}  {cell[at - 1].strip()}" for at in made]),
            *_labelled("graph", [f"{self.names.name(v)} = {self.names.operation(v)}" for v in graph]),
        ]
        for at in (n for n, number in self.lines_of_source(self.forward).items() if number == line.number):
            shown += ["", *_labelled("loop", [f"{at}  {source[at - 1].strip()}"])]
            shown += _labelled("  LLVM", _readable(self.forward.instructions[at]))
            shown += _labelled("  AVX2", [one for place, one in self.forward.vector if place == at] or ["-"])
        return "\n".join(shown)

    def counts(self) -> str:
        """Return a table with a row for each line of the equation: how much of everything comes from it."""
        formula = Formula(self.lines, self.names, latex=True)
        rows = ["| line | value | graph values | gradient values | lines of the loop | LLVM instructions "
                "| vector instructions | of them multiply-adds |", "|---" * 8 + "|"]  # fmt: skip
        of_line = self.lines_of_source(self.forward)
        for line in self.lines:
            graph = [v for v in line.values if v.kind is not OpKind.LEAF and v.op != "slice"]
            back = [
                i for i in self.origins.forward if self.line_of(i) == line.number and through(self.values[i]).id == i
            ]
            loop = [n for n, number in of_line.items() if number == line.number]
            llvm = sum(len(_readable(self.forward.instructions[n])) for n in loop)
            vector = [text for n, text in self.forward.vector if n in loop and "ymm" in text]
            fused = sum(text.startswith(("vfmadd", "vfmsub")) for text in vector)
            symbol = formula.symbols[line.target.id]
            counts = " | ".join(str(n) for n in (len(graph), len(back), len(loop), llvm, len(vector), fused))
            rows.append(f"| ({line.number}) | ${symbol}$ | {counts} |")
        return "\n".join(rows) + "\n"


def _source(one: Pass, name: str) -> str:
    single = np.dtype(np.float32)
    return next(
        f.source
        for phase, f in emit(one, single, name, single).steps
        if phase is Phase.LOOP and isinstance(f, Function)
    )


def _labelled(label: str, texts: list[str]) -> list[str]:
    return [f"{'' if n else label:<10}{text}" for n, text in enumerate(texts)]


def _readable(instructions: list[ir.Instruction]) -> list[str]:
    """Return instructions without metadata, fast-math flags and variables' allocations, with decimal constants."""
    texts = (re.sub(r",? *!(dbg|alias\.scope|noalias) !\d+", "", str(one)) for one in instructions)
    plain = (re.sub(r" (arcp|contract|nsz|reassoc)\b", "", text).rstrip() for text in texts)
    return [_HEXADECIMAL.sub(_decimal, text).replace("  ", " ") for text in plain if " = alloca " not in text]


def _decimal(bits: re.Match[str]) -> str:
    (number,) = struct.unpack(">d", bytes.fromhex(bits[1]))
    return f"{number:.9g}"


def version() -> str:
    """Return the version of LLVM and the processor that it compiles for."""
    return f"LLVM {'.'.join(map(str, binding.llvm_version_info))}, x86-64 with AVX2 (`{objects.TARGET.cpu}`)."


def refreshed(page: str) -> str:
    """Return the page with the listings of this checkout."""
    listings = Step().listings()
    return _MARK.sub(lambda mark: mark[1] + listings[mark["name"]] + mark[3], page)


def renew() -> None:
    """Write the page in a process that compiles for AVX2; on other machines than x86-64 with Linux, leave it."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        environment = {**os.environ, "NMT_CPU": LEVEL, "NMT_CPU_UNCHECKED": "1"}
        subprocess.run([sys.executable, Path(__file__).resolve(), "here"], check=True, env=environment)


if __name__ == "__main__":
    if sys.argv[1:] == ["here"]:
        write_bytes(PAGE, refreshed(PAGE.read_text("utf-8")).encode())
    else:
        renew()
