"""What the scripts of benchmarks/ share: cases, the record, modules that are gone after a test."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_work_of_one_layer_is_counted_by_the_formula() -> None:
    from _cases import Shape, operations

    shape = Shape("s", T=3, N=2, I=5, H=7)
    assert operations("lstm", shape, "inference") == 2 * (3 * 2) * (5 + 7) * (4 * 7)
    assert operations("gru", shape, "training") == 3 * 2 * (3 * 2) * (5 + 7) * (3 * 7)


def test_work_of_a_bidirectional_stack_counts_both_directions_and_their_joined_output() -> None:
    from _cases import Shape, operations

    shape = Shape("s", T=3, N=2, I=5, H=7, layers=2, bidirectional=True)
    first, second = 2 * 6 * (5 + 7) * 7, 2 * 6 * (14 + 7) * 7
    assert operations("rnn_tanh", shape, "inference") == 2 * first + 2 * second


@pytest.mark.parametrize(("T", "N", "mean"), [(30, 64, 15), (9, 6, 4), (10, 5, 9)])
def test_mixed_lengths_keep_their_mean_and_order(T: int, N: int, mean: int) -> None:
    from _cases import Shape

    lengths = Shape("s", T=T, N=N, I=1, H=1, mean_length=mean).lengths()
    assert lengths.sum() == mean * N
    assert lengths[0] == lengths.max() == T
    assert lengths.min() >= 2
    assert (np.diff(lengths) <= 0).all()


def test_mixed_lengths_count_real_steps_only_and_blank_the_rest() -> None:
    from _cases import Shape, make_inputs, operations

    shape = Shape("s", T=6, N=4, I=3, H=2, mean_length=4)
    assert operations("rnn_relu", shape, "inference") == 2 * 16 * (3 + 2) * 2
    _, arrays = make_inputs("rnn_relu", shape)
    assert np.count_nonzero(arrays["x"].any(-1)) == 16


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mxnet", (300, 20, 800, 800, 1, False)),
        ("mxnet5", (300, 20, 800, 800, 5, False)),
        ("mxnet5bi", (300, 20, 800, 800, 5, True)),
        ("cudnn", (8, 128, 1024, 1024, 3, False)),
    ],
)
def test_shapes_are_those_of_the_tables_of_others(name, sizes) -> None:
    """MXNet's second table has one direction in its caption and both in its heading."""
    from _cases import SHAPES

    shape = SHAPES[name]
    assert (shape.T, shape.N, shape.I, shape.H, shape.layers, shape.bidirectional) == sizes


EVENTS = [
    {"event": "start", "time": 1010.0},
    {"event": "train", "time": 1100.0},
    {"event": "start", "time": 5000.0},  # the run was interrupted and resumed much later
    {"event": "end", "time": 5300.0, "elapsed": 360.0},
    {"event": "test", "time": 5320.0, "bleu": 40.5, "signatures": {"bleu": "tok:13a"}},
]


def test_minutes_are_of_training_and_scoring():
    from record import figures_of

    assert figures_of(EVENTS) == (pytest.approx(380 / 60), 40.5, "tok:13a")
    assert figures_of(EVENTS[:-1]) is None


def test_an_unfinished_line_of_the_log_is_left_out(tmp_path):
    from record import events_of

    assert events_of(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in EVENTS) + '{"event": "tr')
    assert events_of(tmp_path) == EVENTS


def test_a_row_belongs_to_a_commit(tmp_path):
    from record import Figures, commit_of, row_of

    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "file").write_text("one")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    commit = commit_of(tmp_path)
    assert f" | {commit} | 7.0 | 40.50 | a=1 | " in row_of(Figures(7.0, 40.5, ""), commit, ["a=1"])
    assert row_of(Figures(7.0, 40.5, "case:lc|tok:13a"), commit, []).endswith(r" | case:lc\|tok:13a |")
    (tmp_path / "file").write_text("two")
    with pytest.raises(SystemExit, match="without changes"):
        commit_of(tmp_path)


def test_the_code_of_a_command_that_fails_is_passed_on(tmp_path, monkeypatch):
    import record

    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(SystemExit, match="1"):
        record.train(tmp_path / "config.yaml", tmp_path, [])


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
_OPTIONAL = {"ctranslate2", "cupy", "matplotlib", "onmt", "torch", "yoyodyne"}


def test_a_library_of_the_same_name_is_left_alone(importable, monkeypatch):
    library = ModuleType("translate")
    monkeypatch.setitem(sys.modules, "translate", library)
    with importable():
        from translate import main

        assert callable(main)
    assert sys.modules["translate"] is library


def test_nothing_stays_loaded(importable):
    before = list(sys.path)
    with importable():
        import peak

        assert peak.__doc__
    assert "peak" not in sys.modules and sys.path == before


def test_what_the_scripts_import_of_nmt_is_there():
    """One of them asked for names that were gone, and nobody had run it since."""
    gone = []

    def is_there(module, name):
        return hasattr(module, name) or (hasattr(module, "__path__") and find_spec(f"{module.__name__}.{name}"))

    for path in sorted(BENCHMARKS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nmt":
                module = import_module(node.module)
                gone += [f"{path.name}: {module.__name__}.{a.name}" for a in node.names if not is_there(module, a.name)]
    assert gone == []


def test_what_the_scripts_import_of_one_another_is_there():
    """One of them asked for a script that had been removed."""
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    asked = {
        (path.name, name)
        for path in sorted(BENCHMARKS.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in imported(node)
    }
    gone = {(path, name) for path, name in asked if name not in names | _OPTIONAL and find_spec(name) is None}
    assert gone == set()


def imported(node):
    """Return the modules that a statement imports, without what is below them."""
    if isinstance(node, ast.Import):
        return [one.name.split(".")[0] for one in node.names]
    return [node.module.split(".")[0]] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
