"""The output layer as a task of a search: its table, and memory of its own."""

from typing import Any

import numpy as np

from nmt.rnn.kernels.memory.table_layout import NamedTable, TableLayout, arrays, constants
from nmt.rnn.kernels.products.product import words_of
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
"""What tables of the output layer's tasks have in common: sizes, the arguments of `best_tokens`, whose packed weights
are W and all else Y, and memory for rows y that are rounded, `words` each."""


class OutputTask:
    """The output layer of up to `rows` rows as a task with memory of its own: what changes from call to call is the
    number of rows and of places, the first token and the addresses of some arrays."""

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
        """From now on: the first token, and y, weights, bias, and the tokens and log-probabilities to fill."""
        given = {"y": y, "weights": weights, "bias": bias, "tokens": tokens, "scores": scores}
        self.table.update({"first_token": first_token} | given)

    def run(self) -> None:
        """Fill them."""
        run_team(self.code, self.parts, self.table.address, self.table)


def output_sizes(
    R: int, H: int, columns: int, places: int, parts: int, number: np.dtype, packed: np.dtype
) -> dict[str, int]:
    """Return the sizes in an OUTPUT table."""
    words = words_of(H, packed) if packed != number else 0
    return {"rows": R, "inputs": H, "columns": columns, "places": places, "parts": parts, "words": words}
