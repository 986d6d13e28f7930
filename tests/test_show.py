"""`python -m docs.show`: what it says of a plan is what the plan and the generated source say."""

import importlib.util
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from docs.show.__main__ import main
from docs.show.reading import works
from docs.show.report import Report
from nmt.rnn import LSTMCell, Scan
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import Product
from nmt.rnn.compiler.trace import trace
from nmt.rnn.kernels.loops.emit_cpu import emit
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases

ROOT = Path(__file__).resolve().parent.parent
F4 = np.dtype(np.float32)
EVERY = {**cases.CELLS, **{name: make for name, (make, _) in more.CELLS.items()}}
SHOWN = "lstm gru_reset_before stack lstm_bahdanau_feed layer_norm_lstm slstm qrnn_window2 gla gated_delta_net mamba"
CELLS = {name: EVERY[name] for name in SHOWN.split()}
MINE = """
from nmt.rnn import GRUCell, LSTMCell
import beside

class Mine(LSTMCell):
    pass

def narrow(input_size, hidden_size):
    return Mine(input_size, hidden_size, bias=False)

class Wrong(LSTMCell):
    def step(self, p, x, s):
        return x + s.h, s
"""


def shown(capsys, *arguments):
    code = main([str(a) for a in arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


# ---------------------------------------------------------------- what is read off a plan


def computed_by_source(one):
    """Ids of values that the generated source computes: names that are given something else than a load."""
    source = emit(one, F4, "any", F4).source
    return {int(i) for i, text in re.findall(r"^ +[vx](\d+) = (.*)$", source, re.M) if not text.startswith("m_")}


@pytest.mark.parametrize("name", ["gla", "gated_delta_net"])
def test_the_work_on_matrices_of_a_head_is_one_loop_over_heads_of_a_constant_size(name):
    one = make_plan(trace(CELLS[name](), training=False), training=False).forward
    (loop,) = (function for function in emit(one, F4, "any", F4).functions if function.name.endswith("loop"))
    heads = dict(CELLS[name]().states()["S"].dims)["h"]
    _, by_row = loop.source.split("for n in range", 1)
    assert re.findall(r"for i_h in range\((.*)\)", by_row) == [str(heads)]


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("kind", ["inference", "training", "gates"])
def test_values_of_row_work_are_those_that_the_source_computes(name, kind):
    training = kind != "inference"
    recompute = "gates" if kind == "gates" else "attention"
    plan = make_plan(trace(CELLS[name](), training=training), training=training, recompute=recompute)
    for one in filter(None, (plan.forward, plan.backward)):
        values = {v.id: v for work in works(one) if work.product is None for v in work.values}
        # Concatenations and slices are addresses, copies have the names of what they copy or none, a softmax is
        # computed under names of its own, and a sum over an axis that is not the last in its place in memory.
        views = ("slice", "expand", "axes", "flat")
        told = {i for i, v in values.items() if v.op not in ("concat", "softmax", "sum_s", "total", *views)}
        source = computed_by_source(one)
        assert told <= source
        assert {i for i in source if plan.trace.graph.values[i].op not in ("const", "sum_s", "total", *views)} <= told


@pytest.mark.parametrize("name", CELLS)
def test_products_are_those_of_the_programs_in_order(name):
    plan = make_plan(trace(CELLS[name](), training=True), training=True)
    for one in (plan.forward, plan.backward):
        found = [(work.phase, work.product.out.id) for work in works(one) if work.product is not None]
        assert found == [(k, s.out.id) for k, p in one.programs.items() for s in p.steps if isinstance(s, Product)]


def test_memory_says_what_is_kept():
    plan = make_plan(trace(LSTMCell(3, 4), training=True), training=True)
    memory = plan.memory
    assert {f"k{i}" for i in memory.kept} == {name for name in plan.forward.arrays if name.startswith("k")}
    assert memory.given | memory.written | memory.kept <= memory.found
    assert not memory.kept & (memory.given | memory.written)
    gates = make_plan(trace(LSTMCell(3, 4), training=True), training=True, recompute="gates").memory
    assert not gates.kept and gates.written < memory.written


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("columns", [60, 87, 200])
@pytest.mark.parametrize("name", CELLS)
def test_lines_fit_and_nothing_is_cut(name, columns):
    report = Report(CELLS[name]())
    text = report.text(columns)
    assert max(map(len, text.splitlines()), default=0) <= max(columns, len(report.title))

    def letters(found):
        return sorted(re.sub(r"[\s-]", "", found))

    assert letters(text) == letters(report.text(200))


# ---------------------------------------------------------------- pictures


def names_in(source):
    """The names on the boxes of a DOT document."""
    return {unescape(name) for name in re.findall(r"<b>(.*?)</b>", source)}


@pytest.mark.parametrize("name", CELLS)
def test_edges_lead_from_box_to_box(name):
    source = Report(CELLS[name]()).dot()
    boxes = set(re.findall(r"^(\w+) \[label=<", source, re.M))
    edges = re.findall(r"^(\w+) -> (\w+)", source, re.M)
    assert edges and {end for edge in edges for end in edge} <= boxes
    assert source.count("{") == source.count("}")


def test_the_page_shows_the_pictures_of_the_passes():
    spec = importlib.util.spec_from_file_location("passes", ROOT / "docs" / "passes.py")
    passes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(passes)
    pictures = passes.pictures()
    assert all(names_in(source) for source in pictures.values())
    assert set(re.findall(r"\(pictures/(\S+)\)", (ROOT / "docs" / "compiler.md").read_text("utf-8"))) == set(pictures)
    assert set(pictures) <= {path.name for path in (ROOT / "docs" / "pictures").iterdir()}


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("name", ["lstm", "rwkv7"])
def test_names_of_the_settings(name, capsys):
    assert name in CELLS_BY_NAME
    code, out, err = shown(capsys, name, "--columns", 80)
    assert code == 0 and err == "" and "BACKWARD: THE WORK IN ORDER" in out


def test_options(capsys, tmp_path):
    code, out, _ = shown(capsys, "lstm", "--input", 5, "--hidden", 6, "--inference", "--columns", 60)
    assert code == 0 and out.startswith("LSTMCell 5 -> 6, inference, float32\n") and "BACKWARD" not in out
    picture = tmp_path / "new.dot"
    assert shown(capsys, "lstm", "-o", picture)[0] == 0
    assert picture.read_text("utf-8").startswith("digraph {")
    for dtype, end in {"bfloat16": "bf16", "int8": "int8", "float64": "f8"}.items():
        found = shown(capsys, "lstm", "--inference", "--dtype", dtype, "--source")
        assert found[0] == 0 and f"product_rows_{end}" in found[1] and dtype in found[1].splitlines()[0]


def test_the_source_is_what_a_scan_compiles():
    plan = Scan(LSTMCell(3, 4)).plan(training=True)
    source = Report(LSTMCell(3, 4)).source()
    for one, name in ((plan.forward, "forward"), (plan.backward, "backward")):
        assert emit(one, F4, name, F4).source in source


def test_a_cell_of_ones_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("beside.py").write_text("")
    before = list(sys.path)
    assert shown(capsys, "mine.py:Mine")[1].startswith("Mine 3 -> 4")
    assert shown(capsys, "mine.Mine") == shown(capsys, "mine.py:Mine")
    assert "b[0:4]" not in shown(capsys, "mine.py:narrow")[1]
    Path("json.py").write_text("from nmt.rnn import LSTMCell\nclass Cell(LSTMCell): pass\n")
    assert shown(capsys, "json.py:Cell")[0] == 0 and sys.path == before
    assert sys.modules.get("json") is None or "loads" in vars(sys.modules["json"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lstn"], "CELL: must be the name of a cell, or FILE.py:CLASS, got lstn; did you mean lstm"),
        (["none.py:Mine"], "CELL: none.py must be a file with Python code, got none such"),
        (["mine.py:Absent"], "CELL: mine.py:Absent must be a cell of that file, got AttributeError"),
        (["mine.py:Wrong"], r"widths must be equal, got 3 \(x\), 4 \(h\).*\(mine.py:13\)"),
        (["lstm", "--columns", "59"], "show: columns must be from 60 to 200, got 59"),
        (["lstm", "-o", "x.png"], "show: output must be a file that ends in .dot or .svg, got x.png"),
    ],
)
def test_mistakes_are_one_line(arguments, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("beside.py").write_text("")
    code, out, err = shown(capsys, *arguments)
    assert code == 1 and out == "" and err.count("\n") == 1 and re.search(said, err), err
