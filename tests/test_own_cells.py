"""Cells named by dotted path: code that comes with a model runs only where its module is allowed by name, and what
authors get wrong is one line that names their file and line."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from nmt import TrainingResult, Translator
from nmt.cli.commands.evaluate import evaluate
from nmt.cli.commands.pages.report import report
from nmt.cli.commands.quantize import quantize
from nmt.cli.commands.score import score
from nmt.cli.commands.shortlist import shortlist
from nmt.cli.commands.translate import translate
from nmt.config import config_from_dict, dump_config, load_config
from nmt.errors import ConfigError, ShapeError
from nmt.model.parts import cells
from nmt.model.parts.cells import check_allowed, import_allowed_cells, import_cell
from nmt.rnn import Cell, LSTMCell, Scan, State, check, graph, tanh
from nmt.storage.model_folder import read_checkpoint
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from nmt.storage.tensor_file import write_tensors
from tests.cli.test_cli_models import call
from tests.refusals import refused
from tests.saved_models import sentences, write_folder
from tests.settings import changed, settings_with

ROOT = Path(__file__).resolve().parent.parent
MINE = """
from nmt.rnn import GRUCell

class MyCell(GRUCell):
    pass
"""
NUMBERED = MINE.replace("pass", "number = 1")
RENAMED = """
from nmt.rnn import Cell, Param, State, tanh

class Renamed(Cell):
    def __init__(self, input_size, hidden_size):
        self.input_size, self.output_size, self.H = input_size, hidden_size, hidden_size

    def params(self):
        D, H = self.input_size, self.H
        return {"V": Param((D, H)), "A": Param((H, H)), "B": Param((H, H)), "out": Param((H, H))}

    def states(self):
        return {"h": self.H}

    def step(self, p, x, s):
        h = tanh(x @ p.V + (s.h @ p.A) @ p.B)
        return h @ p.out, State(h=h)
"""
TRAP = """
import pathlib
pathlib.Path(__file__).with_name("ran").write_text("code of a model was run")
from nmt.rnn import LSTMCell as Cell
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder; modules that are imported from it are forgotten, and so are those that others have imported
    under names of this file."""
    for name in ("my_cells", "his_cells", "evil"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(cells, "_versions", {})
    known = set(sys.modules)
    elsewhere = [place for place in sys.path if Path(place or ".").resolve() != ROOT]  # a user's own my_cells.py
    monkeypatch.setattr(sys, "path", elsewhere)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def model_of(path, cell, **options):
    """A model folder whose settings, those in its checkpoint too, name a cell that it was not trained with, as a
    stranger would edit it."""
    write_folder(path, **options)
    sides = [(f"model.{side}.rnn_type", cell) for side in ("encoder", "decoder")]
    settings = changed(load_config(path / "config.yaml").to_dict(), sides)
    (path / "config.yaml").write_text(dump_config(config_from_dict(settings)))
    tensors, content = read_checkpoint(path / "best.safetensors")
    write_tensors(path / "best.safetensors", tensors, content | {"config": settings})
    return path


def own_model(folder, make=write_folder):
    """A whole model of one's own cells."""
    (folder / "my_cells.py").write_text(MINE)
    import_cell("my_cells.MyCell")
    return make(folder / "model", encoder={"rnn_type": "my_cells.MyCell"}, decoder={"rnn_type": "my_cells.MyCell"})


# ---------------------------------------------------------------- whose code runs


