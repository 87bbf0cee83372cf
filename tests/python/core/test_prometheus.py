"""Counters as Prometheus scrapes them, over HTTP."""

from __future__ import annotations

import gc
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch

import robocache as rc

prometheus_client = pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

Key = tuple[str, frozenset[tuple[str, str]]]


def key(name: str, **labels: str) -> Key:
    return (f"robocache_{name}", frozenset(labels.items()))


def scrape(port: int) -> dict[Key, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            at = (sample.name, frozenset(sample.labels.items()))
            assert at not in found, f"{at} twice"
            found[at] = sample.value
    return found


def make(folder: Path, name: str) -> rc.Loader:
    if not folder.is_dir():
        with rc.StoreWriter(folder) as writer, writer.episode() as episode:
            episode.add("x", np.arange(10) * 10**7, np.zeros((10, 3), np.float32))
    return rc.Loader(folder, 4, {"x": [0.0, 0.01]}, device="cpu", name=name)


def test_a_scrape(tmp_path: Path) -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(rc.MetricsCollector())
    server, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry=registry)
    try:
        name = 'a "scrape"'
        one, two = (make(tmp_path / "store", name) for _ in range(2))
        one.next(), two.next(), two.gather([0, 1])
        before = scrape(server.server_port)
        stats = rc.metrics().loaders[name]
        assert before[key("loader_batches_total", loader=name)] == 2
        assert before[key("loader_samples_total", loader=name)] == 8
        assert before[key("loader_gathered_samples_total", loader=name)] == 2
        assert before[key("loader_batch_bytes_total", loader=name)] == stats.bytes > 0
        read = key("loader_read_bytes_total", loader=name, tier="ram")
        assert before[read] == 10 * 2 * 3 * 4
        resident = key("loader_resident_bytes", loader=name, tier="ram")
        assert before[resident] == stats.resident_bytes["ram"]
        assert before[key("loader_waits_total", loader=name)] == 0
        assert before[key("loader_wait_seconds", loader=name, quantile="0.99")] == 0
        assert before[key("loader_queue_depth", loader=name)] == 0
        calls = key("calls_total", operation="Loader.next", backend="cpu")
        assert before[calls] >= 2
        one.next()
        del two
        gc.collect()
        after = scrape(server.server_port)
        assert after[key("loader_batches_total", loader=name)] == 3, "counters never go down"
        assert after[calls] == before[calls] + 1
        assert after[resident] == before[resident] / 2
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)


def test_fallbacks() -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(rc.MetricsCollector())
    times = torch.arange(3)
    torch.func.vmap(lambda x: rc.resample_trajectories(x, times, times))(torch.zeros(2, 3, 1))
    reason = "torch.func's transforms and forward-mode derivatives"
    got = registry.get_sample_value("robocache_fallbacks_total", {"reason": reason})
    assert got == rc.metrics().fallbacks[reason] >= 1


@pytest.mark.parametrize("auto_describe", [True, False])
def test_a_registry_takes_one(auto_describe: bool) -> None:
    registry = prometheus_client.CollectorRegistry(auto_describe=auto_describe)
    registry.register(rc.MetricsCollector())
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(rc.MetricsCollector())


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(
        ImportError,
        match=r"^rc\.MetricsCollector needs prometheus_client: "
        r"pip install 'prometheus-client>=0\.19' "
        r"\(or, in a checkout: pip install '\.\[metrics\]'\)$",
    ):
        rc.MetricsCollector()
