"""Counts of calls: by operation and backend, and why "auto" went without the library."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support import Backend

import robocache as rc


def count(operation: str, backend: str) -> int:
    return rc.metrics().calls.get(operation, {}).get(backend, 0)


def call(operation: str, backend: Backend) -> Any:
    points, times = torch.zeros(3, 3), torch.arange(3)
    if operation == "resample_trajectories":
        return backend.resample(points, times, times)
    if operation == "fuse":
        return backend.fuse([rc.Stream(points, times)], times)
    if operation == "voxelize_sparse":
        return backend.voxelize_sparse(points, 1)
    if operation == "sample_farthest":
        return backend.sample_farthest(points, 2)
    return backend.voxelize(points, (1, 1, 1), 1)


@pytest.mark.parametrize(
    "operation",
    [
        "resample_trajectories",
        "fuse",
        "voxelize_point_cloud",
        "voxelize_sparse",
        "sample_farthest",
    ],
)
def test_calls_by_backend(backend: Backend, operation: str) -> None:
    before, fallbacks = count(operation, backend.backend), rc.metrics().fallbacks
    call(operation, backend)
    call(operation, backend)
    assert count(operation, backend.backend) == before + 2
    assert rc.metrics().fallbacks == fallbacks, "what is asked for by name is none"


def test_fallbacks(native: Backend) -> None:
    """torch.func's transforms: "auto" takes pytorch, and says how often."""
    values = torch.zeros(2, 3, 1, device=native.device)
    times = torch.arange(3, device=native.device)
    reason = "torch.func's transforms and forward-mode derivatives"
    before = rc.metrics()
    torch.func.vmap(lambda x: rc.resample_trajectories(x, times, times))(values)
    after = rc.metrics()
    assert after.fallbacks[reason] == before.fallbacks.get(reason, 0) + 1
    name = "resample_trajectories"
    assert after.calls[name]["pytorch"] == before.calls.get(name, {}).get("pytorch", 0) + 1


def test_a_snapshot_stays(backend: Backend) -> None:
    call("fuse", backend)
    before = rc.metrics()
    kept = before.calls["fuse"][backend.backend]
    call("fuse", backend)
    assert before.calls["fuse"][backend.backend] == kept


def test_compiled_code_does_not_count(backend: Backend) -> None:
    """And a count that goes up makes no new graph."""
    times = torch.arange(3, device=backend.device)
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    fast = torch.compile(lambda x: call_with(x, times, backend), backend=keep, fullgraph=True)
    fast(torch.zeros(3, 1, device=backend.device))
    before = count("resample_trajectories", backend.backend)
    fast(torch.ones(3, 1, device=backend.device))
    assert count("resample_trajectories", backend.backend) == before
    call("resample_trajectories", backend)
    fast(torch.ones(3, 1, device=backend.device))
    assert len(graphs) == 1


def call_with(values: torch.Tensor, times: torch.Tensor, backend: Backend) -> Any:
    return rc.resample_trajectories(values, times, times, backend=backend.backend)
