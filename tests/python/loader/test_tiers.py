"""Budgets: where streams go; and on a CPU, that batches do not depend on it."""

from __future__ import annotations

import gc
import pickle
import re
import shutil
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import MS, write_store
from loader_tiers import OPTIONS, array_bytes, least, tensor_bytes
from support import assert_same_batch

import robocache as rc
from robocache.loader.memory import resident_streams
from robocache.loader.memory.file_rows import find_rows
from robocache.loader.memory.pinned import pinned_bytes
from robocache.loader.memory.tiers import (
    BATCHES_HELD_BY_USER,
    PREFETCH_DEPTH,
    Batches,
    Need,
    gpu_bytes,
    parse_bytes,
    place_on_cpu,
    place_on_gpu,
)
from robocache.loader.plan_inputs import PlanInputs, load_streams
from robocache.loader.sampling.anchors import ANCHOR

EPISODES = np.arange(4)
BATCHES = Batches(size=8, one=1024, kept=0, staged=640)
NEEDS = [
    Need(("rare",), (100_000,), (512,), 100),
    Need(("often", "with it"), (40_000, 60_000), (512, 512), 1000),
    Need(("small",), (8,), (512,), 8),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    folder = tmp_path_factory.mktemp("tiers") / "store"
    write_store(folder, episodes=4)
    with rc.StoreWriter(folder, append=True) as writer, writer.episode() as episode:
        times = torch.arange(30).numpy() * 20 * MS
        episode.add("half", times, torch.arange(60).view(30, 2).to(torch.bfloat16))
        episode.add("joints", times, torch.ones(30, 7).numpy())
    return rc.EpisodeStore(folder)


# ---- budgets -------------------------------------------------------------------------------------


def test_sizes() -> None:
    expected = {
        "0B": 0, "20GB": 20 * 10**9, "20GiB": 20 * 2**30, "1.5 kB": 1500, "7 MiB": 7 * 2**20,
        " 3TB ": 3 * 10**12, "0.1KB": 100,
    }  # fmt: skip
    assert {text: parse_bytes("x", text) for text in expected} == expected
    assert parse_bytes("x", torch.tensor(5).numpy()) == 5


SIZE = "an int of bytes, or a text such as '20GB' or '20GiB'"


@pytest.mark.parametrize(
    ("budget", "kind", "message"),
    [
        ("8GB", TypeError, "budget: expected bytes by tier, as in {'ram': '8GB'}, got str"),
        ({}, ValueError,
         "budget: expected 'ram', of which a loader on cpu always takes some, got none"),
        ({"gpu": "1GB"}, ValueError, "budget: expected 'ram' of a loader on cpu, got 'gpu'"),
        ({"ram": 1, "rom": 1}, ValueError, "budget: expected 'ram' of a loader on cpu, got 'rom'"),
        ({"ram": "8 G"}, ValueError, f"budget['ram']: expected {SIZE}, got '8 G'"),
        ({"ram": "8gb"}, ValueError, f"budget['ram']: expected {SIZE}, got '8gb'"),
        ({"ram": "-8GB"}, ValueError, f"budget['ram']: expected {SIZE}, got '-8GB'"),
        ({"ram": 2.5}, TypeError, f"budget['ram']: expected {SIZE}, got 2.5"),
        ({"ram": True}, TypeError, f"budget['ram']: expected {SIZE}, got True"),
        ({"ram": -1}, ValueError, "budget['ram']: expected 0 bytes or more, got -1"),
    ],
)  # fmt: skip
def test_messages(store: rc.EpisodeStore, budget: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        keyed_loader(store, device="cpu", budget=budget, **OPTIONS)


def test_a_budget_that_is_too_small_says_what_is_needed(store: rc.EpisodeStore) -> None:
    with pytest.raises(
        ValueError,
        match=r"^budget\['ram'\]: expected at least \d+ bytes, for what tells samples apart, times "
        r"and 2 batches of 24 samples, got 0 \(a smaller batch_size, shorter windows or fewer "
        r"episodes need less\)$",
    ):
        keyed_loader(store, device="cpu", budget={"ram": 0}, **OPTIONS)
    small = least(store, "ram", device="cpu", budget={"ram": 0})
    assert least(store, "ram", device="cpu", budget={"ram": small - 1}) == small
    assert least(store, "ram", device="cpu", budget={"ram": 0}, batch_size=4000) > small


# ---- places --------------------------------------------------------------------------------------


def on_gpu(gpu: int, pinned: int = 0, batches: Batches = BATCHES) -> dict[str, str]:
    return dict(place_on_gpu(NEEDS, (512,), batches, {"gpu": gpu, "pinned": pinned}))


def test_the_most_used_is_on_the_gpu() -> None:
    values = [gpu_bytes(100_000), gpu_bytes(40_000) + gpu_bytes(60_000), 512]
    near = 512 + 4 * 512  # tables, and what is beside values
    whole = near + (1 + BATCHES_HELD_BY_USER) * BATCHES.one + sum(values)
    assert set(on_gpu(whole).values()) == {"gpu"}
    # A byte less: batches are made ahead then, and take room.
    pinned = 10**6
    expected = {"small": "gpu", "often": "gpu", "with it": "gpu", "rare": "pinned"}
    assert on_gpu(whole - 1, pinned) == expected
    least = near + (PREFETCH_DEPTH + 1 + BATCHES_HELD_BY_USER) * BATCHES.one
    assert on_gpu(least + values[1] + 512, pinned) == expected
    # Where the most used has no room, the next one may have some.
    others = {"small": "gpu", "often": "pinned", "with it": "pinned", "rare": "gpu"}
    assert on_gpu(least + values[1] + 511, pinned) == others
    assert set(on_gpu(least, pinned).values()) == {"pinned"}
    # Streams that stand side by side are one.
    room = pinned_bytes(40_000) + pinned_bytes(60_000) + pinned_bytes(8)
    staged = pinned_bytes((PREFETCH_DEPTH + 1) * BATCHES.staged)
    rest = {"small": "pinned", "often": "pinned", "with it": "pinned", "rare": "disk"}
    assert on_gpu(least, room + staged) == rest
    fewer = on_gpu(least, room + staged - 1)
    assert fewer == rest | {"often": "disk", "with it": "disk", "rare": "disk"}
    assert set(on_gpu(least, staged).values()) == {"disk"}
    # Times and masks of values on disk need no memory of the GPU.
    assert set(on_gpu(512 + BATCHES.held_ahead, staged).values()) == {"disk"}


def test_budgets_of_a_gpu_that_are_too_small() -> None:
    with pytest.raises(ValueError, match=r"^budget\['gpu'\]: expected at least 5632 bytes, .* 5 "
                       r"batches of 8 samples, got 5631 \("):  # fmt: skip
        on_gpu(512 + BATCHES.held_ahead - 1, 10**6)
    staged = pinned_bytes((PREFETCH_DEPTH + 1) * BATCHES.staged)
    with pytest.raises(ValueError, match=rf"^budget\['pinned'\]: expected at least {staged} bytes, "
                       r"through which 4 batches of 8 samples come from the disk, where .*rare.* "
                       r"would stay, got 0"):  # fmt: skip
        on_gpu(10_000)
    # Where all would fit with one batch, that is what is asked for.
    large = BATCHES._replace(one=10**7)
    with pytest.raises(ValueError, match=r" and 2 batches of 8 samples, got 10000 \("):
        on_gpu(10_000, 10**9, large)
    kept = BATCHES._replace(kept=2048)
    with pytest.raises(ValueError, match="at least 6656 bytes"):
        on_gpu(0, 0, kept)


def test_places_on_a_cpu() -> None:
    beside = 512 + (1 + BATCHES_HELD_BY_USER) * BATCHES.one + 4 * 512
    begins = 16

    def place(ram: int) -> dict[str, str]:
        return dict(place_on_cpu(NEEDS, (512,), BATCHES, begins, {"ram": ram}))

    assert set(place(beside + 200_008).values()) == {"ram"}
    with_begins = beside + 4 * begins
    expected = {"small": "ram", "often": "ram", "with it": "ram", "rare": "disk"}
    assert place(beside + 200_007) == expected
    assert place(with_begins + 100_008) == expected
    assert place(with_begins + 100_007) == expected | {"often": "disk", "with it": "disk"}
    with pytest.raises(ValueError, match=rf"^budget\['ram'\]: expected at least {with_begins} "):
        place(with_begins - 1)


def test_pinned_values_need_room_on_the_host(
    store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = keyed_loader(store, device="cpu", **OPTIONS)._own
    rows = {window.name: find_rows(store, window.name, EPISODES) for window in contents.windows}
    samples = PlanInputs(contents.windows, {}, np.zeros(3, ANCHOR), np.zeros((4, 4), np.int64))
    monkeypatch.setattr(
        resident_streams, "free_bytes", lambda device: 0 if device.type == "cpu" else None
    )
    need = {name: sum(each.value_bytes(torch.device("cuda", 0))) for name, each in rows.items()}
    with pytest.raises(torch.OutOfMemoryError) as error:
        load_streams(
            samples, rows, dict.fromkeys(rows, "pinned"), True, torch.device("cuda", 0), True
        )
    shares = ", ".join(f"{name} {need[name]}" for name in sorted(need, key=lambda n: -need[n]))
    assert f"free on cpu, got {sum(need.values())} bytes ({shares});" in str(error.value)


# ---- batches on a CPU ----------------------------------------------------------------------------


def test_the_same_batches_from_memory_and_from_files(store: rc.EpisodeStore) -> None:
    expected = keyed_loader(store, device="cpu", **OPTIONS)
    small = least(store, "ram", device="cpu", budget={"ram": 0})
    disk = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Loader: ")  # of padding
        for budget in (small, small + 10_000, small + 40_000, "1GB"):
            loader = keyed_loader(store, device="cpu", budget={"ram": budget}, **OPTIONS)
            expected.set_epoch(1)
            expected.set_epoch(0)
            for batch, other in zip(loader, expected, strict=True):
                assert_same_batch(batch, other)
            indices = [3, len(loader.dataset) - 1, 3]
            assert_same_batch(loader.gather(indices), expected.gather(indices))
            stats = loader.stats()
            disk.append(stats.hit_shares.get("disk", 0.0))
            assert sum(stats.resident_bytes.values()) >= expected.stats().resident_bytes["ram"]
            assert stats.queue_depth == stats.waits == 0
    assert disk[0] == 1.0 > disk[1] > disk[2] > disk[3] == 0.0


def test_files_may_go_while_a_loader_reads_them(store: rc.EpisodeStore, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store.path, tmp_path / "copy"))
    expected = keyed_loader(store, device="cpu", **OPTIONS)
    small = least(store, "ram", device="cpu", budget={"ram": 0})
    loader = keyed_loader(copy, device="cpu", budget={"ram": small}, **OPTIONS)
    again = pickle.loads(pickle.dumps(loader))
    shutil.rmtree(copy)
    loader.store = None  # type: ignore[assignment]
    gc.collect()
    for batch, other, third in zip(loader, expected, again, strict=True):
        assert_same_batch(batch, other)
        assert_same_batch(third, other)


def test_by_rows_and_without_any(store: rc.EpisodeStore) -> None:
    """Streams that need no times, and one of which the episodes have no rows."""
    options: dict[str, Any] = {
        "batch_size": 7, "device": "cpu", "episodes": [1, 3], "anchor": "action",
        "delta_timestamps": {"action": [-0.02, 0.0, 5.0], "step": None, "half": None},
        "timeline": {"half": "time"},
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^budget\['ram'\]: expected at least ") as caught:
        keyed_loader(store, **options, budget={"ram": 0})
    small = int(str(caught.value).split()[4])
    loader = keyed_loader(store, **options, budget={"ram": small})
    assert loader.stats().resident_bytes["disk"] > 0
    for batch, other in zip(loader, keyed_loader(store, **options), strict=True):
        assert_same_batch(batch, other)


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("more", [0, 20_000])
def test_what_a_loop_holds_is_within_its_budget(
    store: rc.EpisodeStore, more: int, reuse: bool
) -> None:
    options: dict[str, Any] = OPTIONS | {"device": "cpu", "reuse_buffers": reuse}
    keyed_loader(store, **options).next()  # which fills the store's own tables
    small = least(store, "ram", **options, budget={"ram": 0})
    gc.collect()
    tracemalloc.start()
    before = tensor_bytes()
    loader = keyed_loader(store, **options, budget={"ram": small + more})
    make_next, held = loader.next, []

    def measure() -> Any:
        batch = make_next()
        if loader._sampler_state.position in (
            48,
            0,
        ):  # a second batch; an epoch's last, which is smaller
            held.append(tensor_bytes() - before + array_bytes())
        return batch

    loader.next = measure  # type: ignore[method-assign]
    for _batch in loader:  # the loop holds one while the next is made
        pass
    loader.load_state_dict(loader.state_dict() | {"position": 30})
    for _batch in loader:  # the last one has another size
        pass
    tracemalloc.stop()
    assert len(held) == 3
    assert small // 2 < max(held) <= small + more
