"""Let every system call of a command on its files fail once, and see how the command ends.

A command's calls (open, read, write, fsync, rename, link, unlink, mkdir, mmap, thread start) are counted in one run.
Then the k-th of them fails: once, from then on (a full disk stays full), by half a write, or by the end of the process.
In the same way one of its allocations of 64 KiB and more fails; compiled code does not check its own temporary memory,
at most a few megabytes, so that a process may end by a signal there.
A command must then end with one line and an exit code, or give the right result; no file may be torn, left over or
open; and the next run must give the same files as one without faults. A server must start or say why not, and answer
after a failed reload as before it. The idea is that of SQLite's I/O error tests.

    python -m tests.witness.faults --most 40       # of each command and kind of fault, the calls evenly spread
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from tests.witness.scenarios import SCENARIOS, SECONDS, Child, Scenario

COMPILER = shutil.which("cc")
FEW = 4
"""Runs of each kind of fault for commands that are slow."""


class Fault(IntEnum):
    """What happens at the k-th call, as in faults.c."""

    ONCE = 1
    FROM_THEN_ON = 2
    SHORT = 3
    KILL = 4
    MEMORY = 5


@dataclass
class Run:
    """How a run ended: its exit code (negative: by a signal), its counted calls, the one that failed, the files that it
    left open, and what it wrote to standard error."""

    code: int
    calls: int
    fault: str
    left_open: str
    text: str


@dataclass
class Outcomes:
    """How the runs of a command with faults ended, and those that were wrong."""

    right: int = 0
    refused: int = 0
    killed: int = 0
    wrong: list[str] = field(default_factory=list)


def check(name: str, kinds: list[Fault], most: int, show: Callable[[str], None]) -> Outcomes:
    """Run a scenario without a fault and then with faults. Called in a process with faults.c preloaded.

    Args:
        most: Runs of each kind of fault; their calls are evenly spread over those of the command.
    """
    scenario, at = SCENARIOS[name], Path(os.environ["FAULT_FOLDER"]) / "work"
    if scenario.fake:
        from tests.train import fake_model

        sys.modules.update(fake_model.modules())
    template = at.with_name("template")
    at.mkdir()
    scenario.prepare(at)
    at.rename(template)

    def begin() -> list[str]:
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(template, at)
        return scenario.words(at)

    words = begin()
    before, former = _results(scenario, at), _files(at)
    whole = forked(scenario, words, at)
    assert whole.code == 0 and whole.calls, f"{name} without a fault: exit code {whole.code}\n{whole.text}"
    assert not whole.left_open, f"{name} leaves {whole.left_open} open"
    expected, files = _results(scenario, at), _files(at) | former
    assert expected, f"{name}: no results"
    found = Outcomes()
    for kind in kinds:
        calls = forked(scenario, begin(), at, 0, kind).calls if kind is Fault.MEMORY else whole.calls
        count = min(FEW if scenario.slow else most, calls)
        for number in range(count):
            k = 1 + number * calls // count
            run = forked(scenario, begin(), at, k, kind)
            problem = _problem(run, kind)
            results = _results(scenario, at)
            if not problem and run.code == 0 and results != expected:
                problem = "exit code 0 with another result"
            if not problem and run.code and not scenario.fake:  # a run of training keeps other states of its model
                torn = [path for path in results if results[path] not in (before.get(path), expected.get(path))]
                problem = f"torn: {torn}" if torn else ""
            if not problem and run.code == 1 and kind is not Fault.FROM_THEN_ON and "unlink" not in run.fault:
                left = sorted(_files(at) - files)
                problem = f"files are left: {left}" if left else ""
            if not problem and run.code and results != expected:  # what is complete may be kept
                again = forked(scenario, scenario.words(at), at)
                if again.code or _results(scenario, at) != expected:
                    problem = f"the next run has exit code {again.code} or another result: {again.text[-200:]}"
            if problem:
                where = f"{name}: {kind.name.lower()} at call {k} of {calls}, {run.fault}"
                found.wrong.append(f"{where}: {problem}")
                show(found.wrong[-1])
            found.right += run.code == 0
            found.refused += run.code == 1
            found.killed += run.code < 0
    show(f"{name}: {whole.calls} calls; {found.right} right, {found.refused} refused, {found.killed} killed, "
         f"{len(found.wrong)} wrong")  # fmt: skip
    return found


def _problem(run: Run, kind: Fault) -> str:
    """Return what is wrong with the end of a command, an empty string if nothing is."""
    if (kind, run.code) in ((Fault.KILL, -signal.SIGKILL), (Fault.MEMORY, -signal.SIGSEGV)):
        return ""
    if run.code == -signal.SIGABRT and not run.fault:  # the trainer of sentencepiece, which got no thread
        return ""
    lines = [line for line in run.text.splitlines() if line.startswith("Error: ")]
    if run.code not in (0, 1) or len(lines) != run.code or "traceback" in run.text.lower():
        return f"exit code {run.code}: {run.text[-1200:]}"
    return f"files stay open: {run.left_open}" if run.left_open else ""


def _files(at: Path) -> set[str]:
    """Return the names of all files and folders."""
    return {str(path.relative_to(at)) for path in at.rglob("*")}


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


def forked(scenario: Scenario, words: list[str], at: Path, k: int = 0, kind: Fault = Fault.ONCE) -> Run:
    """Run a command in a fork of this process. One that hangs is killed, with exit code 99."""
    log, notes = at.with_name("stderr"), at.with_name("notes")
    notes.write_text("0\n\n")
    child = os.fork()
    if not child:
        _run(scenario, words, at, Child(log, notes, k, kind))
    until = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Run(99, 0, "", "", f"hangs: {log.read_text(errors='replace')}")
        time.sleep(0.002)
    calls, fault, left_open = notes.read_text().split("\n")
    return Run(os.waitstatus_to_exitcode(status), int(calls), fault, left_open, log.read_text(errors="replace"))


def _run(scenario: Scenario, words: list[str], at: Path, child: Child) -> None:
    """Run a command in this process, a fork, and end it."""
    from nmt.errors import NMTError, lacking_resource

    code = 0
    try:
        scenario.run(words, at, child)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except NMTError as error:
        print(f"Error: {error}", file=sys.stderr)
        code = 1
    except BaseException as error:  # reported with its traceback, unless the system lacks something: that is a line
        child.disarm()
        lacking = lacking_resource(error)
        code = 1 if lacking else 70
        traceback.print_exception(error) if lacking is None else print(f"Error: {lacking}", file=sys.stderr)
    child.note()
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
            environment = {**os.environ, "LD_PRELOAD": str(shim), "FAULT_FOLDER": str(work)}
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
