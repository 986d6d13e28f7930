"""The log on stderr: one line of JSON per request and event, without texts (unless enabled) and client addresses."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, TextIO

_logger = logging.getLogger("nmt.serve")
_access = logging.getLogger("nmt.serve.access")

_MOST_TRACEBACK = 8_000
"""Characters of a traceback to log, counted from its end."""
_QUIET_SECONDS, _MOST_KINDS = 10.0, 100
_GATHERED_SECONDS = 0.05
"""Seconds for which log lines are collected before they are written."""


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


class LogWriter(logging.Handler):
    """Writes records to a stream from a background thread, in small batches: callers do not wait for the stream, and
    rarely release the interpreter lock. A warning or error is written at once, with all records before it; the rest is
    written when the process exits.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream, self._lines, self._writing = stream, deque[str](), Lock()
        self._came = Event()
        self._thread = Thread(target=self._write_on, name="nmt-serve-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record for writing."""
        try:
            self._lines.append(self.format(record))
        except Exception:  # noqa: BLE001 - like the handlers of the library: a bad record must not stop the caller
            self.handleError(record)
        if record.levelno >= logging.WARNING:
            self.flush()
        elif not self._came.is_set():
            self._came.set()

    def flush(self) -> None:
        """Write all queued records."""
        with self._writing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                try:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
                except (OSError, ValueError):
                    pass  # the log's reader is gone; requests go on

    def _write_on(self) -> None:
        while True:
            self._came.wait()
            time.sleep(_GATHERED_SECONDS)
            self._came.clear()
            self.flush()


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


def begin_log(*, requests: bool = True) -> None:
    """Set up the log on stderr for the server and its libraries, including Python's warnings and uncaught errors of
    threads; every line is JSON."""
    handler = LogWriter(sys.stderr)
    handler.setFormatter(JSONFormatter())
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


def log_request(scope: Any, request_id: str, status: int, seconds: float, texts: Sequence[str] | None) -> None:
    """Log one request."""
    if _access.disabled:
        return
    fields: dict[str, Any] = {
        "request": request_id,
        "method": scope["method"],
        "path": scope["path"][:200],
        "status": status,
        "milliseconds": round(1000 * seconds, 1),
    }
    if texts is not None:
        fields["texts"] = list(texts)
    _access.info("request", extra={"fields": fields})
