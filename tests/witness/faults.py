"""Let every system call of a command on its files fail once, and see how the command ends.

A command's calls (open, read, write, fsync, rename, link, unlink, mkdir, mmap, thread start) are counted in one run.
Then the k-th of them fails: once, from then on (a full disk stays full), by half a write, or by the end of the process.
A command must then end with one line and an exit code, or give the right result; and the next run must give the same
files as one without faults. The idea is that of SQLite's I/O error tests.

    python -m tests.witness.faults --most 40       # of each command and kind of fault, the calls evenly spread
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

COMPILER = shutil.which("cc")
SECONDS = 60.0
"""Time after which a command hangs."""


class Fault(IntEnum):
    """What happens at the k-th call, as in faults.c."""

    ONCE = 1
    FROM_THEN_ON = 2
    SHORT = 3
    KILL = 4


@dataclass(frozen=True)
class Scenario:
    """A command in a folder: what is there before, its words, and the results that are compared, as patterns of files.

    fake: Whether the model is that of tests.train.fake_model, which learns and translates in no time.
    """

    prepare: Callable[[Path], None]
    words: Callable[[Path], list[str]]
    results: tuple[str, ...]
    fake: bool = False


def _texts(folder: Path) -> None:
    from tests.train import fake_model

    for prefix, lines, seed in (("train", 60, 1), ("dev", 10, 2)):
        fake_model.write_corpus(folder, prefix, lines, seed)


def _trained(folder: Path) -> None:
    _texts(folder)
    assert _forked(_train(folder, 6), folder)[0] == 0


def _model(folder: Path) -> None:
    from tests.saved_models import sentences, write_folder

    write_folder(folder / "model")
    (folder / "in").write_text("\n".join(sentences(6)) + "\n")


def _train(folder: Path, updates: int = 10) -> list[str]:
    sides = [str(folder / f"train.{side}") for side in ("xx", "yy")]
    settings = {
        "data.subwords.vocab_size": "auto",
        "training.updates": updates,
        "training.validation_freq": 3,
        "training.keep_last_ckpts": 2,
        "training.early_stopping_metric": "loss",
        "threads": 1,
    }
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["train", *sides, "-o", str(folder / "model"), "--preset", "tiny", *changes]


_BEST = ("model/best.safetensors",)
SCENARIOS = {
    "train": Scenario(_texts, _train, _BEST, fake=True),
    "resume": Scenario(_trained, _train, _BEST, fake=True),
    "translate": Scenario(_model, lambda at: ["translate", f"{at}/model", f"{at}/in", "-o", f"{at}/out"], ("out",)),
    "quantize": Scenario(_model, lambda at: ["quantize", f"{at}/model", "-o", f"{at}/int8"], ("int8/*.safetensors",)),
    "bundle": Scenario(_model, lambda at: ["bundle", f"{at}/model", f"{at}/m.nmt"], ("m.nmt",)),
    "average": Scenario(
        _model,
        lambda at: ["average", f"{at}/model", "--checkpoint", "best", "-o", f"{at}/mean"],
        ("mean/*.safetensors",),
    ),
    "export": Scenario(
        _model, lambda at: ["export", f"{at}/model", "--to", "numpy", "-o", f"{at}/np"], ("np/*.npz", "np/*.json")
    ),
    "shortlist": Scenario(_model, lambda at: ["shortlist", f"{at}/model"], ("model/shortlist*",)),
}


@dataclass
class Outcomes:
    """How the runs of a command with faults ended, and those that were wrong."""

    right: int = 0
    refused: int = 0
    killed: int = 0
    wrong: list[str] = None  # type: ignore[assignment]


def check(name: str, kinds: list[Fault], most: int, show: Callable[[str], None]) -> Outcomes:
    """Run a scenario without a fault and then with faults. Called in a process with faults.c preloaded.

    Args:
        most: Runs of each kind of fault; their calls are evenly spread over those of the command.
    """
    if SCENARIOS[name].fake:
        from tests.train import fake_model

        sys.modules.update(fake_model.modules())
    scenario, at = SCENARIOS[name], Path(os.environ["FAULT_FOLDER"]) / "work"
    template = at.with_name("template")
    at.mkdir()
    scenario.prepare(at)
    at.rename(template)

    def begin() -> list[str]:
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(template, at)
        return scenario.words(at)

    code, calls, _, text = _forked(begin(), at)
    assert code == 0 and calls, f"{name} without a fault: exit code {code}\n{text}"
    expected = _results(scenario, at)
    assert expected, f"{name}: no results"
    found = Outcomes(wrong=[])
    for kind in kinds:
        count = min(most, calls)
        for number in range(count):
            k = 1 + number * calls // count
            code, _, fault, text = _forked(begin(), at, k, kind)
            where = f"{name}: {kind.name.lower()} at call {k} of {calls}, {fault}"
            problem = _problem(code, text, kind, fault)
            if not problem and code == 0 and _results(scenario, at) != expected:
                problem = "exit code 0 with another result"
            if not problem and code and _results(scenario, at) != expected:  # what is complete may be kept
                again, _, _, text = _forked(scenario.words(at), at)
                if again or _results(scenario, at) != expected:
                    problem = f"the next run has exit code {again} or another result: {text[-200:]}"
            if problem:
                found.wrong.append(f"{where}: {problem}")
                show(found.wrong[-1])
            found.right += code == 0
            found.refused += code == 1
            found.killed += code < 0
    show(f"{name}: {calls} calls; {found.right} right, {found.refused} refused, {found.killed} killed, "
         f"{len(found.wrong)} wrong")  # fmt: skip
    return found


def _problem(code: int, text: str, kind: Fault, fault: str) -> str:
    """Return what is wrong with the end of a command, an empty string if nothing is."""
    if code == 0 or (kind is Fault.KILL and code == -signal.SIGKILL):
        return ""
    if code == -signal.SIGABRT and not fault:  # the trainer of sentencepiece, which got no thread
        return ""
    lines = [line for line in text.splitlines() if line.startswith("Error: ")]
    if code != 1 or len(lines) != 1 or "Traceback" in text:
        return f"exit code {code}: {text[-1200:]}"
    return ""


def _results(scenario: Scenario, at: Path) -> dict[str, bytes]:
    """Return the results of a command by file."""
    paths = [path for pattern in scenario.results for path in sorted(at.glob(pattern))]
    return {str(path.relative_to(at)): _content(path) for path in paths}


def _content(path: Path) -> bytes:
    """Return the bytes of a file; of safetensors the arrays with their names, since the rest has times."""
    content = path.read_bytes()
    if path.suffix != ".safetensors":
        return content
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    arrays = {name: content[start + at : start + end] for name, (at, end) in
              ((name, one["data_offsets"]) for name, one in header.items() if name != "__metadata__")}  # fmt: skip
    return b"".join(name.encode() + arrays[name] for name in sorted(arrays))


def _forked(words: list[str], at: Path, k: int = 0, kind: Fault = Fault.ONCE) -> tuple[int, int, str, str]:
    """Run a command in a fork of this process; return its exit code, the number of its calls, the call that failed and
    what it wrote to standard error. A negative code is a signal's; one that hangs is killed, and has None."""
    log, notes = at.with_name("stderr"), at.with_name("notes")
    notes.write_text("0\n")
    child = os.fork()
    if not child:
        _run(words, log, notes, k, kind)
    until = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 99, 0, "", "hangs"
        time.sleep(0.002)
    calls, _, fault = notes.read_text().partition("\n")
    return os.waitstatus_to_exitcode(status), int(calls), fault, log.read_text(errors="replace")


