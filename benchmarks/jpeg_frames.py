"""Writes the frames that robocache_jpeg_bench measures: real ones, as JPEG of one size.

    python benchmarks/jpeg_frames.py G1-policy-train/videos g1_224 --size 224x224 --quality 90

They are 60 frames of each video of a recording, evenly spaced: of two cameras of the data set
YifanTian07/G1-policy-train on Hugging Face, where benchmarks/results has figures.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import av
from PIL import Image

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
    parser.add_argument("recording", type=Path, help="a folder that has videos (.mp4)")
    parser.add_argument("folder", type=Path, help="where the frames are written")
    parser.add_argument("--size", default="224x224", help="WIDTHxHEIGHT")
    parser.add_argument("--quality", type=int, default=90)
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    options.folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for video in sorted(options.recording.rglob("*.mp4")):
        for frame in read_frames(video):
            resized = frame.resize((width, height), Image.Resampling.LANCZOS)
            path = options.folder / f"{count:03d}.jpg"
            resized.save(path, quality=options.quality, subsampling=2)
            count += 1
    if count == 0:
        raise SystemExit(f"{options.recording}: expected videos, found none")


if __name__ == "__main__":
    main()
