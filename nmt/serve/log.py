"""Metrics for Prometheus, and the log on stderr: one line per request and event, as JSON but on a terminal."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from nmt.system.terminal import is_live

if TYPE_CHECKING:
    from nmt.serve.models import ServedModel

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
    """Return a handler whose records a thread writes to `stream`, and that thread; `stop` writes the rest."""
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    writer = _Writer(stream)
    writer.setFormatter(PlainFormatter() if is_live(stream) else JSONFormatter())
    listener = QueueListener(records, writer)
    listener.start()
    return _WholeRecords(records), listener


class LoopErrors:
    """Logs errors outside of requests: the first of each kind, then at most one in ten seconds, with their number."""

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


def _tell_uncaught(given: Any) -> None:
    """Log an error of a thread or a finaliser, as their hooks give it."""
    if given.exc_value is not None and not isinstance(given.exc_value, SystemExit):
        what = given.exc_type, given.exc_value, given.exc_traceback
        _logger.error("not caught: %s", given.exc_type.__name__, exc_info=what)


@contextmanager
def written_log() -> Iterator[None]:
    """Log the server and its libraries on stderr, including Python's warnings and uncaught errors of threads; every
    line is JSON, except on a terminal. At the end all lines are written: an error that is printed then stands last."""
    handler, listener = log_handler(sys.stderr)
    for name in ("nmt", "uvicorn", "uvicorn.error"):
        logger, is_below = logging.getLogger(name), name == "uvicorn.error"
        logger.handlers, logger.propagate = [] if is_below else [handler], is_below
        logger.setLevel(logging.INFO if name == "nmt" else logging.WARNING)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = sys.unraisablehook = _tell_uncaught
    try:
        yield
    finally:
        listener.stop()


def log_request(
    scope: Any, request_id: str, status: int, seconds: float, texts: Sequence[str] | None, counts: Mapping[str, int]
) -> None:
    """Log one request; `counts` are further fields."""
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


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

TALLY: ContextVar[dict[str, int] | None] = ContextVar("tally", default=None)
"""The number of sentences of the current request, and of those that were in the cache, for its line in the log."""


class Measures:
    """Counters of one server. `waiting` returns how many sentences wait, `cached` the bytes of the cache."""

    def __init__(self, waiting: Callable[[], int], cached: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        of = self._registry
        self._requests = Counter("nmt_requests", "Requests answered.", ["route", "status"], registry=of)
        self._seconds = Histogram("nmt_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=of)
        # Labelled counters are looked up once and kept, since the library checks the labels at every lookup.
        self._answers = cache(lambda r, status: (self._requests.labels(r, str(status)), self._seconds.labels(r)))
        self.in_flight = Gauge("nmt_requests_in_flight", "Requests that are being answered.", registry=of)
        self._sentences = Counter("nmt_sentences", "Sentences translated.", ["model"], registry=of)
        self._characters = Counter("nmt_characters", "Characters of source text translated.", ["model"], registry=of)
        self._translations = cache(lambda name: (self._sentences.labels(name), self._characters.labels(name)))
        self._hits = Counter("nmt_cache_hits", "Sentences answered without a search.", registry=of)
        self._misses = Counter("nmt_cache_misses", "Sentences searched for.", registry=of)
        Gauge("nmt_cache_bytes", "Bytes of the cache of translations.", registry=of).set_function(cached)
        self._count = Gauge("nmt_models", "Models loaded.", registry=of)
        about = ["model", "source", "target", "fingerprint", "compute_dtype", "parameters"]
        self._models = Gauge("nmt_model_info", "A model in use: 1.", about, registry=of)
        reloads = Counter("nmt_reloads", "Times that models and keys were loaded again.", ["result"], registry=of)
        self.reloads = {result: reloads.labels(result) for result in ("success", "failure")}
        Gauge("nmt_sentences_waiting", "Sentences that wait for a place in a search.", registry=of).set_function(
            waiting
        )

    def loaded(self, models: Sequence[ServedModel]) -> None:
        """Record the models in use."""
        self._count.set(len(models))
        self._models.clear()
        for one in models:
            about = {"model": one.name, "source": one.source, "target": one.target, **one.identity}
            self._models.labels(**about).set(1)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request and its duration."""
        requests, durations = self._answers(route, status)
        requests.inc()
        durations.observe(seconds)

    def translated(self, model: str, sentences: int, characters: int) -> None:
        """Count sentences and source characters translated by a model."""
        of_model = self._translations(model)
        of_model[0].inc(sentences)
        of_model[1].inc(characters)

    def looked_up(self, sentences: int, hits: int) -> None:
        """Count sentences of the current request, and those of them that needed no search."""
        self._hits.inc(hits)
        self._misses.inc(sentences - hits)
        if (tally := TALLY.get()) is not None:
            tally["sentences"] = tally.get("sentences", 0) + sentences
            tally["cached"] = tally.get("cached", 0) + hits

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