def _run(words: list[str], log: Path, notes: Path, k: int, kind: Fault) -> None:
    """Run a command in this process, a fork, and end it."""
    from nmt.cli.front import front

    shim = ctypes.CDLL(None)
    shim.last_fault.restype = ctypes.c_char_p
    stderr, stdout = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) for path in (log, os.devnull))
    os.dup2(stderr, 2)
    os.dup2(stdout, 1)
    code = 0
    try:
        shim.arm(ctypes.c_long(k), int(kind))
        front(words, prog_name="nmt")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # reported with its traceback
        import traceback

        shim.arm(ctypes.c_long(0), 0)
        traceback.print_exc()
        code = 70
    calls, fault = shim.calls(), shim.last_fault().decode(errors="replace")
    shim.arm(ctypes.c_long(0), 0)
    notes.write_text(f"{calls}\n{fault}")
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Check the scenarios, each in a process with faults.c preloaded; exit with 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=40, help="runs of each command and kind of fault")
    parser.add_argument("--only", choices=SCENARIOS, nargs="*", default=list(SCENARIOS), help="commands")
    parser.add_argument("--kind", choices=[kind.name.lower() for kind in Fault], nargs="*", help="kinds of faults")
    given = parser.parse_args()
    kinds = [kind for kind in Fault if not given.kind or kind.name.lower() in given.kind]
    if "FAULT_FOLDER" in os.environ:
        sys.exit(any(check(name, kinds, given.most, print).wrong for name in given.only))
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        shim = compiled(Path(folder))
        for name in given.only:
            work = Path(folder) / name
            work.mkdir()
            words = [sys.executable, "-u", "-m", "tests.witness.faults", "--most", str(given.most), "--only", name]
            words += ["--kind", *(kind.name.lower() for kind in kinds)]
            environment = {**os.environ, "LD_PRELOAD": str(shim), "FAULT_FOLDER": str(work), "NMT_COMPILE_AHEAD": "0"}
            failed |= subprocess.run(words, env=environment).returncode != 0
    sys.exit(failed)


def compiled(folder: Path) -> Path:
    """Return faults.c as a library in this folder."""
    assert COMPILER is not None, "the check of faults needs a C compiler, cc"
    library = folder / "faults.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


if __name__ == "__main__":
    main()
