"""Translate tables row by row (JSON lines, Parquet, plain lines), and whole folders or one shard of them."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from nmt.cli.lines.judging import tell_doubts
from nmt.cli.lines.streams import check_apart, tell, write_errors
from nmt.errors import DataError, DeviceError, how_to_install
from nmt.inference.rows import Rows
from nmt.system import paths
from nmt.system.files import explain, read_small, replacing, write_bytes
from nmt.system.lines import MAX_LINE_BYTES, read_lines

FORMATS = ("text", "jsonl", "parquet")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class Columns:
    """Names of the column to translate and the columns to add. `scores` may be None for no scores."""

    text: str
    output: str
    errors: str
    scores: str | None

    def among(self, names: Collection[str]) -> str:
        """Return the name of the column to translate as it is among these, where it differs by case alone."""
        from nmt.data.corpora.looking import name_among  # imported late, since --help must be fast

        return name_among(self.text, names)

    def of(self, rows: Rows, index: int) -> dict[str, Any]:
        """Return the values to add to a row."""
        found: dict[str, Any] = {self.output: rows.texts[index], self.errors: rows.errors[index]}
        if self.scores is not None:
            score = rows.scores[index]
            found[self.scores] = score if math.isfinite(score) else None
        return found


@dataclass(frozen=True)
class TablePart:
    """A range of rows of a file: from `first` up to but not including `end`."""

    path: Path
    first: int
    end: int


def format_of(path: Path) -> str:
    """Return the format of a file by its name; a final `.gz` is ignored."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    return _SUFFIXES.get(plain.suffix, "text")


def count_rows(path: Path, form: str) -> int:
    """Return how many rows a file has. Raises DataError: It cannot be read."""
    if form == "parquet":
        with _parquet(path) as file:
            return int(file.metadata.num_rows)
    return sum(1 for _ in (read_lines(path) if form == "text" else _raw_lines(path)))


@dataclass
class _Errors:
    """Counts rows and those with errors, and keeps the first error."""

    rows: int = 0
    count: int = 0
    first: str = ""

    def note(self, errors: list[str]) -> None:
        """Count rows, given the error of each, empty for none."""
        self.rows += len(errors)
        self.count += sum(map(bool, errors))
        self.first = self.first or next(filter(None, errors), "")


def _translate_text(part: TablePart, stream: BinaryIO, work: Work, errors: _Errors) -> None:
    lines = islice(read_lines(part.path), part.first, part.end)
    while chunk := list(islice(lines, work.size)):
        for text in work.translate(cast(list[Any], chunk)).texts:
            stream.write(text.encode() + b"\n")


def _translate_json(part: TablePart, stream: BinaryIO, work: Work, errors: _Errors) -> None:
    """Translate JSON lines. A line that is not an object becomes an object with an error; objects keep their fields."""
    lines, columns = islice(_raw_lines(part.path), part.first, part.end), work.columns
    while chunk := list(islice(lines, work.size)):
        records = [_record(line, columns) for line in chunk]
        rows = work.translate([value for _, value, _ in records])
        for index, (record, _, error) in enumerate(records):
            added = columns.of(rows, index)
            if error:
                added = {name: value for name, value in added.items() if name not in record}
                added[columns.errors] = error
            errors.note([added[columns.errors]])
            stream.write(_line(record | added))


def _line(record: dict[str, Any]) -> bytes:
    """Return an object as a JSON line; with escapes if it has half a surrogate pair, which UTF-8 cannot encode."""
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record).encode() + b"\n"


