"""The output layer as a task of a search, with a table and memory of its own."""

from typing import Any

import numpy as np

from nmt.rnn.kernels.memory.table_layout import NamedTable, TableLayout, arrays, constants
from nmt.rnn.kernels.products.packing import words_of
from nmt.rnn.kernels.threads.pool import run_team

OUTPUT = TableLayout(
    "output",
    constants("rows", "inputs", "columns", "places", "first_token", "parts"),
    arrays("Y", ("rows", "inputs"), "y"),
    arrays("W", (None,), "weights"),
    arrays("Y", ("columns",), "bias"),
    arrays(np.int32, ("rows", "places"), "tokens"),
    arrays("Y", ("rows", "places"), "scores"),
    constants("words"),
    arrays("W", ("rows", "words"), "rounded"),
)
"""The common fields of the tables of output layer tasks: sizes; the arguments of `best_tokens`, with elements W of the
packed weights and Y of all other arrays; and memory for rounded rows of y, of `words` elements each."""


class OutputTask:
    """The output layer for up to `rows` rows, as a task with its own memory. From call to call only the numbers of rows
    and of places, the first token and the addresses of some arrays change."""

    def __init__(self, layout: TableLayout, task_of_rows: Any, sizes: dict[str, int], **elements: np.dtype) -> None:
        self.parts = sizes["parts"]
        self.table, self.code = NamedTable(layout, sizes, **elements), task_of_rows.address

    def give(
        self,
        first_token: int,
        y: np.ndarray,
        weights: np.ndarray,
        bias: np.ndarray,
        tokens: np.ndarray,
        scores: np.ndarray,
    ) -> None:
        """Set the first token, the arrays y, weights and bias, and the arrays for the resulting tokens and
        log-probabilities."""
        given = {"y": y, "weights": weights, "bias": bias, "tokens": tokens, "scores": scores}
        self.table.update({"first_token": first_token} | given)

    def run(self) -> None:
        """Fill the arrays of tokens and log-probabilities."""
        run_team(self.code, self.parts, self.table.address, self.table)


def output_sizes(
    R: int, H: int, columns: int, places: int, parts: int, number: np.dtype, packed: np.dtype
) -> dict[str, int]:
    """Return the sizes in an OUTPUT table, by name."""
    words = words_of(H, packed) if packed != number else 0
    return {"rows": R, "inputs": H, "columns": columns, "places": places, "parts": parts, "words": words}
