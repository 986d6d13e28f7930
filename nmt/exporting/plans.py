"""Describe what plans of the processor run, so that another program can do the same without Python: arrays, the
functions that are called with them, and their order.

A description refers to functions and packed weights by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.arrays.quantised import quantise
from nmt.rnn.arrays.weights import QUADS, Weights
from nmt.rnn.compiler.program import Place, PlaceKind, Product
from nmt.rnn.kernels.loops.row_writer import Function, Weight, weight_key
from nmt.rnn.kernels.loops.run_cpu import CPUExecutable
from nmt.rnn.kernels.machine_code.native import Kernel, Native
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.kernels.products.product import PACKING
from nmt.rnn.scan.scan import Scan

Json = dict[str, Any]


class Plans:
    """Descriptions of plans, which JSON can hold, with what they refer to: `functions`, `packed` and `arrays`."""

    def __init__(self, weights: Weights, packed_kind: np.dtype) -> None:
        self.weights, self.packed_kind = weights, packed_kind
        self.functions: list[Native] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._numbers: dict[str, int] = {}  # of functions, by the names of their entries
        self.packed: list[Json] = []
        self.weight_keys: dict[Weight, int] = {}
        """The numbers in `packed`, by what `weight` was asked for."""

    # ------------------------------------------------------------ functions and weights

    def function(self, native: Native) -> int:
        """Return the number of a function."""
        if native.entry not in self._numbers:
            self._numbers[native.entry] = len(self.functions)
            self.functions.append(native)
        return self._numbers[native.entry]

    def kernel(self, kernel: Kernel, *types: str) -> int:
        """Return the number of a kernel for arguments of these types."""
        return self.function(kernel.native(types))

    def array(self, name: str, array: np.ndarray) -> str:
        """Add an array and return its name."""
        self.arrays.setdefault(name, np.ascontiguousarray(array))
        return name

    def matrix(self, name: str, *, by_rows: bool) -> Json:
        """Add a matrix, in int8 with scales if products are computed so."""
        held = self.weights.quantised(name)
        if self.packed_kind != QUADS:
            return {"numbers": self.array(name, self.weights[name])}
        end = "" if held is not None and held.by_rows == by_rows else ".other"
        if held is None or held.by_rows != by_rows:
            held = quantise(self.weights[name], by_rows=by_rows)
        numbers, scales = f"{name}{end}", f"{name}{end}.scales"
        return {"numbers": self.array(numbers, held.numbers), "scales": self.array(scales, held.scales)}

    def weight(self, name: str, start: int, rows: int, transposed: bool) -> int:
        """Return the number of a packed weight: rows of a matrix, or their transpose."""
        key = name, start, rows, transposed
        if key not in self.weight_keys:
            rows_of, columns = self.weights.shape(name)
            K, N = (columns, rows) if transposed else (rows, columns)
            packing: Kernel = PACKING[self.packed_kind, transposed]
            quads = self.packed_kind == QUADS
            source = ("int8 2", "float32 1") if quads else ("float32 2",)
            code = self.kernel(packing, *source, "int64", "int64", f"{self.packed_kind} 1")
            self.weight_keys[key] = len(self.packed)
            size = packed_size(K, N, self.packed_kind)
            about = {"code": code, "start": start, "stop": start + rows, "size": size, "shape": (rows_of, columns)}
            self.packed.append(about | self.matrix(name, by_rows=transposed))
        return self.weight_keys[key]

    # ------------------------------------------------------------ plans

    def plan(self, executable: CPUExecutable | None, prefix: str) -> Json | None:
        """Describe a plan for inference, with the parameters below a prefix."""
        if executable is None:
            return None
        plan, module = executable.plan, executable.forward_module
        steps: list[Json] = []
        for phase, step in module.steps:
            if isinstance(step, Product):
                steps.append(self._product(step, plan.forward.programs[phase].places, prefix))
            else:
                steps.append(self._function(step, prefix))
        arrays = {name: _shape(place) for name, place in plan.forward.arrays.items()}
        outputs = {name: _output(place) for name, place in plan.outputs.items()}
        inputs = list(plan.trace.inputs)
        return {"arrays": arrays, "dims": module.dims, "steps": steps, "outputs": outputs, "inputs": inputs}

    def _function(self, step: Function, prefix: str) -> Json:
        parameters = [parse(name).base for name in step.arrays if parse(name).kind is ArrayKind.PARAMETER]
        for name in parameters:
            self.array(f"{prefix}{name}", self.weights[f"{prefix}{name}"])
        return {
            "code": self.function(generated_loop(step.source, step.name)),
            "arrays": step.arrays,
            "parameters": {ArrayKind.PARAMETER.of(name): f"{prefix}{name}" for name in parameters},
            "scratch": {name: _shape(place) for name, place in step.scratch.items()},
            "weights": [self._weight(weight, prefix) for weight in step.weights],
        }

    def _weight(self, weight: Weight, prefix: str) -> int:
        name, start, rows, transposed = weight
        return self.weight(f"{prefix}{name}", start, rows, transposed)

    def _product(self, step: Product, places: Mapping[int, Place], prefix: str) -> Json:
        x, offset = step.x.span
        source, target = places[x.id], places[step.out.id]
        return {
            "product": self._weight(weight_key(step), prefix),
            "source": source.name,
            "after": int(source.kind is PlaceKind.AFTER) if source.kind in _STACKS else -1,
            "wide": source.source_axis,
            "width": source.width,
            "offset": offset,
            "target": target.name,
            "target_width": target.width,
            "K": step.x.width,
            "N": step.out.width,
        }

    def scan(self, scan: Scan, prefix: str, *, single_step: bool = False) -> Json:
        """Describe a scan: its plan over time, and the plan of what is constant over time."""
        compiled = scan.compiled(training=False, single_step=single_step)
        initial = scan.cell.learned()
        for name in initial.values():
            self.array(f"{prefix}{name}", self.weights[f"{prefix}{name}"])
        return {
            "plan": self.plan(on_processor(compiled.step), prefix),
            "constant": self.plan(on_processor(compiled.constant), prefix),
            "states": scan.states,
            "learned": {state: f"{prefix}{name}" for state, name in initial.items()},
            "size": scan.cell.output_size,
        }


_STACKS = PlaceKind.BEFORE, PlaceKind.AFTER


def on_processor(executable: Any) -> CPUExecutable | None:
    """Return a plan. Raises TypeError: it is not the processor's."""
    if executable is not None and not isinstance(executable, CPUExecutable):
        raise TypeError(f"a described plan must be the processor's, got {type(executable).__name__}")
    return executable


def _shape(place: Place) -> list[int]:
    """Return the numbers of a row at a position, and whether there are source positions."""
    return [1 if place.width is None else place.width, int(place.source_axis)]


def _output(place: Place) -> list[Any]:
    """Return the array of an output, its shape as in `_shape`, and whether it is the stack of a state."""
    return [place.name, *_shape(place), int(place.kind is PlaceKind.AFTER)]
