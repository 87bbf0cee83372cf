"""Writes the frames that robocache_jpeg_bench measures: real ones, as JPEG of one size.

    python benchmarks/jpeg_frames.py build/frames/224x224 --size 224x224 --quality 90

They are 120 frames of the G1 recording under ../shared/data, evenly spaced.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import av
from PIL import Image

RECORDING = Path(__file__).parents[2] / "shared/data/lerobot_v21_g1/videos"
FRAMES_PER_VIDEO = 60


def read_frames(video: Path) -> list[Image.Image]:
    """Reads FRAMES_PER_VIDEO frames of a video, evenly spaced."""
    with av.open(str(video)) as container:
        step = max(1, container.streams.video[0].frames // FRAMES_PER_VIDEO)
        frames = enumerate(container.decode(video=0))
        return [frame.to_image() for i, frame in frames if i % step == 0][:FRAMES_PER_VIDEO]


def main() -> None:
    """Writes the frames."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="224x224", help="WIDTHxHEIGHT")
    parser.add_argument("--quality", type=int, default=90)
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    options.folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for video in sorted(RECORDING.rglob("*.mp4")):
        for frame in read_frames(video):
            resized = frame.resize((width, height), Image.Resampling.LANCZOS)
            path = options.folder / f"{count:03d}.jpg"
            resized.save(path, quality=options.quality, subsampling=2)
            count += 1
    if count == 0:
        raise SystemExit(f"{RECORDING}: expected videos, found none")


if __name__ == "__main__":
    main()
