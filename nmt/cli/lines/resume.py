"""An output file that grows as lines are answered, and the record beside it of what it answers.

The record, `OUTPUT.resume.json`, says which model and settings gave the answers, and has a digest of the lines of input
up to those that the answers may have come to. It is written, aside and renamed, before a chunk of lines is answered: so
a run may be killed at any moment, and the next one knows of every answer what it is an answer to.
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
from nmt.system.files import lock_alone, read_small, write_bytes
from nmt.system.lines import Lines
from nmt.system.paths import named

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

RECORD_SUFFIX = ".resume.json"
_MOST_RECORD_BYTES = 16 * 2**20
_SHOWN = 40
"""Characters of a setting in an error."""


class Continued:
    """What an earlier run answered, and what there is to answer still; made by `continued_lines`.

    writer: At the end of the output. answered: Lines of input that need no answer any more. rest: Those that do.
    """

    def __init__(self, path: Path, stream: BinaryIO, records: Lines[Record], run: dict[str, Any], tsv: bool) -> None:
        self._path, self._stream = path, stream
        self._record_path = Path(f"{path}{RECORD_SUFFIX}")
        self._run = json.loads(json.dumps(run))  # as it is read
        self._lines, self._digest = 0, hashlib.sha256()  # of what was read of the input
        noted = Lines(self._noted(records), records.ready)
        self.answered, self.rest = self._go_on(noted, tsv) if os.fstat(stream.fileno()).st_size else (0, noted)
        self.writer = LineWriter(stream, str(path))

    def save(self) -> None:
        """Record that answers to all lines read so far may follow. Raises DataError."""
        record = {"run": self._run, "lines": self._lines, "digest": self._digest.hexdigest()}
        with write_errors(str(self._record_path)):
            write_bytes(self._record_path, (json.dumps(record, indent=1) + "\n").encode())

    def _noted(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield the same records, counted and added to the digest of the input as they go by."""
        for line, beside in records:
            self._lines += 1
            self._digest.update(json.dumps([line, *beside.values()]).encode())
            yield line, beside

    def _go_on(self, records: Lines[Record], tsv: bool) -> tuple[int, Lines[Record]]:
        """Cut off what is half answered; returns how many lines are answered, and those that are not."""
        record = self._read()
        self._check_run(record["run"])
        answered, end = _answered(self._stream, tsv)
        left = []
        while self._lines < record["lines"] and (one := next(records, None)) is not None:
            if self._lines > answered:
                left.append(one)
        if (self._lines, self._digest.hexdigest()) != (record["lines"], record["digest"]) or answered > self._lines:
            raise self._another(f"{max(answered, record['lines'])} lines of another input")
        with write_errors(str(self._path)):
            self._stream.truncate(end)
            self._stream.seek(end)
        return answered, Lines(chain(left, records), records.ready)

    def _read(self) -> dict[str, Any]:
        """Return the record. Raises DataError where there is none: nobody knows then what the answers belong to."""
        try:
            record = json.loads(read_small(self._record_path, _MOST_RECORD_BYTES))
            if isinstance(record["run"], dict) and isinstance(record["lines"], int) and record["digest"]:
                return dict(record)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        raise DataError(
            f"{self._path}: must be new or begun by this command, got one without its record "
            f"{self._record_path.name}; remove it, or write elsewhere"
        )

    def _check_run(self, former: dict[str, Any]) -> None:
        """Compare what the former run was with this one. Raises DataError where they differ."""
        for name in sorted(former.keys() | self._run.keys()):
            before, now = former.get(name), self._run.get(name)
            if before != now:
                is_digest = isinstance(before, str) and isinstance(now, str) and len(before) == len(now) == 64
                fact = f"another {name}" if is_digest else f"{name} {before}, now {now}"
                raise self._another(fact if len(fact) < _SHOWN else f"another {name}")

    def _another(self, fact: str) -> DataError:
        """Return the error for answers that are of another run; `fact` says what is different."""
        return DataError(
            f"{self._path}: must have answers of this very run to go on with, got some made with {fact}; give the same "
            "input, model and options, or remove it to begin again"
        )


def identity(job: Any, translator: Translator, model_dir: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return all that answers depend on, besides the input: for the record of --resume. Threads, batch size and device
    are not among it."""
    from nmt.inference.translation import SearchSettings, chosen_settings
    from nmt.rnn.devices import resolved_dtype
    from nmt.storage.saved_model import load_saved_model

    config = translator.config
    lm = config.decoding.lm if options["lm"] is None else options["lm"]
    settings = {name: value for name, value in job.search.items() if name in SearchSettings.__annotations__}
    run = chosen_settings(config.decoding, settings)  # type: ignore[arg-type] # a dictionary of them
    del run["batch_size"]
    return run | {
        "model": load_saved_model(model_dir, options["checkpoint"]).digest,
        "ensemble": [load_saved_model(other, options["checkpoint"]).digest for other in options["ensemble"]],
        "ensemble_average": options["ensemble_average"],
        "language model": None if lm is None else load_saved_model(lm).digest,
        "compute_dtype": resolved_dtype(options["compute_dtype"] or config.compute_dtype),
        "output_format": job.form,
        **{name: job.search[name] for name in ("n_best", "replace_unk", "shortlist", "dictionary")},
        "glossary": job.glossary,
        "forbid": job.forbidden,
        "prefix_text": job.prefix,
        "constraint_text": job.constraints,
    }


@contextlib.contextmanager
def continued_lines(target: str, records: Lines[Record], run: dict[str, Any], *, tsv: bool) -> Iterator[Continued]:
    """Open a file that an earlier run may have begun, to write behind the last whole answer.

    A line without its end is cut off, once it is certain that the answers are this run's.

    Args:
        target: The output file.
        records: The lines of input.
        run: What answers depend on besides those: model, settings.
        tsv: Several lines may answer one line of input, whose number is their first column; the last of these answers
            may be half there, so it is cut off as well.

    Raises:
        DataError: It cannot be written, is written by another run at this moment, or holds answers to other lines, of
            another model or with other settings; it is untouched then.
    """
    path = named(target)
    named(f"{target}{RECORD_SUFFIX}")  # may be too long where the name itself is not
    if path.exists() and not path.is_file():
        raise DataError(f"{target}: must be a file for --resume, got something else; name a file")
    with write_errors(target):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with closing_quietly(os.fdopen(handle, "r+b")) as stream:
        _lock(stream, target)
        found = Continued(path, stream, records, run, tsv)
        yield found
        with write_errors(target):
            stream.close()


def _lock(stream: BinaryIO, target: str) -> None:
    """Keep other runs from writing to the same file of answers. Raises DataError where one does."""
    if not lock_alone(stream.fileno()):
        raise DataError(
            f"{target}: must not be in use, got another run that writes to it; wait for it, or write elsewhere"
        )


def _answered(stream: BinaryIO, tsv: bool) -> tuple[int, int]:
    """Return how many input lines a file answers for certain, and the bytes that do it."""
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
