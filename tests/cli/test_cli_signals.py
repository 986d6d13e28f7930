"""Signals: whenever one comes, a command ends with 128 + its number and a line or none, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import click
import pytest

from nmt.cli import entry
from nmt.cli.front import load_command
from nmt.cli.options.command import Setting
from nmt.config import config_from_dict, config_schema, dump_config
from nmt.config.complaints import lookup
from nmt.config.section import MOST
from nmt.storage.model_folder import LAST_NAME, read_checkpoint
from nmt.system.files import new_folder, remove_unfinished, replacing
from tests.processes import python
from tests.small_models import DECODER, ENCODER
from tests.train import fake_model

ROOT = Path(__file__).parents[2]
SIGNALS = entry.SIGNALS


def run_program(text: str, *arguments: str | Path) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=ROOT)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "module",
    "click numpy nmt.cli.options.command nmt.cli.commands.translate nmt.system.lines nmt.inference.translator".split(),
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


UPDATES = 100


def trained(folder, pauses):
    """The checkpoint of a training that is paused after some updates, once stopped by the system on the way."""
    values = fake_model.write_setup(folder, updates=UPDATES, logging_freq=1, scheduling="linear")
    fake_model.write_corpus(folder, "train", 400, 1)
    config, log = folder / "config.yaml", folder / "model" / "metrics.jsonl"
    config.write_text(dump_config(config_from_dict({**values, "model": {"encoder": ENCODER, "decoder": DECODER}})))
    for pause in (*pauses, None):
        command = [sys.executable, "-m", "nmt", "train", str(config), "--stop-with-stdin"]
        with (folder / "log").open("wb") as output:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
        while pause and child.poll() is None and not (log.exists() and f'"update": {pause},' in log.read_text()):
            time.sleep(0.02)
        if pause and hasattr(signal, "SIGSTOP"):
            os.kill(child.pid, signal.SIGSTOP)
            os.kill(child.pid, signal.SIGCONT)
        if pause:
            child.stdin.close()
        assert child.wait(300) == (130 if pause else 0), (folder / "log").read_text()
        child.stdin.close()
    return read_checkpoint(folder / "model" / LAST_NAME)


def test_a_training_that_is_paused_twice_learns_the_same_bits(tmp_path):
    for name in ("whole", "paused"):
        (tmp_path / name).mkdir()
    whole, paused = (trained(tmp_path / name, at) for name, at in (("whole", ()), ("paused", (11, 47))))
    assert whole[1]["state"]["update"] == paused[1]["state"]["update"] == UPDATES
    assert {name: array.tobytes() for name, array in whole[0].items()} == {
        name: array.tobytes() for name, array in paused[0].items()
    }


COMMANDS = "train", "translate", "evaluate", "score", "average", "shortlist", "bundle"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    options = [param for param in load_command(name).params if isinstance(param, click.Option)]
    assert options
    exempt = {"version", "scores", "lowercase", "as_json", "n_best", "overrides"}
    for option in options:
        assert option.help, option.name
        has_default = option.default is not None or option.show_default not in (None, True, False)
        files = option.metavar == "FILE"
        assert has_default or files or option.name in exempt, f"{option.name} hides its default"


@pytest.mark.parametrize("name", COMMANDS)
def test_ranges_in_help_are_those_of_the_schema(name: str) -> None:
    for option in load_command(name).params:
        if isinstance(option.type, Setting):
            node = lookup(config_schema(), option.type.path.split("."))
            node = next((kind for kind in node.get("anyOf", []) if kind.get("type") == "integer"), node)
            bounds = {key: node.get(key) for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")}
            known = {key: value for key, value in bounds.items() if value is not None and abs(value) < MOST}
            if isinstance(option.type, click.IntRange | click.FloatRange):
                shown = {
                    "exclusiveMinimum" if option.type.min_open else "minimum": option.type.min,
                    "exclusiveMaximum" if option.type.max_open else "maximum": option.type.max,
                }
                assert {key: value for key, value in shown.items() if value is not None} == known, option.name
            else:
                assert not known, f"{option.name} hides its range"


def test_an_environment_that_compiles_nothing_is_one_line(tmp_path):
    given = {"NUMBA_DISABLE_JIT": "1", "NMT_CACHE_DIR": str(tmp_path)}
    said = python("from nmt.cli.entry import cache; cache()", "fill", code=1, timeout=60, **given).stderr
    assert "NUMBA_DISABLE_JIT: must be 0" in said and said.count("\n") == 1
