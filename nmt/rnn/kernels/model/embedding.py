"""Look up rows of an embedding, as a task that a compiled search runs before a step."""

from typing import Any

import numpy as np

from nmt.rnn.arrays.quantised import Quantised
from nmt.rnn.kernels.machine_code.jit import task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.table_layout import NamedTable, TableLayout, arrays, constants, reals
from nmt.rnn.kernels.model.update import embedding_rows, embedding_rows_int8

EMBEDDING = TableLayout(
    "embedding",
    constants("rows", "width", "vocab_size"),
    reals("scale"),
    arrays(np.int64, ("rows",), "ids"),
    arrays("F", ("rows", "width"), "out"),
)
PLAIN = EMBEDDING.extended("embedding_plain", arrays("F", ("vocab_size", "width"), "numbers"))
QUANTISED = EMBEDDING.extended(
    "embedding_quantised",
    arrays(np.int8, ("vocab_size", "width"), "numbers"),
    arrays(np.float32, ("vocab_size",), "scales"),
)


def embedding_table(ids: np.ndarray, table: np.ndarray | Quantised, scale: float, out: np.ndarray) -> NamedTable:
    """Return the table of a task that fills out [R, E] with rows of an embedding times `scale`, for the first `rows` of
    the ids, int64 [R]; `rows` is a number in the table."""
    quantised = isinstance(table, Quantised)
    given = {"numbers": table.numbers, "scales": table.scales} if isinstance(table, Quantised) else {"numbers": table}
    values = {"width": out.shape[1], "vocab_size": len(given["numbers"]), "scale": scale, "ids": ids, "out": out}
    return NamedTable(QUANTISED if quantised else PLAIN, values | given, F=out.dtype)


@family
def embedding_task(number: np.dtype, *, quantised: bool) -> Any:
    """Return the task of an `embedding_table` for an array of this dtype."""
    embedding_at = (QUANTISED if quantised else PLAIN).reader(F=number)

    def embed(part, parts, table):  # type: ignore[no-untyped-def]
        given = embedding_at(table)
        if quantised:
            embedding_rows_int8(part, parts, given.ids, given.numbers, given.scales, given.out, given.scale)
        else:
            embedding_rows(part, parts, given.ids, given.numbers, given.out, given.scale)

    return task(embed)
