"""Every path that a command takes, and everything that can be wrong with one: an error of one line, and nothing
changes. The options are found by their declarations: a new one cannot escape."""

import cmath  # noqa: F401 - who may not read the files of Python cannot import them either
import hashlib
import importlib
import os
import pkgutil
import shutil
import tempfile
from contextlib import chdir, contextmanager, suppress
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

import nmt
from nmt.cli.entry import COMMANDS
from nmt.cli.front import load_command
from nmt.cli.options import path_types as types
from nmt.storage import model_folder
from nmt.system.paths import _MODEL_NAMES, _MODEL_SUFFIXES, is_model_file
from tests.saved_models import write_folder

NO_PATHS = {
    *("prefix_text", "column", "output_column", "cells", "checkpoint", "tag", "title"),
    *("kind", "member", "src_lang", "tgt_lang", "host", "ref_separator", "overrides", "grid", "budget"),
    *("allow_host", "allow_origin", "columns", "sheet"),
}
"""Parameters that are text and name no file or folder."""
NEEDED = {
    "train": {"inputs": "c.yaml"},
    "translate": {"model_dir": "model", "inputs": "text"},
    "evaluate": {"model_dir": "model", "src": "text", "ref": "other"},
    "score": {"model_dir": "model", "src": "text", "tgt": "other"},
    "quantize": {"model_dir": "model", "output": "new"},
    "average": {"model_dir": "model", "output": "new", "files": "best"},
    "shortlist": {"model_dir": "model"},
    "bundle": {"model_dir": "model", "output": "new.nmt"},
    "cache": {"work": "fill", "models": "model"},
    "serve": {"models": "model"},
    "import": {"source": "model", "output": "new"},
    "export": {"model_dir": "model", "output": "new", "form": "numpy"},
    "report": {"folders": "model", "output": "new"},
    "sweep": {"config": "c.yaml"},
    "studio": {"no_browser": True},
    "backtranslate": {"model_dir": "model", "text": "text", "output": "new"},
}
BESIDE = {
    "hyp": {"model_dir": None, "src": None},
    "dictionary": {"replace_unk": True},
    ("shortlist", "src"): {"tgt": "text"},
    ("shortlist", "tgt"): {"src": "text"},
    ("train", "dev"): {"inputs": "pairs.tsv", "folder": "new", "src_lang": "xx", "tgt_lang": "yy"},
    "dev_src": {"dev_tgt": "text"},
    "dev_tgt": {"dev_src": "text"},
}
"""What else a parameter needs, or cannot be beside."""
FOR_ALL = ["", "x" * 300, "y/" * 3000 + "y", *["loop/x", "$loop"] * (os.name == "posix"), "text/below"]
BAD = {
    types.INPUT: ["none", "text/", "b\udcff", "a train leaves at noon"],
    types.OUTPUT_FILE: ["folder", "folder/", "none/x", "new/", "model/config.yaml", "model/best.safetensors"],
    types.OUTPUT_PLACE: ["none/x", "new/"],
    types.OUTPUT_PREFIX: ["folder/", "new/", "none/x"],
    types.OUTPUT_FOLDER: ["text", "text/"],
    **dict.fromkeys((types.NEW_FOLDER, types.NEW_PLACE), ["text", "folder", "model", "text/"]),
}
FORBIDDEN = dict.fromkeys(BAD, ["closed/x", "protected/x"]) | {
    types.INPUT: ["closed/text", "secret"],
    types.OUTPUT_FILE: ["closed/x", "readable", "protected/x"],
}
"""The same for who may not ignore modes."""


def parameters():
    return [(name, param) for name in COMMANDS for param in load_command(name).params]


PATHS = [(name, param) for name, param in parameters() if isinstance(param.type, types.PathType)]


def cases(bad, everywhere=()):
    for name, param in PATHS:
        for path in [*everywhere, *bad[param.type]]:
            if param.type is types.INPUT and param.name == "files" and path in ("text/below", "none"):
                continue
            shown = path if len(path) < 30 else f"{len(path)} bytes"
            yield pytest.param(name, param, path, id=f"{name}-{param.name}-{ascii(shown)}")


