"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from nmt.serve.models import ServedModel

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

TALLY: ContextVar[dict[str, int] | None] = ContextVar("tally", default=None)
"""The number of sentences of the current request, and of those that were in the cache, for its line in the log."""


class Measures:
    """Counters of one server. `waiting` returns how many sentences wait, `cached` the bytes of the cache."""

    def __init__(self, waiting: Callable[[], int], cached: Callable[[], int]) -> None:
        # Labelled counters are looked up once and kept, since the library checks the labels at every lookup.
        self._answers: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._translations: dict[str, tuple[Any, Any]] = {}
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        of = self._registry
        self._requests = Counter("nmt_requests", "Requests answered.", ["route", "status"], registry=of)
        self._seconds = Histogram("nmt_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=of)
        self.in_flight = Gauge("nmt_requests_in_flight", "Requests that are being answered.", registry=of)
        self._sentences = Counter("nmt_sentences", "Sentences translated.", ["model"], registry=of)
        self._characters = Counter("nmt_characters", "Characters of source text translated.", ["model"], registry=of)
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
        found = self._answers.get((route, status))
        if found is None:
            found = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._answers[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def translated(self, model: str, sentences: int, characters: int) -> None:
        """Count sentences and source characters translated by a model."""
        found = self._translations.get(model)
        if found is None:
            found = self._sentences.labels(model), self._characters.labels(model)
            self._translations[model] = found
        found[0].inc(sentences)
        found[1].inc(characters)

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