COMMANDS = {
    "translate": (translate, "model", "text"),
    "ensemble": (translate, "good", "text", "--ensemble", "model"),
    "evaluate": (evaluate, "model", "--src", "text", "--ref", "text"),
    "score": (score, "model", "--src", "text", "--tgt", "text"),
    "quantize": (quantize, "model", "-o", "new"),
    "shortlist": (shortlist, "model", "--src", "text", "--tgt", "text"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_code_of_a_strangers_model(command, folder):
    (folder / "evil.py").write_text(TRAP)
    (folder / "text").write_text("kara\n")
    if command == "ensemble":
        write_folder(folder / "good")
    model_of(folder / "model", "evil.Cell")
    told = call(*COMMANDS[command], code=1).stderr
    assert "evil.Cell" in told and "--cells evil" in told and told.count("\n") == 1 and not (folder / "ran").exists()


def test_a_command_run_in_a_strangers_folder_runs_nothing_of_it(folder):
    model = model_of(folder / "model", "evil.Cell")
    for name in ("evil.py", "json.py", "numba.py", "sitecustomize.py"):
        (model / name).write_text(TRAP)
    nmt_translate = Path(sys.executable).with_name("nmt-translate")
    if not nmt_translate.exists():
        pytest.skip("the commands are not installed beside this Python")
    done = subprocess.run([nmt_translate, "."], cwd=model, input="kara\n", capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "" and not (model / "ran").exists()
    assert done.stderr == (
        "Error: config.yaml: model.encoder.rnn_type must be a cell of nmt or one whose module you allow (none now), "
        'got evil.Cell, whose code would run; if you trust evil, allow it: --cells evil, in Python cells=["evil"]\n'
    )


def test_nothing_looks_for_a_module_that_is_not_allowed(folder, monkeypatch):
    """To look for `package.module` would import the package."""
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text(TRAP)
    (folder / "package" / "module.py").write_text(MINE)
    model = model_of(folder / "model", "package.module.MyCell")
    asked = []

    class Witness:
        def find_spec(self, name, path=None, target=None):
            asked.append(name)

    monkeypatch.setattr(sys, "meta_path", [Witness(), *sys.meta_path])
    before = list(sys.path)
    refused(ConfigError, "--cells package.module", Translator.load, model)
    assert not [name for name in asked if name.startswith("package")] and not (folder / "package" / "ran").exists()
    assert sys.path == before


def test_a_report_draws_the_attention_of_a_model_of_ones_own_cells(folder):
    """Its warning names an option that it has."""
    model = own_model(folder)
    events = [{"event": "start"}, {"event": "samples", "update": 1, "samples": [{"source": sentences(1)[0]}]}]
    (model / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    told = call(report, model, "-o", folder / "r.html").stderr
    assert "no attention is drawn" in told and "--cells my_cells" in told
    assert "warning" not in call(report, model, "-o", folder / "r.html", "--cells", "my_cells").stderr
    assert "\\u003csvg" in (folder / "r.html").read_text("utf-8")


def test_a_run_allows_the_cells_that_it_has_used(folder):
    model = own_model(folder)
    result = TrainingResult(model, "4 epochs", None, 4, model / "best.safetensors", 4, cells=("my_cells", "my_cells"))
    lines = sentences(3)
    assert result.translator().translate(lines) == Translator.load(model, cells=["my_cells"]).translate(lines)
    refused(ConfigError, "--cells my_cells", result.translator, cells=[])


def test_a_model_of_ones_own_cells_translates_where_they_are_allowed(folder):
    model = own_model(folder)
    lines = sentences(5, seed=5)
    found = Translator.load(model, cells=["my_cells"]).translate_nbest(lines, n_best=2)
    assert found == Translator.load(model, cells=["json", "my_cells.MyCell"]).translate_nbest(lines, n_best=2)
    result = call(translate, model, "--scores", "--cells", "json", "--cells", "my_cells", given="\n".join(lines) + "\n")
    scores = [float(line.split("\t")[2]) for line in result.stdout.splitlines()]
    assert scores == pytest.approx([best.score for best, *_ in found], abs=1e-4)
    save_quantised(folder / "int8", load_saved_model(model, cells=["my_cells"]))
    assert len(Translator.load(folder / "int8", cells=["my_cells"]).translate(lines)) == 5
    refused(ConfigError, "--cells my_cells", save_quantised, folder / "more", load_saved_model(model))
    assert not (folder / "more").exists()


def test_a_bundle_of_ones_own_cells_asks_for_the_same_word(folder):
    """It takes no code along, and making it runs none."""
    model = own_model(folder)
    save_bundle(folder / "m.nmt", load_saved_model(model))
    lines = sentences(5, seed=5)
    refused(ConfigError, r"m.nmt: model.encoder.rnn_type .*--cells my_cells", Translator.load, folder / "m.nmt")
    found = Translator.load(folder / "m.nmt", cells=["my_cells"]).translate_nbest(lines)
    assert found == Translator.load(model, cells=["my_cells"]).translate_nbest(lines)


@pytest.mark.parametrize("names", ["my_cells", [3], ["my cells"], [""], ["../x"], ["a..b"], None, {"my_cells"}])
def test_what_is_allowed_is_a_list_of_modules(names, folder):
    refused(ConfigError, "cells: must be a list of names of modules", check_allowed, names)
    refused(ConfigError, "cells: must be a list", Translator.load, folder, cells=names)


def config_of(cell):
    return settings_with(model={"encoder": {"rnn_type": cell}, "decoder": {"rnn_type": cell}})


@pytest.mark.parametrize("allowed", [["my_cell"], ["my_cells2"], ["my_cells.Other"], ["my_cells.MyCell.x"], []])
def test_a_name_allows_itself_and_what_lies_below(allowed):
    refused(ConfigError, "allow", import_allowed_cells, config_of("my_cells.MyCell"), allowed, "here")


def test_a_package_allows_its_modules(folder):
    (folder / "some_cells").mkdir()
    (folder / "some_cells" / "__init__.py").write_text("")
    (folder / "some_cells" / "deep.py").write_text(MINE)
    import_allowed_cells(config_of("some_cells.deep.MyCell"), ["some_cells"], "here")
    assert type(cells.recurrent_cell("some_cells.deep.MyCell", 3, 4)).__name__ == "MyCell"


def test_files_of_the_folder_stand_in_for_no_other_module(folder):
    """Neither for Python's nor for installed ones: the current folder comes last, and goes again."""
    (folder / "colorsys.py").write_text(TRAP)
    (folder / "my_helpers.py").write_text("NUMBER = 3\n")
    (folder / "his_cells.py").write_text("import colorsys\nfrom my_helpers import NUMBER\n" + MINE)
    sys.modules.pop("colorsys", None)
    before = list(sys.path)
    import_cell("his_cells.MyCell")
    assert sys.path == before and not (folder / "ran").exists()
    assert hasattr(sys.modules["colorsys"], "rgb_to_hsv")


EDITS = {
    "another length": NUMBERED.replace("1", "1 + 1"),
    "the same length": NUMBERED.replace("1", "2"),
    "a constant": "TWO = 2\n" + NUMBERED.replace("1", "TWO"),
}


@pytest.mark.parametrize("who", ["settings", "user"])
@pytest.mark.parametrize("edit", EDITS)
def test_a_cell_whose_file_was_edited_is_a_new_cell(edit, who, folder, monkeypatch):
    """In one process, as a notebook trains it again after an edit; also if its user imported it first."""
    monkeypatch.syspath_prepend(str(folder))
    file = folder / "my_cells.py"
    file.write_text(NUMBERED)
    if who == "user":
        import_module("my_cells")
    else:
        assert made("my_cells.MyCell").number == 1
    file.write_text(EDITS[edit])
    assert made("my_cells.MyCell").number == 2
    assert type(made("my_cells.MyCell")) is type(made("my_cells.MyCell")) is sys.modules["my_cells"].MyCell


def run_in(folder, *words):
    options = {"cwd": folder, "capture_output": True, "text": True, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    return subprocess.run([sys.executable, "-m", "nmt", *words], **options)


def test_what_an_edited_cell_has_learned_is_used_with_a_warning(folder):
    """By resuming and by translating; not after an edit that changes no equation, nor for a model without digests."""
    for text in (folder / "text.en", folder / "text.de"):
        text.write_text("".join(f"{line}\n" for line in sentences(30)))
    file = folder / "my_cells.py"
    file.write_text(RENAMED)
    side = {"rnn_type": "my_cells.Renamed", "hidden_size": 4, "embeddings": {"embedding_dim": 4}}
    settings = {
        "model_dir": "run",
        "data": {"train": "text", "dev": "text", "src": {"lang": "en"}, "tgt": {"lang": "de"}}
        | {"subwords": {"vocab_size": 40}, "check": False},
        "model": {"encoder": side, "decoder": side},
        "training": {"updates": 2, "epochs": 9, "validation_freq": 2, "learning_rate_warmup": 1},
    }
    (folder / "run.yaml").write_text(json.dumps(settings))
    train, translate = ["train", "run.yaml"], ["translate", "run", "--cells", "my_cells", "text.en"]

    def said(*commands):
        lines = []
        for words in commands:
            done = run_in(folder, *words)
            assert done.returncode == 0, done.stderr
            lines.append([line for line in done.stderr.splitlines() if "has been edited" in line])
        return lines

    assert said(train) == [[]]
    file.write_text(RENAMED.replace("h = tanh(", "# the same\n        h = tanh("))
    assert said(train, translate) == [[], []]
    file.write_text(RENAMED.replace("h = tanh(", "h = 0.5 * tanh("))
    resumed, translated = said(train, translate)
    end = "what was learned belongs to the former equations: give the edited cell another name and train it"
    assert len(resumed) >= 1 and all(line.endswith(end) and "my_cells.Renamed has been" in line for line in resumed)
    assert [line.partition(":")[0] for line in translated] == ["warning"] and translated[0].endswith(end)


def test_a_file_that_lost_its_cell_or_its_sense_is_an_error(folder):
    file = folder / "my_cells.py"
    file.write_text(MINE)
    made("my_cells.MyCell")
    file.write_text(MINE.replace("MyCell", "OtherCell"))
    refused(ConfigError, "got AttributeError: .*MyCell", made, "my_cells.MyCell")
    file.write_text("def broken(:\n")
    for _ in range(2):
        refused(ConfigError, r"invalid syntax .*\(my_cells.py:1\)", made, "my_cells.MyCell")
    file.write_text(MINE)
    assert type(made("my_cells.MyCell")).__name__ == "MyCell"
    file.unlink()
    assert type(made("my_cells.MyCell")).__name__ == "MyCell"


def test_a_path_that_was_not_imported_leads_to_no_code(folder):
    (folder / "evil.py").write_text(TRAP)
    refused(ConfigError, r"rnn_type: evil\.Cell must be imported", cells.recurrent_cell, "evil.Cell", 3, 4)
    assert not (folder / "ran").exists()


# ---------------------------------------------------------------- what authors get wrong

BASE = """from nmt.rnn import Cell, Param, State, split, tanh

class Base(Cell):
    def __init__(self, input_size, hidden_size):
        self.input_size, self.output_size = input_size, hidden_size

    def params(self):
        return {"W": Param((self.input_size, self.output_size))}

    def states(self):
        return {"h": self.output_size}

"""
AT = BASE.count("\n")
"""Lines before those of the cases."""


def defining(method, *lines):
    body = "".join(f"        {line}\n" for line in lines)
    return f"class Bad(Base):\n    def {method}:\n{body}"


def stepping(*lines):
    return defining("step(self, p, x, s)", *lines)


# What is written, and words of the line; {n} is the n-th line of it, AT the file.
MISTAKES = {
    "a module that raises": ("raise ValueError('two\\nlines')", "got ValueError: two lines (AT:{1})"),
    "a module that leaves": ("import sys\nsys.exit(0)", "got SystemExit: 0 (AT:{2})"),
    "a module that misses another": ("import no_such_thing", "No module named 'no_such_thing' (AT:{1})"),
    "a module that is no Python": ("def step(:", "invalid syntax (bad_cells.py, line {1}) (AT:{1})"),
    "nothing of the name": ("", "has no attribute 'Bad'"),
    "a number": ("Bad = 3", "must be a class of cells or a function of its module, got int"),
    "a function of another module": ("from os.path import join as Bad", f"got join of {os.path.__name__}"),
    "other arguments": (defining("__init__(self, size)", "pass"), "2 positional arguments but 3 were given (AT:{2})"),
    "a constructor that raises": (
        defining("__init__(self, D, H)", "raise KeyError('x')"),
        "got KeyError: 'x' (AT:{3})",
    ),
    "a function that makes nothing": ("def Bad(D, H):\n    return None", "must make a Cell, got NoneType"),
    "sizes of its own": ("def Bad(D, H):\n    return Base(D, 2 * H)", "must be written by the cell"),
    "a step that raises": (stepping("return 1 / 0"), "nmt.rnn, got ZeroDivisionError: division by zero (AT:{3})"),
    "a step that returns nothing": (stepping("pass"), "must return its output and a State, got NoneType (AT:{2})"),
    "a step that returns one thing": (stepping("return tanh(x @ p.W)"), "got Value (AT:{2})"),
    "a step that returns three": (stepping("return x, x, x"), "got 3 things: Value, Value, Value"),
    "a step that leaves": (stepping("raise SystemExit(0)"), "got SystemExit: 0 (AT:{3})"),
    "text for a number": (stepping("return s.h + 'x', s"), "operands must be values of the step or numbers, got str"),
    "a number noted": (stepping("p.note(h=3)", "return s.h, s"), "note: h must be a value of the step, got int"),
    "half a gate": (stepping("return split(s.h, 0)[0], s"), "split: the width must be a multiple of 0"),
    "half a width": (defining("states(self)", "return {'h': 2.5}"), "got 2.5 for 'h'"),
    "no sizes": (defining("__init__(self, D, H)", "pass"), "input_size must be a whole number of at least 1, got None"),
    "an output that is none": (stepping("return 3, s"), "output must be a value computed from x, s and p, got int"),
    "a state of another name": (stepping("return s.c, s"), "Bad.step: a state must be one of h, got c (AT:{3})"),
    "another width": (stepping("return s.h, State(h=x)"), "Bad.step: state h must be [B, 4], got [B, 3] (AT:{2})"),
    "widths that do not go together": (
        stepping("h = s.h", "return h + x, s"),
        "Bad.step: add: widths must be equal, got 4 (h), 3 (x); check the cell's parameters (AT:{4})",
    ),
    "a method of arrays": (
        stepping("return s.h * x.mean(), s"),
        "Bad.step: a value of a step, which is traced once without numbers, has no .mean; there are + - * / "
        "@, split, concat, sigmoid, tanh, relu, exp, softplus, sqrt, maximum, positive, mean, dot (AT:{3})",
    ),
    "a branch": (
        stepping("return (s.h if s.h <= 0 else x), s"),
        "numbers and cannot branch on them; positive(x) is 1 where x > 0 (AT:{3})",
    ),
    "a parameter of another name": (stepping("return x @ p.V, s"), "got none of that name among W, x (AT:{3})"),
    "text for a value": (stepping("return tanh('x'), s"), "tanh: must be given values of the step, got str (AT:{3})"),
    "parameters that are none": (
        defining("params(self)", "return {'W': (3, 4)}"),
        "each name, got (3, 4) for 'W' (AT:{2})",
    ),
    "starts of no states": (defining("starts(self)", "return ('c',)"), "of names of its states, got ('c',) (AT:{2})"),
    "learned starts of another width": (
        defining("learned(self)", "return {'h': 'W'}"),
        "its states, got {'h': 'W'} (AT:{2})",
    ),
    "an error that cannot be read": (
        "class Odd(Exception):\n    def __str__(self):\n        return 1 / 0\nraise Odd",
        "got Odd (AT:{4})",
    ),
}


def write_mistake(folder, case):
    code, words = MISTAKES[case]
    words = words.replace("(AT:", "(bad_cells.py:")
    (folder / "bad_cells.py").write_text(BASE + code + "\n")
    for n in range(1, 6):
        words = words.replace(f"{{{n}}}", str(AT + n))
    return words


def made(path):
    import_cell(path)
    return cells.recurrent_cell(path, 3, 4)


@pytest.mark.parametrize("case", MISTAKES)
def test_what_an_author_gets_wrong_is_one_line_with_its_place(case, folder, capsys):
    words = write_mistake(folder, case)
    line = refused(ConfigError, "^rnn_type: bad_cells.Bad", made, "bad_cells.Bad")
    assert words in line, line
    if isinstance(kind := getattr(sys.modules.get("bad_cells"), "Bad", None), type):
        assert not check(kind, input_size=3, hidden_size=4)
        assert words in (printed := capsys.readouterr().out) and printed.count("\n") == 1


@pytest.mark.parametrize(
    "path", ["no_such_module.Cell", "no.such.Cell", "os.path.join", "nmt.errors.NMTError", "__main__.MyCell"]
)
def test_a_path_to_no_cell_is_one_line(path, folder):
    refused(ConfigError, rf"^rnn_type: {path} must be a c.*docs/add-a-cell\.md$", made, path)


def test_a_cell_by_nearly_its_name_is_named(folder):
    (folder / "near_cells.py").write_text("from nmt.rnn import LSTMCell\nclass MyGRUCell(LSTMCell):\n    pass\n")
    refused(ConfigError, r"no attribute .*; did you mean near_cells\.MyGRUCell\?$", made, "near_cells.MyGRUcell")
    refused(ConfigError, r"docs/add-a-cell\.md$", made, "near_cells.LSTMcel")  # which is imported there
    assert check_allowed(["near_cells.py", "more.cells"]) == ("near_cells", "more.cells")


@pytest.mark.parametrize("size", [6, 2])
def test_sizes_are_those_that_were_asked_for(folder, size):
    code = f"from nmt.rnn import LSTMCell\ndef wrong(D, H):\n    return LSTMCell(D, {size})\n"
    (folder / "wide_cells.py").write_text(code)
    refused(ConfigError, f"of input_size 3 and output_size 4, got 3 and {size}", made, "wide_cells.wrong")


def test_training_with_such_a_cell_ends_at_once(folder):
    """Before the texts are read, and with a code that is not 0."""
    words = write_mistake(folder, "a module that leaves")
    settings = ["model.encoder.rnn_type=bad_cells.Bad", f"model_dir={folder / 'model'}"]
    options = [word for setting in settings for word in ("--set", setting)]
    done = run_in(folder, "train", str(ROOT / "configs" / "quickstart.yaml"), *options)
    assert done.returncode == 1 and done.stdout == "" and not (folder / "model").exists()
    assert done.stderr.startswith("Error: model.encoder.rnn_type: bad_cells.Bad") and done.stderr.count("\n") == 1
    assert words in done.stderr


def test_bugs_of_ours_keep_their_traceback(folder, monkeypatch):
    (folder / "fine_cells.py").write_text(BASE + stepping("return s.h * x @ p.W, s").replace("Bad", "Fine"))
    import_cell("fine_cells.Fine")
    code = compile("def broken(self, *args, **attrs):\n    return {}['a bug']\n", graph.__file__, "exec")
    names = {}
    exec(code, names)
    monkeypatch.setattr(graph.Graph, "apply", names["broken"])
    refused(KeyError, "a bug", cells.recurrent_cell, "fine_cells.Fine", 3, 4)


def test_an_interrupt_is_nobodys_mistake(folder):
    (folder / "slow_cells.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        import_cell("slow_cells.Cell")


class Raises(LSTMCell):
    def step(self, p, x, s):
        return tanh(x @ p.W_x), self.missing


def test_the_core_says_it_too(capsys):
    """In a notebook, where cells come by no name; the author's error is the cause."""
    line = rf"^Raises\.step: .* no attribute 'missing' \(.*{Path(__file__).name}:\d+\)$"
    with pytest.raises(ShapeError, match=line) as caught:
        Scan(Raises(3, 4))
    assert isinstance(caught.value.__cause__, AttributeError)
    assert not check(Raises) and "Raises.step: must compute" in capsys.readouterr().out
    assert not check(lambda D, H: 1 / 0) and "must make a cell" in capsys.readouterr().out
    assert not check(lambda D, H: None) and "must make a Cell, got NoneType" in capsys.readouterr().out


class Keeping(Cell):
    """Keeps a value of the first call, of training, for the second."""

    input_size = output_size = 3

    def __init__(self, use):
        self.use, self.kept = use, None

    def step(self, p, x, s):
        self.kept = self.kept or tanh(x)
        return self.use(p.dropout(x, 0.5), self.kept), State()


@pytest.mark.parametrize(
    ("use", "words"),
    [(lambda x, kept: kept, "output must be .*, got one of another call"), (lambda x, kept: x + kept, "got one kept")],
)
def test_values_of_one_call_are_of_no_use_to_the_next(use, words):
    refused(ShapeError, rf"^Keeping\.step: .*{words}", Scan, Keeping(use))
