"""`nmt COMMAND` is `nmt-COMMAND`, starts as quickly, and shells know both."""

import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import nmt
from docs import shell
from nmt.cli import entry
from nmt.cli.entry import COMMANDS
from nmt.cli.front import front, load_command, summary_of
from nmt.cli.lines.streams import quietly, tell
from nmt.cli.options import help_page
from nmt.cli.options.command import Command
from tests.processes import python

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
HEAVY = {"numpy", "numba", "pydantic", "yaml", "sacrebleu", "rich", "sentencepiece", "safetensors"}


def run_module(*words, **extra):
    return subprocess.run([sys.executable, "-m", "nmt", *words], capture_output=True, text=True, **extra)


def shown_and_loaded(*commands):
    """What `nmt` prints for lines of words, and the names of all modules that are loaded then."""
    program = "import sys\nfrom nmt.cli.front import front\nfor words in sys.argv[1:]:\n"
    program += "    front(words.split(), prog_name='nmt', standalone_mode=False)\nprint('loaded:', *sys.modules)\n"
    shown, _, loaded = python(program, *commands).stdout.partition("loaded:")
    return shown, set(loaded.split())


def test_scripts_are_the_commands():
    scripts = dict(PROJECT["project"]["scripts"])
    assert scripts.pop("nmt") == "nmt.cli.entry:front"
    assert set(scripts) == {f"nmt-{name}" for name in COMMANDS}
    for name, target in scripts.items():
        module, function = target.split(":")
        assert module == "nmt.cli.entry" and getattr(entry, function).args[1] == name


def test_the_list_names_all_commands_and_loads_nothing_heavy():
    shown, loaded = shown_and_loaded("--help", *(f"{name} --help-all" for name in COMMANDS))
    assert "click" in loaded and not HEAVY & loaded
    assert re.findall(r"^  ([a-z]+)  +[A-Z]", shown, re.M) == list(COMMANDS)
    assert all(f"\n{heading}:\n" in shown for heading in entry.GROUPS)


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_are_shown_whole_and_options_in_groups(name):
    """Twelve of sixteen summaries were cut off; nmt-translate listed 58 options in one column."""
    command = load_command(name)
    listed = " ".join(CliRunner().invoke(front, []).output.split())
    assert f" {name} {summary_of(command)} " in listed and 20 < len(summary_of(command)) < 72
    own = {param.name for param in command.params if isinstance(param, click.Option) and param.expose_value}
    first = help_page.FIRST.get(name, "").split()
    if len(own) > help_page.FEW:
        grouped = " ".join(help_page.GROUPS.values()).split()
        assert own <= {*grouped} and len(grouped) == len({*grouped})
    if first:
        assert len(first) == 12 and own > {*first}
        short, whole = (CliRunner().invoke(command, [word]).output for word in ("--help", "--help-all"))
        assert f"{len(own) - 12} more options: " in short and "--help-all" in short.splitlines()[-1]
        assert "more options:" not in whole and re.search(r"^Search:|^Run:|^Limits:|^Speed:", whole, re.M)
    else:
        assert len(own) <= 14


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["help"], ["--help"]),
        (["-h"], ["--help"]),
        (["translate", "-h"], ["translate", "--help"]),
        (["help", "train"], ["train", "--help"]),
        (["-q", "help", "cache"], ["cache", "--help"]),
        (["version"], ["--version"]),
    ],
)
def test_help_and_version_are_words_too(words, same):
    said, meant = (CliRunner().invoke(front, given, prog_name="nmt") for given in (words, same))
    assert said.exit_code == 0 and said.output == meant.output


def test_defaults_name_their_settings():
    shown = " ".join(CliRunner().invoke(load_command("translate"), ["--help-all"]).output.split())
    assert "[default: 5; setting decoding.beam_size; 1<=x<=1000]" in shown and "of the config, or" not in shown
    assert "[default: 64M; x>=0]" in " ".join(CliRunner().invoke(load_command("serve"), ["--help-all"]).output.split())


