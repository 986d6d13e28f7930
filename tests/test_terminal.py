"""What a person sees on a terminal, and what a file gets instead."""

import gzip
import io
import os
import re
import threading
from contextlib import closing, contextmanager

import pytest
from click.testing import CliRunner

import nmt.cli.lines.meter as meter_module
import nmt.system.notices as compile_notice
from nmt.cli.commands.translate import translate
from nmt.cli.lines.meter import Meter, showing
from nmt.cli.lines.streams import quietly, tell
from nmt.system.notices import making_code, stop_telling, telling_of_compilation
from nmt.system.terminal import BEST, coloured, is_live, live
from nmt.train.log.progress import TrainingLog
from tests.terminal import on_terminal
from tests.waiting import until

NARROW = 40


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A narrow one."""
    monkeypatch.setenv("COLUMNS", str(NARROW))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@contextmanager
def in_place_of_stderr(stream):
    """Not by a fixture: pytest captures the streams anew between a fixture and its test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", stream)
        patch.setattr("nmt.cli.lines.meter._LIVE_SECONDS", 1e-9)
        yield


def longest(written: str) -> int:
    """The most characters that stood in one line."""
    return max(len(part) for part in re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;]*[mK]", "", written)))


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


def test_what_lives_never_goes_on_in_a_second_line(terminal):
    with in_place_of_stderr(terminal):
        with closing(Meter("translated with a word too many")) as meter:
            meter.add(12_345)
        assert 20 < longest(terminal.getvalue()) < NARROW
        with showing() as show:
            show("reading " * 20)
        assert "reading reading" in terminal.getvalue()
    log = TrainingLog(None, terminal)
    log.live("epoch " * 20)
    log.close()
    assert 20 < longest(terminal.getvalue()) < NARROW
    assert live("ab") == "\rab\x1b[K"


def write_text(path, lines):
    """A text of so many lines, the last without its end; packed if its name says so."""
    content = b"a line" + b"\nanother" * (lines - 1)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def without_terminal(monkeypatch, work, seconds=1e-9, **options):
    """What a meter writes to a file."""
    monkeypatch.setattr("nmt.cli.lines.meter._LINE_SECONDS", seconds)
    stream = io.StringIO()
    with in_place_of_stderr(stream), closing(Meter(**options)) as meter:
        work(meter)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("name", ["text.en", "text.en.gz"])
def test_a_file_is_counted_and_the_meter_says_how_far_it_is(name, terminal, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    source = write_text(tmp_path / name, 400)
    with in_place_of_stderr(terminal), closing(Meter(source=source, initial=100)) as meter:
        meter.add(100)
        meter.add(100)
    shown = [part for part in terminal.getvalue().split("\r") if part.strip()]
    assert [part.split("|")[0] for part in shown] == ["translated:  50%", "translated:  75%", "translated:  75%"]
    assert " 300/400 [" in shown[-1] and "lines/s]" in shown[-1] and "<" in shown[-1]
    assert terminal.getvalue().endswith("\n")


def test_a_pipe_and_a_text_that_is_not_there_have_no_total(terminal, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "nothing"):
        with in_place_of_stderr(terminal), closing(Meter(source=str(tmp_path / name))) as meter:
            meter.add(7)
    assert terminal.getvalue().count("translated: 7 lines [") == 4


def test_a_log_gets_lines_without_a_bar(monkeypatch):
    lines = without_terminal(monkeypatch, lambda meter: [meter.add(5), meter.add(5)], total=20)
    parts = " 25% 5/20", " 50% 10/20", " 50% 10/20"
    assert [line.split(" [")[0] for line in lines] == [f"translated: {part}" for part in parts]


def test_short_work_is_silent_in_a_log(monkeypatch):
    assert without_terminal(monkeypatch, lambda meter: meter.add(5), seconds=30.0, total=20) == []


def test_quiet_is_silent_on_a_terminal_too_and_counts_no_lines_of_a_text(terminal, monkeypatch):
    monkeypatch.setattr(meter_module, "_LINE_SECONDS", 0.0)
    monkeypatch.setattr(meter_module, "_lines_in", lambda source: pytest.fail("counted"))
    with in_place_of_stderr(terminal), quietly(True), closing(Meter(source="a text")) as meter:
        meter.add(5)
    assert terminal.getvalue() == ""


def test_a_meter_starts_no_thread_and_outlives_its_reader(monkeypatch):
    class Gone(Terminal):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            return os.open(os.devnull, os.O_WRONLY)

    monkeypatch.setenv("TERM", "xterm")
    before = threading.active_count()
    with in_place_of_stderr(Gone()), closing(Meter(total=9)) as meter:
        meter.add(5)
        assert threading.active_count() == before


@pytest.mark.parametrize("columns", [60, 200])
def test_a_mistake_on_a_terminal(columns):
    """The word that says what it is has a colour; the line is the same as in a pipe."""
    written, status = on_terminal(["nmt-translate", "no-such-folder"], columns)
    assert written.startswith("\x1b[1;31mError:\x1b[0m no-such-folder: ") and status == 1
    plain, status = on_terminal(["nmt-translate", "no-such-folder"], columns, {"NO_COLOR": "1"})
    assert plain.startswith("Error: no-such-folder: ") and status == 1


def test_an_archive_is_not_written_on_a_terminal(tmp_path):
    (tmp_path / "a.docx").write_bytes(b"PK")
    written, status = on_terminal(["nmt-translate", str(tmp_path), str(tmp_path / "a.docx"), "--format", "docx"], 200)
    assert "standard output: must be a file or a pipe for docx" in written and status == 1


def test_a_wrong_option_on_a_terminal():
    written, status = on_terminal(["nmt-translate", "--bem"], 60)
    assert written.startswith("\x1b[1;31mError:\x1b[0m No such option") and status == 2
    assert written.rstrip().endswith("See nmt-translate --help.")


def test_a_translator_on_a_terminal_says_what_to_type(folder):
    written, status = on_terminal(["nmt-translate", str(folder)], 80, typed=b"kara losu\n\x04")
    assert status == 0 and "Type a sentence, then Enter; Ctrl-D ends." in written
    assert "Type a" not in CliRunner().invoke(translate, [str(folder)], input="kara losu\n").output


def test_a_server_on_a_terminal_says_what_to_open(folder):
    written, _ = on_terminal(["nmt-serve", str(folder), "--port", "0"], 80, until=b"Ctrl-C ends the server.")
    assert re.search(r"Open http://127\.0\.0\.1:\d+ in a browser; Ctrl-C ends the server\.", written)
    assert '{"time"' not in written


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
