"""Images of frames in every tier, on both devices and in CUDA graphs: the same bits."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from image_stores import random_options, scene, write_store
from loader_tiers import array_bytes, tensor_bytes
from support import assert_same_batch, needs_gpu

import robocache as rc
from robocache.loader import engine
from robocache.loader.frames import resident
from robocache.loader.memory import disk_windows, resident_streams
from robocache.loader.memory.pinned import pinned_bytes, pinned_empty

pytest.importorskip("PIL")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Loader. padding in more than half"),
    pytest.mark.filterwarnings("ignore:Loader. valid values across silences"),
]

MS = 1_000_000
AUGMENT: dict[str, Any] = {"front": "lerobot", "wrist": "octo", "gray": [rc.RandomCrop(0.8)]}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    """A store of JPEG frames, and one of their pixels."""
    folder = tmp_path_factory.mktemp("images")
    return write_store(folder / "jpeg", True), write_store(folder / "raw")


def options_of(seed: int, device: str) -> dict[str, Any]:
    """Random options, in which cameras have random steps."""
    options = random_options(seed) | {"device": device, "reuse_buffers": False}
    augment = {key: steps for key, steps in AUGMENT.items() if key in options["windows"]}
    return options | {"augment": augment if seed % 3 else None}


def place(monkeypatch: pytest.MonkeyPatch, tiers: Mapping[str, str]) -> None:
    """Loaders that are made from now on have streams in these tiers."""

    def placed(_: object, rows: Mapping[str, object], *__: object) -> dict[str, str]:
        return {key: tiers.get(key, tiers["other"]) for key in rows}

    monkeypatch.setattr(engine, "place", placed)


def on_host(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: values.cpu() for key, values in batch.items()}


def assert_same_run(a: rc.Loader, b: rc.Loader) -> None:
    """That batches, samples and a resumed run are the same, on whichever devices."""
    for _ in range(len(b) + 1):
        assert_same_batch(on_host(a.next()), on_host(b.next()))
    for indices in ([], [3], [5, 0, 5, 7]):
        assert_same_batch(on_host(a.gather(indices)), on_host(b.gather(indices)))
    state = a.state_dict()
    expected = [on_host(b.next()) for _ in range(3)]
    assert_same_batch(on_host(a.next()), expected[0])
    a.load_state_dict(state)
    for batch in expected:
        assert_same_batch(on_host(a.next()), batch)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_jpeg", [True, False], ids=["jpeg", "raw"])
def test_disk_of_a_cpu(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore],
    monkeypatch: pytest.MonkeyPatch,
    is_jpeg: bool,
    seed: int,
) -> None:
    options = options_of(seed, "cpu")
    raw = rc.Loader(stores[1], **options)
    place(monkeypatch, {"q": "ram", "wrist": "ram", "other": "disk"})
    loader = rc.Loader(stores[0 if is_jpeg else 1], budget={"ram": "1GB"}, **options)
    assert_same_run(loader, raw)


@needs_gpu
@pytest.mark.parametrize("seed", range(200, 230))
@pytest.mark.parametrize("is_jpeg", [True, False], ids=["jpeg", "raw"])
def test_both_devices_make_the_same_bits(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], is_jpeg: bool, seed: int
) -> None:
    store = stores[0 if is_jpeg else 1]
    on_cpu = rc.Loader(store, **options_of(seed, "cpu"))
    assert_same_run(rc.Loader(store, **options_of(seed, "cuda")), on_cpu)


@needs_gpu
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_jpeg", [True, False], ids=["jpeg", "raw"])
@pytest.mark.parametrize("tiers", [("pinned", "gpu"), ("disk", "gpu"), ("disk", "pinned"),
                                   ("disk", "disk")])  # fmt: skip
def test_tiers_of_a_gpu(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore],
    monkeypatch: pytest.MonkeyPatch,
    is_jpeg: bool,
    tiers: tuple[str, str],
    seed: int,
) -> None:
    options = options_of(seed, "cuda")
    resident_loader = rc.Loader(stores[1], **options)
    start = resident_loader.state_dict()
    where = {"wrist": tiers[0], "depth": tiers[0], "front": tiers[1], "other": "gpu"}
    place(monkeypatch, where)
    for reuse in (False, True):
        options["reuse_buffers"] = reuse
        loader = rc.Loader(
            stores[0 if is_jpeg else 1], budget={"gpu": "1GB", "pinned": "1GB"}, **options
        )
        resident_loader.load_state_dict(start)
        assert_same_run(loader, resident_loader)


@needs_gpu
@pytest.mark.parametrize("is_jpeg", [True, False], ids=["jpeg", "raw"])
def test_a_captured_graph_follows_the_epoch(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], is_jpeg: bool
) -> None:
    image = rc.Image(resize=(16, 20), dtype=torch.bfloat16)
    window = rc.Window([-0.1, 0.0], method="previous", image=image)
    depth = rc.Window([0.0], method="previous", image=rc.Image(resize=(9, 9), filter="masked"))
    options: dict[str, Any] = {
        "batch_size": 16, "windows": {"front": window, "wrist": window, "depth": depth},
        "anchor": "q", "device": "cuda", "drop_last": True,
        "augment": {"front": "lerobot", "wrist": "octo"},
    }  # fmt: skip
    store = stores[0 if is_jpeg else 1]
    eager, loader = rc.Loader(store, **options), rc.Loader(store, **options, reuse_buffers=True)
    loader.next(), eager.next()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch = loader.next()
    for _ in range(2 * len(eager) + 3):
        graph.replay()
        assert_same_batch(batch, eager.next())
    assert loader.state_dict()["epoch"] == 2
    assert_same_batch(loader.next(), eager.next())


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    """A store of many small frames."""
    folder = tmp_path_factory.mktemp("long") / "store"
    with rc.StoreWriter(folder) as writer, writer.episode() as episode:
        frames = np.stack([scene(i % 50, 32, 32, 3) for i in range(1500)])
        times = np.arange(1500) * 20 * MS
        episode.add("left", times, frames)
        episode.add("right", times, rc.JpegFrames.encode(frames, 60))
        episode.add("q", times, np.ones((1500, 40), np.float32))
    return rc.EpisodeStore(folder)


LONG: dict[str, Any] = {
    "batch_size": 32,
    "windows": {
        "left": rc.Window([-0.1, 0.0], method="previous", image=rc.Image(resize=(24, 24))),
        "right": rc.Window(None, method="previous", image=rc.Image(resize=(40, 40), mode="pad")),
        "q": rc.Window(None),
    },
    "anchor": "q",
    "augment": [rc.RandomCrop(0.9), rc.ColorJitter(contrast=0.3)],
}


def least(store: rc.EpisodeStore, tier: str, **options: Any) -> int:
    """The smallest budget of a tier, as the error for less states it."""
    with pytest.raises(ValueError, match=rf"^budget\['{tier}'\]: expected at least ") as caught:
        rc.Loader(store, **LONG | options)
    return int(str(caught.value).split()[4])


@pytest.mark.parametrize("reuse", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("more", [0, 3_000_000, 10**9])
def test_budgets_of_a_cpu_hold(long: rc.EpisodeStore, more: int, reuse: bool) -> None:
    options: dict[str, Any] = {"device": "cpu", "reuse_buffers": reuse}
    rc.Loader(long, **LONG | options).next()  # which fills the store's own tables
    budget = least(long, "ram", budget={"ram": 0}, **options) + more
    gc.collect()
    tracemalloc.start()
    before = tensor_bytes()
    loader = rc.Loader(long, budget={"ram": budget}, **LONG | options)
    batch = loader.next()
    second = loader.next()
    gc.collect()
    held = tensor_bytes() - before + array_bytes()
    tracemalloc.stop()
    del batch, second
    assert budget // 4 < held <= budget or more == 10**9
    assert ("disk" in loader.stats().hit_shares) == (more < 10**9)


@needs_gpu
@pytest.mark.parametrize("reuse", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("kind", ["gpu", "pinned", "disk"])
def test_budgets_of_a_gpu_hold(
    long: rc.EpisodeStore, kind: str, reuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda: Any = torch.cuda
    options: dict[str, Any] = {"device": "cuda", "reuse_buffers": reuse}
    budget = {"gpu": 10**9}
    if kind != "gpu":
        budget = {"gpu": least(long, "gpu", budget={"gpu": 0}, **options)}
        budget["pinned"] = least(long, "pinned", budget=budget, **options)
    if kind == "pinned":  # room for all but the values
        budget = {"gpu": budget["gpu"] + 500_000, "pinned": 10**9}
    pinned = []

    def count(size: int) -> torch.Tensor:
        pinned.append(pinned_bytes(size))
        return pinned_empty(size)

    for module in (resident, resident_streams, disk_windows):
        monkeypatch.setattr(module, "pinned_empty", count)
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    loader = rc.Loader(long, budget=budget, **LONG | options)
    for _ in range(2):
        for _batch in loader:  # the loop holds one while the next is made
            cuda._sleep(100_000)  # the host runs ahead
    cuda.synchronize()
    peak = cuda.max_memory_allocated() - before
    assert loader.stats().resident_bytes["gpu"] <= peak <= budget["gpu"]
    assert sum(pinned) <= budget.get("pinned", 0)
    assert kind in loader.stats().hit_shares


@needs_gpu
def test_nothing_is_read_before_it_is_there(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The side stream processes source frames of slots and of the plan, far behind the host."""
    cuda: Any = torch.cuda
    options = options_of(1, "cuda")
    image = rc.Image(resize=(60, 60))
    for key in ("front", "wrist"):
        options["windows"][key] = rc.Window([-0.1, 0.0], method="previous", image=image)
    resident_loader = rc.Loader(stores[1], **options)
    expected = [resident_loader.next() for _ in range(30)]
    place(monkeypatch, {"front": "disk", "wrist": "pinned", "other": "gpu"})
    loader = rc.Loader(stores[1], budget={"gpu": "1GB", "pinned": "1GB"}, **options)
    streams = [cuda.current_stream(), cuda.Stream(), cuda.Stream()]
    wrong = torch.zeros(30, dtype=torch.int64, device="cuda")
    cuda.synchronize()
    for i, other in enumerate(expected):
        with cuda.stream(streams[i % 3 if i >= 10 else 0]):
            cuda._sleep(3_000_000)
            batch = loader.next()
            wrong[i] = sum((batch[key] != other[key]).sum() for key in ("front", "wrist"))
            for value in batch.values():
                value.fill_(1)
            del batch
            torch.full((1 << 16,), 7.0, device="cuda")
    cuda.synchronize()
    assert not wrong.any()
