"""Tables by the names of their fields: what Python writes is what compiled code reads, and the other way round."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from nmt.rnn.kernels.machine_code.jit import inner_kernel, task
from nmt.rnn.kernels.memory.table_layout import NamedTable, TableLayout, arrays, constants, group, numbers, reals
from nmt.rnn.kernels.threads.pool import run_team

LAYOUT = TableLayout(
    "example",
    numbers("count"),
    constants("rows", "width"),
    reals("factor"),
    arrays("F", ("rows", "width"), "matrix"),
    group("slots", arrays(np.int64, ("rows",), "limit"), arrays(np.float64, (None,), "sum")),
    arrays(np.int32, (2, "rows", "width"), "words"),
)


def example():
    table = NamedTable(LAYOUT, {"rows": 3, "width": 2, "factor": 0.5, "count": 7}, F=np.float32)
    table.allocate("matrix", "slots.limit", "words", zeros=True)
    table["slots.sum"] = np.arange(3.0)
    return table


def run(function, table):
    native = task(function)
    run_team(native.address, 1, table.address, table)


def test_numbers_and_arrays_go_both_ways():
    at = LAYOUT.reader(F=np.float32)

    @inner_kernel
    def double(table, r):
        slots = table.slots
        slots.limit[r] = 2 * r + table.words.shape[0]
        slots.sum[r] += table.factor

    def work(part, parts, table):
        given = at(table)
        given.count += 1
        for r in range(given.rows):
            double(given, r)
            for j in range(given.width):
                given.matrix[r, j] = 10 * r + j
                given.words[1, r, j] = given.matrix.shape[1]

    table = example()
    run(work, table)
    assert (table["count"], table["factor"]) == (8, 0.5)
    assert table["slots.limit"].tolist() == [2, 4, 6]
    assert table["slots.sum"].tolist() == [0.5, 1.5, 2.5]
    assert table["matrix"].tolist() == [[0, 1], [10, 11], [20, 21]]
    assert table["words"].tolist() == [[[0, 0]] * 3, [[2, 2]] * 3]


def test_an_array_may_be_exchanged_from_both_sides():
    at = LAYOUT.reader()

    def work(part, parts, table):
        given = at(table)
        given.slots.limit[0] = 5
        given.matrix_address = given.slots.limit_address

    table, other = example(), np.zeros(3, np.int64)
    table["slots.limit"] = other
    run(work, table)
    assert other.tolist() == [5, 0, 0]
    assert table.words[LAYOUT.places["matrix"]] == table.words[LAYOUT.places["slots.limit"]]


def test_what_follows_in_an_extended_layout_leaves_the_rest_in_place():
    longer = LAYOUT.extended("longer", numbers("more"))
    assert {name: longer.places[name] for name in LAYOUT.places} == LAYOUT.places
    assert longer.places["more"] == max(LAYOUT.places.values()) + 1
    assert longer.content != LAYOUT.content


def test_numbers_that_are_written_begin_on_a_line_of_their_own():
    """Others wait on the line of their meetings."""
    assert example().address % 64 == 0
    assert min(LAYOUT.places.values()) * 8 == 64


def test_two_fields_of_one_name_are_refused():
    with pytest.raises(ValueError, match="example: two fields have one name"):
        TableLayout("example", numbers("x"), constants("x"))


def test_another_dtype_is_refused():
    with pytest.raises(TypeError, match=r"example: slots.sum must be of float64, got float32"):
        example()["slots.sum"] = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("given.nobody += 1", "nobody"),
        ("given.matrix[0, 0] = 1", "must be given the dtype F"),
        ("given.words = given.words", "words must be"),
        ("given.factor = 2.0", "factor must be an integer"),
    ],
)
def test_what_cannot_be_compiled_is_said(statement, words):
    scope = {"at": LAYOUT.reader(), "__name__": __name__}
    exec(f"def work(part, parts, table):\n    given = at(table)\n    {statement}\n", scope)  # noqa: S102
    with pytest.raises(TypingError, match=words):
        run(scope["work"], example())
