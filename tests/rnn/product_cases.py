"""What test_products.py multiplies: cells, programs made of them, schedules, steps that exist, directions, sizes.

A run is a row as numbers: what the compiled program gives, and what the two other witnesses say, the interpreter and
the oracles written by loops from the papers. All products are too many to run; most mistakes show where two choices
meet (Kuhn et al. 2004, Software Fault Interactions and Implications for Software Testing).
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from nmt.config.model_section import RNN_TYPES
from nmt.model.parts.cells import recurrent_cell
from nmt.rnn import ElmanCell, GRUCell, RecurrentDropoutCell, ZoneoutCell, interpreter, ops
from nmt.rnn.compiler.trace import trace
from tests.oracle import compare
from tests.oracle import gradients as slopes
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases
from tests.rnn import test_more_cells, test_scan
from tests.rnn.kernels.test_bfloat16 import rounded

WRAPPERS = {
    "zoneout": lambda: ZoneoutCell(ElmanCell(cases.D, cases.H), 0.3),
    "recurrent_dropout": lambda: RecurrentDropoutCell(GRUCell(cases.D, cases.H), 0.5),
}
CELLS = {**cases.CELLS, **{name: make for name, (make, _) in more.CELLS.items()}, **WRAPPERS}
# Those of the long run alone: other activations and options of the cells above.
MEANINGS = {f"meaning {name}": make for name, (make, _) in more.MEANINGS.items() if name not in CELLS}
SETTINGS = {f"setting {name}": lambda name=name: recurrent_cell(name, cases.D, cases.H) for name in RNN_TYPES}
ALL_CELLS = {**CELLS, **MEANINGS, **SETTINGS}

TYPES = {"float64": {}, "float32": {}, "bfloat16": {"compute_dtype": "bfloat16"}}
POLICIES = ("attention", "gates")
# Compiling is nearly all that a run costs. The short run takes what other tests compile as well, and some more: so
# that every type meets every policy, and cells of every kind another type than float64.
SHORT = {
    ("float64", "gates"): (*cases.CELLS, "min_lstm", "qrnn_window2"),
    ("float32", "attention"): (*test_scan.FLOAT32, "slstm", "layer_norm_gru", "min_lstm"),
    ("bfloat16", "attention"): ("gru_reset_before", "rnn_tanh", "stack", "lstm_bahdanau_feed", "qrnn_window2", "ssru"),
    ("float32", "gates"): ("gru", "qrnn_window2"),
    ("bfloat16", "gates"): ("lstm", "min_lstm"),
}
# A program of its own as well.
LATER = "weights later"
SHORT_LATER = {
    ("float64", "attention"): ("gru_no_bias", "stack", "lstm_bahdanau_feed", "gru_general_feed_dropout", *WRAPPERS),
    ("float64", "gates"): ("gru_no_bias", "stack", "lstm_bahdanau_feed", "gru_general_feed_dropout"),
    ("float32", "gates"): ("gru",),
    ("bfloat16", "gates"): ("lstm",),
}
# Whose programs without training are compared, too.
INFERRED = (*cases.CELLS, "projection_cell_clip", "slstm", "qrnn_window2", "convolution")
SCHEDULES = {
    "one thread": {"threads": 1},
    "rows": {"threads": 2, "division": "rows"},
    "units": {"threads": 2, "division": "units"},
    "three threads": {"threads": 3},
    "blocks of time": {"threads": 1},
    LATER: {"threads": 2, "weights_later": True},
}
STEPS = ("all", "uneven", "none for some", "holes")
DIRECTIONS = {"forward": (False,), "reverse": (True,), "both": (False, True)}
FACTORS = "cell", "dtype", "recompute", "schedule", "steps", "direction", "size"
SIZES = {"several": (6, 5), "one step": (1, 3), "one row": (7, 1)}


def rows(*, short):
    """All rows by cell: each program with each schedule; what costs no compilation takes turns, so that every two
    choices meet."""
    if short:
        kinds = [(("float64", "attention"), tuple(CELLS)), *SHORT.items()]
        ways = [(name, *kind, s) for kind, names in kinds for name in names for s in SCHEDULES if s != LATER]
        ways += [(name, *kind, LATER) for kind, names in SHORT_LATER.items() for name in names]
    else:
        ways = list(product(ALL_CELLS, TYPES, POLICIES, SCHEDULES))
    found = {name: [] for name in (CELLS if short else ALL_CELLS)}
    for name, *way in ways:
        k = len(found[name])
        shift = k + k // 3 + list(found).index(name)
        turns = STEPS[k % 4], list(DIRECTIONS)[k % 3], list(SIZES)[shift % 3]
        found[name].append(dict(zip(FACTORS, (name, *way, *turns), strict=True)))
    return found


@dataclass
class Run:
    """A row as numbers: the case, without lengths or mask where all steps exist, and how it is run."""

    row: dict
    case: cases.Case
    there: np.ndarray  # bool [T, B]: the steps that exist

    @property
    def directions(self):
        """Of the passes, `reverse` of each."""
        return DIRECTIONS[self.row["direction"]]

    @property
    def options(self):
        """Of every pass: what the program is."""
        return {"recompute": self.row["recompute"], **TYPES[self.row["dtype"]]}


def draw(row, seed):
    """Numbers for a row."""
    T, B = SIZES[row["size"]]
    name, dtype = row["cell"].removeprefix("meaning "), "float64" if row["dtype"] == "float64" else "float32"
    sizes = {"rows": B, "steps": T, "seed": seed}
    if name in more.MEANINGS and name not in WRAPPERS:
        case = more.draw(name, None, dtype, **sizes)
    else:
        case = cases.draw(ALL_CELLS[row["cell"]](), dtype, **sizes)
        if "n" in case.initial:
            case.initial["n"] = np.maximum(case.initial["n"], 0)
    rng = np.random.default_rng([seed, 1])
    there = np.ones((T, B), bool)
    if row["steps"] == "holes":
        there = rng.random((T, B)) < 0.6
        there[0, 0], there[-1, 0] = False, True  # a hole for sure, also where there is one row alone
        case = replace(case, mask=there)
    elif row["steps"] != "all":
        lengths = rng.integers(0 if row["steps"] == "none for some" else 1, T + 1, B)
        if row["steps"] == "none for some":
            lengths[0] = 0
        there = np.arange(T)[:, None] < lengths
        case = replace(case, lengths=tuple(map(int, lengths)))
    return Run(row, case, there)


def grouped_anew(run, name):
    """Whether a schedule may add up the terms of this result in another order: gradients of parameters, over all rows
    and steps, block by block; and sums over units, which another program may group otherwise, where it is one that
    keeps its operands; likewise products that are added at once, where gates are computed again on the way back in
    bfloat16: such a program may round them first, and another not."""
    if run.row["schedule"] == "blocks of time":
        return name.removeprefix("d_") in run.case.params
    sums = any(v.op == "sum_last" for v in trace(run.case.cell, training=True).graph.values)
    again = (run.row["dtype"], run.row["recompute"]) == ("bfloat16", "gates")
    return run.row["schedule"] == LATER and (sums or again) and "d_" in name


def is_plain(row):
    """Whether a row's program without training is no other row's: it knows no policy, and keeps no operands."""
    return row["dtype"] != "bfloat16" and row["recompute"] == "attention" and row["schedule"] != LATER


def of_pass(reverse, found):
    """Results by name and direction."""
    return {f"{'reverse' if reverse else 'forward'} {name}": array for name, array in found.items()}


def program(run, **schedule):
    """(outputs and gradients by name, dropout masks of each pass) of the compiled program. Where both directions run,
    the gradients of the parameters are added up in place."""
    shares = {name: np.zeros_like(p) for name, p in run.case.params.items()}
    found, masks = {}, []
    for reverse in run.directions:
        outputs, gradients, drawn = cases.compiled(
            run.case, reverse=reverse, shares=shares, seed=3 + reverse, **run.options, **schedule
        )
        found |= of_pass(reverse, outputs | {k: g for k, g in gradients.items() if k[2:] not in shares})
        masks.append(drawn)
    return found | {f"d_{name}": share for name, share in shares.items()}, masks


def inferred(run):
    """(outputs of the program that keeps nothing, those of the interpreter without dropout) by name."""
    schedule = SCHEDULES[run.row["schedule"]]
    found = [of_pass(reverse, cases.inferred(run.case, reverse=reverse, **schedule)) for reverse in run.directions]
    meant = [of_pass(reverse, cases.interpreted(run.case, None, reverse=reverse)[0]) for reverse in run.directions]
    return {k: v for one in found for k, v in one.items()}, {k: v for one in meant for k, v in one.items()}


def interpreted(run, masks):
    """What the interpreter says in float64, with the dropout of the program's passes."""
    found, shares = {}, {}
    for reverse, drawn in zip(run.directions, masks, strict=True):
        params = run.case.params
        outputs, gradients = cases.interpreted(run.case, drawn, reverse=reverse)
        found |= of_pass(reverse, outputs | {k: g for k, g in gradients.items() if k[2:] not in params})
        for name in params:
            shares[f"d_{name}"] = shares.get(f"d_{name}", 0.0) + gradients[f"d_{name}"]
    return found | shares


