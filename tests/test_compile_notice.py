"""A user is told that machine code is being made, where that takes long, and nobody else is told anything."""

import threading

import pytest

import nmt.system.notices as compile_notice
from nmt.cli.lines.streams import quietly, tell
from nmt.system.notices import making_code, stop_telling, telling_of_compilation
from tests.waiting import until


class Told:
    """What was written, and word of it."""

    def __init__(self):
        self.texts, self.came = [], threading.Event()

    def __call__(self, text):
        self.texts.append(text)
        self.came.set()


@pytest.fixture
def at_once(monkeypatch):
    """Tell after no time at all."""
    monkeypatch.setattr(compile_notice, "_QUIET_SECONDS", 0.0)


def test_one_line_says_what_takes_so_long(at_once):
    told = Told()
    with telling_of_compilation(told):
        for _ in range(3):
            with making_code():
                assert told.came.wait(30)  # a pipe gets it once
    assert told.texts == ["compiling machine code, once on this machine, which takes some seconds"]


def test_what_takes_no_time_or_is_of_another_process_is_not_told(monkeypatch):
    told = Told()
    with making_code():
        pass
    with telling_of_compilation(told):
        for _ in range(10):
            with making_code():
                pass
        monkeypatch.setattr(compile_notice, "_QUIET_SECONDS", 0.0)
        stop_telling()
        with making_code():
            assert not told.came.wait(0.1)
    assert not told.texts


def test_where_nothing_is_kept_it_is_not_called_once(at_once):
    told = Told()
    with telling_of_compilation(told), making_code(is_kept=False):
        assert told.came.wait(30)
    assert "once" not in told.texts[0] and "NMT_CACHE_DIR" in told.texts[0]


@pytest.mark.parametrize("is_quiet", [True, False])
def test_with_quiet_a_command_does_not_tell(at_once, capsys, is_quiet):
    with quietly(is_quiet), telling_of_compilation(tell), making_code():
        until(lambda: compile_notice._notices[0].is_over)
    assert ("compiling machine code" in capsys.readouterr().err) is not is_quiet
