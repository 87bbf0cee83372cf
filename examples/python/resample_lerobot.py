"""Resamples the state and action of a LeRobot v2.1 episode (a parquet file) to another rate.

Example:

    python examples/python/resample_lerobot.py episode_000000.parquet --rate 50

The times come from the episode's `timestamp` column (float32 seconds, as LeRobot stores them). The
new timeline starts at the first one and ends at or before the last one. The program needs pyarrow:
`pip install '.[lerobot]'`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

import robocache as rc

COLUMNS = ("observation.state", "action")
MOST_ROWS = 1_000_000  # in the output


# Reading ------------------------------------------------------------------------------------------


def read_episode(path: Path) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """times [S] in float64 seconds, and the columns as float32 [S,D]."""
    try:  # not needed for --help
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("pyarrow: expected pip install '.[lerobot]', got none") from error

    names = ["timestamp", *COLUMNS]
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            if any(there.count(name) != 1 for name in names):
                wanted, got = ", ".join(names), ", ".join(there) or "none"
                raise ValueError(f"columns: expected {wanted}, got {got}")
            table = file.read(columns=names)
    except (pa.ArrowException, OSError) as error:
        problem = str(error).partition("\n")[0]
        raise ValueError(f"{path}: expected a parquet file, got: {problem}") from error
    if table.num_rows == 0:
        raise ValueError(f"{path}: expected 1 row or more, got 0")
    columns = {name: read_channels(name, table[name].combine_chunks()) for name in COLUMNS}
    return read_times(table["timestamp"].combine_chunks()), columns


def read_times(column: Any) -> torch.Tensor:
    times = read_numbers("timestamp", column).astype(np.float64)
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise ValueError(f"timestamp: expected finite times, got {times[row]} in row {row}")
    if (np.diff(times) < 0).any():
        row = int(np.argmax(np.diff(times) < 0)) + 1
        raise ValueError(
            f"timestamp: expected ascending times, got {times[row]:g} after {times[row - 1]:g} "
            f"in row {row}"
        )
    return torch.from_numpy(times)


def read_channels(name: str, column: Any) -> torch.Tensor:
    """Values [S,D] of a list column, whose rows must have equal lengths."""
    if not hasattr(column, "flatten") or not hasattr(column.type, "value_type"):
        raise ValueError(f"{name}: expected a list in each row, got {column.type}")
    refuse_null(name, column)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    row = int(np.argmax(lengths != lengths[0]))  # 0 where all are alike
    if row > 0:
        raise ValueError(
            f"{name}: expected {lengths[0]} channels as in row 0, got {lengths[row]} in row {row}"
        )
    if lengths[0] == 0:
        raise ValueError(f"{name}: expected 1 channel or more, got 0")
    flat = read_numbers(name, column.flatten(), per_row=int(lengths[0])).astype(np.float32)
    return torch.from_numpy(flat.reshape(len(column), -1))


def read_numbers(name: str, column: Any, per_row: int = 1) -> np.ndarray[Any, Any]:
    refuse_null(name, column, per_row)
    numbers: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "iuf":
        raise ValueError(f"{name}: expected numbers, got {column.type}")
    return numbers


def refuse_null(name: str, column: Any, per_row: int = 1) -> None:
    if column.null_count:
        row = column.is_null().to_pylist().index(True) // per_row
        raise ValueError(f"{name}: expected no null, got one in row {row}")


# Resampling ---------------------------------------------------------------------------------------


def timeline(times: torch.Tensor, rate: float) -> torch.Tensor:
    """Times [T] float64, 1/rate seconds apart from the first time on, within the recording."""
    start, end = float(times[0]), float(times[-1])
    periods = (end - start) * rate + 1e-6
    if not periods < MOST_ROWS:
        raise ValueError(
            f"--rate: expected at most {MOST_ROWS} rows of output, got {rate:g} Hz "
            f"for {end - start:g} s"
        )
    count = math.floor(periods) + 1
    return (start + torch.arange(count, dtype=torch.float64) / rate).clamp(max=end)


def resample_episode(
    times: torch.Tensor, columns: dict[str, torch.Tensor], rate: float, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """{"timestamp": [T], "observation.state": [T,D], "action": [T,D]} at `rate` Hz, on the CPU.

    Columns are interpolated linearly. They share their times, so that one call resamples them side
    by side.
    """
    targets = timeline(times, rate)
    side_by_side = torch.cat(list(columns.values()), dim=-1)
    out, valid = rc.resample_trajectories(
        side_by_side.to(device), times.to(device), targets.to(device), return_valid=True
    )
    if not valid.all():
        raise ValueError("timestamp: expected to cover its own timeline, got a gap")
    widths = [column.shape[-1] for column in columns.values()]
    parts = out.cpu().split_with_sizes(widths, dim=-1)
    return {"timestamp": targets, **dict(zip(columns, parts, strict=True))}


# The program --------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """Reports errors in one line, `error: name: expected X, got Y`."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message.removeprefix('argument ')}\n")


def episode_file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"expected a file, got {text}")
    return Path(text)


def frequency(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"expected a finite number above 0, got {text}")
    return rate


def device_name(text: str) -> str:
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if text not in ("cpu", "cuda", *(f"cuda:{gpu}" for gpu in range(gpus))):
        raise argparse.ArgumentTypeError(f"expected cpu or cuda, got {text}")
    if text == "cuda" and gpus == 0:
        raise argparse.ArgumentTypeError("expected cpu, as torch sees no GPU, got cuda")
    return text


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer of 0 or more, got {text}")
    return int(text)


def parse_options() -> tuple[Parser, argparse.Namespace]:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = Parser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def option(name: str, kind: Callable[[str], object], default: object, what: str) -> None:
        parser.add_argument(
            name, type=kind, default=default, metavar="X", help=f"{what} (default {default})"
        )

    parser.add_argument(
        "episode", type=episode_file, help="a parquet file of a LeRobot v2.1 dataset"
    )
    option("--rate", frequency, 50.0, "Hz")
    option("--device", device_name, "cpu", "cpu or cuda")
    option("--rows", count, 8, "rows to print")
    option("--channel", count, 0, "channel to print")
    return parser, parser.parse_args()


def print_episode(options: argparse.Namespace) -> None:
    times, columns = read_episode(options.episode)
    fewest = min(column.shape[-1] for column in columns.values())
    if options.channel >= fewest:
        raise ValueError(f"--channel: expected 0 to {fewest - 1}, got {options.channel}")
    episode = resample_episode(times, columns, options.rate, options.device)

    seconds = float(times[-1] - times[0])
    before = f"{(len(times) - 1) / seconds:.1f} Hz" if seconds > 0 else "n/a"
    print(f"{options.episode.name}: {len(times)} rows at {before}")
    for name, column in columns.items():
        print(f"  {name}: {column.shape[-1]} channels")
    print(f"resampled: {len(episode['timestamp'])} rows at {options.rate:g} Hz")
    print(f"\n{'time s':>8}" + "".join(f"{f'{n}[{options.channel}]':>24}" for n in COLUMNS))
    for row in range(min(options.rows, len(episode["timestamp"]))):
        numbers = [float(episode[name][row, options.channel]) for name in COLUMNS]
        print(f"{float(episode['timestamp'][row]):8.3f}" + "".join(f"{x:24.6f}" for x in numbers))


def main() -> None:
    parser, options = parse_options()
    try:
        print_episode(options)
    except (ImportError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
