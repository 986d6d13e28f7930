"""What a person sees on a terminal, and what a file gets instead."""

import io
import re

import pytest

from nmt.cli.lines.meter import Meter, showing
from nmt.system.terminal import BEST, coloured, is_live, live
from nmt.train.log.progress import TrainingLog
from tests.terminal import on_terminal

NARROW = 40


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A narrow one in the place of standard error."""
    monkeypatch.setenv("COLUMNS", str(NARROW))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def longest(written: str) -> int:
    """The most characters that stood in one line."""
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", written)
    return max(len(part) for part in re.split(r"[\r\n]", plain))


@pytest.mark.parametrize(
    ("text", "word"), [("Error: nothing", "Error:"), ("warning: line 3", "warning:"), (f"bleu 3{BEST}", "")]
)
def test_a_terminal_gets_colours_and_nothing_else_does(text, word, terminal, monkeypatch):
    shown = coloured(text, terminal)
    assert shown != text and re.sub(r"\x1b\[[0-9;]*m", "", shown) == text
    assert shown.split("\x1b[0m")[0].endswith(word or text)
    assert coloured(text, io.StringIO()) == coloured(text, None) == text
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured(text, terminal) == text
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert coloured(text, terminal) == text
    assert not is_live(terminal)


def test_other_lines_stay_as_they_are(terminal):
    assert coloured("update 10  loss 3.2  an Error: within", terminal) == "update 10  loss 3.2  an Error: within"


def test_what_lives_never_goes_on_in_a_second_line(terminal, monkeypatch):
    monkeypatch.setattr("nmt.cli.lines.meter._LIVE_SECONDS", 0.0)
    meter = Meter("translated with a word too many")
    meter.add(12_345)
    meter.close()
    with showing() as show:
        show("reading " * 20)
    log = TrainingLog(None, terminal)
    log.live("epoch " * 20)
    log.close()
    assert 20 < longest(terminal.getvalue()) < NARROW
    assert live("ab") == "\rab\x1b[K"


@pytest.mark.parametrize("columns", [60, 200])
def test_a_mistake_on_a_terminal(columns):
    """The word that says what it is has a colour; the line is the same as in a pipe."""
    written, status = on_terminal(["nmt-translate", "no-such-folder"], columns)
    assert written.startswith("\x1b[1;31mError:\x1b[0m no-such-folder: ") and status == 1
    plain, status = on_terminal(["nmt-translate", "no-such-folder"], columns, {"NO_COLOR": "1"})
    assert plain.startswith("Error: no-such-folder: ") and status == 1


def test_a_wrong_option_on_a_terminal():
    written, status = on_terminal(["nmt-translate", "--bem"], 60)
    assert "Usage: nmt-translate" in written and "\x1b[1;31mError:\x1b[0m" in written and status == 2
