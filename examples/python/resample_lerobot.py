"""Resamples the state and action of a LeRobot v2.1 episode (a parquet file) to another rate.

Example:

    python examples/python/resample_lerobot.py episode_000000.parquet --rate 50

The episode's own `timestamp` column gives the times (float32 seconds, as LeRobot stores them), the
new timeline starts at its first one and ends at or before its last one. Needs pyarrow:
`pip install robocache[lerobot]`.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import torch

import robocache as rc

COLUMNS = ("observation.state", "action")


def read_episode(path: Path) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """times [S] in float64 seconds, and the columns as float32 [S,D]."""
    table = pq.read_table(path, columns=["timestamp", *COLUMNS])
    times = table["timestamp"].to_numpy().astype(np.float64)
    columns = {}
    for name in COLUMNS:
        column = table[name].combine_chunks()
        channels = len(column[0])
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        columns[name] = torch.from_numpy(flat.reshape(len(column), channels))
    return torch.from_numpy(times), columns


def timeline(times: torch.Tensor, rate: float) -> torch.Tensor:
    """[T] float64: every 1/rate seconds from the first time on, within the recording."""
    start, end = float(times[0]), float(times[-1])
    count = math.floor((end - start) * rate + 1e-6) + 1
    return (start + torch.arange(count, dtype=torch.float64) / rate).clamp(max=end)


def resample_episode(path: Path, rate: float, device: str = "cpu") -> dict[str, torch.Tensor]:
    """{"timestamp": [T], "observation.state": [T,D], "action": [T,D]} at `rate` Hz, on the CPU.

    Each column is linear between its rows. The columns of one file share their times, so they are
    resampled side by side in one call.
    """
    times, columns = read_episode(path)
    targets = timeline(times, rate)
    side_by_side = torch.cat(list(columns.values()), dim=-1)
    out, valid = rc.resample_trajectories(
        side_by_side.to(device), times.to(device), targets.to(device), return_valid=True
    )
    if not valid.all():
        raise ValueError(f"{path}: the recording does not cover its own timeline")
    widths = [column.shape[-1] for column in columns.values()]
    parts = out.cpu().split_with_sizes(widths, dim=-1)
    return {"timestamp": targets, **dict(zip(columns, parts, strict=True))}


def main() -> None:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("episode", type=Path, help="a parquet file of a LeRobot v2.1 dataset")
    parser.add_argument("--rate", type=float, default=50.0, help="Hz (default 50)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--rows", type=int, default=8, help="rows to print (default 8)")
    parser.add_argument("--channel", type=int, default=0, help="channel to print (default 0)")
    arguments = parser.parse_args()
    if not arguments.rate > 0:
        parser.error(f"--rate: expected more than 0, got {arguments.rate}")
    if not arguments.episode.is_file():
        parser.error(f"episode: expected a file, got {arguments.episode}")

    times, columns = read_episode(arguments.episode)
    episode = resample_episode(arguments.episode, arguments.rate, arguments.device)
    before = (len(times) - 1) / float(times[-1] - times[0])
    print(f"{arguments.episode.name}: {len(times)} rows at {before:.1f} Hz")
    for name, column in columns.items():
        print(f"  {name}: {column.shape[-1]} channels")
    print(f"resampled: {len(episode['timestamp'])} rows at {arguments.rate:g} Hz")
    print(f"\n{'time s':>8}" + "".join(f"{f'{n}[{arguments.channel}]':>24}" for n in COLUMNS))
    for row in range(min(arguments.rows, len(episode["timestamp"]))):
        numbers = [float(episode[name][row, arguments.channel]) for name in COLUMNS]
        print(f"{float(episode['timestamp'][row]):8.3f}" + "".join(f"{x:24.6f}" for x in numbers))


if __name__ == "__main__":
    main()
