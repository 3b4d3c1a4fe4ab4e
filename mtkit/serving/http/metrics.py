"""Metrics of the service for Prometheus, by route, method and status; never by caller."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.types import Scope

from mtkit.serving.backend import Backend

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"  # whatever a client makes up: a label for each would fill the memory
_SECONDS = 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0


class Metrics:
    """The metrics of one service. LibreTranslate's dashboards read the names that begin with libretranslate_."""

    def __init__(self, backend: Backend) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfService(backend))
        self._durations = Histogram(
            "libretranslate_http_request_duration_seconds",
            "Seconds from a request to the end of its answer",
            ("endpoint", "method", "status"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "libretranslate_http_requests_in_flight", "Requests that are being answered", registry=self._registry
        )

    def text(self) -> bytes:
        """Return all metrics in the format that Prometheus reads."""
        return generate_latest(self._registry)

    def in_flight(self) -> AbstractContextManager[None]:
        """Count a request as being answered during a block."""
        return self._in_flight.track_inprogress()

    def note(self, scope: Scope, status: int, seconds: float) -> str:
        """Count a request that has been answered; return its method and route, without anything that a client wrote."""
        endpoint = getattr(scope.get("route"), "path", _OTHER)  # the router notes the route, with its template
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        self._durations.labels(endpoint, method, status).observe(seconds)
        return f"{method} {endpoint}"


class _OfService:
    """Reads the service's counters when Prometheus requests them."""

    def __init__(self, backend: Backend) -> None:
        self._service, self._documents = backend.service, backend.documents

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        service = self._service
        batchers, pools = (service.batcher, service.aside_batcher), (service.pool, service.aside_pool)
        n_workers, n_idle = sum(len(pool.workers) for pool in pools), sum(len(pool.idle) for pool in pools)
        for name, help_text, value in (
            ("mtkit_queue_sentences", "Sentences that wait", sum(b.queue.n_waiting for b in batchers)),
            ("mtkit_workers", "Worker processes", n_workers),
            ("mtkit_workers_busy", "Worker processes that translate", n_workers - n_idle),
            ("mtkit_documents_waiting", "Documents that wait for their turn", self._documents.n_waiting),
            ("mtkit_documents_running", "Documents that are being translated", self._documents.n_running),
            ("mtkit_models", "Models that are served", len(service.models.models)),
        ):
            yield GaugeMetricFamily(name, help_text, value)
        for name, help_text, value in (
            ("mtkit_batches", "Batches that workers have done", sum(b.pace.n_batches for b in batchers)),
            ("mtkit_sentences", "Sentences that workers have done", sum(b.pace.n_items for b in batchers)),
            ("mtkit_worker_deaths", "Workers that ended or hung, and were replaced", sum(p.n_deaths for p in pools)),
        ):
            yield CounterMetricFamily(name, help_text, value)
