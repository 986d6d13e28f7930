"""A user is told that machine code is being made, where that takes long, and nobody else is told anything."""

import io
import threading

import pytest

from nmt.cli.lines.streams import quietly, tell
from nmt.system import compile_notice
from nmt.system.compile_notice import making_code, note_found, stop_telling, telling_of_compilation
from tests.waiting import until


class Told:
    """What was written, and word of it."""

    def __init__(self):
        self.texts, self.came = [], threading.Event()

    def __call__(self, text, end="\n"):
        self.texts.append(text + end)
        self.came.set()


@pytest.fixture
def at_once(monkeypatch):
    """Tell after no time at all."""
    monkeypatch.setattr(compile_notice, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(compile_notice, "_LOOK_SECONDS", 0.001)


def make(functions, told):
    """Make so many functions, of which nothing is told, and wait within one more until something is."""
    usual, compile_notice._QUIET_SECONDS = compile_notice._QUIET_SECONDS, 1e9
    for _ in range(functions):
        with making_code():
            pass
        note_found()
    compile_notice._QUIET_SECONDS = usual
    with making_code():
        assert told.came.wait(30)
    note_found()


def test_one_line_says_what_takes_so_long(at_once):
    told = Told()
    with telling_of_compilation(told, 20):
        make(2, told)
        told.came.clear()
        with making_code():
            assert not told.came.wait(0.1)  # a pipe gets it once
    (line,) = told.texts
    assert line.startswith("compiling machine code, once on this machine: ")
    assert "function 3 of about 20, about " in line


def test_what_was_there_is_not_counted_as_work(at_once):
    told = Told()
    with telling_of_compilation(told, 20):
        for _ in range(15):
            note_found()
        make(0, told)
    assert "function 1 of about 5, " in told.texts[0]


def test_more_functions_than_were_thought(at_once):
    told = Told()
    with telling_of_compilation(told, 1):
        make(3, told)
    assert "about" not in told.texts[0]


def test_a_terminal_has_an_empty_line_when_it_is_done(at_once, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    told = Told()
    with telling_of_compilation(told, 20):
        make(0, told)
    assert len(told.texts) > 1
    assert told.texts[-1] == "\r\x1b[K"


def test_what_takes_no_time_is_not_told():
    told = Told()
    with telling_of_compilation(told, 20):
        for _ in range(10):
            with making_code():
                pass
            note_found()
    assert not told.texts


def test_nothing_is_told_of_work_outside_of_a_command_nor_of_another_process(at_once):
    told = Told()
    with making_code():
        pass
    with telling_of_compilation(told, 20):
        stop_telling()
        with making_code():
            assert not told.came.wait(0.1)
    assert not told.texts


def test_where_nothing_is_kept_it_is_not_called_once(at_once):
    told = Told()
    with telling_of_compilation(told, 20), making_code(is_kept=False):
        assert told.came.wait(30)
    assert "once" not in told.texts[0] and "NMT_CACHE_DIR" in told.texts[0]


@pytest.mark.parametrize("is_quiet", [True, False])
def test_with_quiet_a_command_does_not_tell(at_once, capsys, is_quiet):
    with quietly(is_quiet), telling_of_compilation(tell, 20), making_code():
        until(lambda: compile_notice._progress[0]._reported)
    assert ("compiling machine code" in capsys.readouterr().err) is not is_quiet
