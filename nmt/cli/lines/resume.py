"""An output file that is written as lines are answered, and a record next to it of which input it answers.

The record, `OUTPUT.resume.json`, contains the model and settings, and a digest of the input lines that the output may
answer so far. It is replaced atomically before a chunk of lines is answered, so a run may be killed at any moment, and
the next one can check that every answer belongs to its input.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nmt.cli.lines.streams import LineWriter, Record, closing_quietly, write_errors
from nmt.errors import DataError
from nmt.system.files import lock_alone, read_json, write_bytes
from nmt.system.lines import Lines
from nmt.system.paths import named

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translator

RECORD_SUFFIX = ".resume.json"
_MOST_RECORD_BYTES = 16 * 2**20
_SHOWN = 40
"""Maximum characters of a setting in an error message."""


class Continued:
    """The answers of an earlier run, and the input that is still to be answered; made by `continued_lines`. writer:
    Appends to the output. answered: Number of input lines already answered. rest: The other input lines."""

    def __init__(self, path: Path, stream: BinaryIO, records: Lines[Record], run: dict[str, Any], tsv: bool) -> None:
        self._path, self._stream = path, stream
        self._record_path = Path(f"{path}{RECORD_SUFFIX}")
        self._run = json.loads(json.dumps(run))  # in the form in which JSON returns it
        self._lines, self._digest = 0, hashlib.sha256()  # of the input read so far
        counted = Lines(self._counted(records), records.ready)
        self.answered, self.rest = self._resume(counted, tsv) if os.fstat(stream.fileno()).st_size else (0, counted)
        self.writer = LineWriter(stream, str(path))

    def save(self) -> None:
        """Record that answers to all lines read so far may follow. Raises DataError."""
        record = {"run": self._run, "lines": self._lines, "digest": self._digest.hexdigest()}
        with write_errors(str(self._record_path)):
            write_bytes(self._record_path, (json.dumps(record, indent=1) + "\n").encode())

    def _counted(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield the records unchanged, while counting them and adding them to the input's digest."""
        for line, parallel in records:
            self._lines += 1
            self._digest.update(json.dumps([line, *parallel.values()]).encode())
            yield line, parallel

    def _resume(self, records: Lines[Record], tsv: bool) -> tuple[int, Lines[Record]]:
        """Truncate a partial answer; return the number of answered lines, and the lines that remain."""
        record = self._read()
        self._check_run(record["run"])
        answered, end = _answered(self._stream, tsv)
        left = []
        while self._lines < record["lines"] and (one := next(records, None)) is not None:
            if self._lines > answered:
                left.append(one)
        if (self._lines, self._digest.hexdigest()) != (record["lines"], record["digest"]) or answered > self._lines:
            raise self._mismatch(f"{max(answered, record['lines'])} lines of another input")
        with write_errors(str(self._path)):
            self._stream.truncate(end)
            self._stream.seek(end)
        return answered, Lines(chain(left, records), records.ready)

    def _read(self) -> dict[str, Any]:
        """Return the record. Raises DataError if there is none, since the origin of the answers is then unknown."""
        record = read_json(self._record_path, _MOST_RECORD_BYTES) or {}
        if isinstance(record.get("run"), dict) and isinstance(record.get("lines"), int) and record.get("digest"):
            return record
        raise DataError(
            f"{self._path}: must be new or begun by this command, got one without its record "
            f"{self._record_path.name}; remove it, or write elsewhere"
        )

    def _check_run(self, former: dict[str, Any]) -> None:
        """Compare the earlier run with this one. Raises DataError if they differ."""
        for name in sorted(former.keys() | self._run.keys()):
            before, now = former.get(name), self._run.get(name)
            if before != now:
                is_digest = isinstance(before, str) and isinstance(now, str) and len(before) == len(now) == 64
                fact = f"another {name}" if is_digest else f"{name} {before}, now {now}"
                raise self._mismatch(fact if len(fact) < _SHOWN else f"another {name}")

    def _mismatch(self, fact: str) -> DataError:
        """Return the error for answers of a different run; `fact` states the difference."""
        return DataError(
            f"{self._path}: must have answers of this very run to go on with, got some made with {fact}; give the same "
            "input, model and options, or remove it to begin again"
        )


def identity(job: Any, translator: Translator | Pivot, options: dict[str, Any]) -> dict[str, Any]:
    """Return all but the input that answers depend on, for the record of --resume: not threads, batch size, device."""
    from nmt.inference.pivot import Pivot
    from nmt.inference.translation import chosen_settings
    from nmt.rnn.devices import resolved_dtype
    from nmt.search_settings import SearchSettings

    if isinstance(translator, Pivot):
        return identity(job, translator.last, options) | {"first model": identity(job, translator.first, options)}
    config = translator.config
    model, *others = (one.digest for one in translator.loaded)
    settings = {name: value for name, value in job.search.items() if name in SearchSettings.__annotations__}
    chosen = chosen_settings(config.decoding, settings)  # type: ignore[arg-type] # a dictionary of them
    return {name: getattr(chosen, name) for name in SearchSettings.__annotations__ if name != "batch_size"} | {
        "model": model,
        "ensemble": others,
        "ensemble_average": options["ensemble_average"],
        "compute_dtype": resolved_dtype(options["compute_dtype"] or config.compute_dtype),
        "output_format": job.form,
        **{name: job.search[name] for name in ("n_best", "replace_unk", "shortlist", "dictionary")},
        "memory": translator.recall and translator.recall.digest,
        "glossary": job.glossary,
        "forbid": job.forbidden,
        "prefix_text": job.prefix,
    }


@contextlib.contextmanager
def continued_lines(target: str, records: Lines[Record], run: dict[str, Any], *, tsv: bool) -> Iterator[Continued]:
    """Open a file that an earlier run may have started, to write after its last complete answer.

    An incomplete last line is removed, once it is certain that the answers belong to this run; `tsv`: so are the last
    answers of a line, which several may have, with its number in their first column. `run`: what answers depend on
    besides the lines of input: model, settings. Raises DataError: It cannot be written, another run is writing it, or
    it contains answers to other lines, of another model or with other settings; it is then unchanged.
    """
    path = named(target)
    named(f"{target}{RECORD_SUFFIX}")  # may be too long even if the file's name is not
    if path.exists() and not path.is_file():
        raise DataError(f"{target}: must be a file for --resume, got something else; name a file")
    with write_errors(target):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with closing_quietly(os.fdopen(handle, "r+b")) as stream:
        if not lock_alone(stream.fileno()):
            raise DataError(
                f"{target}: must not be in use, got another run that writes to it; wait for it, or write elsewhere"
            )
        yield Continued(path, stream, records, run, tsv)
        with write_errors(target):
            stream.close()


def _answered(stream: BinaryIO, tsv: bool) -> tuple[int, int]:
    """Return how many input lines are certainly answered in a file, and the number of bytes of these answers."""
    answered = end = position = 0
    last = b""
    stream.seek(0)
    for line in stream:
        if not line.endswith(b"\n"):
            break
        number = line.split(b"\t", 1)[0]
        if tsv and number != last:
            last, end = number, position
            answered = int(number) if number.isdigit() else answered
        position += len(line)
        if not tsv:
            answered, end = answered + 1, position
    return answered, end
