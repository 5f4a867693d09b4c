"""Numbers for Prometheus: requests, how long they took, and how large the collection is."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """The counters of one app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("isch_requests", "Requests", ["route", "status"], registry=self.registry)
        self._seconds = Histogram("isch_request_seconds", "Time per request", ["route"], registry=self.registry)
        self.items = Gauge("isch_items", "Pictures in the collection", registry=self.registry)

    async def middleware(self, request: Any, call_next: Any) -> Any:
        """Count a request and how long it took, under its route and not its path, so that there are few."""
        start = time.perf_counter()
        status = 500
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            route = getattr(request.scope.get("route"), "path", "other")
            self._requests.labels(route, status).inc()
            self._seconds.labels(route).observe(time.perf_counter() - start)

    def text(self) -> bytes:
        """What /metrics answers."""
        return generate_latest(self.registry)