def test_verbose_shows_where_an_error_arose(tmp_path):
    path = str(tmp_path / "missing.yaml")
    plain, told = (CliRunner().invoke(load_command("train"), [path, *more]).stderr for more in ([], ["-v"]))
    assert told.endswith(plain) and told.startswith("Traceback") and "in load_config" in told


def test_one_command_loads_no_other():
    shown, loaded = shown_and_loaded("cache --version")
    assert shown == f"nmt cache {nmt.__version__}\n"
    assert "nmt.cli.commands.cache" in loaded
    assert not {f"nmt.cli.commands.{module}" for module in COMMANDS.values() if module != "cache"} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_the_one_of_its_own_program(name):
    own = CliRunner().invoke(load_command(name), ["--help"], prog_name=f"nmt {name}")
    through = CliRunner().invoke(front, [name, "--help"], prog_name="nmt")
    written_out = CliRunner().invoke(front, [f"nmt-{name}", "--help"], prog_name="nmt")
    assert own.exit_code == through.exit_code == 0
    assert through.output == own.output == written_out.output and f"Usage: nmt {name} " in own.output


@pytest.mark.parametrize(
    "words, message",
    [
        (["trian"], "'trian' is not a command; did you mean train?"),
        (["xyzzy", "--help"], "'xyzzy' is not a command; one of train, "),
        (["generate", "runs/x"], "nmt-generate is not there any more; a library of language models"),
        (["--trian"], "No such option"),
        (["cache", "lits"], "'lits' is not one of"),
        ([""], "'' is not a command"),
    ],
)
def test_what_is_wrong_ends_with_one_line(words, message):
    done = CliRunner().invoke(front, words, prog_name="nmt")
    assert done.exit_code == 2 and done.stdout == ""
    assert message in done.stderr.splitlines()[-1]


def test_errors_of_a_command_pass_through(tmp_path):
    done = run_module("train", str(tmp_path / "missing.yaml"))
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("Error: ") and "missing.yaml" in done.stderr


def test_as_a_module():
    done = run_module("--help", check=True)
    assert done.stdout.startswith("Usage: python -m nmt [OPTIONS] COMMAND") and not done.stderr
    assert run_module("--version", check=True).stdout == f"python -m nmt {nmt.__version__}\n"


def test_pages_and_completion_are_those_of_today():
    pages = shell.manual_pages()
    assert set(pages) == {"nmt.1", *(f"nmt-{name}.1" for name in COMMANDS)}
    assert {path.name for path in (shell.DOCS / "man").iterdir()} == set(pages)
    for folder, files in (("man", pages), ("completion", shell.completions())):
        for name, text in files.items():
            assert (shell.DOCS / folder / name).read_text("utf-8") == text, "run make docs"


@pytest.mark.parametrize("name", COMMANDS)
def test_pages_tell_every_option_and_keep_examples_apart(name):
    page = shell.manual_pages()[f"nmt-{name}.1"]
    shown = page.replace("\\-", "-")
    for parameter in load_command(name).params:
        if parameter.param_type_name == "option":
            assert all(re.search(rf"^\.B .*{option}\b", shown, re.M) for option in parameter.opts)
    assert re.search(rf"\.nf\nExamples?:\n    .*nmt-{name}", shown) and "\b" not in page


def test_troff_takes_the_pages():
    if (groff := shutil.which("groff")) is None:
        pytest.skip("groff is not installed")
    for name, page in shell.manual_pages().items():
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True)
        assert not done.stderr and name.removesuffix(".1") in done.stdout


