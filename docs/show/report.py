"""A cell compiled as a scan would compile it, shown as text, picture or source. Nothing is run."""

from __future__ import annotations

import numpy as np

from docs.show.picture import plan_picture
from docs.show.text import plan_text
from nmt.errors import NMTError
from nmt.rnn.arrays.weights import QUADS, packed_dtype
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.compiler.plan import Plan, make_plan
from nmt.rnn.compiler.trace import trace

_ROUNDED = ("bfloat16", "int8")


class Report:
    """A report on the compilation of a cell.

    `dtype`: float32 or float64 for all numbers; bfloat16 and int8 round the operands of products.
    Raises NMTError: the cell's step does not fit, or training in int8.
    """

    def __init__(
        self, cell: Cell, dtype: str = "float32", *, training: bool = True, recompute: Recompute = "attention"
    ) -> None:
        self.name, self.cell, self.training, self.number = type(cell).__name__, cell, training, dtype
        self.dtype = np.dtype("float32" if dtype in _ROUNDED else dtype)
        self.packed = packed_dtype(self.name, self.dtype, dtype if dtype in _ROUNDED else None)
        if training and self.packed == QUADS:
            raise NMTError(
                f"{self.name}: dtype must be float32, float64 or bfloat16 to train, got int8; add --inference"
            )
        self.recompute: Recompute = recompute
        traced = trace(cell, training=training)
        self.plan = make_plan(traced, training=training, recompute=recompute)
        small = traced.invariants
        self.constant: Plan | None = None if small is None else make_plan(small, training=training)

    @property
    def title(self) -> str:
        """Return the title: the cell, its sizes, and the kind of run."""
        kind = "training" if self.training else "inference"
        again = ", gates computed again" if self.training and self.recompute == "gates" else ""
        rounded = "float32, products of bfloat16" if self.number == "bfloat16" else self.number
        rounded = "float32, products of int8" if self.number == "int8" else rounded
        return f"{self.name} {self.cell.input_size} -> {self.cell.output_size}, {kind}, {rounded}{again}"

    def text(self, columns: int) -> str:
        """Return the report as text, no line longer than `columns`."""
        found = f"{self.title}\n\n"
        if self.constant is not None:
            found += plan_text(self.constant, columns, once=True) + "\n"
        return found + plan_text(self.plan, columns)

    def dot(self) -> str:
        """Return the picture as a Graphviz DOT document."""
        plans = {"once per sequence, ": self.constant} if self.constant is not None else {}
        return plan_picture(self.title, {**plans, "": self.plan})

    def source(self) -> str:
        """Return the generated source of both directions. Only this needs Numba."""
        from nmt.rnn.kernels.loops.emit_cpu import emit

        parts = []
        for label, plan in (("once per sequence, ", self.constant), ("", self.plan)):
            passes = {} if plan is None else {"forward": plan.forward, "backward": plan.backward}
            for name, one in passes.items():
                if one is not None:
                    source = emit(one, self.dtype, name, self.packed).source
                    parts.append(f"# {'-' * 20} {label}{name}\n{source}")
        return "\n".join(parts)
