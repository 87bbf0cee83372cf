"""Measure images of a batch: resized, augmented, normalized and cast, beside other libraries.

Each case processes 320 frames of a camera (32 on a CPU) to 224 x 224 bfloat16, channels first, with
ImageNet's normalization. *floor* is the time in which this machine copies as many bytes as the case
reads and writes, measured in the same run. On CUDA, times are those of the device, by replaying a
CUDA graph of calls over rotated buffers; on a CPU they are wall times.

Peers do the same on the same frames. torchvision v2 draws one set of parameters for all frames of a
call, where robocache draws one for each sample; eager and compiled (torch.compile). kornia draws
for each frame. A peer that is not installed, or that fails, is left out, and named.

--jpeg also measures the loader: batches of 64 samples of 5 JPEG cameras of 256 x 256, decoded to
bytes, and with these steps.

Examples:
    python benchmarks/images.py --device cuda --jpeg --output benchmarks/results/h200-images.json
    python benchmarks/images.py --device cpu --quick --threads 2
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import clock
import frames as frame_benchmark
import machine
import robocache as rc
from robocache.image import plan as plans
from robocache.image.library import process_frames
from robocache.image.spec import ImageSpec

SIZE = (224, 224)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SUBTRACT = [255 * each for each in MEAN]
MULTIPLY = [1 / (255 * each) for each in STD]
CAMERAS = ("front", "left", "right", "top", "wrist")
GEOMETRY = (rc.RandomCrop(0.95), rc.RandomRotation(5))
JITTER = rc.ColorJitter(0.3, 0.4, 0.5)
HUE = rc.ColorJitter(0.3, 0.4, 0.5, 0.1)


@dataclass(frozen=True)
class Case:
    """Frames of a size, and what is done to them."""

    name: str
    source: tuple[int, int] = (256, 256)
    steps: Sequence[Any] = ()
    spec: ImageSpec = field(default_factory=lambda: ImageSpec(SIZE))


CASES = (
    Case("normalize", source=SIZE),
    Case("resize"),
    Case("resize 480 x 640 with padding", (480, 640), spec=ImageSpec(SIZE, mode="pad")),
    Case("crop", steps=GEOMETRY[:1]),
    Case("crop, rotation", steps=GEOMETRY),
    Case("crop, rotation, jitter", steps=(*GEOMETRY, JITTER)),
    Case("crop, rotation, jitter with hue", steps=(*GEOMETRY, HUE)),
    Case("crop, rotation, jitter of 480 x 640", (480, 640), (*GEOMETRY, JITTER)),
    Case("crop, rotation, sharpness", steps=(*GEOMETRY, rc.RandomSharpness((0.5, 1.5)))),
)
HEADLINE = "crop, rotation, jitter"


def make_frames(case: Case, count: int, device: torch.device) -> Tensor:
    """Smooth images with noise."""
    height, width = case.source
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(8, 3, 9, 9, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    noise = 0.05 * torch.rand(8, 3, height, width, generator=generator)
    images = ((smooth * 0.9 + noise) * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    return images.repeat(-(-count // 8), 1, 1, 1)[:count].contiguous().to(device)


def robocache_call(case: Case, count: int, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Processes the frames as the loader does, one sample each."""
    plan = None
    if case.steps:
        plan = plans.make_plan(
            "augment", case.steps, seed=0, camera="front", dropout_cameras=[], per_frame=False
        )
    numbers = torch.arange(count, device=device)
    epoch = torch.zeros(1, dtype=torch.int64, device=device)
    samples = {"episode_index": numbers, "frame_index": numbers, "epoch": epoch}

    def process(frames: Tensor) -> Tensor:
        return process_frames(
            frames,
            case.spec,
            dtype=torch.bfloat16,
            channels_first=True,
            subtract=SUBTRACT,
            multiply=MULTIPLY,
            augment=plan,
            samples=samples if plan is not None else None,
        )

    return process


# ---- peers ---------------------------------------------------------------------------------------


