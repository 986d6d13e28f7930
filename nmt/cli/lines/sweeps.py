"""Run a sweep: progress on standard error, the table on standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from nmt.cli.lines.streams import say, tell
from nmt.system.terminal import is_live, live
from nmt.train.sweep import Sweep
from nmt.train.sweep_table import Job, summary


def run_sweep(config_file: str, folder: Path, jobs: list[Job], options: list[str], *, processes: int) -> None:
    """Run the planned jobs and print the table. Exits with code 1 if a run failed, 128 + n after signal n."""
    shows = is_live(sys.stderr)

    def tell_anew(text: str) -> None:
        if shows:
            tell(live(""), end="")
        tell(text)

    work = Sweep(config_file, folder, jobs, [sys.executable, "-m", "nmt", "train"], options)
    ended_by = work.run(processes, tell_anew, (lambda text: tell(live(text), end="")) if shows else None)
    if shows:
        tell(live(""), end="")
    say(summary(jobs))
    if ended_by is not None:
        sys.exit(128 + ended_by)
    if any(job.error for job in jobs):
        sys.exit(1)
