"""nmt-cache: manage the store of compiled machine code."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter

import click

from nmt.cli.lines.streams import say, tell
from nmt.cli.options.command import Command, cells_option, compute_dtype_option, threads_option
from nmt.cli.options.path_types import INPUT
from nmt.errors import NMTError
from nmt.system.paths import kind


@click.command(cls=Command)
@click.argument("work", type=click.Choice(["list", "clear", "fill"]), default="list")
@click.argument("models", metavar="[MODEL]...", nargs=-1, type=INPUT)
@threads_option
@compute_dtype_option
@cells_option
def cache(
    work: str, models: tuple[str, ...], threads: int | None, compute_dtype: str | None, cells: tuple[str, ...]
) -> None:
    """Show, empty or fill the store of compiled machine code.

    The code a model needs is compiled on first use and kept for later processes, in NMT_CACHE_DIR or the user's cache
    folder. Entries are named by everything they are compiled from, so none is ever stale, and removing one costs only
    its compilation. Entries that have not been read for a month are removed automatically.

    \b
    list   list the entries, one per line, and their total size
    clear  remove all entries
    fill   compile in advance: for translation with the models given, or, if none is given, for training and
           translation with the usual cells and types

    \b
    Examples:
        nmt-cache
        nmt-cache fill runs/de-en
        nmt-cache fill de-en.nmt --compute-dtype int8
    """
    from nmt.rnn.kernels.machine_code.store import store

    kept = store()
    if models and work != "fill":
        raise NMTError(f"nmt-cache {work}: must have no model, got {models[0]}; only fill takes some")
    if compute_dtype is not None and not models:
        raise NMTError("--compute-dtype changes nothing without the models of fill; give MODEL, or omit it")
    if kept.folder is None:
        raise NMTError(
            "nmt-cache: there must be a folder for machine code, got none; set NMT_CACHE_DIR to one of yours"
        )
    wanted = os.environ.get("NMT_CACHE_DIR")
    if wanted and Path(wanted) not in kept.folder.parents:
        raise NMTError(
            f"{wanted}: NMT_CACHE_DIR must be a folder that can be written, got {kind(Path(wanted))}; set another"
        )
    if work == "clear":
        files = kept.files()
        kept.clear()
        left = len(kept.files())
        tell(f"{kept.folder}: {len(files) - left} functions removed" + (f", {left} could not be" if left else ""))
    elif work == "fill":
        _fill(models, threads, compute_dtype, cells)
    else:
        _show()


def _show() -> None:
    from nmt.rnn.kernels.machine_code.features import TARGET
    from nmt.rnn.kernels.machine_code.store import shipped, store

    files = store().files()
    for file in files:
        say(f"{file.name}\t{file.size}\t{datetime.fromtimestamp(file.used).isoformat(' ', 'seconds')}")
    tell(f"{store().folder}: {len(files)} functions, {sum(file.size for file in files):,} bytes, for {TARGET.name}")
    if count := len(shipped().index):
        tell(f"{shipped().path}: {count} functions that came with the package")


def _fill(models: tuple[str, ...], threads: int | None, compute_dtype: str | None, cells: tuple[str, ...]) -> None:
    from nmt.precompile.jobs import fill_for_model, run_job_aside, standard_jobs
    from nmt.rnn.cores import default_threads

    count = threads or default_threads()
    work: list[tuple[str, Callable[[], None]]]
    work = [(path, partial(fill_for_model, Path(path), count, compute_dtype, cells)) for path in models]
    work = work or [(job.name, partial(run_job_aside, job, count)) for job in standard_jobs()]
    begun = perf_counter()
    for n, (name, compile_all) in enumerate(work, 1):
        compile_all()
        left = (perf_counter() - begun) / n * (len(work) - n)
        tell(f"{n} of {len(work)}: {name}, {left:.0f} s left")