@pytest.mark.parametrize(
    "typed, suggested",
    [("nmt tra", {"train", "translate"}), ("nmt cache fi", {"fill"}), ("nmt translate --beam-s", {"--beam-size"})],
)
def test_bash_completes(typed, suggested):
    asked = {"_NMT_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = python("from nmt.cli.entry import front; front()", **asked)
    assert {line.split(",")[1] for line in done.stdout.splitlines()} == suggested


def test_bash_completes_by_the_file_that_the_wheel_brings(tmp_path):
    if (bash := shutil.which("bash")) is None:
        pytest.skip("bash is not installed")
    program = tmp_path / "nmt"
    program.write_text(f"#!{sys.executable}\nfrom nmt.cli.entry import front\nfront()\n")
    program.chmod(0o755)
    script = (
        f'source "{ROOT}/docs/completion/bash/nmt"; COMP_WORDS=(nmt quan); COMP_CWORD=1; _nmt_completion nmt; '
        'echo "${COMPREPLY[@]}"'
    )
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.split() == ["quantize"], done.stderr


def test_the_page_of_commands_shows_what_help_shows():
    """Defaults were missing, since the page was made without the settings of the commands."""
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    width = {"terminal_width": 96, "max_content_width": 96}
    for name in COMMANDS:
        (section,) = re.findall(rf"^## nmt-{name}\n\n```text\n(.*?)\n```$", page, re.M | re.S)
        shown = CliRunner().invoke(load_command(name), ["--help-all"], prog_name=f"nmt-{name}", **width)
        assert section == shown.output.rstrip("\n"), name


@click.command(cls=Command)
def chatty():
    """Say what a command says."""
    tell("progress: 3 lines")
    tell("warning: line 3: is empty")
    print("result")


@pytest.mark.parametrize("words", [["-q"], ["--quiet"]])
def test_a_quiet_command_shows_warnings_and_results_alone(words):
    done = CliRunner().invoke(chatty, words)
    assert done.stderr == "warning: line 3: is empty\n" and done.stdout == "result\n"
    former = CliRunner().invoke(chatty, [])
    assert former.stderr == "progress: 3 lines\nwarning: line 3: is empty\n" and former.stdout == "result\n"


def test_errors_are_shown_and_the_stream_is_given_back(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with quietly(True):
        assert sys.stderr is not stream and not sys.stderr.isatty()
        tell("Error: no model")
        tell("progress")
    assert sys.stderr is stream and stream.getvalue() == "Error: no model\n"
    with quietly(False):
        assert sys.stderr is stream


def test_the_front_command_is_quiet_for_all():
    done = CliRunner().invoke(front, ["-q", "average", "nowhere", "-o", "x", "--last", "1"])
    assert done.stderr.startswith("Error: nowhere") and done.exit_code == 1


@pytest.fixture
def served(monkeypatch):
    """The options that nmt-serve is run with."""
    seen = {}
    monkeypatch.setattr(load_command("serve"), "callback", lambda **given: seen.update(given))
    return seen


def test_the_servers_options_are_read_from_the_environment_which_comes_after_the_command_line(served):
    variables = {
        "NMT_SERVE_MODELS": "a.nmt b.nmt",
        "NMT_SERVE_PORT": "8080",
        "NMT_SERVE_SHORTLIST": "1",
        "NMT_SERVE_SPLIT": "0",
        "NMT_SERVE_CELLS": "one two",
        "NMT_SERVE_VERSION": "1.2",
    }
    done = CliRunner().invoke(load_command("serve"), ["--max-texts", "7"], env=variables)
    assert done.exit_code == 0, done.output
    assert served["models"] == ("a.nmt", "b.nmt") and served["port"] == 8080 and served["max_texts"] == 7
    assert served["shortlist"] is True and served["split"] is False and served["cells"] == ("one", "two")
    variables = {"NMT_SERVE_MODELS": "a.nmt", "NMT_SERVE_PORT": "8080"}
    assert CliRunner().invoke(load_command("serve"), ["b.nmt", "--port", "1"], env=variables).exit_code == 0
    assert served["models"] == ("b.nmt",) and served["port"] == 1


def test_a_variable_that_cannot_be_is_an_error_that_names_it(served):
    done = CliRunner().invoke(load_command("serve"), ["b.nmt"], env={"NMT_SERVE_PORT": "many"})
    assert done.exit_code == 2 and "NMT_SERVE_PORT" in done.output and "many" in done.output
