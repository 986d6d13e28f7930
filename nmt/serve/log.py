"""The log on stderr: one line of JSON (on a terminal, plain text) per request and event, without texts (unless enabled)
and client addresses."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from types import MappingProxyType, TracebackType
from typing import Any, TextIO

from nmt.system.terminal import is_live

_logger = logging.getLogger("nmt.serve")
_access = logging.getLogger("nmt.serve.access")

_MOST_TRACEBACK = 8_000
"""Characters of a traceback to log, counted from its end."""
_QUIET_SECONDS, _MOST_KINDS = 10.0, 100


class JSONFormatter(logging.Formatter):
    """Formats records as JSON, including the entries of a record's `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)[-_MOST_TRACEBACK:]
        return json.dumps(entry, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """Formats records for a person at a terminal: time, event, and `fields` after it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, and a traceback if there is one."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        fields = "".join(f"  {name}={value}" for name, value in getattr(record, "fields", {}).items())
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{datetime.fromtimestamp(record.created):%H:%M:%S}  {level}{record.getMessage()}{fields}{trace}"


class _WholeRecords(QueueHandler):
    """Queues records as they are, to be formatted by the thread that writes them."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record itself: it does not leave the process."""
        return record


class _Writer(logging.StreamHandler[TextIO]):
    """Writes records to a stream; a stream whose reader is gone is ignored."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of the library
        """Print errors of formatting only."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def log_handler(stream: TextIO) -> tuple[logging.Handler, QueueListener]:
    """Return a handler whose records a thread writes to `stream`, so that no caller waits for it, and that thread,
    whose `stop` writes what is queued."""
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    writer = _Writer(stream)
    writer.setFormatter(PlainFormatter() if is_live(stream) else JSONFormatter())
    listener = QueueListener(records, writer)
    listener.start()
    return _WholeRecords(records), listener


class LoopErrors:
    """Exception handler of the event loop, for errors outside requests: logs the first error of each kind, and then at
    most one in ten seconds, with the number suppressed."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log one error, or count it as suppressed."""
        error = context.get("exception")
        what = f"{context.get('message', 'error')!s:.200}: {type(error).__name__} {error!s:.200}"
        now = time.monotonic()
        last, kept_back = self._last.get(what, (now - _QUIET_SECONDS, 0))
        if now - last < _QUIET_SECONDS:
            self._last[what] = last, kept_back + 1
            return
        if len(self._last) >= _MOST_KINDS:
            self._last.clear()
        self._last[what] = now, 0
        fields: dict[str, Any] = {"kept_back": kept_back} if kept_back else {}
        if error is not None and not isinstance(error, OSError):  # a bug
            fields["traceback"] = "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]
        _logger.error("event loop: %s", what, extra={"fields": fields})


def _tell_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if error is None or isinstance(error, SystemExit):
        return
    _logger.error("not caught: %s", kind.__name__, exc_info=(kind, error, trace))


def begin_log(*, requests: bool = True) -> QueueListener:
    """Set up the log on stderr for the server and its libraries, including Python's warnings and uncaught errors of
    threads; every line is JSON, except on a terminal. Return the thread that writes it."""
    handler, listener = log_handler(sys.stderr)
    atexit.register(listener.stop)
    for name in ("nmt", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], name != "nmt"
        logger.setLevel(logging.INFO if name == "nmt" else logging.WARNING)
    for name in ("nmt", "uvicorn"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = lambda given: _tell_uncaught(given.exc_type, given.exc_value, given.exc_traceback)
    sys.unraisablehook = lambda given: _tell_uncaught(given.exc_type, given.exc_value, given.exc_traceback)
    _access.disabled = not requests
    return listener


def log_request(
    scope: Any,
    request_id: str,
    status: int,
    seconds: float,
    texts: Sequence[str] | None,
    counts: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Log one request; `counts` are further fields."""
    if _access.disabled:
        return
    fields: dict[str, Any] = {
        "request": request_id,
        "method": scope["method"],
        "path": scope["path"][:200],
        "status": status,
        "milliseconds": round(1000 * seconds, 1),
        **counts,
    }
    if texts is not None:
        fields["texts"] = list(texts)
    _access.info("request", extra={"fields": fields})