def torchvision_call(case: Case) -> Callable[[Tensor], Tensor]:
    """Processes by torchvision.transforms.v2: of frames [N,H,W,C] that are permuted as a view."""
    from torchvision.transforms import InterpolationMode, v2

    height, width = case.source
    steps: list[Any] = []
    for step in case.steps:
        if isinstance(step, rc.RandomCrop):
            steps.append(v2.RandomCrop((round(height * 0.95), round(width * 0.95))))
        elif isinstance(step, rc.RandomRotation):
            steps.append(v2.RandomRotation(5, interpolation=InterpolationMode.BILINEAR))
        elif isinstance(step, rc.ColorJitter):
            steps.append(v2.ColorJitter(0.3, 0.4, 0.5, 0.1 if step is HUE else None))
        else:
            steps.append(v2.RandomAdjustSharpness(1.5, p=1))
    resize: list[Any] = []
    if case.spec.mode == "pad":
        shown = (round(SIZE[1] * height / width), SIZE[1])
        rest = (SIZE[0] - shown[0]) // 2
        resize = [v2.Resize(shown, antialias=True), v2.Pad([0, rest])]
    elif case.source != SIZE:
        resize = [v2.Resize(SIZE, antialias=True)]
    # Cropped, then resized, then the rest at the size of the output.
    cropped = steps[:1] if case.steps else []
    transform = v2.Compose(
        [
            *cropped,
            *resize,
            *steps[1:],
            v2.ToDtype(torch.bfloat16, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )

    def process(frames: Tensor) -> Tensor:
        made: Tensor = transform(frames.permute(0, 3, 1, 2))
        return made

    return process


def kornia_call(case: Case) -> Callable[[Tensor], Tensor]:
    """Processes by kornia, which draws for each frame."""
    import kornia.augmentation as augmentation

    height, width = case.source
    steps: list[Any] = []
    for step in case.steps:
        if isinstance(step, rc.RandomCrop):
            steps.append(augmentation.RandomCrop((round(height * 0.95), round(width * 0.95))))
            steps.append(augmentation.Resize(SIZE, antialias=True))
        elif isinstance(step, rc.RandomRotation):
            steps.append(augmentation.RandomRotation(5.0, p=1.0))
        elif isinstance(step, rc.ColorJitter):
            hue = 0.1 if step is HUE else 0.0
            steps.append(augmentation.ColorJitter(0.3, 0.4, 0.5, hue, p=1.0))
        else:
            steps.append(augmentation.RandomSharpness(0.5, p=1.0))
    if not case.steps and case.source != SIZE:
        steps.append(augmentation.Resize(SIZE, antialias=True))
    sequence = augmentation.AugmentationSequential(
        *steps, augmentation.Normalize(torch.tensor(MEAN), torch.tensor(STD))
    )

    def process(frames: Tensor) -> Tensor:
        made: Tensor = sequence(frames.permute(0, 3, 1, 2).float() / 255)
        return made.to(torch.bfloat16)

    return process


def peers(case: Case) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """Other libraries that are installed."""
    try:
        eager = torchvision_call(case)
    except ImportError as error:
        print(f"left out: torchvision: {error}")
    else:
        yield "torchvision v2", eager
        yield "torchvision v2 compiled", torch.compile(torchvision_call(case))
    if case.spec.mode != "pad":
        try:
            yield "kornia", kornia_call(case)
        except ImportError as error:
            print(f"left out: kornia: {error}")


# ---- measurement ---------------------------------------------------------------------------------


def seconds_of(
    call: Callable[[Tensor], Tensor], sets: Sequence[Tensor], device: torch.device, repeats: int
) -> float:
    """Device time of a call on CUDA, wall time on a CPU."""
    call(sets[0])
    if device.type == "cpu":
        return clock.wall_seconds([lambda: call(sets[0])], device, repeats)[0]
    inputs = [(each,) for each in sets]
    try:
        return clock.device_seconds(call, inputs, repeats, lambda i, out: None)
    except RuntimeError:  # calls that wait for the device cannot be captured
        torch.cuda.synchronize()
        return clock.wall_seconds([lambda: call(sets[0])], device, repeats)[0]


def measure_case(
    case: Case, count: int, device: torch.device, repeats: int, has_peers: bool
) -> dict[str, Any]:
    """Times in seconds, by the names of libraries, and the floor."""
    sets = [make_frames(case, count, device) for _ in range(2)]
    moved = sets[0].nbytes + count * 3 * SIZE[0] * SIZE[1] * 2
    if device.type == "cuda":
        floor = clock.copy_seconds(moved, 2, device, repeats)
    else:
        floor = moved / clock.copy_bandwidth_cpu(moved, repeats)
    found: dict[str, Any] = {"case": case.name, "frames": count, "floor_s": floor, "seconds": {}}
    calls = {"robocache": robocache_call(case, count, device)}
    if has_peers:
        calls |= dict(peers(case))
    for name, call in calls.items():
        try:
            seconds = seconds_of(call, sets, device, repeats)
        except Exception as error:  # a peer's failure leaves it out
            if name == "robocache":
                raise
            print(f"left out: {name}, {case.name}: {type(error).__name__}: {error}"[:300])
            continue
        found["seconds"][name] = seconds
        print(
            f"{case.name:38} {name:24} {seconds * 1e6:11.1f} us  {seconds / floor:7.2f} floors  "
            f"{count / seconds:12,.0f} frames/s",
            flush=True,
        )
    return found


def measure_loader(device: torch.device, seconds: float) -> list[dict[str, Any]]:
    """Batches of JPEG cameras: decoded only, and with the headline's steps."""
    found = []
    with tempfile.TemporaryDirectory(prefix="robocache-images-") as folder:
        path = Path(folder) / "store"
        count, side = 128, 256
        times = np.arange(count) * 33_333_333
        with rc.StoreWriter(path) as writer, writer.episode() as episode:
            for number, camera in enumerate(CAMERAS):
                case = Case("", (side, side))
                pixels = make_frames(case, count, torch.device("cpu")).numpy()
                pixels = np.roll(pixels, number, 0)
                frames = rc.JpegFrames.encode(pixels, frame_benchmark.QUALITY)
                episode.add(camera, times, frames)
            episode.add("state", times, np.zeros((count, 14), np.float32))
        store = rc.EpisodeStore(path)
        make_image: Any = rc.Image
        image = make_image(resize=SIZE, dtype=torch.bfloat16, normalize="imagenet")
        for name, options, augment in (
            ("JPEG, decoded", {}, None),
            ("JPEG, resized", {"image": image}, None),
            (f"JPEG, {HEADLINE}", {"image": image}, [*GEOMETRY, JITTER]),
        ):
            windows = {
                camera: rc.Window([0.0], method="previous", **options) for camera in CAMERAS
            } | {"state": rc.Window([0.0])}
            chosen: dict[str, Any] = {} if augment is None else {"augment": augment}
            loader = rc.Loader(store, 64, windows, anchor="state", device=device, **chosen)
            times_us = frame_benchmark.measure(loader.next, device, seconds)
            found.append({"case": name} | times_us)
            print(f"{name:38} {'loader':24} {times_us['wall_us']:11.1f} us", flush=True)
            del loader
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--no-peers", action="store_true", help="robocache alone")
    parser.add_argument("--jpeg", action="store_true", help="also measure the loader")
    parser.add_argument("--only", default="", help="cases whose names have this text")
    parser.add_argument("--threads", type=int, help="threads of torch, on a CPU")
    parser.add_argument("--output", type=Path, help="a JSON report")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    is_cuda = arguments.device == "cuda"
    device = torch.device(arguments.device, 0) if is_cuda else torch.device("cpu")
    kept = machine.keep_freed_memory() if not is_cuda else False
    repeats = 3 if arguments.quick else 15
    report: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]),
        "machine": machine.environment(device, kept),
        "cases": [],
    }
    print(report["machine"])
    for case in CASES:
        if arguments.only in case.name:
            count = 320 if is_cuda else 32
            has_peers = not arguments.no_peers
            report["cases"].append(measure_case(case, count, device, repeats, has_peers))
    if arguments.jpeg:
        report["loader"] = measure_loader(device, 0.5 if arguments.quick else 2.0)
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
