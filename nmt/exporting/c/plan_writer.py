"""Write the description of a model as C: the tables that engine.c reads, with every name replaced by a number.

Arrays are numbered in the order of their names, the slots of a plan as they are met.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nmt.exporting.description import Description
from nmt.exporting.plans import Json
from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.kernels.search.beam_table import SEARCH

_NUMBERS = ["units", "start", "stop", "T", "B", "C", "S", "backwards", "flip"]
_INTEGERS = ["bounds", "dims", "lengths", "source_lengths", "owner"]
"""The words at the start of a function's table, in the order in which engine.c writes them."""
_END = "{0}"


def braced(values: Iterable[Any]) -> str:
    """Return an initialiser."""
    return "{" + ", ".join(str(int(value) if isinstance(value, bool) else value) for value in values) + "}"


def table(kind: str, name: str, rows: Iterable[Any]) -> str:
    """Return the definition of a constant array."""
    return f"static const {kind} {name}[] = {braced(rows)};\n"


class PlanWriter:
    """Writes plan.h for a description. `weights` and `functions`: the numbers of packed weights and functions in the
    description, in the order of their numbers in C, which has only those that a search needs."""

    def __init__(self, described: Description) -> None:
        self.facts, self.described = described.facts, described
        self.arrays = sorted(described.arrays)
        self.weights: list[int] = []
        self.functions: list[int] = []
        self._tables: list[str] = []
        if self.facts["numbers"] != _NUMBERS or self.facts["integers"] != _INTEGERS or self.facts["first"] != 8:
            raise RuntimeError("engine.c writes other tables than the compiled functions read")

    def text(self, level: str, names: Sequence[str], places: Sequence[int]) -> str:
        """Return plan.h. names: of the functions of the description; places: of the arrays in the model."""
        body = [*self._model(), *self._search()]
        weights = [self._weight(self.facts["packed"][n]) for n in self.weights]
        used = [names[n] for n in self.functions]
        head = [
            f"#define THIS_LEVEL nmt_level_{level}\n",
            f'#define LEVEL_NAME "{level}"\n',
            table("int64_t", "array_at", places),
            *(f"void {name}(int64_t, int64_t, void *);\n" for name in used),
            table("task", "functions", used),
            table("weight", "weights", weights),
        ]
        return "".join([*head, *self._tables, *body])

    # ------------------------------------------------------------ numbers

    def array(self, name: str | None) -> int:
        """Return the number of an array, -1 for none."""
        return -1 if name is None else self.arrays.index(name)

    def weight(self, number: int) -> int:
        """Return the number in C of a packed weight."""
        return _place(self.weights, number)

    def function(self, number: int) -> int:
        """Return the number in C of a function."""
        return _place(self.functions, number)

    def table(self, kind: str, rows: Sequence[Any]) -> str:
        """Define a constant array and return its name, NULL if it is empty."""
        if not rows:
            return "NULL"
        name = f"table{len(self._tables)}"
        self._tables.append(table(kind, name, rows))
        return name

    def _weight(self, one: Json) -> str:
        count = self.described.arrays[one["scales"]].size if "scales" in one else 0
        sizes = (one["start"], one["stop"], one["size"], *one["shape"])
        return braced([self.function(one["code"]), *self._matrix(one), count, *sizes])

    def _matrix(self, one: Json) -> tuple[int, int]:
        return self.array(one["numbers"]), self.array(one.get("scales"))

    # ------------------------------------------------------------ plans

    def plan(self, plan: Json | None, slots: dict[str, int], indices: dict[str, str] | None = None) -> str:
        """Define a plan and return its address; `slots` gets the slots of its arrays. indices: for names of indices
        whether they are those of words or of parents."""
        if plan is None:
            return "NULL"
        arrays = [self._shape(name, one, slots) for name, one in plan["arrays"].items()]
        steps = [self._step(one, slots, indices or {}) for one in plan["steps"]]
        for place, *_ in plan["outputs"].values():
            _slot(slots, place)
        tables = self.table("shape", arrays), self.table("int64_t", plan["dims"]), self.table("step", steps)
        return "&" + self._one("plan", [len(slots), len(arrays), len(plan["dims"]), len(steps), *tables])

    def _one(self, kind: str, values: Sequence[Any]) -> str:
        name = f"table{len(self._tables)}"
        self._tables.append(f"static const {kind} {name} = {braced(values)};\n")
        return name

    def _shape(self, name: str, one: Sequence[int], slots: dict[str, int]) -> str:
        return braced([_slot(slots, name), *one])

    def _step(self, step: Json, slots: dict[str, int], indices: dict[str, str]) -> str:
        if "product" in step:
            names = ("after", "width", "wide", "offset")
            source, target = _slot(slots, step["source"]), _slot(slots, step["target"])
            own = [step[name] for name in names]
            into = [target, *(step[name] for name in ("target_width", "K", "N"))]
            return braced([self.weight(step["product"]), source, *own, *into, *[0] * 4, *["NULL"] * 3])
        operands = [self._operand(name, step["parameters"], slots, indices) for name in step["arrays"]]
        scratch = [self._shape(name, one, {}) for name, one in step["scratch"].items()]
        weights = [self.weight(n) for n in step["weights"]]
        counts = [self.function(step["code"]), len(operands), len(scratch), len(weights)]
        tables = self.table("operand", operands), self.table("shape", scratch), self.table("int", weights)
        return braced([-1, *[0] * 9, *counts, *tables])

    def _operand(self, name: str, parameters: Json, slots: dict[str, int], indices: dict[str, str]) -> str:
        if name in parameters:
            return braced(["PARAMETER", self.array(parameters[name])])
        if parse(name).kind is ArrayKind.INDEX:
            return braced([indices.get(name, "OWNER"), 0])
        return braced(["SLOT", _slot(slots, name)])

    def scan(self, scan: Json) -> str:
        """Define a scan and return its address."""
        if scan["constant"] is not None:
            raise RuntimeError("a scan of the encoder captures nothing")
        slots = {"x": 0}
        own = [(ArrayKind.STATE.of(name), name, size) for name, size in scan["states"].items()]
        states = [[_slot(slots, stack), size, self.array(scan["learned"].get(name))] for stack, name, size in own]
        place, width, _, is_stack = scan["plan"]["outputs"]["y"]
        if width != scan["size"]:
            raise RuntimeError("the output of a scan has its size")
        plan, listed = self.plan(scan["plan"], slots), self.table("state", list(map(braced, states)))
        return "&" + self._one("scan", [plan, 0, slots[place], is_stack, width, len(states), listed])

    # ------------------------------------------------------------ the model

    def _model(self) -> list[str]:
        facts, bridge = self.facts, self.facts["bridge"]
        layers = facts["encoder"]["layers"]
        states = list(facts["decoder"]["states"])
        routes = []
        for name, route in bridge["routes"].items():
            layer, state = route["layer"], route["state"]
            number = list(layers[layer][0]["states"]).index(state) if layer < len(layers) else 0
            scan = self.scan(route["scan"]) if route["scan"] else "NULL"
            routes.append(braced([states.index(name), layer, number, scan]))
        encoder = [braced(self.scan(scan) for scan in scans) for scans in layers]
        tables = [facts[side] for side in ("source", "target")]
        if tables[0]["table"] != tables[1]["table"]:
            raise RuntimeError("both tables of embeddings have one kind")
        most = max(1, *(len(scan["states"]) for scans in layers for scan in scans))
        embeddings = [
            braced([self.function(one["code"]), *one["size"][::-1], *self._matrix(one), repr(one["scale"])])
            for one in tables
        ]
        return [
            _numbers(
                LAYERS=len(layers),
                DIRECTIONS=len(layers[0]),
                MOST_STATES=most,
                RESIDUAL=facts["encoder"]["residual"],
                OF_MEAN=bridge["mean"],
                MEMORY=sum(scan["size"] for scan in layers[-1]),
                LEXICAL=facts["lexical"],
                PRODUCT=self.function(facts["product"]),
            ),
            *(table("int64_t", name, [*facts[name], 0]) for name in ("before", "after")),
            f"static const scan *const encoder[LAYERS][DIRECTIONS] = {braced(encoder)};\n",
            table("route", "routes", [*routes, _END]),
            table("table", "embeddings", embeddings),
            _places("EMBEDDING", {"scales": 0} | tables[0]["table"]),
        ]

    def _search(self) -> list[str]:
        facts, decoder = self.facts, self.facts["decoder"]
        parts, memory = decoder["parts"], ArrayKind.CAPTURED.of("memory")
        if any(len(part["steps"]) != 1 or "product" in part["steps"][0] for part in parts.values() if part):
            raise RuntimeError("each part of a step is one function")
        fixed, steps = {memory: 0}, dict[str, int]()
        constant = self.plan(decoder["constant"], fixed)
        outputs = decoder["constant"]["outputs"] if decoder["constant"] else {}
        sources = {memory: -1} | {name: fixed[place] for name, (place, *_) in outputs.items()}
        kinds = {"inputs": "WORD", "states": "PARENT"}
        shared = {name: kind for part, kind in kinds.items() if parts[part] for name in parts[part]["outputs"]}
        for name in shared:
            _slot(steps, name)
        stored = [braced([sources[name], _slot(steps, name), *one]) for name, one in decoder["stored"].items()]
        stacks = [ArrayKind.STATE.of(name) for name in decoder["states"]]
        sizes = zip(stacks, decoder["states"].values(), strict=True)
        states = [braced([_slot(steps, stack), size, -1]) for stack, size in sizes]
        read = [(-1 if name == "x" else stacks.index(name), name) for name in decoder["gathered"]]
        gathered = [braced([state, _slot(steps, name)]) for state, name in read]
        step = self.plan(parts["step"], steps, {ArrayKind.INDEX.of(name): kind for name, kind in shared.items()})
        place, _, _, is_stack = parts["step"]["outputs"]["y"]
        columns = {"row": ("room",), "slot": ("num_slots",), "hypothesis": ("num_slots", "beam_size")}
        return [
            f"static const plan *const CONSTANT = {constant}, *const STEP = {step};\n",
            _numbers(CONSTANT_MEMORY=0, NUM_STATES=len(states), STEP_Y=steps[place], STEP_Y_IS_STACK=is_stack),
            _numbers(CAPTURES=bool(decoder["captured"]), SEARCH_CODE=self.function(facts["search"]["code"])),
            *self._output(facts["output"]),
            table("stored", "of_sentences", [*stored, _END]),
            table("state", "states", states),
            table("gathered", "directly", [*gathered, _END]),
            self._parts(parts, stacks, steps),
            _places("SEARCH", facts["search"]["table"]),
            _places("PART", facts["part"]),
            *(table("int", f"search_by_{name}", _fields(shape)) for name, shape in columns.items()),
        ]

    def _output(self, output: Json) -> list[str]:
        return [
            _numbers(
                VOCABULARY=self.described.arrays[output["bias"]].size,
                OUTPUT_INPUTS=self.facts["decoder"]["size"],
                OUTPUT_ROUNDED=output["words"] if self.facts["quads"] else 0,
                OUTPUT_CHUNK=output["chunk"],
                OUTPUT_WEIGHT=self.weight(output["weight"]),
                OUTPUT_BIAS=self.array(output["bias"]),
                OUTPUT_CODE=self.function(output["code"]),
            ),
            _places("OUTPUT", output["table"]),
        ]

    def _parts(self, parts: Json, stacks: list[str], steps: dict[str, int]) -> str:
        rows = []
        for kind in ("inputs", "states"):
            slots = dict[str, int]()
            plan = self.plan(parts[kind], slots)
            outputs = parts[kind]["outputs"].items() if parts[kind] else ()
            links = [braced([slots[place], steps[name]]) for name, (place, *_) in outputs]
            read = self.table("int", [slots.get(stack, -1) for stack in stacks])
            rows.append(braced([plan, slots.get("x", -1), len(links), read, self.table("output", links)]))
        return table("part", "parts", rows)


def _place(found: list[int], number: int) -> int:
    if number not in found:
        found.append(number)
    return found.index(number)


def _slot(slots: dict[str, int], name: str) -> int:
    return slots.setdefault(name, len(slots))


def _numbers(**values: int) -> str:
    return "enum {" + ", ".join(f"{name} = {int(value)}" for name, value in values.items()) + "};\n"


def _places(prefix: str, places: dict[str, int]) -> str:
    """Return the places of a table's fields, and the number of its words; those of reals are negative."""
    named = {f"{prefix}_{name.replace('.', '_')}": abs(place) for name, place in places.items()}
    return _numbers(**named, **{f"{prefix}_WORDS": max(named.values()) + 1})


def _fields(shape: tuple[str, ...]) -> list[int]:
    """Return the places of the search's arrays of 8-byte numbers of a shape."""
    wide = ("int64", "float64")
    return [SEARCH.places[one.name] for one in SEARCH.fields if one.shape == shape and one.element in wide]
