"""Measure batches of JPEG frames: from each tier, beside raw frames and other decoders.

A batch has 64 samples of 3 cameras of 224 x 224 at quality 90 (4:2:0), and a state of 14 numbers.
*wall* is the time of a batch in a loop that does nothing else, as the median of rounds; *host* is
the time until `next` returns. Frames are generated: shapes on gradients with noise, about the size
of a camera's.

Peers decode the same 192 files from memory: nvJPEG by torchvision.io.decode_jpeg on the GPU, and on
the CPU a torch DataLoader with Pillow or OpenCV and as many workers as cores, which collates and
copies to the device. A peer that is not installed is left out, and named.

--many also tiles the frames in the GPU's memory to so many, each at an address of its own.

Examples:
    python benchmarks/frames.py --device cuda --output benchmarks/results/h200-frames.json
    python benchmarks/frames.py --device cpu --quick
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import machine
import robocache as rc
from robocache.loader import engine
from robocache.loader.frames import decoder as frame_decoder

SIDE, QUALITY, BATCH = 224, 90, 64
TURNS = 9  # of training with and without the loader
CAMERAS = ("front", "left", "wrist")
KINDS: dict[str, dict[str, Any]] = {
    "bytes [H,W,C]": {},
    "bfloat16 [C,H,W]": {"channels_first": True, "dtype": torch.bfloat16},
    "float32 [C,H,W]": {"channels_first": True},
}
TIERS = {"cuda": ("gpu", "pinned", "disk"), "cpu": ("ram", "disk")}


def scene(seed: int) -> np.ndarray[Any, Any]:
    """A frame: disks on gradients, with the noise of a sensor."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE]
    frame = np.stack([x / 2 + 40, y / 2 + 30, (x + y) / 4 + 20], 2)
    for _ in range(6):
        column, row = rng.integers(20, SIDE - 20, 2)
        frame[(x - column) ** 2 + (y - row) ** 2 < rng.integers(10, 50) ** 2] = rng.integers(
            0, 255, 3
        )
    return (frame + rng.normal(0, 4, frame.shape)).clip(0, 255).astype(np.uint8)


def write_stores(folder: Path, count: int) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    """A store of JPEG frames, and one of their pixels."""
    times = np.arange(count) * 33_333_333
    for name in ("jpeg", "raw"):
        with rc.StoreWriter(folder / name) as writer, writer.episode() as episode:
            for number, camera in enumerate(CAMERAS):
                pixels = np.stack([scene(number * count + i) for i in range(count)])
                frames = rc.JpegFrames.encode(pixels, QUALITY)
                episode.add(camera, times, frames if name == "jpeg" else np.asarray(frames))
            state = np.random.default_rng(0).random((count, 14), np.float32)
            episode.add("state", times, state)
    return rc.EpisodeStore(folder / "jpeg"), rc.EpisodeStore(folder / "raw")


def make_loader(store: rc.EpisodeStore, kind: str, tier: str, device: torch.device) -> rc.Loader:
    """A loader whose cameras are in a tier."""
    windows = {camera: rc.Window([0.0], method="previous", **KINDS[kind]) for camera in CAMERAS} | {
        "state": rc.Window([0.0])
    }
    own = TIERS[device.type][0]

    def place(_: object, rows: Any, *__: object) -> dict[str, str]:
        return {key: tier if key in CAMERAS else own for key in rows}

    chosen = vars(engine)["place"]
    vars(engine)["place"] = place
    budget = None if tier == own else {own: "100GB"} | ({"pinned": "50GB"} if own == "gpu" else {})
    try:
        return rc.Loader(store, BATCH, windows, anchor="state", device=device, budget=budget)
    finally:
        vars(engine)["place"] = chosen


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(
    step: Callable[[], object], device: torch.device, seconds: float, rounds: int = 7
) -> dict[str, float]:
    """Microseconds of a call: until all is done, and until it returns."""
    step()
    synchronize(device)
    begin = time.perf_counter()
    step()
    synchronize(device)
    calls = max(3, int(seconds / rounds / max(time.perf_counter() - begin, 1e-6)))
    walls, hosts = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            step()
        hosts.append((time.perf_counter() - begin) / calls)
        synchronize(device)
        walls.append((time.perf_counter() - begin) / calls)
    return {"wall_us": statistics.median(walls) * 1e6, "host_us": statistics.median(hosts) * 1e6}


