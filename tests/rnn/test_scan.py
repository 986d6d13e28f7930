"""Compiled programs over time: memory, divisions between threads, rows in company, padding; what oracles say of a case.
test_products.py compares every cell's programs with interpreter and oracle."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import AttentionCell, LSTMCell, Scan, State, Weights, tanh, tuning
from nmt.rnn.arrays.pass_numbers import frozen
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.kernels.loops import emit_cpu, run_cpu
from nmt.rnn.kernels.machine_code import objects as machine_code
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads.pool import run_team
from nmt.rnn.scan import scan_setup as compiled_cells
from tests.oracle import attention, compare, layers
from tests.refusals import refused
from tests.rnn import scan_cases as cases
from tests.rnn.random_cells import Made

# Compiling costs seconds per cell and dtype: float32 takes a choice.
FLOAT32 = [*cases.RECURRENT, "stack", "lstm_bahdanau_feed", "gru_general_feed_dropout"]


def check_case(case, reverse, device=None):
    """Outputs and gradients, in training and inference, are the interpreter's; what lies behind a row is zero."""
    dtype = case.x.dtype.name
    tolerance = compare.TOLERANCE[dtype]
    outputs, found, _ = cases.agreeing(case, tolerance, reverse=reverse, device=device)
    assert all(a.dtype == dtype for a in (*outputs.values(), *found.values()))
    for row, n in enumerate(case.lengths or ()):
        np.testing.assert_array_equal(outputs["y"][n:, row], 0.0)
        np.testing.assert_array_equal(found["d_x"][n:, row], 0.0)
    plain, _ = cases.interpreted(case, None, reverse=reverse)
    compare.assert_all_close(cases.inferred(case, reverse=reverse, device=device), plain, tolerance, "inference")


@pytest.mark.parametrize("name", cases.RECURRENT)
def test_recomputing_gates_stores_nothing_but_states(name):
    plans = [Scan(cases.CELLS[name](), recompute=r).plan(True) for r in ("attention", "gates")]
    kept, again = ([n for n, place in p.forward.arrays.items() if place.kind is PlaceKind.SEQUENCE] for p in plans)
    assert again == [] or name == "gru_reset_before"  # r * h is the left side of a weight's gradient
    assert len(again) < len(kept) or not kept


class Recorded(Fresh):
    """Fresh memory that counts bytes."""

    taken = 0

    def __call__(self, shape, dtype):
        array = super().__call__(shape, dtype)
        self.taken += array.nbytes
        return array


@pytest.mark.parametrize("recompute", ["attention", "gates"])
@pytest.mark.parametrize("name", ["lstm", "gru", "lstm_bahdanau_feed"])
def test_scratch_does_not_grow_with_the_sequence(name, recompute, monkeypatch):
    """Beyond d_x, a backward pass over twice the blocks of time asks for no more memory."""
    monkeypatch.setattr(tuning, "BLOCK_ROWS", 2 * cases.B)
    asked = []
    for steps in (8, 16):
        case = cases.draw(cases.CELLS[name](), "float64", steps=steps)
        scan, memory = Scan(case.cell, dtype="float64", threads=1, recompute=recompute), Recorded()
        tape = scan.forward(
            Weights(case.params), case.x, case.initial, captured=case.captured, training=True, allocate=memory
        ).tape
        memory.taken = 0
        d_x = scan.backward(tape, case.d_y).x
        asked.append(memory.taken - d_x.nbytes)
    assert asked[0] == asked[1]


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_units_may_be_divided_between_threads(threads, reverse):
    """Several panels of columns, not a whole number of them, and more threads than some products have panels."""
    cell = AttentionCell(LSTMCell(40 + 70, 70), 33, 70)
    case = cases.draw(cell, "float32", tuple(9 - row for row in range(7)), rows=7, steps=9, places=4)
    many = cases.compiled(case, reverse=reverse, threads=threads, division="units")
    cases.assert_same_run(many, cases.compiled(case, reverse=reverse))


