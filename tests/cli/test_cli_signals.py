"""Signals: whenever one comes, a command ends with 128 + its number and a line or none, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from nmt.cli import entry
from nmt.system.files import new_folder, remove_unfinished, replacing
from tests.train import fake_model

ROOT = Path(__file__).parents[2]
SIGNALS = entry.SIGNALS


def run_program(text: str, *arguments: str | Path) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=ROOT)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "module",
    [
        "click",
        "nmt.cli.options.command",
        "nmt.cli.commands.translate",
        "numpy",
        "nmt.system.lines",
        "nmt.inference.translator",
    ],
)
def test_a_signal_while_a_module_is_imported(number: signal.Signals, module: str, tmp_path: Path) -> None:
    """The signal comes when the import of `module` begins, at the console script's beginning."""
    program = """
        import os, signal, sys
        from importlib.abc import MetaPathFinder
        module, number = sys.argv[3], int(sys.argv[4])
        del sys.argv[3:]
        class Interrupting(MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == module:
                    os.kill(os.getpid(), number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from nmt.cli.entry import translate
        sys.meta_path.insert(0, Interrupting())
        sys.exit(translate())
        """
    (tmp_path / "in").write_text("w1\n")
    done = run_program(program, tmp_path, tmp_path / "in", module, str(int(number)))
    assert done.returncode == 128 + number, done.stderr
    assert (done.stdout, done.stderr) == (b"", b"interrupted\n" if number == signal.SIGINT else b"")


def test_a_signal_after_the_work_changes_nothing() -> None:
    """The signal comes while the interpreter ends."""
    program = """
        import atexit, os, signal, sys
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            atexit.register(os.kill, os.getpid(), number)
        class Late:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
        late = Late()
        from nmt.cli.entry import translate
        sys.argv[1:] = ["--version"]
        sys.exit(translate())
        """
    done = run_program(program)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.startswith(b"nmt-translate ")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_removes_what_is_half_written(number: signal.Signals, tmp_path: Path) -> None:
    program = """
        import os, sys
        from pathlib import Path
        from nmt.cli.entry import end_by_signals
        from nmt.system.files import new_folder, replacing
        end_by_signals()
        folder = Path(sys.argv[1])
        with replacing(folder / "file") as file, new_folder(folder / "model") as model:
            file.write_text("half")
            (model / "part").write_text("half")
            assert len(os.listdir(folder)) == 2
            os.kill(os.getpid(), int(sys.argv[2]))
        """
    done = run_program(program, tmp_path, str(int(number)))
    assert (done.returncode, os.listdir(tmp_path)) == (128 + number, []), done.stderr


def test_signals_that_are_ignored_stay_ignored() -> None:
    former = [signal.signal(number, signal.SIG_IGN) for number in SIGNALS]
    try:
        assert entry.end_by_signals() == {}
        assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_IGN] * len(SIGNALS)
    finally:
        for number, handler in zip(SIGNALS, former, strict=True):
            signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_lines_are_translated(number: signal.Signals, tmp_path: Path, model: Path) -> None:
    source = tmp_path / "in"
    source.write_text("w1\n" * 1000)
    command = [sys.executable, fake_model.__file__, "nmt-translate", model, source, "-o", tmp_path / "out"]
    slow = {**os.environ, "NMT_FAKE_SECONDS": "0.05"}
    process = subprocess.Popen(list(map(str, command)), env=slow, stderr=subprocess.PIPE)
    while len(os.listdir(tmp_path)) < 2:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert errors == (b"interrupted\n" if number == signal.SIGINT else b"")
    assert os.listdir(tmp_path) == ["in"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "b") as folder:
        (folder / "x").write_text("x")
        assert not (tmp_path / "a" / "b").exists()
    assert os.listdir(tmp_path / "a" / "b") == ["x"]
    with pytest.raises(FileExistsError), new_folder(tmp_path / "a"):
        pass
    (tmp_path / "empty").mkdir()
    with pytest.raises(KeyError), new_folder(tmp_path / "empty") as folder:
        (folder / "x").write_text("x")
        raise KeyError
    assert sorted(os.listdir(tmp_path)) == ["a", "empty"] and os.listdir(tmp_path / "empty") == []
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "gone") as file:
        file.write_text("half")
        remove_unfinished()
    assert sorted(os.listdir(tmp_path)) == ["a", "empty"]
