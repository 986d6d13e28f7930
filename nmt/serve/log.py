"""A line of JSON for each request and event, on stderr; no text and no address of a client unless it is asked for."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import Any, TextIO

_access = logging.getLogger("nmt.serve.access")

_GATHERED_SECONDS = 0.05
"""For which lines of the log are gathered before they are written."""


class JSONFormatter(logging.Formatter):
    """Records as JSON; `fields` of a record are its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        told |= getattr(record, "fields", {})
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


class LogWriter(logging.Handler):
    """Writes records to a stream by a thread of its own, those of a moment together: whoever logs does not wait for the
    stream, and lets the interpreter go no more often than it must. A warning and worse is written at once, with all
    before it; what is left is written when the process ends."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream, self._lines, self._writing = stream, deque[str](), Lock()
        self._came = Event()
        self._thread = Thread(target=self._write_on, name="nmt-serve-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Let a record be written."""
        try:
            self._lines.append(self.format(record))
        except Exception:  # noqa: BLE001 - as every handler of the library does: a record that fails ends nobody's work
            self.handleError(record)
        if record.levelno >= logging.WARNING:
            self.flush()
        elif not self._came.is_set():
            self._came.set()

    def flush(self) -> None:
        """Write what waits."""
        with self._writing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                try:
                    self._stream.write("\n".join(lines) + "\n")
                    self._stream.flush()
                except (OSError, ValueError):
                    pass  # nobody reads the log any more; requests go on

    def _write_on(self) -> None:
        while True:
            self._came.wait()
            time.sleep(_GATHERED_SECONDS)
            self._came.clear()
            self.flush()


def begin_log(*, requests: bool = True) -> None:
    """Write the log of server and library to stderr."""
    handler = LogWriter(sys.stderr)
    handler.setFormatter(JSONFormatter())
    for name in ("nmt", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], name != "nmt"
        logger.setLevel(logging.INFO if name == "nmt" else logging.WARNING)
    for name in ("nmt", "uvicorn"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False
    _access.disabled = not requests


def log_request(scope: Any, request_id: str, status: int, seconds: float, texts: Sequence[str] | None) -> None:
    """One request."""
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
