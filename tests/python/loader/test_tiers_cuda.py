"""Budgets of a GPU: that batches do not depend on where rows are, and that budgets hold."""

from __future__ import annotations

import gc
import pickle
import re
from typing import Any

import pytest
import torch
from loader_options import keyed_loader
from loader_stores import MS, write_store
from loader_tiers import OPTIONS, least
from support import assert_same_batch, needs_gpu

import robocache as rc
from robocache.loader.memory import deferred_cuda as finalizers
from robocache.loader.memory import disk_windows, resident_streams
from robocache.loader.memory.pinned import pinned_bytes, pinned_empty
from robocache.loader.memory.tiers import (
    PREFETCH_DEPTH,
)

ON_GPU: dict[str, Any] = OPTIONS | {"batch_size": 4, "device": "cuda"}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    """Whose streams take more than batches do."""
    folder = tmp_path_factory.mktemp("large") / "store"
    write_store(folder, episodes=12)
    with rc.StoreWriter(folder, append=True) as writer, writer.episode() as episode:
        episode.add("half", [0, MS], torch.ones(2, 2, dtype=torch.bfloat16))
    return rc.EpisodeStore(folder)


def budgets(store: rc.EpisodeStore, reuse: bool = False) -> dict[str, dict[str, int]]:
    """Budgets of a loader of ON_GPU, by where they leave rows."""
    options = ON_GPU | {"reuse_buffers": reuse}
    gpu = least(store, "gpu", budget={"gpu": 0}, **options)
    staged = least(store, "pinned", budget={"gpu": gpu}, **options)
    near = gpu + BESIDE
    return {
        "pinned": {"gpu": near, "pinned": 10**8},
        "gpu and pinned": {"gpu": near + 80_000, "pinned": 10**8},
        "disk": {"gpu": gpu, "pinned": staged},
        "gpu and disk": {"gpu": near + 80_000, "pinned": staged},
        "all three": {"gpu": near + 80_000, "pinned": staged + 100_000},
    }


BESIDE = 110_000  # bytes beside values of all streams of `large`, and few more
KINDS = ("pinned", "gpu and pinned", "disk", "gpu and disk", "all three")


def tiers_of(loader: rc.Loader) -> set[str]:
    return {tier for tier, share in loader.stats().hit_shares.items() if share > 0}