def _record(line: bytes, columns: Columns) -> tuple[dict[str, Any], Any, str]:
    """Return the object of a line, empty if it is not an object, the value to translate, and the error."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is one
        return {}, None, f"must be a line of JSON in UTF-8, got {str(error).splitlines()[0]}"
    if not isinstance(record, dict):
        return {}, None, f"must be a JSON object, got {type(record).__name__}"
    if (name := columns.among(record)) not in record:
        return record, None, f"must have {columns.text!r}, got {', '.join(record)[:200] or 'an empty object'}"
    if taken := [one for one in (columns.output, columns.errors, columns.scores) if one in record]:
        return record, None, f"must not have {taken[0]!r} already, got an object with it"
    return record, record[name], ""


def _translate_parquet(part: TablePart, temporary: Path, work: Work, errors: _Errors) -> None:
    import pyarrow
    import pyarrow.parquet

    at, columns = 0, work.columns
    with _parquet(part.path) as file:
        schema = file.schema_arrow
        _check_columns(part.path, schema.names, columns)
        fields = [pyarrow.field(columns.output, pyarrow.string()), pyarrow.field(columns.errors, pyarrow.string())]
        if columns.scores is not None:
            fields.append(pyarrow.field(columns.scores, pyarrow.float64()))
        for field in fields:
            schema = schema.append(field)
        with pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
            for batch in file.iter_batches(batch_size=work.size):
                begin, end = max(part.first - at, 0), min(part.end - at, len(batch))
                at += len(batch)
                if begin >= end:
                    continue
                batch = batch.slice(begin, end - begin)
                rows = work.translate(batch.column(columns.among(schema.names)).to_pylist())
                errors.note(rows.errors)
                added = [columns.of(rows, index) for index in range(len(batch))]
                arrays = [pyarrow.array([one[field.name] for one in added], field.type) for field in fields]
                writer.write_batch(pyarrow.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema))


def _check_columns(path: Path, names: list[str], columns: Columns) -> None:
    """Raise DataError if a table lacks the column to translate, or already has one to add."""
    if columns.among(names) not in names:
        raise DataError(
            f"{path}: must have the column {columns.text}, got {', '.join(names)}; name another one with --column"
        )
    for name in (columns.output, columns.errors, columns.scores):
        if name in names:
            raise DataError(f"{path}: must not have the column {name} already, got one; give --output-column NAME")


def _parquet(path: Path) -> Any:
    """Return an open Parquet file. Raises DataError: It is not one; DeviceError: The package for it is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DeviceError(
            f"{path}: must be read by the package pyarrow, got none; {how_to_install('parquet')}"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: must be a Parquet file, got {explain(error)}; give one that is whole") from None


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yield lines that are not blank as bytes, without line ends, so that an encoding error affects one line only.
    Raises DataError if the file cannot be read."""
    try:
        with cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if not line.strip():
                    continue
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(
                        f"{path}: line {number} must have at most {MAX_LINE_BYTES:,} bytes, got more; give an object a "
                        "line"
                    )
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError) as error:  # a damaged archive is one of them
        raise DataError(f"{path}: must be readable, got {explain(error)}; give a file that is whole") from None


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


def check_no_models(model: str, inputs: Sequence[str]) -> None:
    """Raise UsageError if an input is a model folder, as where an ensemble is meant, or in the place of `model`."""
    from nmt.storage.model_folder import CONFIG_NAME

    for name in inputs:
        if paths.exists(Path(name) / CONFIG_NAME):
            comes_last = paths.is_file(Path(model)) and Path(model).suffix != ".nmt"
            advice = f"name it first: {name} {model}" if comes_last else "--ensemble adds models"
            raise click.UsageError(f"must be a text to translate, got the model {name}; {advice}.")


@dataclass(frozen=True)
class Task:
    """One file to write: which rows of which file it translates, all of them if `shards` is 1."""

    source: Path
    target: Path
    shard: int
    shards: int


def tasks_of(inputs: Sequence[str], output: Path, shard: tuple[int, int]) -> list[Task]:
    """Return the tasks of one shard, its number and the number of shards. If there are enough files, whole files are
    assigned, the largest first to the shard with least work; otherwise each file is split into as many parts as there
    are shards. Of folders all files are taken, except names that begin with a dot or underscore. Raises DataError: A
    file does not exist, or two would be written to the same place."""
    found: dict[Path, Path] = {}
    for place in inputs:
        for source, relative in _files(paths.named(place)):
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
    """Options for translating rows. form: The format of all files, one of FORMATS; None detects it by their names.
    columns: Names of columns. translate: Translates a list of rows. size: Rows at a time. langs: The model's codes."""

    form: str | None
    columns: Columns
    translate: Callable[[list[Any]], Rows]
    size: int
    langs: tuple[str, str]


def translate_all(inputs: Sequence[str], place: str, shard: tuple[int, int] | None, work: Work, run: Any) -> None:
    """Translate files and folders, or one shard of them, into a folder; a single table that is not sharded becomes a
    file. `place`: where to write; a name that ends in a slash is a folder. `shard`: its number, and the number of
    shards; None for everything. `run`: what translations depend on, which is recorded in the folder. Raises DataError:
    A file cannot be read or written, or the folder contains something else."""
    one = paths.named(inputs[0])
    if (
        shard is None
        and len(inputs) == 1
        and paths.is_file(one)
        and not (paths.ends_in_slash(place) or paths.is_folder(Path(place)))
    ):
        target = paths.check_output(place, "-o")
        check_apart({"-o": place}, {"INPUT": inputs[0]})
        _translate(Task(one, target, 0, 1), work)
        return
    output = paths.check_folder(place, "-o")
    _check_outside(output, inputs)
    tasks = tasks_of(inputs, output, shard or (0, 1))
    for task in tasks:
        check_apart({"-o": str(task.target)}, {"INPUT": str(task.source)})
    check_record(output, run)
    done = bad = there = 0
    failed: list[DataError] = []
    for task in tasks:
        if paths.exists(task.target):
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
        if folder in place.parents and paths.is_folder(folder) and not _is_hidden(place.relative_to(folder)):
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
    """Write one file, which appears when it is complete, and warn about rows with errors; return their number. A target
    with `.gz` is compressed, as Parquet always is. Raises DataError: A file cannot be read or written, is not of the
    form, or has an error in every row: nothing is written then."""
    target, form, first, end = task.target, work.form or format_of(task.source), 0, 1 << 62
    if form == "text":
        tell_doubts(work.langs, [(str(task.source), "INPUT", 0)], lines=work.form is None)
    if task.shards > 1:
        rows = count_rows(task.source, form)
        first, end = (rows * place // task.shards for place in (task.shard, task.shard + 1))
    with write_errors(str(target)):
        target.parent.mkdir(parents=True, exist_ok=True)
    if (other := format_of(target)) not in ("text", form):
        raise DataError(
            f"{target}: must end as INPUT does, got {form} in a file for {other}; the output has the form of INPUT"
        )
    part, errors = TablePart(task.source, first, end), _Errors()
    with write_errors(str(target)), replacing(target) as temporary:
        if form == "parquet":
            _translate_parquet(part, temporary, work, errors)
        else:
            packs = target.suffix == ".gz"  # without a time, so that the same rows give the same bytes
            with cast(BinaryIO, gzip.GzipFile(temporary, "wb", mtime=0) if packs else temporary.open("wb")) as stream:
                (_translate_text if form == "text" else _translate_json)(part, stream, work, errors)
        if errors.count and errors.count == errors.rows:
            raise DataError(
                f"{task.source}: must have a row that can be translated, got an error in all {errors.rows}, in the "
                f"first one: {errors.first}; nothing is written"
            )
    if errors.count:
        tell(
            f"warning: {target}: an error in {_counted(errors.count, 'row')}, reported in the column "
            f"{work.columns.errors}"
        )
    return errors.count


def check_record(output: Path, run: dict[str, Any]) -> None:
    """Record in the output folder the model and settings of its files. Raises DataError if it has some of others."""
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
    return len(inputs) > 1 or shard is not None or table or paths.is_folder(paths.named(inputs[0]))


def _files(path: Path) -> list[tuple[Path, Path]]:
    """Return the files that an argument names, each with its path below the output. Raises DataError for none."""
    if paths.is_file(path):
        return [(path, Path(path.name))]
    if not paths.exists(path):
        raise DataError(paths.absent(path, "file or folder", "give the input, and name the output with -o"))
    if not paths.is_folder(path):
        raise DataError(f"{paths.shown(path)}: must be a file or a folder, got {paths.kind(path)}; give another input")
    found = [(one, one.relative_to(path)) for one in paths.listed(path)]
    found = [(one, name) for one, name in found if not _is_hidden(name)]
    for one, _ in found:
        if not paths.exists(one):
            tell(f"warning: {paths.shown(one)}: skipped, a broken link")
    if not (found := [(one, name) for one, name in found if paths.is_file(one)]):
        raise DataError(f"{path}: must contain files to translate, got none; give another folder")
    return found


def _cut(name: Path, number: int, count: int) -> Path:
    """Return the name of a part of a file: `big.jsonl.gz` -> `big-00002-of-00008.jsonl.gz`; names sort as parts."""
    ending = "".join(name.suffixes[-2:] if name.suffix == ".gz" else name.suffixes[-1:])
    return name.with_name(f"{name.name.removesuffix(ending)}-{number + 1:05}-of-{count:05}{ending}")
