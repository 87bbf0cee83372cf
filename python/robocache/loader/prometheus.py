"""The counters of :func:`robocache.metrics`, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from robocache.core.extras import MissingLibrary, install_hint
from robocache.loader.metrics import metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class MetricsCollector:
    """A collector of prometheus-client: each scrape reads the counters as they are then.

    Metrics are those of :func:`robocache.metrics`, of this process; loaders have the label
    ``loader``, their name. A registry takes it once: the second collector is refused there, as
    prometheus-client refuses any name that comes twice.

    - ``robocache_calls_total{operation,backend}``, ``robocache_fallbacks_total{reason}``
    - ``robocache_loader_batches_total``, ``robocache_loader_samples_total``,
      ``robocache_loader_gathered_samples_total``, ``robocache_loader_batch_bytes_total``
    - ``robocache_loader_read_bytes_total{tier}``, ``robocache_loader_resident_bytes{tier}``
    - ``robocache_loader_waits_total``, ``robocache_loader_waited_seconds_total``,
      ``robocache_loader_wait_seconds{quantile}``: "0.5" and "0.99" of the latest waits
    - ``robocache_loader_queue_depth``

    Raises:
        MissingLibrary: prometheus-client is not installed.

    Example:
        >>> from prometheus_client import REGISTRY, start_http_server
        >>> REGISTRY.register(rc.MetricsCollector())
        >>> server, thread = start_http_server(9400)
    """

    def __init__(self) -> None:
        try:
            import prometheus_client.core
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "prometheus_client":
                raise
            raise MissingLibrary(
                f"rc.MetricsCollector needs prometheus_client: {install_hint('metrics')}",
                name="prometheus_client",
            ) from None
        self._core: Any = prometheus_client.core

    def describe(self) -> Iterable[Metric]:
        """The metrics without values, by whose names a registry knows what it has."""
        return list(self._families().values())

    def collect(self) -> Iterable[Metric]:
        """The metrics as they are."""
        families = self._families()

        def add(name: str, labels: list[str], value: float) -> None:
            families[name].add_metric(labels, value)

        found = metrics()
        for operation, backends in found.calls.items():
            for backend, count in backends.items():
                add("calls", [operation, backend], count)
        for reason, count in found.fallbacks.items():
            add("fallbacks", [reason], count)
        for name, stats in found.loaders.items():
            add("loader_batches", [name], stats.batches)
            add("loader_samples", [name], stats.samples)
            add("loader_gathered_samples", [name], stats.gathered)
            add("loader_batch_bytes", [name], stats.bytes)
            for tier, count in stats.read_bytes.items():
                add("loader_read_bytes", [name, tier], count)
            for tier, count in stats.resident_bytes.items():
                add("loader_resident_bytes", [name, tier], count)
            add("loader_waits", [name], stats.waits)
            add("loader_waited_seconds", [name], stats.waited_s)
            add("loader_wait_seconds", [name, "0.5"], stats.wait_p50_s)
            add("loader_wait_seconds", [name, "0.99"], stats.wait_p99_s)
            add("loader_queue_depth", [name], stats.queue_depth)
        return list(families.values())

    def _families(self) -> dict[str, Any]:
        counter, gauge = self._core.CounterMetricFamily, self._core.GaugeMetricFamily
        loader, tier = ["loader"], ["loader", "tier"]
        declared = {
            "calls": (counter, "Calls of operations", ["operation", "backend"]),
            "fallbacks": (counter, "Calls that took the pytorch backend instead", ["reason"]),
            "loader_batches": (counter, "Batches of loaders", loader),
            "loader_samples": (counter, "Samples in them", loader),
            "loader_gathered_samples": (counter, "Samples that were asked for by index", loader),
            "loader_batch_bytes": (counter, "Bytes of all batches", loader),
            "loader_read_bytes": (counter, "Bytes of rows that batches were made of", tier),
            "loader_resident_bytes": (gauge, "Bytes that loaders hold", tier),
            "loader_waits": (counter, "Batches that the host waited for", loader),
            "loader_waited_seconds": (counter, "How long it waited for all of them", loader),
            "loader_wait_seconds": (gauge, "Quantiles of the latest waits", [*loader, "quantile"]),
            "loader_queue_depth": (gauge, "Batches that are made ahead", loader),
        }
        return {
            name: kind(f"robocache_{name}", text, labels=labels)
            for name, (kind, text, labels) in declared.items()
        }