def round_products(monkeypatch):
    """Let the interpreter round both sides of every product, as `compute_dtype: bfloat16` does."""
    matmul, add_share = ops.OPS["matmul"], interpreter._Evaluation.add_share

    def near(array):
        return rounded(np.asarray(array, np.float32)).astype(np.float64)

    def rounded_matmul(x, w, *, transposed):
        return matmul.meaning(near(x), near(w), transposed=transposed)

    def rounded_share(self, target, sink, values, t):
        sides = () if sink.left is None else (sink.left, sink.right)
        add_share(self, target, sink, values | {v.id: near(values[v.id]) for v in sides}, t)

    monkeypatch.setitem(ops.OPS, "matmul", replace(matmul, meaning=rounded_matmul))
    monkeypatch.setattr(interpreter._Evaluation, "add_share", rounded_share)


# ------------------------------------------------------------ the oracle


def oracle(name):
    """The function (case of one row, its leaves) -> outputs by name that an oracle is for a cell; None where there is
    none, for what draws dropout."""
    name = name.removeprefix("meaning ")
    if name in cases.RECURRENT or name == "gru_no_bias":
        kind = "gru" if name == "gru_no_bias" else name
        return lambda case, now: test_scan.oracle_recurrent(kind, *_with_biases(kind, case, now), False)
    if name in cases.DECODERS and not cases.DECODERS[name][-1]:
        inner, attention, feeding, _ = cases.DECODERS[name]
        kind = inner.__name__.removesuffix("Cell").lower()
        return lambda case, now: test_scan.oracle_decoder(kind, attention, feeding, case, now)
    if name == "linear":
        return lambda case, now: {"y": now["x"] @ now["W"] + now["b"]}
    if name in more.MEANINGS and name not in WRAPPERS:
        return lambda case, now: test_more_cells.of_oracle(name, case, now, False)
    return None


