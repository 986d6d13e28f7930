"""Ranks, writers and launchers killed at random moments of a real training: does the job end, and go on?

    python benchmarks/kill_ranks.py configs/quickstart.yaml --times 20

Starts `mpiexec -n N nmt-train` with N = 2 and 4 in turn and kills (SIGKILL) the last rank, rank 0 or mpiexec itself: of
every four times once while it starts, else within some seconds after its first line of progress. Looked at after each:
seconds until no process of the job is left, guards included, which must be at most 30; that train.log tells of a death
at most once, and exactly once when updates were under way; that the checkpoint was not damaged. The next start, with
another number of ranks and every third time one process alone, must go on from that checkpoint. At the end one process
trains some updates more.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nmt.config import load_config
from nmt.train.checkpoints.checkpoint import read_whole

BIN = Path(sys.executable).parent
MOST_SECONDS = 30.0
TINY = [
    *("model.encoder.hidden_size=16", "model.decoder.hidden_size=32", "model.encoder.embeddings.embedding_dim=16"),
    *("model.decoder.embeddings.embedding_dim=16", "training.batch_size=512", "training.updates=1000000"),
    *("training.epochs=100000", "training.scheduling=constant", "training.validation_freq=5"),
    *("training.logging_freq=2", "training.early_stopping_metric=loss", "decoding.beam_size=1", "data.test=null"),
]


class Job:
    """A run under way, whose processes are known by a word in their environment."""

    def __init__(self, command, folder, number):
        self.word = f"nmt-kill-{os.getpid()}-{number}"
        self.errors = folder / f"stderr-{number}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "NMT_KILL_WORD": self.word},
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def processes(self):
        """Rank (None for launchers and guards) by process, of those that are alive."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                values = (entry / "environ").read_bytes().split(b"\0")
                if f"NMT_KILL_WORD={self.word}".encode() not in values or self._is_dead(entry):
                    continue
                is_rank = b"guard.py" not in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            ranks = [int(value[9:]) for value in values if value.startswith(b"PMI_RANK=")]
            found[int(entry.name)] = ranks[0] if ranks and is_rank else None
        return found

    @staticmethod
    def _is_dead(entry):
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"

    def victim(self, kind, ranks):
        """The process to kill, when it is there; None where the job has ended before."""
        if kind == "mpiexec":
            return self.process.pid
        wanted = 0 if kind == "writer" else ranks - 1
        while self.process.poll() is None:
            for process, rank in self.processes().items():
                if rank == wanted:
                    return process
            time.sleep(0.02)
        return None


def updates_in(folder):
    """The update of the last checkpoint, 0 where there is none; fails where it is damaged."""
    path = folder / "last.safetensors"
    return read_whole(path).metadata["state"]["update"] if path.exists() else 0


def told(folder):
    """Lines of train.log: all, and those that tell of a death."""
    log = folder / "train.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return len(lines), [line for line in lines if " died " in line or "lost the process that started it" in line]


def wait_for_progress(job, log, before):
    """Until a line of progress was written."""
    while job.process.poll() is None:
        lines = log.read_text(encoding="utf-8").splitlines()[before:] if log.exists() else []
        if any(re.search(r"  epoch \d+.*update ", line) or " loss " in line for line in lines):
            return
        time.sleep(0.05)
    sys.exit(f"the job ended by itself:\n{job.errors.read_text(errors='replace')}")


def one(arguments, folder, number, ranks, kind, draw):
    """Start, kill, look; what there is to print."""
    model = folder / "model"
    saved, (lines, deaths) = updates_in(model), told(model)
    launcher = [str(BIN / "mpiexec"), "-n", str(ranks)]
    job = Job([*launcher, *command(arguments, folder)], folder, number)
    is_early = number % 4 == 3
    if not is_early:
        wait_for_progress(job, model / "train.log", lines)
    wait = draw.uniform(0, 4.0 if is_early else arguments.seconds)
    time.sleep(wait)
    victim = job.victim(kind, ranks)
    if victim is None:
        sys.exit(f"the job ended by itself:\n{job.errors.read_text(errors='replace')}")
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    while job.process.poll() is None or job.processes():
        if time.monotonic() - began > MOST_SECONDS:
            sys.exit(f"still alive {MOST_SECONDS:.0f} s after the death of {kind}: {job.processes()}")
        time.sleep(0.02)
    took = time.monotonic() - began
    assert job.process.returncode != 0
    new = told(model)[1][len(deaths) :]
    assert len(new) <= 1 and (is_early or len(new) == 1), new
    reached, log = updates_in(model), (model / "train.log").read_text(encoding="utf-8") if lines else ""
    assert reached >= saved, (reached, saved)
    if saved and not is_early:
        assert f"update {saved}," in log.split("resuming from")[-1], f"did not go on from update {saved}"
    moment = f"{wait:.2f} s after " + ("its start" if is_early else "progress")
    text = re.sub(r"^.*Error: |; all ranks end.*$", "", new[0]) if new else "(before there was anything to lose)"
    print(
        f"{number + 1:5}  {ranks:5}  {kind:8} {moment:24} {took:6.2f} s  {saved:6} -> {reached:6}  {text}", flush=True
    )
    return took


def command(arguments, folder):
    settings = [*TINY, *arguments.set, f"model_dir={folder}/model"]
    return [str(BIN / "nmt-train"), arguments.config, *(part for one in settings for part in ("--set", one))]


def alone(arguments, folder, updates):
    """Go on with one process for some updates."""
    goal = updates_in(folder / "model") + updates
    done = subprocess.run(
        [*command(arguments, folder), "--set", f"training.updates={goal}"], capture_output=True, text=True
    )
    assert done.returncode == 0 and ("resuming from" in done.stderr or goal == updates), done.stderr
    assert updates_in(folder / "model") == goal
    return goal


def shorten_dev(arguments, folder):
    """A validation set of some lines, so that there are many validations and checkpoints."""
    data = load_config(arguments.config, arguments.set).data
    for side in (data.src, data.tgt):
        lines = Path(f"{data.dev}.{side.lang}").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"dev.{side.lang}").write_text("".join(lines[:20]), encoding="utf-8")
    arguments.set.append(f"data.dev={folder}/dev")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="configs/quickstart.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0, help="at most so long after the first progress")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shorten_dev(arguments, folder)
        print(" time  ranks  killed   moment                    all gone    update         lines of train.log")
        seconds = []
        for number in range(arguments.times):
            kind = ("rank", "writer", "mpiexec")[number % 3]
            seconds.append(one(arguments, folder, number, (2, 4)[number % 2], kind, draw))
            if number % 3 == 2:
                print(f"       one process goes on to update {alone(arguments, folder, 10)}", flush=True)
        print(f"one process goes on to update {alone(arguments, folder, 20)}")
        left = sorted(path.name for path in (folder / "model").iterdir() if path.name.startswith("."))
        assert not left, left
        print(f"{arguments.times} times killed, all gone after {max(seconds):.2f} s at most; nothing is left over")


if __name__ == "__main__":
    main()