@pytest.mark.parametrize(("rows", "large", "division"), [(1, False, "units"), (8, True, "units"), (8, False, "rows")])
def test_threads_divide_units_of_few_rows_and_of_large_weights(rows, large, division, monkeypatch):
    monkeypatch.setattr(tuning, "UNITS_BELOW", {False: 2, True: 5})
    monkeypatch.setattr(tuning, "LARGE_WEIGHTS", 0 if large else 1 << 40)
    found = [units for _, units in _teams(monkeypatch, "lstm", rows)]
    assert sum(found) == (2 if division == "units" else 0)  # forward and backward
    assert not any(units for _, units in _teams(monkeypatch, "lstm", rows, threads=1))


def _teams(monkeypatch, name, rows, threads=2, **options):
    """Of each function of a run: how many parts it has, and whether they divide units."""
    found, place = [], COUNTER_WORDS + emit_cpu.NUMBERS.index("units")

    def spy(function, parts, table, keep):
        found.append((parts, int(keep.numbers[place])))
        run_team(function, parts, table, keep)

    monkeypatch.setattr(run_cpu, "run_team", spy)
    cases.compiled(cases.draw(cases.CELLS[name](), "float64", rows=rows), threads=threads, **options)
    return found


def _parts(monkeypatch, *, batch=cases.B, **options):
    return {parts for parts, _ in _teams(monkeypatch, "gru", batch, **options)}


_LIMITS = pytest.mark.parametrize(("limit", "parts"), [(0, {2}), (1 << 40, {1})])


@_LIMITS
def test_little_work_is_done_by_one_thread(limit, parts, monkeypatch):
    monkeypatch.setattr(tuning, "ALONE_BELOW", limit)
    assert _parts(monkeypatch) == parts


@_LIMITS
def test_small_steps_are_not_divided_into_units(limit, parts, monkeypatch):
    """However many there are: the threads would meet after every product."""
    monkeypatch.setattr(tuning, "ALONE_A_STEP", limit)
    assert _parts(monkeypatch, division="units") == parts
    assert _parts(monkeypatch, division="rows") == {2}


def test_nobody_is_woken_for_no_rows(monkeypatch):
    assert _parts(monkeypatch, batch=1, division="rows") == {1}
    assert _parts(monkeypatch, batch=2, division="rows") == {2}


def test_thread_count_never_shows_in_long_sums():
    """Sums over more rows than one block of the weight gradient takes, in ragged order."""
    lengths = tuple(40 - 7 * row % 33 for row in range(23))
    case = cases.draw(cases.CELLS["lstm"](), "float32", lengths, rows=23, steps=40)
    assert sum(lengths) > 512
    cases.assert_same_run(*(cases.compiled(case, threads=n) for n in (1, 2)))