# ---- peers ---------------------------------------------------------------------------------------


class Files(torch.utils.data.Dataset[Tensor]):
    """The frames of a sample, decoded on the CPU."""

    def __init__(self, files: list[list[bytes]], decode: Callable[[bytes], Tensor]) -> None:
        self.files, self.decode = files, decode

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return torch.stack([self.decode(file) for file in self.files[index]])


def by_pillow(file: bytes) -> Tensor:
    from PIL import Image

    return torch.from_numpy(np.array(Image.open(io.BytesIO(file))))


def by_opencv(file: bytes) -> Tensor:
    import cv2

    bgr = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
    return torch.from_numpy(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB))


def data_loader(
    files: list[list[bytes]], decode: Callable[[bytes], Tensor], device: torch.device, workers: int
) -> Callable[[], object]:
    """Steps of a torch DataLoader: random samples, collated, on the device."""
    loader = torch.utils.data.DataLoader(
        Files(files, decode),
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )

    def batches() -> Iterator[Tensor]:
        while True:
            for batch in loader:
                yield batch.to(device, non_blocking=True)

    steps = batches()
    return lambda: next(steps)


def peers(
    store: rc.EpisodeStore, device: torch.device
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Decoders of the same files, and loops around them."""
    cameras = [store[0][camera].values.files for camera in CAMERAS]
    files = [[frames[i].tobytes() for frames in cameras] for i in range(len(cameras[0]))]
    if device.type == "cuda":
        try:
            from torchvision.io import decode_jpeg
        except ImportError as error:
            print(f"left out: torchvision on the GPU: {error}")
        else:
            tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for row in files
                       for file in row]  # fmt: skip
            rng = np.random.default_rng(0)

            def decode() -> object:
                chosen = rng.integers(0, len(tensors), BATCH * len(CAMERAS))
                return torch.stack(decode_jpeg([tensors[i] for i in chosen], device=device))

            yield "nvJPEG (torchvision.io.decode_jpeg)", decode
    workers = len(os.sched_getaffinity(0))
    for name, module, decode_file in (
        ("DataLoader, Pillow", "PIL.Image", by_pillow),
        ("DataLoader, OpenCV", "cv2", by_opencv),
    ):
        try:
            __import__(module)
        except ImportError as error:
            print(f"left out: {name}: {error}")
            continue
        yield f"{name}, {workers} workers", data_loader(files, decode_file, device, workers)


# ---- training ------------------------------------------------------------------------------------


def training_wait(store: rc.EpisodeStore, device: torch.device) -> dict[str, float] | None:
    """ResNet-18 on one camera, batch 64: time of a step with and without the loader."""
    try:
        from torchvision.models import resnet18
    except ImportError as error:
        print(f"left out: training: {error}")
        return None
    windows = {
        "front": rc.Window(None, method="previous", channels_first=True, dtype=torch.bfloat16)
    }
    loader = rc.Loader(store, BATCH, windows, anchor="state", device=device)
    model = resnet18(num_classes=14).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    target = torch.zeros(BATCH, 14, device=device, dtype=torch.bfloat16)
    fixed = loader.next()["front"]

    def train(images: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(images), target).backward()
        optimizer.step()

    # In turn: the clock of a GPU drifts within seconds.
    alone, both = [], []
    for _ in range(TURNS):
        alone.append(measure(lambda: train(fixed), device, 2)["wall_us"])
        both.append(measure(lambda: train(loader.next()["front"]), device, 2)["wall_us"])
    shares = sorted(1 - a / b for a, b in zip(alone, both, strict=True))
    return {
        "step_us": statistics.median(alone),
        "with_loader_us": statistics.median(both),
        "share": statistics.median(shares),
        "lowest_share": shares[0],
        "highest_share": shares[-1],
    }


# ---- many frames ---------------------------------------------------------------------------------


def many_frames(
    loader: rc.Loader, count: int, device: torch.device, seconds: float
) -> dict[str, float]:
    """The decoder's time for 192 random frames of `count`, tiled in the GPU's memory."""
    made = loader._outputs.decoder
    assert made is not None
    stream = made.windows[0].streams[0]
    resident = made._kept[0]
    scans, indices, records, tables = resident.kept
    copies = count // len(records)
    scans, indices = scans.repeat(copies), indices.repeat(copies)
    tiled = records.repeat(copies, 1).view(torch.int64).view(copies, len(records), 5)
    place = torch.arange(copies, device=device).view(-1, 1)
    tiled[:, :, 0] += place * (len(scans) // copies // 4)
    tiled[:, :, 1] += place * (len(indices) // copies // 8)
    arrays = type(stream.arrays).from_buffer_copy(stream.arrays)
    arrays.count = copies * len(records)
    arrays.scans, arrays.scan_words = scans.data_ptr(), scans.nbytes // 4
    arrays.indices, arrays.index_size = indices.data_ptr(), indices.nbytes // 8
    arrays.frames = tiled.data_ptr()
    window = frame_decoder.FrameWindow("front", 3, [stream._replace(arrays=arrays)])
    decoder = frame_decoder.FrameDecoder([window], device, (scans, indices, tiled, tables))
    outputs = decoder.make_outputs()
    values = torch.empty(BATCH * 3, SIDE, SIDE, 3, dtype=torch.uint8, device=device)
    is_pad = torch.zeros(BATCH * 3, dtype=torch.bool, device=device)
    workspace = torch.empty(decoder.workspace_bytes(BATCH), dtype=torch.uint8, device=device)
    numbers = torch.randint(1, arrays.count + 1, (4096, BATCH * 3), device=device)
    drawn = iter(range(10**9))

    def decode() -> None:
        row = numbers[next(drawn) % len(numbers)]
        decoder.set_outputs(
            outputs, BATCH, [(row.data_ptr(), values.data_ptr(), is_pad.data_ptr())]
        )
        decoder.decode(outputs, workspace, torch.cuda.current_stream().cuda_stream)

    found = measure(decode, device, seconds)
    if int(decoder.damaged):
        raise RuntimeError("a frame was not decoded")
    return {"frames": arrays.count, "bytes": scans.nbytes + indices.nbytes, **found}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="few frames and short rounds")
    parser.add_argument("--many", type=int, nargs="*", default=[], help="frames on the GPU")
    parser.add_argument("--output", type=Path, help="a JSON report")
    arguments = parser.parse_args()
    device = (
        torch.device(arguments.device, 0) if arguments.device == "cuda" else torch.device("cpu")
    )
    seconds = 0.5 if arguments.quick else 2.0
    report: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]),
        "machine": machine.environment(device, False),
        "cases": [],
    }
    print(report["machine"])
    with tempfile.TemporaryDirectory(prefix="robocache-frames-") as folder:
        jpeg, raw = write_stores(Path(folder), 64 if arguments.quick else 512)
        frames = jpeg[0][CAMERAS[0]].values
        print(f"{frames.nbytes / len(frames):.0f} bytes per frame")
        report["bytes_per_frame"] = frames.nbytes / len(frames)

        def note(case: str, found: dict[str, float]) -> None:
            report["cases"].append({"case": case} | found)
            rate = BATCH * len(CAMERAS) / found["wall_us"] * 1e6
            print(
                f"{case:60} {found['wall_us']:10.1f} us  host {found['host_us']:8.1f} us  "
                f"{rate:12,.0f} frames/s",
                flush=True,
            )

        for kind in KINDS:
            for tier in TIERS[device.type]:
                for name, store in (("JPEG", jpeg), ("raw", raw)):
                    loader = make_loader(store, kind, tier, device)
                    note(f"{name}, {kind}, {tier}", measure(loader.next, device, seconds))
                    del loader
        for name, step in peers(jpeg, device):
            note(name, measure(step, device, seconds, rounds=3))
        if device.type == "cuda":
            wait = training_wait(jpeg, device)
            if wait is not None:
                report["training"] = wait
                print(f"ResNet-18, batch {BATCH}: {wait}")
        for count in arguments.many:
            loader = make_loader(jpeg, "bytes [H,W,C]", "gpu", device)
            note(f"decoder, {count:,} frames", many_frames(loader, count, device, seconds))
            del loader
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
