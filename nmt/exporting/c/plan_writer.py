"""Write the program of a model as C: what engine.c runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nmt.model.translation_program import TranslationProgram
from nmt.rnn.kernels.memory.table_layout import TableLayout
from nmt.rnn.kernels.program.run_program import PROGRAM, Phase, run_program
from nmt.rnn.kernels.search.beam_table import SEARCH, Status


def braced(values: Iterable[Any]) -> str:
    """Return an initialiser."""
    return "{" + ", ".join(str(int(value) if isinstance(value, bool) else value) for value in values) + "}"


def table(kind: str, name: str, rows: Iterable[Any]) -> str:
    """Return the definition of a constant array."""
    return f"static const {kind} {name}[] = {braced(rows)};\n"


def plan_text(program: TranslationProgram, level: str, names: Mapping[str, str], places: Mapping[str, int]) -> str:
    """Return plan.h. names: of functions in the library, by their entries; places: of the arrays in the model."""
    functions = [braced([place, names[native.entry]]) for place, native in program.functions.items()]
    arrays = [braced([place, places[name]]) for place, name in program.arrays.items()]
    return "".join(
        [
            f'#define THIS_LEVEL nmt_level_{level}\n#define LEVEL_NAME "{level}"\n',
            f"#define RUN_PROGRAM {names[run_program.entry]}\n",
            *(f"void {name}(int64_t, int64_t, void *);\n" for name in names.values()),
            _numbers({"NUM_WORDS": program.size}),
            _numbers({f"FORCED_{name}": number for name, number in program.forced.items()}),
            _numbers({side.upper(): program.boundaries[side] >= 0 for side in ("before", "after")}),
            *(_numbers({f"{kind.__name__.upper()}_{one.name}": one for one in kind}) for kind in (Phase, Status)),
            *(_numbers(_fields(layout)) for layout in (PROGRAM, SEARCH)),
            table("int64_t", "code", program.code),
            table("function_at", "functions", functions),
            table("array_at", "arrays", arrays),
        ]
    )


def _numbers(values: Mapping[str, int]) -> str:
    return "enum {" + ", ".join(f"{name} = {int(value)}" for name, value in values.items()) + "};\n"


def _fields(layout: TableLayout) -> dict[str, int]:
    """Return the places of a table's fields."""
    return {f"{layout.name.upper()}_{name.replace('.', '_')}": place for name, place in layout.places.items()}