@pytest.mark.parametrize(
    ("name", "dtype", "places"),
    [(name, "float32", cases.S) for name in ("lstm", "gru", "linear", "lstm_bahdanau_feed")]
    # More source positions than a vector has numbers.
    + [("lstm_bahdanau_feed", "float32", 70), ("gru_scaled_dot", "float64", 23)],
)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_row_has_the_same_bits_in_any_company(reverse, name, dtype, places):
    case = cases.draw(cases.CELLS[name](), dtype, cases.LENGTHS["mixed"], places=places)
    case.source_lengths = (places, 1, places - 1, places // 2, places)
    whole, found, _ = cases.compiled(case, reverse=reverse)
    inferred = cases.inferred(case, reverse=reverse)
    of_rows = ("d_x", "d_initial", "d_captured")
    for company in ([0], [3], [4, 1], [1, 2, 3], [4, 3, 2, 1, 0]):
        alone = case.rows(company)
        outputs, gradients, _ = cases.compiled(alone, reverse=reverse)
        pairs = [(outputs, whole), (cases.inferred(alone, reverse=reverse), inferred)]
        pairs.append(tuple({k: v for k, v in g.items() if k.startswith(of_rows)}
                           for g in (gradients, found)))  # fmt: skip
        for got, expected in pairs:
            rows = {k: a[..., company, :] for k, a in expected.items()}
            compare.assert_same_bits(got, rows, f"rows {company}")


@pytest.mark.parametrize("filling", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", ["lstm", "gru_reset_before", "linear", "stack", "lstm_bahdanau_feed", "lstm_general"])
def test_padding_is_never_read(name, reverse, filling):
    """Not by outputs, and not by any gradient, whatever lies there."""
    check_padding(name, reverse, filling)


def test_padding_is_never_read_in_bfloat16():
    check_padding("lstm_bahdanau_feed", False, np.nan, compute_dtype="bfloat16")


def check_padding(name, reverse, filling, **options):
    dtype = "float32" if "compute_dtype" in options else "float64"
    case = cases.draw(cases.CELLS[name](), dtype, cases.LENGTHS["mixed"])
    dirty = copy.deepcopy(case)
    for row, n in enumerate(case.lengths):
        dirty.x[n:, row] = filling
        dirty.d_y[n:, row] = filling
    for array in dirty.captured.values():
        for row, n in enumerate(case.source_lengths):
            array[n:, row] = filling
    cases.assert_same_run(*(cases.compiled(c, reverse=reverse, **options) for c in (dirty, case)))
    inferred = [cases.inferred(c, reverse=reverse, **options) for c in (dirty, case)]
    compare.assert_same_bits(*inferred, "inference")


def test_a_sentence_without_source_weighs_nothing():
    case = cases.draw(cases.CELLS["lstm_bahdanau_feed"](), "float64", cases.LENGTHS["mixed"])
    cases.agreeing(replace(case, source_lengths=(0, 1, 0, 2, 4)))


@pytest.mark.parametrize("name", ["lstm", "stack", "lstm_bahdanau_feed", "gru_scaled_dot"])
def test_other_sizes_of_a_batch_compile_nothing(name):
    cell = cases.CELLS[name]()
    cases.compiled(cases.draw(cell, "float64", (6, 2, 5, 1, 3)), threads=2)
    cases.inferred(cases.draw(cell, "float64"), threads=2)
    loaded = machine_code._loaded  # the functions of this process, from the store or just compiled
    before, plans = len(loaded), compiled_cells.compile_step.cache_info().misses
    assert before > 0
    for rows, steps, places in ((1, 1, 1), (2, 9, 3), (17, 3, 8)):
        lengths = tuple(1 + row % steps for row in range(rows))
        for of_rows in (None, lengths):
            case = cases.draw(cell, "float64", of_rows, rows=rows, steps=steps, places=places)
            for reverse in (False, True):
                cases.compiled(case, reverse=reverse, threads=2)
                cases.inferred(case, reverse=reverse, threads=2)
    assert len(loaded) == before
    assert compiled_cells.compile_step.cache_info().misses == plans


# ------------------------------------------------------------ the oracle


def oracle_layer(kind, p):
    """A cell's parameters under the oracle's names."""
    W_h = p["W_h"] if "W_h" in p else np.concatenate([p["W_rz"], p["W_n"]], axis=1)
    biases = {"b_x": p["b"], **({"b_h": p["b_h"]} if "b_h" in p else {})}
    return {"W_x": p["W_x"], "W_h": W_h, **biases}


def oracle_recurrent(kind, case, now, reverse):
    """Outputs by our names; `now` holds all leaves."""
    h = now["initial h"]
    c = now.get("initial c", np.zeros_like(h))
    p = oracle_layer(kind, {k: now[k] for k in case.params})
    lengths = [len(case.x)] * len(h) if case.lengths is None else case.lengths
    y, h, c = layers.run_direction(kind, p, now["x"], h, c, lengths, reverse=reverse)
    return {"y": y, "final h": h} | ({"final c": c} if kind == "lstm" else {})


def oracle_decoder(inner, kind, feeding, case, now):
    """The attention decoder; the oracle scores with W [H, M], the cell with its transpose."""
    p = {k: now[k] for k in case.params}
    cell = oracle_layer(inner, {k[5:]: v for k, v in p.items() if k.startswith("cell.")})
    scores = {}
    if kind == "bahdanau":
        scores = {"W_query": p["W_q"], "W_key": p["W_k"], "v": p["v"]}
    elif kind == "general":
        scores = {"W": p["W_k"].T}
    tree = {"cell": {f"{k}_l0": v for k, v in cell.items()}, "attention": scores, "W_c": p["W_c"], "b_c": p["b_c"]}
    h = now["initial cell.h"]
    c = now.get("initial cell.c", np.zeros_like(h))
    fed = now.get("initial feed")
    # The oracle's results are complex where x is: so is x, where any leaf that is looked at is.
    x = now["x"] + 0 * p["b_c"][0] + 0 * (0 if fed is None else fed[0, 0])
    y, h, c, _ = attention.decode(
        inner, kind, tree, x, h[None], c[None], now["captured memory"],
        case.source_lengths, case.lengths, input_feeding=feeding, fed=fed,
    )  # fmt: skip
    found = {"y": y, "final cell.h": h[0]} | ({"final cell.c": c[0]} if inner == "lstm" else {})
    if feeding:
        last = np.array(case.lengths) - 1
        found["final feed"] = y[last, np.arange(len(last))]
    return found


# ------------------------------------------------------------ the door


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": np.zeros((3, 2, 4))},
        {"x": np.zeros((3, 5))},
        {"x": np.zeros((3, 2, 5), np.float32)},
        {"initial": {"h": np.zeros((1, 7))}},
        {"initial": {"c": np.zeros((2, 7), np.float32)}},
        {"lengths": [1, 2, 3]},
        {"lengths": [4, 1]},
        {"captured": {"memory": np.zeros((3, 2, 6))}},
        {"captured": np.zeros((3, 2, 6))},
        {"initial": {"hx": np.zeros((2, 7))}},
        {"initial": np.zeros((2, 7))},
        {"weights": None},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_arrays_are_one_line(wrong):
    scan, case = Scan(LSTMCell(5, 7), dtype=np.float64), cases.draw(LSTMCell(5, 7), "float64")
    good = {"weights": Weights(case.params), "x": np.zeros((3, 2, 5)), "initial": {}}
    message = refused(ShapeError, "", scan.forward, **{**good, **wrong})
    assert message.startswith("LSTMCell: ")
    assert "must be" in message


@pytest.mark.parametrize("change", ["missing", "shape", "dtype", "order", "read-only"])
def test_wrong_parameters_and_memory_for_their_gradients_are_one_line(change):
    scan, case = Scan(LSTMCell(5, 7), dtype=np.float64), cases.draw(LSTMCell(5, 7), "float64")
    W_x = case.params["W_x"]
    wrong = {"shape": np.zeros((1, 1)), "dtype": W_x.astype(np.float32), "order": np.asfortranarray(W_x)}
    params = {k: v for k, v in case.params.items() if k != "W_x"} | {"W_x": wrong.get(change)}
    params = {k: v for k, v in params.items() if v is not None}
    if change != "read-only":
        refused(ShapeError, "parameter W_x must be", scan.forward, Weights(params), case.x)
    if change != "missing":  # a gradient that is not wanted
        tape = scan.forward(Weights(case.params), case.x, training=True).tape
        memory = {"W_x": wrong.get(change, frozen(W_x))}
        refused(NMTError, "training=True, got LSTMCell", scan.backward, scan.cell, case.d_y)
        refused(ShapeError, "^LSTMCell: gradient W_x must be", scan.backward, tape, case.d_y, gradients=memory)


N, R = 96, 40


def low_rank():
    """A recurrent product in two factors: the second reads all columns of the first."""
    params = {"W": (N, N), "U": (N, R), "V": (R, N)}

    def step(p, x, s):
        h = tanh(x @ p.W + s.h @ p.U @ p.V)
        return h, State(h=h)

    return Made(step, params=params, states={"h": N}, input_size=N, output_size=N)


def products_alone():
    """A loop of products, without any work on rows; each step reads all columns of the one before."""

    def step(p, x, s):
        h = s.h @ p.U @ p.V
        return h, State(h=h)

    return Made(step, params={"U": (N, R), "V": (R, N)}, states={"h": N}, input_size=N, output_size=N)


@pytest.mark.parametrize("make", [low_rank, products_alone])
def test_products_that_read_products_have_the_bits_of_one_thread(make):
    case = cases.draw(make(), "float32", rows=3, steps=30)
    one = cases.compiled(case, division="units")
    for _ in range(30):
        cases.assert_same_run(cases.compiled(case, threads=2, division="units"), one)
