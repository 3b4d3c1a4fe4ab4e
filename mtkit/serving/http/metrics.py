"""Metrics of the service for Prometheus, by route, method and status; never by caller."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serving.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"  # whatever a client makes up: a label for each would fill the memory
_SECONDS = 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0


class Metrics:
    """The metrics of one service. LibreTranslate's dashboards read the names that begin with libretranslate_."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfService(service))
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

    def around(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application and count its requests."""

        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            status = 500

            async def send_and_note(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            start = time.perf_counter()
            self._in_flight.inc()
            try:
                await app(scope, receive, send_and_note)
            finally:
                self._in_flight.dec()
                endpoint = getattr(scope.get("route"), "path", _OTHER)  # the router notes the route, with its template
                method = scope["method"] if scope["method"] in _METHODS else _OTHER
                self._durations.labels(endpoint, method, status).observe(time.perf_counter() - start)

        return counting


class _OfService:
    """Reads the service's counters when Prometheus requests them."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        batcher, pool = self._service.batcher, self._service.pool
        idle = len(pool.idle)
        for name, help_text, value in (
            ("mtkit_queue_sentences", "Sentences that wait", batcher.queue.n_waiting),
            ("mtkit_workers", "Worker processes", len(pool.workers)),
            ("mtkit_workers_busy", "Worker processes that translate", len(pool.workers) - idle),
            ("mtkit_models", "Models that are served", len(self._service.models.models)),
        ):
            yield GaugeMetricFamily(name, help_text, value)
        for name, help_text, value in (
            ("mtkit_batches", "Batches that workers have done", batcher.pace.n_batches),
            ("mtkit_sentences", "Sentences that workers have done", batcher.pace.n_items),
            ("mtkit_worker_deaths", "Workers that ended or hung, and were replaced", pool.n_deaths),
        ):
            yield CounterMetricFamily(name, help_text, value)