@needs_gpu
@pytest.mark.parametrize("reuse", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_batches_in_every_tier(large: rc.EpisodeStore, kind: str, reuse: bool) -> None:
    options = ON_GPU | {"reuse_buffers": reuse}
    gpu = keyed_loader(large, **ON_GPU)
    loader = keyed_loader(large, **options, budget=budgets(large, reuse)[kind])
    for _ in range(2):
        for batch, expected in zip(loader, gpu, strict=True):
            assert_same_batch(batch, expected)
    expected_tiers = {"gpu", "pinned", "disk"} if kind == "all three" else set(kind.split(" and "))
    assert expected_tiers <= tiers_of(loader)
    indices = [3, len(loader.dataset) - 1, 3]
    assert_same_batch(loader.gather(indices), gpu.gather(indices))
    on_gpu = torch.tensor(indices, device="cuda")
    assert_same_batch(loader.gather(on_gpu), gpu.gather(on_gpu))
    assert loader.stats().queue_depth == PREFETCH_DEPTH
    state = loader.state_dict()
    assert state == gpu.state_dict()
    for _ in range(3):
        loader.next()
    loader.load_state_dict(state)
    gpu.set_epoch(7)
    loader.set_epoch(7)
    assert_same_batch(loader.next(), gpu.next())
    copy = pickle.loads(pickle.dumps(loader))
    assert_same_batch(copy.next(), gpu.next())


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_read_before_it_is_there(large: rc.EpisodeStore, kind: str) -> None:
    """Users whose GPU lags behind the host by seconds, on several streams, who keep nothing."""
    cuda: Any = torch.cuda
    loader = keyed_loader(large, **ON_GPU, budget=budgets(large)[kind])
    gpu = keyed_loader(large, **ON_GPU)
    expected = [gpu.next() for _ in range(60)]
    wrong = torch.zeros(60, dtype=torch.int64, device="cuda")
    streams = [cuda.current_stream(), cuda.Stream(), cuda.Stream()]
    cuda.synchronize()
    for i, other in enumerate(expected):
        with cuda.stream(streams[i % 3 if i >= 20 else 0]):
            cuda._sleep(3_000_000)
            batch = loader.next()
            wrong[i] = sum((batch[key] != other[key]).sum() for key in other)
            for value in batch.values():
                value.fill_(1)  # what is written late would be in somebody else's batch
            del batch
            torch.full((1 << 16,), 7.0, device="cuda")
    cuda.synchronize()
    assert wrong.tolist() == [0] * 60


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_that_goes_while_batches_are_made(large: rc.EpisodeStore, kind: str) -> None:
    cuda: Any = torch.cuda
    gpu = keyed_loader(large, **ON_GPU)
    expected = gpu.next()
    cuda.synchronize()
    budget = budgets(large)[kind]
    for _ in range(3):
        loader = keyed_loader(large, **ON_GPU, budget=budget)
        cuda._sleep(10_000_000)
        batch = loader.next()
        del loader
        junk = [torch.full((1 << 14,), 7, device="cuda") for _ in range(20)]
        cuda.synchronize()
        assert_same_batch(batch, expected)
        del junk, batch


@needs_gpu
@pytest.mark.parametrize("reuse", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("kind", [*KINDS, "gpu"])
def test_budgets_of_a_gpu_hold(
    large: rc.EpisodeStore, kind: str, reuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda: Any = torch.cuda
    options = ON_GPU | {"reuse_buffers": reuse}
    budget = {"gpu": 10**7} if kind == "gpu" else budgets(large, reuse)[kind]
    pinned = []

    def count(size: int) -> torch.Tensor:
        pinned.append(pinned_bytes(size))
        return pinned_empty(size)

    monkeypatch.setattr(resident_streams, "pinned_empty", count)
    monkeypatch.setattr(disk_windows, "pinned_empty", count)
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    loader = keyed_loader(large, **options, budget=budget)
    for _ in range(2):
        for _batch in loader:  # the loop holds one while the next is made
            cuda._sleep(100_000)  # the host runs ahead
    loader.load_state_dict(loader.state_dict() | {"position": 30})
    for _batch in loader:  # the last one has another size
        pass
    cuda.synchronize()
    peak = cuda.max_memory_allocated() - before
    assert loader.stats().resident_bytes["gpu"] <= peak <= budget["gpu"]
    assert sum(pinned) <= budget.get("pinned", 0)
    assert (sum(pinned) > 0) == (kind != "gpu")
    del loader, _batch
    gc.collect()
    assert cuda.memory_allocated() == before


@needs_gpu
def test_a_graph_of_a_loader_with_rows_elsewhere_is_refused(large: rc.EpisodeStore) -> None:
    cuda: Any = torch.cuda
    options = ON_GPU | {"reuse_buffers": True, "drop_last": True}
    gpu = keyed_loader(large, **ON_GPU | {"drop_last": True})
    loader = keyed_loader(large, **options, budget=budgets(large, True)["all three"])
    assert_same_batch(loader.next(), gpu.next())
    with (
        pytest.raises(RuntimeError, match=r"^budget: expected all rows on the GPU of a loader in"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        loader.next()
    assert_same_batch(loader.next(), gpu.next())
    # Others may capture theirs meanwhile: no thread calls CUDA.
    values = torch.ones(8, device="cuda")
    for _ in range(20):
        loader.next()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            doubled = values * 2
        graph.replay()
        assert doubled.sum().item() == 16


@needs_gpu
@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"pinned": "1GB"},
         "budget: expected 'gpu', of which a loader on cuda always takes some, got 'pinned'"),
        ({"ram": "1GB"}, "budget: expected 'gpu' and 'pinned' of a loader on cuda, got 'ram'"),
        ({"gpu": "1GB", "pinnde": 1},
         "budget: expected 'gpu' and 'pinned' of a loader on cuda, got 'pinnde'"),
    ],
)  # fmt: skip
def test_messages_on_a_gpu(large: rc.EpisodeStore, budget: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        keyed_loader(large, **ON_GPU, budget=budget)


@needs_gpu
def test_pinned_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cudart: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    gc.collect()  # loaders of other tests, which tracebacks hold, give theirs back now
    given_back = []

    def unregister(address: int) -> Any:
        given_back.append(address)
        return real(address)

    real = cudart.cudaHostUnregister
    monkeypatch.setattr(cudart, "cudaHostUnregister", unregister)
    values = pinned_empty(10_000)
    assert values.is_pinned()
    assert len(values) == 10_000
    part = values.fill_(3)[5000:]
    copied = part.to("cuda", non_blocking=True)
    address = values.data_ptr()
    del values
    assert not given_back
    del part
    gc.collect()
    assert given_back == [address]
    assert copied.sum().item() == 15_000


@needs_gpu
def test_pinned_memory_that_goes_while_a_graph_is_captured() -> None:
    cuda: Any = torch.cuda
    values = pinned_empty(10_000)
    ones = torch.ones(8, device="cuda")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        doubled = ones * 2
        del values
    assert len(finalizers._deferred) == 1
    assert pinned_empty(10).is_pinned()
    assert not finalizers._deferred
    graph.replay()
    assert doubled.sum().item() == 16
