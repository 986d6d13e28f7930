"""A line of JSON for each request and event, on stderr; no text and no address of a client unless it is asked for."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

_access = logging.getLogger("nmt.serve.access")


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


def begin_log(*, requests: bool = True) -> None:
    """Write the log of server and library to stderr."""
    handler = logging.StreamHandler(sys.stderr)
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
