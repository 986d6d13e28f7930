"""`--quiet` leaves warnings and errors; variables of the environment stand for the server's options."""

import io
import sys

import click
import pytest
from click.testing import CliRunner

from nmt.cli.front import COMMANDS, front, load_command
from nmt.cli.lines.streams import quietly, tell
from nmt.cli.options.command import Command


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_quiet(name):
    assert "--quiet" in {option for param in load_command(name).params for option in param.opts}


@pytest.fixture
def served(monkeypatch):
    """The options that nmt-serve is run with."""
    seen = {}
    monkeypatch.setattr(load_command("serve"), "callback", lambda **given: seen.update(given))
    return seen


def test_the_servers_options_are_read_from_the_environment(served):
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


def test_the_command_line_comes_before_the_environment(served):
    variables = {"NMT_SERVE_MODELS": "a.nmt", "NMT_SERVE_PORT": "8080"}
    assert CliRunner().invoke(load_command("serve"), ["b.nmt", "--port", "1"], env=variables).exit_code == 0
    assert served["models"] == ("b.nmt",) and served["port"] == 1


def test_a_variable_that_cannot_be_is_an_error_that_names_it(served):
    done = CliRunner().invoke(load_command("serve"), ["b.nmt"], env={"NMT_SERVE_PORT": "many"})
    assert done.exit_code == 2 and "NMT_SERVE_PORT" in done.output and "many" in done.output
