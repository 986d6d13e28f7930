"""Translate several files, whole folders, or one shard of them, as in a job array on a cluster.

Each input file becomes a file of the same name below the output folder, or several, one per shard. A file appears only
when it is complete, and existing files are kept, so a task that was killed can simply be run again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nmt.cli.lines.judging import tell_doubts
from nmt.cli.lines.streams import check_apart, tell, write_errors
from nmt.cli.lines.tables import FORMATS, Columns, Part, Translate, count_rows, format_of, translate_part
from nmt.errors import DataError
from nmt.system.files import explain, read_small, write_bytes
from nmt.system.paths import (
    absent,
    check_folder,
    check_output,
    ends_in_slash,
    exists,
    is_file,
    is_folder,
    kind,
    listed,
    named,
    shown,
)

RECORD_NAME = ".nmt-translate.json"
_MOST_RECORD_BYTES = 16 * 2**20


class Shard(click.ParamType):
    """A share of the work, `I/N`: number I, from 1, of N."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return both numbers, the first counted from 0."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", str(value))
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"{value!r} must be I/N with I from 1 to N, as in 1/8 and 8/8.", param, ctx)
        return int(found[1]) - 1, int(found[2])


def check_no_models(inputs: Sequence[str]) -> None:
    """Raise UsageError if an input is a model folder, as where an ensemble is meant."""
    from nmt.storage.model_folder import CONFIG_NAME

    for name in inputs:
        if exists(Path(name) / CONFIG_NAME):
            raise click.UsageError(f"must be a text to translate, got the model {name}; --ensemble adds models.")


@dataclass(frozen=True)
class Task:
    """One file to write: which rows of which file it translates, all of them if `shards` is 1."""

    source: Path
    target: Path
    shard: int
    shards: int


def tasks_of(inputs: Sequence[str], output: Path, shard: tuple[int, int]) -> list[Task]:
    """Return the tasks of one shard. If there are enough files, whole files are assigned, the largest first to the
    shard with least work; otherwise each file is split into as many parts as there are shards.

    Args:
        inputs: Files, and folders whose files are all taken, except names that begin with a dot or underscore.
        output: The folder to write to.
        shard: The shard's number, and the number of shards.

    Raises:
        DataError: A file does not exist, or two would be written to the same place.
    """
    found: dict[Path, Path] = {}
    for place in inputs:
        for source, relative in _files(named(place)):
            if relative in found:
                raise DataError(
                    f"{source}: must have a name of its own below {output}, got that of {found[relative]}; rename it, "
                    "or give the folder above both"
                )
            found[relative] = source
    number, count = shard
    if count > 1 and len(found) < count:
        return [Task(source, output / _cut(name, number, count), number, count) for name, source in found.items()]
    loads = [0] * count
    tasks = []
    for name, source in sorted(found.items(), key=lambda item: (-item[1].stat().st_size, item[0])):
        least = loads.index(min(loads))
        loads[least] += source.stat().st_size + 1
        if least == number:
            tasks.append(Task(source, output / name, 0, 1))
    return tasks


@dataclass(frozen=True)
class Work:
    """Options for translating rows.

    form: The format of all files, one of FORMATS; None detects it by their names. columns: Column names of tables.
    translate: Translates a list of rows. size: Number of rows at a time. langs: The codes of the model's languages.
    """

    form: str | None
    columns: Columns
    translate: Translate
    size: int
    langs: tuple[str, str]


def translate_all(inputs: Sequence[str], place: str, shard: tuple[int, int] | None, work: Work, run: Any) -> None:
    """Translate files, or one shard of them, into a folder; a single table that is not sharded becomes a file.

    Args:
        inputs: Files and folders.
        place: Where to write; a name that ends in a slash is a folder.
        shard: The shard's number, and the number of shards; None for everything.
        work: How to translate rows.
        run: Everything that translations depend on, which is recorded in the folder.

    Raises:
        DataError: A file cannot be read or written, or the folder contains something else.
    """
    one = named(inputs[0])
    if shard is None and len(inputs) == 1 and is_file(one) and not (ends_in_slash(place) or is_folder(Path(place))):
        target = check_output(place, "-o")
        check_apart({"-o": place}, {"INPUT": inputs[0]})
        _translate(Task(one, target, 0, 1), work)
        return
    output = check_folder(place, "-o")
    _check_outside(output, inputs)
    tasks = tasks_of(inputs, output, shard or (0, 1))
    for task in tasks:
        check_apart({"-o": str(task.target)}, {"INPUT": str(task.source)})
    check_record(output, run)
    done = bad = there = 0
    failed: list[DataError] = []
    for task in tasks:
        if exists(task.target):
            there += 1
            continue
        try:
            bad += _translate(task, work)
        except DataError as error:
            if isinstance(error.__cause__, OSError):  # it cannot be written, and neither can the others
                raise
            failed.append(error)
            tell(f"warning: {error}")
        else:
            done += 1
    tell(f"{_counted(done, 'file')} translated, {there:,} were there already; {_counted(bad, 'row')} with errors")
    if failed:
        raise DataError(
            f"{place}: must get a translation of each file, got {len(failed)} of {len(tasks)} that could not be "
            f"translated, the first: {failed[0]}"
        )


