"""A million lines through nmt-translate from standard input, in bounded memory, killed twice and resumed:

    python -m tests.fuzz.million [--lines 1000000] [--model MODEL]

Checks that the output is complete, in order and holds each line once, and prints the peak memory of each run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.inference.translator import SearchSettings, Translator
from tests.fuzz.run import make_model
from tests.saved_models import sentences

_DISTINCT = 499
_MULTIPLIER = 7919  # prime: neighbours differ, and no period of the output hides a lost or shifted line
_KILLED_AT = (0.3, 0.7)
_LOOK_SECONDS = 0.05


def main() -> int:
    """Run three times, compare; 1 if a line is not what it must be, or memory grew with the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000, help="lines to translate")
    parser.add_argument("--model", help="a model folder or file; a tiny one is made where there is none")
    parser.add_argument("--memory", type=float, default=1.5, metavar="GiB", help="most memory of a run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(given.model) if given.model else make_model(Path(folder))
        texts = sentences(_DISTINCT, seed=9, longest=6)
        # A model that has learnt nothing says the same of most lines; what it draws is a function of each line.
        options = ["--beam-size", "1"] if given.model else ["--sampling", "--min-length", "4"]
        settings: SearchSettings = {"beam_size": 1} if given.model else {"sampling": True, "min_length": 4}
        output = Path(folder) / "out"
        peaks = []
        for share in (*_KILLED_AT, None):
            before = count_lines(output)
            kill_at = None if share is None else int(share * given.lines)
            peak, code = run_once([*options, str(model)], texts, given.lines, output, kill_at)
            peaks.append(peak)
            print(
                f"{before:,} to {count_lines(output):,} lines: exit code {code}, peak {peak / 2**20:,.0f} MiB",
                flush=True,
            )
            if (code == 0) != (share is None):
                print(f"must end with 0 only where it was not killed, got {code}")
                return 1
        answers = Translator.load(model).translate(texts, **settings)
        wrong = first_wrong(output, texts, answers, given.lines)
    print(f"{given.lines:,} lines: {'complete and in order' if wrong is None else wrong}")
    return int(wrong is not None or max(peaks) > given.memory * 2**30)


def source_of(line: int) -> int:
    """Which of the distinct sentences stands on a line."""
    return (line * _MULTIPLIER + line // _DISTINCT) % _DISTINCT


def run_once(arguments: list[str], texts: list[str], lines: int, output: Path, kill_at: int | None) -> tuple[int, int]:
    """One run over all lines from its standard input, killed once the output has `kill_at` lines. Returns its peak
    memory in bytes and its exit code."""
    command = [sys.executable, "-m", "nmt", "translate", *arguments, "-", "-o", str(output), "--resume"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    writer = threading.Thread(target=feed, args=(process, texts, lines))
    writer.start()
    peak = done = position = 0
    while process.poll() is None:
        peak = max(peak, peak_memory(process.pid))
        if kill_at is not None:
            new, position = new_lines(output, position)
            done = done + new
            if done >= kill_at:
                process.kill()
        time.sleep(_LOOK_SECONDS)
    writer.join()
    return peak, process.returncode


def feed(process: subprocess.Popen[bytes], texts: list[str], lines: int) -> None:
    """Write all lines to a process, as long as it reads."""
    if process.stdin is None:
        return
    encoded = [text.encode() + b"\n" for text in texts]
    try:
        for start in range(0, lines, 10_000):
            block = (encoded[source_of(line)] for line in range(start, min(lines, start + 10_000)))
            process.stdin.write(b"".join(block))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it was killed


def new_lines(path: Path, position: int) -> tuple[int, int]:
    """Line ends behind a position, and the end of the file; nothing is read twice."""
    if not path.exists():
        return 0, 0
    with path.open("rb") as file:
        file.seek(position)
        content = file.read()
    return content.count(b"\n"), position + len(content)


def count_lines(path: Path) -> int:
    """Whole lines of a file, 0 where there is none."""
    return new_lines(path, 0)[0]


def peak_memory(pid: int) -> int:
    """The most resident memory that a process has had, in bytes; 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0


def output_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def first_wrong(path: Path, texts: list[str], answers: list[str], lines: int) -> str | None:
    """What is wrong with the output, None for nothing."""
    distinct = len(np.unique(answers))
    if distinct < 0.5 * len(texts):
        return f"the model must tell lines apart, got {distinct} answers to {len(texts)} sentences"
    count = 0
    for count, line in enumerate(output_lines(path), start=1):
        if count > lines or line != answers[source_of(count - 1)]:
            return f"line {count} must be the translation of line {count}, got {line!r}"
    return None if count == lines else f"must be {lines} lines, got {count}"


if __name__ == "__main__":
    raise SystemExit(main())