def _with_biases(kind, case, now):
    """The oracle of a cell without biases is that of zeros."""
    if "b" in now:
        return case, now
    zeros = {name: np.zeros(now["W_x"].shape[1]) for name in ("b", "b_h")}
    return replace(case, params=case.params | zeros), now | zeros


def by_oracle(run, reverse, now):
    """Outputs by name, row by row: the steps of a row that exist, in the order of the direction, are a sequence of
    their own."""
    case, says = run.case, oracle(run.row["cell"])
    dtype = np.result_type(*now.values(), np.float64)
    y = np.zeros((*run.there.shape, case.d_y.shape[-1]), dtype)
    final = {name: now[f"initial {name}"].astype(dtype) for name in case.initial}
    for n, there in enumerate(run.there.T):
        steps = np.flatnonzero(there)[:: -1 if reverse else 1]
        if not len(steps):
            continue
        given = {name: array for name, array in now.items() if name not in case.params}
        of_row = {k: a[[n]] if k.startswith("initial ") else a[..., [n], :] for k, a in given.items()}
        of_row["x"] = of_row["x"][steps]
        sources = None if case.source_lengths is None else (case.source_lengths[n],)
        if sources is None and case.captured:
            sources = (cases.S,)
        one = replace(case, x=of_row["x"], lengths=(len(steps),), source_lengths=sources, mask=None)
        found = says(one, of_row | {name: now[name] for name in case.params})
        y[steps, n] = found["y"][:, 0]
        for name in final:
            final[name][n] = found[f"final {name}"][0]
    return {"y": y, **{f"final {name}": value for name, value in final.items()}}


def check_oracle(run, found, tolerance):
    """Hold outputs, and the gradients along one direction through all leaves by complex steps, to the oracle; it is run
    once a pass, on leaves that are moved already."""
    case, step = run.case, 1e-40
    leaves = {"x": case.x, **{f"initial {k}": a for k, a in case.initial.items()}}
    leaves |= {f"captured {k}": a for k, a in case.captured.items()} | case.params
    leaves = {name: array.astype(np.float64) for name, array in leaves.items()}
    weights = {"y": case.d_y, **{f"final {k}": a for k, a in case.d_final.items()}}
    rng = np.random.default_rng(5)
    along = slopes.random_direction(leaves, rng, only=case.params)
    exact, got = 0.0, slopes.inner({name: found[f"d_{name}"] for name in along}, along)
    norm = sum(float(np.sum(found[f"d_{name}"].astype(np.float64) ** 2)) for name in along)
    for reverse in run.directions:
        own = slopes.random_direction(leaves, rng, only=[name for name in leaves if name not in case.params])
        now = {name: array + 1j * step * {**along, **own}[name] for name, array in leaves.items()}
        outputs = by_oracle(run, reverse, now)
        exact += sum(float(np.sum(np.imag(value) * weights[name])) for name, value in outputs.items()) / step
        for name, value in of_pass(reverse, outputs).items():
            compare.assert_close(found[name], np.real(value), tolerance, f"{run.row} {name}")
        of_leaves = {name: found[f"{'reverse' if reverse else 'forward'} d_{name}"] for name in own}
        got += slopes.inner(of_leaves, own)
        norm += sum(float(np.sum(g.astype(np.float64) ** 2)) for g in of_leaves.values())
    what = f"{run.row} gradients along a direction: {got} instead of {exact}"
    assert abs(got - exact) <= tolerance * max(1.0, norm**0.5), what