def _check_outside(output: Path, inputs: Sequence[str]) -> None:
    """Raise DataError if the output is below a folder of the input, where the next call would read it."""
    place = Path(os.path.realpath(output))
    for one in inputs:
        folder = Path(os.path.realpath(one))
        if folder in place.parents and is_folder(folder) and not _is_hidden(place.relative_to(folder)):
            raise DataError(
                f"{output}: must be outside of {one}, got a folder in it, which the next call would translate, too; "
                "name another place with -o"
            )


def _is_hidden(name: Path) -> bool:
    """Return whether a file or folder below an input folder is passed over."""
    return any(part.startswith((".", "_")) for part in name.parts)


def _counted(number: int, what: str) -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _translate(task: Task, work: Work) -> int:
    """Write one file, and warn about rows with errors; return their number."""
    form, first, end = work.form or format_of(task.source), 0, 1 << 62
    if form == "text":
        tell_doubts(work.langs, [(str(task.source), "INPUT", 0)], lines=work.form is None)
    if task.shards > 1:
        rows = count_rows(task.source, form)
        first, end = (rows * place // task.shards for place in (task.shard, task.shard + 1))
    with write_errors(str(task.target)):
        task.target.parent.mkdir(parents=True, exist_ok=True)
    part = Part(task.source, first, end)
    errors = translate_part(part, form, task.target, work.columns, work.translate, work.size)
    if errors:
        tell(
            f"warning: {task.target}: an error in {_counted(errors, 'row')}, reported in the column "
            f"{work.columns.errors}"
        )
    return errors


def check_record(output: Path, run: dict[str, Any]) -> None:
    """Record in the output folder what its translations depend on: model and settings. Raises DataError if it contains
    files of another model or other settings."""
    path, wanted = output / RECORD_NAME, json.loads(json.dumps(run))
    with write_errors(str(output)):
        if output.exists() and not output.is_dir():
            raise DataError(f"{output}: must be a folder, got a file; name another place with -o")
        output.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_bytes(path, (json.dumps(run, indent=1) + "\n").encode())
            return
    try:
        former = json.loads(read_small(path, _MOST_RECORD_BYTES))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: must be the record of this folder, got {explain(error)}; remove it") from None
    for name in sorted(wanted.keys() | former.keys()) if isinstance(former, dict) else ["run"]:
        if former != wanted and former.get(name) != wanted.get(name):
            raise DataError(
                f"{output}: must have files of this very run to go on with, got some made with another {name}; give "
                "the same model and options, or another folder"
            )


def is_corpus(inputs: Sequence[str], form: str | None, shard: tuple[int, int] | None) -> bool:
    """Return whether whole files are to be translated, instead of a stream of lines."""
    table = (form or format_of(Path(inputs[0]))) in FORMATS[1:]
    return len(inputs) > 1 or shard is not None or table or is_folder(named(inputs[0]))


def _files(path: Path) -> list[tuple[Path, Path]]:
    """Return the files that an argument names, each with its path below the output. Raises DataError if there are
    none."""
    if is_file(path):
        return [(path, Path(path.name))]
    if not exists(path):
        raise DataError(absent(path, "file or folder", "give the input, and name the output with -o"))
    if not is_folder(path):
        raise DataError(f"{shown(path)}: must be a file or a folder, got {kind(path)}; give another input")
    found = [(one, one.relative_to(path)) for one in listed(path)]
    found = [(one, name) for one, name in found if not _is_hidden(name)]
    for one, _ in found:
        if not exists(one):
            tell(f"warning: {shown(one)}: skipped, a broken link")
    found = [(one, name) for one, name in found if is_file(one)]
    if not found:
        raise DataError(f"{path}: must contain files to translate, got none; give another folder")
    return found


def _cut(name: Path, number: int, count: int) -> Path:
    """Return the name of a part of a file: `big.jsonl.gz` -> `big-00002-of-00008.jsonl.gz`. Sorted names are in the
    order of the parts."""
    ending = "".join(name.suffixes[-2:] if name.suffix == ".gz" else name.suffixes[-1:])
    stem = name.name.removesuffix(ending)
    return name.with_name(f"{stem}-{number + 1:05}-of-{count:05}{ending}")