@pytest.fixture(scope="module")
def place():
    """A folder below one that everybody may enter, which pytest's are not."""
    for module in pkgutil.walk_packages(nmt.__path__, "nmt."):
        with suppress(ImportError):  # of extras that are not installed
            importlib.import_module(module.name)
    folder = Path(tempfile.mkdtemp())
    write_folder(folder / "model")
    for name in ("text", "other"):
        (folder / name).write_text("kara losu\nmiti\n")
    (folder / "pairs.tsv").write_text("kara losu\tmiti\n" * 20)
    (folder / "c.yaml").write_text(yaml.safe_dump({"model_dir": "run", "data": {"train": "text", "dev": "text"}}))
    (folder / "folder").mkdir()
    (folder / "folder" / "one").write_text("1\n")
    if os.name == "posix":
        (folder / "loop").symlink_to("loop")
    for name, mode in (("closed", 0o000), ("protected", 0o555)):
        (folder / name).mkdir()
        (folder / name / "text").write_text("kara\n")
        (folder / name).chmod(mode)
    for name, mode in (("secret", 0o000), ("readable", 0o444)):
        (folder / name).write_text("kara\n")
        (folder / name).chmod(mode)
    folder.chmod(0o755)
    yield folder
    for name in ("closed", "protected", "secret", "readable"):
        (folder / name).chmod(0o755)
    shutil.rmtree(folder)


def everything(folder):
    """What a folder holds: names, modes, bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        held = path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)
        found[str(path)] = mode, hashlib.sha256(path.read_bytes()).hexdigest() if held else ""
    return found


def words_of(name, param, value):
    """A command line of what the command needs, with a path for one parameter."""
    command = load_command(name)
    given = {**NEEDED[name], **BESIDE.get((name, param.name), BESIDE.get(param.name, {})), param.name: value}
    options, arguments = [], []
    for one in command.params:
        wanted = given.get(one.name)
        if wanted is None:
            continue
        if isinstance(one, click.Argument):
            arguments.append(wanted)
        elif one.is_flag:
            options.append(one.opts[0])
        else:
            options += [one.opts[0], *[wanted] * one.nargs]
    return command, [*options, *arguments]


def assert_one_line(place, name, param, path):
    before = everything(place)
    command, words = words_of(name, param, path)
    with chdir(place):
        result = CliRunner().invoke(command, words, prog_name=f"nmt-{name}")
    assert result.exit_code in (1, 2), result.output
    assert isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.splitlines()
    assert [line for line in lines if line.startswith("Error: ")] == lines[-1:], lines
    others = "compiling machine code", "warning: ", '{"time": '  # the log of the server, which has begun, is JSON
    assert result.exit_code == 2 or [line for line in lines if not line.startswith(others)] == lines[-1:], lines
    assert len(lines[-1]) < 1000
    assert everything(place) == before
    return lines[-1]


def test_each_parameter_that_is_text_has_a_type_for_paths_or_names_none():
    texts = {param.name for _, param in parameters() if isinstance(param.type, click.types.StringParamType)}
    assert texts <= NO_PATHS, (
        f"give {sorted(texts - NO_PATHS)} a type of nmt.cli.options.path_types, or name it in NO_PATHS"
    )
    assert len(PATHS) > 40
    assert set(NEEDED) == set(COMMANDS)


@pytest.mark.parametrize(("name", "param", "path"), list(cases(BAD, FOR_ALL)))
def test_a_bad_path_is_one_line_and_changes_nothing(name, param, path, place):
    path = {"$loop": "loop"}.get(path, path)
    assert_one_line(place, name, param, path)


@contextmanager
def nobody():
    """Without the right to ignore modes, which root has."""
    if os.geteuid():
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.skipif(not hasattr(os, "setresuid"), reason="modes are not obeyed")
@pytest.mark.parametrize(("name", "param", "path"), list(cases(FORBIDDEN)))
def test_a_path_that_is_forbidden_is_one_line_and_changes_nothing(name, param, path, place):
    if os.geteuid() == 0:
        for folder in (place, *place.iterdir()):
            if not folder.is_symlink():
                os.chown(folder, 65534, -1)
    with nobody():
        line = assert_one_line(place, name, param, path).lower()
    wants_folder = path == "secret" and name in ("average", "report", "backtranslate") and param.name != "text"
    if path == "secret" and param.name in ("dev", "memory"):
        assert "must be a prefix, p for p.xx and p.yy, got a file" in line, "a single file is not opened"
    else:
        assert "permission denied" in line or wants_folder


def test_files_of_a_model_are_known_by_their_names(place):
    names = {value for key, value in vars(model_folder).items() if key.endswith("_NAME")} - {model_folder.BEGUN_NAME}
    names |= set(model_folder.SUBWORD_NAMES.values())
    assert all(name in _MODEL_NAMES or name.endswith(_MODEL_SUFFIXES) for name in names)
    assert is_model_file(place / "model" / "best.safetensors") and is_model_file(place / "model" / "joint.spm")
    assert not is_model_file(place / "model" / "train.xx") and not is_model_file(place / "c.yaml")
