"""Packs of machine code for the wheel: one for each processor level, with the functions that the standard jobs run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nmt.precompile.jobs import Job, run_job_aside
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.machine_code.native import Native, when_used
from nmt.rnn.kernels.machine_code.recipes import Recipe, native_of, recipe_of
from nmt.rnn.kernels.machine_code.store import Record, write_pack

Notify = Callable[[str], None]
_THREADS = 2
"""Threads of the jobs on any machine: one more function runs where threads share work."""


def recipes_of(jobs: Iterable[Job], notify: Notify) -> list[Recipe]:
    """Run the jobs in this process and return the recipes of all functions that they use, in a fixed order."""
    found: dict[str, Recipe] = {}

    def note(native: Native) -> None:
        recipe = recipe_of(native)
        if recipe is not None:
            found[json.dumps(recipe)] = recipe

    when_used.append(note)
    try:
        for job in jobs:
            before = len(found)
            run_job_aside(job, _THREADS)
            notify(f"{job.name}: {len(found) - before} functions")
    finally:
        when_used.remove(note)
    return [found[key] for key in sorted(found)]


def compile_all(recipes: Sequence[Recipe], environment: dict[str, str]) -> None:
    """Compile the functions that the store lacks, on all cores."""
    count = max(1, default_threads())
    # Functions that others call come first, in one process: otherwise every process would compile them.
    called = [recipe for recipe in recipes if recipe[0] == "named"]
    rest = [recipe for recipe in recipes if recipe[0] != "named"]
    for group in (called,), tuple(rest[n::count] for n in range(count)):
        with ThreadPoolExecutor(count) as threads:
            for done in threads.map(lambda part: _run("compile", part, environment), filter(None, group)):
                done.check_returncode()


def make_packs(
    recipes: Sequence[Recipe], folder: Path, levels: Sequence[str], notify: Notify, elsewhere: str = "1"
) -> None:
    """Write `LEVEL.pack` into a folder for each level; `elsewhere`: the machines they are for (see features.py)."""
    for level in levels:
        environment = {"NMT_CPU": level, "NMT_CPU_UNCHECKED": elsewhere}
        compile_all(recipes, environment)
        notify(f"{level}: {len(recipes)} functions compiled")
        path = folder / f"{level}.pack"
        _run("pack", [str(path), *recipes], environment).check_returncode()
        notify(f"{path}: {path.stat().st_size:,} bytes")


def _run(work: str, argument: Sequence[object], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command of this package in another process, since a process chooses its target only once."""
    command = [sys.executable, "-m", "nmt.precompile", work]
    given = os.environ | environment | {"NMT_SHIPPED_CODE": "0"}
    return subprocess.run(command, input=json.dumps(argument).encode(), env=given, check=False)


def compile_here(recipes: Sequence[Recipe]) -> None:
    """Compile and store functions in this process, which loads none: they may be for another machine."""
    for recipe in recipes:
        native_of(recipe).made()


def pack_here(path: Path, recipes: Sequence[Recipe]) -> None:
    """Write a pack of these functions from the store."""
    records: dict[str, Record] = {}
    for recipe in recipes:
        native = native_of(recipe)
        if native.source_name is None:
            raise RuntimeError(f"{recipe[:3]} has no name")
        records[native.source_name] = native.made()
    write_pack(path, records)
