"""JPEG frames in batches: the same batches as from a store of the pixels that they decode to."""

from __future__ import annotations

import gc
import io
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_tiers import array_bytes, tensor_bytes
from numpy.typing import NDArray
from support import assert_same_batch, needs_gpu

import robocache as rc
from robocache.loader import engine
from robocache.loader.frames import resident
from robocache.loader.frames.sources import RECORD
from robocache.loader.memory import disk_windows, resident_streams
from robocache.loader.memory.file_rows import find_rows
from robocache.loader.memory.pinned import pinned_bytes, pinned_empty

Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.filterwarnings("ignore:Loader. padding in more than half")

MS = 1_000_000
NORMALIZATION = rc.Normalization(np.full((1, 1, 1), 0.4), np.full((1, 1, 1), 4.3))
SIZES = {"wrist": (34, 50), "front": (48, 64), "gray": (17, 9)}


def scene(seed: int, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """A frame with edges and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    ramp = np.stack([x * 4, y * 5, (x + y) * 2], axis=2)[:, :, :channels]
    frame = ramp + rng.integers(0, 40, ramp.shape)
    frame[seed % height :: 7, 3:8] = 255
    return frame.clip(0, 255).astype(np.uint8)


def write_episode(writer: rc.StoreWriter, number: int, is_jpeg: bool) -> None:
    with writer.episode(source=str(number)) as episode:
        rng = np.random.default_rng(number)
        for key, (height, width) in SIZES.items():
            count = 12 + number
            channels = 1 if key == "gray" else 3
            frames = rc.JpegFrames.encode(
                np.stack([scene(50 * number + i, height, width, channels) for i in range(count)]),
                60 + 5 * number,
                full_chroma=key == "front",
            )
            times = np.cumsum(rng.integers(20, 60, count)) * MS
            received = times + rng.integers(0, 15, count).cumsum() * MS // 10
            valid = rng.random(count) > 0.2
            values = frames if is_jpeg else np.asarray(frames)
            more = {"received": received} if key == "wrist" else {}
            episode.add(key, times, values, valid=valid, **more)
        episode.add("q", np.arange(60) * 10 * MS, rng.random((60, 3)).astype(np.float32))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    """A store of JPEG frames, and one of their pixels. Episode 3 lacks the cameras."""
    found = []
    for is_jpeg in (True, False):
        folder = tmp_path_factory.mktemp("frames") / "store"
        with rc.StoreWriter(folder) as writer:
            for number in range(3):
                write_episode(writer, number, is_jpeg)
            with writer.episode(source="3") as episode:
                episode.add("q", np.arange(20) * 10 * MS, np.ones((20, 3), np.float32))
        found.append(rc.EpisodeStore(folder))
    return found[0], found[1]


def random_options(seed: int) -> dict[str, Any]:
    """Options of a loader, with windows of every kind that cameras may have."""
    rng = np.random.default_rng(seed)
    windows: dict[str, rc.Window] = {"q": rc.Window([0.0])}
    # Numbers, since statistics of JPEG streams are computed from some of the frames.
    scales: dict[str, rc.Normalization] = {}
    for key in SIZES:
        if rng.random() < 0.2:
            continue
        options: dict[str, Any] = {"method": str(rng.choice(["previous", "nearest"]))}
        options["outside"] = str(rng.choice(["hold", "zero", "extrapolate"]))
        options["causal"] = bool(rng.random() < 0.6)
        if rng.random() < 0.5:
            options["max_gap_s"] = 0.045
        if rng.random() < 0.3:
            options["latency_s"] = 0.02
        kind = rng.integers(4)
        if kind > 0:
            options["channels_first"] = True
        if kind == 2:
            options["dtype"] = [torch.float16, torch.bfloat16][rng.integers(2)]
        if kind == 3:
            options |= {"dtype": [torch.float64, torch.bfloat16][rng.integers(2)]}
            scales[key] = NORMALIZATION
        offsets = [[0.0], [-0.1, 0.0], [-0.03, -0.02, 0.1], None][rng.integers(4)]
        windows[key] = rc.Window(offsets, **options)
    return {
        "batch_size": int(rng.integers(1, 9)),
        "windows": windows,
        "normalize": rc.Normalizer(scales) if scales else None,
        "anchor": "q",
        "seed": seed,
        "with_age": bool(rng.random() < 0.5),
        "reuse_buffers": bool(rng.random() < 0.5),
    }


def assert_same_batches(jpeg: rc.Loader, raw: rc.Loader, count: int) -> None:
    for _ in range(count):
        assert_same_batch(jpeg.next(), raw.next())


@pytest.mark.parametrize("seed", range(24))
def test_batches_are_those_of_pixels(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], device: str, seed: int
) -> None:
    options = random_options(seed)
    jpeg, raw = (rc.Loader(store, device=device, **options) for store in stores)
    assert_same_batches(jpeg, raw, len(raw) + 1)
    for indices in ([], [3], [5, 0, 5, 7]):
        assert_same_batch(jpeg.gather(indices), raw.gather(indices))
    stats = jpeg.stats()
    cameras = [window for key, window in options["windows"].items() if key != "q"]
    steps = sum(len(window.offsets) if window.offsets else 1 for window in cameras)
    assert stats.frames == steps * (stats.samples + stats.gathered)
    assert stats.damaged_frames == 0
    if cameras:
        assert sum(stats.resident_bytes.values()) < sum(raw.stats().resident_bytes.values())


def test_rows_are_counted(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], device: str, tmp_path: Path
) -> None:
    """With timeline "rows", where steps past the ends repeat the first and the last frame."""
    made = []
    for is_jpeg in (True, False):
        with rc.StoreWriter(tmp_path / str(is_jpeg)) as writer:
            writer.declare("camera", rate=20)
            frames = rc.JpegFrames.encode(np.stack([scene(i, 20, 30, 3) for i in range(9)]))
            with writer.episode() as episode:
                values = frames if is_jpeg else np.asarray(frames)
                episode.add("camera", np.arange(9) * 50 * MS, values)
        windows = {"camera": rc.Window([-0.1, 0.0, 0.05], timeline="rows")}
        made.append(rc.Loader(tmp_path / str(is_jpeg), 3, windows, anchor="camera", device=device))
    assert_same_batches(*made, 4)


def test_states_and_epochs(stores: tuple[rc.EpisodeStore, rc.EpisodeStore], device: str) -> None:
    options = random_options(1)
    jpeg, raw = (rc.Loader(store, device=device, **options) for store in stores)
    for _ in range(3):
        assert_same_batch(jpeg.next(), raw.next())
    again = rc.Loader(stores[0], device=device, **options)
    again.load_state_dict(jpeg.state_dict())
    assert_same_batches(again, raw, 5)


def test_any_thread_may_gather(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], device: str
) -> None:
    options = random_options(2) | {"reuse_buffers": False}
    jpeg, raw = (rc.Loader(store, device=device, **options) for store in stores)
    expected = [raw.gather([i, i + 1]) for i in range(20)]
    wrong: list[int] = []

    def gather(first: int) -> None:
        for i in range(first, 20, 3):
            found = jpeg.gather([i, i + 1])
            if any(not torch.equal(found[key], expected[i][key]) for key in found):
                wrong.append(i)

    threads = [threading.Thread(target=gather, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_gpu
def test_a_graph_captures_the_decoder(stores: tuple[rc.EpisodeStore, rc.EpisodeStore]) -> None:
    options = random_options(7) | {"device": "cuda", "batch_size": 4, "drop_last": True}
    jpeg, raw = (rc.Loader(store, **options) for store in stores)
    graph = torch.cuda.CUDAGraph()
    jpeg.next(), raw.next()
    with torch.cuda.graph(graph):
        batch = jpeg.next()
    for _ in range(5):
        graph.replay()
        assert_same_batch(batch, raw.next())


# ---- mixtures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoded", [(True, True), (True, False), (False, True)])
def test_mixtures(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore],
    device: str,
    tmp_path: Path,
    encoded: tuple[bool, bool],
) -> None:
    """Parts of JPEG and of pixels, of another sampling, normalization and set of cameras."""

    def mixture(kinds: tuple[bool, bool]) -> rc.Loader:
        folder = tmp_path / f"{kinds}"
        with rc.StoreWriter(folder) as writer, writer.episode() as episode:
            frames = rc.JpegFrames.encode(
                np.stack([scene(i, 34, 50, 3) for i in range(8)]), 30, full_chroma=True
            )
            values = frames if kinds[1] else np.asarray(frames)
            episode.add("wrist", np.arange(8) * 40 * MS, values)
        image = {"channels_first": True, "dtype": torch.bfloat16, "method": "previous"}
        windows = {
            "wrist": rc.Window([-0.05, 0.0], **image),
            "front": rc.Window(None, method="previous"),
        }
        first = rc.Loader(stores[0 if kinds[0] else 1], 4, windows, anchor="wrist", device=device)
        windows = {"wrist": rc.Window([-0.02, 0.0], **image)}
        scale = rc.Normalizer({"wrist": NORMALIZATION})
        second = rc.Loader(folder, 4, windows, anchor="wrist", device=device, normalize=scale)
        return rc.Loader.mixture([first, second], [0.6, 0.4], 64, 8, seed=2)

    jpeg, raw = mixture(encoded), mixture((False, False))
    assert_same_batches(jpeg, raw, 10)
    assert_same_batch(jpeg.gather(range(20)), raw.gather(range(20)))
    assert jpeg.stats().damaged_frames == 0


# ---- tiers ---------------------------------------------------------------------------------------


def place_cameras(monkeypatch: pytest.MonkeyPatch, tiers: Mapping[str, str]) -> None:
    """Loaders that are made from now on have cameras in these tiers."""

    def place(_: object, rows: Mapping[str, object], *__: object) -> dict[str, str]:
        return {key: tiers.get(key, tiers["other"]) for key in rows}

    monkeypatch.setattr(engine, "place", place)


@pytest.mark.parametrize("seed", range(4))
def test_frames_on_disk_of_a_cpu(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    options = random_options(seed) | {"device": "cpu"}
    raw = rc.Loader(stores[1], **options)
    place_cameras(monkeypatch, {"wrist": "disk", "gray": "disk", "other": "ram"})
    jpeg = rc.Loader(stores[0], budget={"ram": "1GB"}, **options)
    assert_same_batches(jpeg, raw, len(raw) + 1)


@needs_gpu
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tiers", [("pinned", "gpu"), ("disk", "gpu"), ("disk", "pinned"),
                                   ("disk", "disk")])  # fmt: skip
def test_frames_in_tiers_of_a_gpu(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore],
    monkeypatch: pytest.MonkeyPatch,
    tiers: tuple[str, str],
    seed: int,
) -> None:
    options = random_options(seed) | {"device": "cuda", "reuse_buffers": False}
    raw = rc.Loader(stores[1], **options)
    place_cameras(monkeypatch, {"wrist": tiers[0], "front": tiers[1], "other": "gpu"})
    jpeg = rc.Loader(stores[0], budget={"gpu": "1GB", "pinned": "1GB"}, **options)
    assert_same_batches(jpeg, raw, len(raw) + 1)
    assert_same_batch(jpeg.gather([4, 0, 4]), raw.gather([4, 0, 4]))
    state = jpeg.state_dict()
    expected = [raw.next() for _ in range(3)]
    assert_same_batch(jpeg.next(), expected[0])
    jpeg.load_state_dict(state)
    for batch in expected:
        assert_same_batch(jpeg.next(), batch)
    assert jpeg.stats().damaged_frames == 0


def test_a_budget_counts_compressed_bytes(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore],
) -> None:
    """A budget that holds the files, and not the pixels, leaves nothing on disk."""
    windows = {"front": rc.Window(None, method="previous"), "q": rc.Window()}
    options: dict[str, Any] = {"anchor": "q", "device": "cpu"}
    whole = rc.Loader(stores[0], 1, windows, **options).stats().resident_bytes["ram"]
    pixels = rc.Loader(stores[1], 1, windows, **options).stats().resident_bytes["ram"]
    assert 3 * whole < pixels
    budget = {"ram": whole + 100_000}
    near = rc.Loader(stores[0], 1, windows, budget=budget, **options)
    near.next()
    assert set(near.stats().hit_shares) == {"ram"}


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    """A store of many small frames, whose records are a large part of their bytes."""
    folder = tmp_path_factory.mktemp("long") / "store"
    with rc.StoreWriter(folder) as writer, writer.episode() as episode:
        frames = rc.JpegFrames.encode(np.stack([scene(i % 50, 16, 16, 3) for i in range(3000)]), 30)
        times = np.arange(3000) * 20 * MS
        for key in ("left", "right"):
            episode.add(key, times, frames)
        episode.add("q", times, np.ones((3000, 40), np.float32))
    return rc.EpisodeStore(folder)


LONG: dict[str, Any] = {
    "batch_size": 32,
    "windows": {
        "left": rc.Window([-0.1, 0.0], method="previous"),
        "right": rc.Window(None, method="previous"),
        "q": rc.Window(None),
    },
    "anchor": "q",
}


def least(store: rc.EpisodeStore, tier: str, **options: Any) -> int:
    """The smallest budget of a tier, as the error for less states it."""
    with pytest.raises(ValueError, match=rf"^budget\['{tier}'\]: expected at least ") as caught:
        rc.Loader(store, **LONG | options)
    return int(str(caught.value).split()[4])


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("more", [0, 200_000, 10**9])
def test_budgets_of_a_cpu_hold(long: rc.EpisodeStore, more: int, reuse: bool) -> None:
    options = {"device": "cpu", "reuse_buffers": reuse}
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
    assert budget // 2 < held <= budget or more == 10**9
    assert ("disk" in loader.stats().hit_shares) == (more < 10**9)


@needs_gpu
@pytest.mark.parametrize("reuse", [False, True], ids=["new", "reused"])
@pytest.mark.parametrize("kind", ["gpu", "pinned", "disk"])
def test_budgets_of_a_gpu_hold(
    long: rc.EpisodeStore, kind: str, reuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda: Any = torch.cuda
    options = {"device": "cuda", "reuse_buffers": reuse}
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


# ---- damage --------------------------------------------------------------------------------------


def test_frames_without_an_image_are_padding(device: str, tmp_path: Path) -> None:
    """Rows that are no JPEG, marked as not valid; the count is in the statistics."""
    files = [jpeg_file(scene(i, 20, 30, 3)) for i in range(6)]
    files[2] = b""
    files[4] = b"\x89PNG not a frame"
    frames = rc.JpegFrames(
        rc.RaggedArray.from_rows([np.frombuffer(file, np.uint8) for file in files]), (20, 30, 3)
    )
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        valid = np.array([True, True, False, True, False, True])
        episode.add("camera", np.arange(6) * 50 * MS, frames, valid=valid)
    loader = rc.Loader(
        tmp_path / "store",
        6,
        {"camera": rc.Window([0.0], method="previous")},
        anchor="camera",
        device=device,
        shuffle=False,
    )
    batch = loader.next()
    assert batch["camera_is_pad"][:, 0].tolist() == [not flag for flag in valid]
    for i in range(6):
        image = batch["camera"][i, 0].cpu().numpy()
        if valid[i]:
            np.testing.assert_array_equal(image, np.asarray(Image.open(io.BytesIO(files[i]))))
        else:
            assert not image.any()
    assert loader.stats().damaged_frames == 2


def jpeg_file(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"method": "linear"},
            "method['front']: expected previous or nearest of JPEG frames, which are selected and "
            "not mixed, got 'linear'",
        ),
        (
            {"outside": "nan", "channels_first": True, "method": "previous"},
            "outside['front']: expected 'hold', 'zero' or 'extrapolate' of JPEG frames, got 'nan'",
        ),
    ],
)
def test_errors(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        rc.Loader(stores[0], 2, {"front": rc.Window([0.0], **options)}, anchor="q")
    assert str(caught.value) == message


@needs_gpu
def test_frames_of_two_samplings_need_another_encoding(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer:
        for full_chroma in (False, True):
            with writer.episode() as episode:
                pixels = np.stack([scene(i, 20, 30, 3) for i in range(3)])
                frames = rc.JpegFrames.encode(pixels, full_chroma=full_chroma)
                episode.add("camera", np.arange(3) * MS, frames)
    with pytest.raises(ValueError, match="chroma sampling") as caught:
        rc.Loader(
            tmp_path / "store",
            2,
            {"camera": rc.Window([0.0], method="previous")},
            anchor="camera",
            device="cuda",
        )
    assert str(caught.value) == (
        "camera: frame 3: expected chroma sampling 4:2:0 as frame 0, got 4:4:4 (`robocache "
        "convert --images jpeg:95` encodes all frames alike)"
    )


@pytest.mark.parametrize("staging_bytes", [100, 5000, 1 << 26])
def test_arrays_of_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, staging_bytes: int
) -> None:
    """Scans and indices in parts through a staging buffer; some frames have no image."""
    monkeypatch.setattr(resident, "STAGING_BYTES", staging_bytes)
    with rc.StoreWriter(tmp_path / "store") as writer:
        for number in range(3):
            files = [jpeg_file(scene(i, 20, 30, 3)) for i in range(6 * number, 6 * number + 6)]
            files[0] = files[3] = files[5] = b""
            arrays = [np.frombuffer(file, np.uint8) for file in files]
            frames = rc.JpegFrames(rc.RaggedArray.from_rows(arrays), (20, 30, 3))
            with writer.episode() as episode:
                valid = np.array([False, True, True, False, True, False])
                episode.add("camera", np.arange(6) * MS, frames, valid=valid)
    rows = find_rows(rc.EpisodeStore(tmp_path / "store"), "camera", np.arange(3))
    table = rows.frame_table
    made = resident.on_gpu(rows.frames, table, torch.device("cpu"), False, True)
    scans, indices, records, _ = made.kept
    whole = torch.empty(4 * table.scan_words, dtype=torch.uint8)
    resident._extract(rows.frames, table.records, whole)
    assert torch.equal(scans, whole)
    assert whole.any()
    entries = np.concatenate(list(rows.frames.entry_parts()))
    np.testing.assert_array_equal(indices.numpy().view(np.uint64), entries)
    np.testing.assert_array_equal(records.numpy().view(RECORD)[:, 0], table.records)
    assert (table.records["width"] > 0).tolist() == [False, True, True, False, True, False] * 3


@needs_gpu
def test_scans_pass_through_a_small_staging_buffer(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "STAGING_BYTES", 5000)
    options = random_options(0) | {"device": "cuda"}
    jpeg, raw = (rc.Loader(store, **options) for store in stores)
    assert_same_batches(jpeg, raw, 4)
