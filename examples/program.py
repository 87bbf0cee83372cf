"""Code shared by the examples: a clock for the phases of a step, checkpoints, and options."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import torch

cuda: Any = torch.cuda  # some versions of torch lack types for it


class Clock:
    """Marks points in a step, and measures the seconds between them.

    On a GPU the marks are CUDA events, so that the host never waits for them; the time between two
    includes the GPU's work and its waits. On a CPU they are times of its clock.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._marks: list[Any] = []

    def mark(self) -> None:
        if not self._is_cuda:
            self._marks.append(time.perf_counter())
            return
        event = cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def read(self, marks: int) -> list[list[float]]:
        """Seconds between the `marks` marks of each step; waits for the GPU."""
        if self._is_cuda:
            torch.cuda.synchronize()
        steps = [self._marks[i : i + marks] for i in range(0, len(self._marks), marks)]
        self._marks = []
        return [[self._seconds(a, b) for a, b in pairwise(step)] for step in steps]

    def _seconds(self, a: Any, b: Any) -> float:
        return float(a.elapsed_time(b)) * 1e-3 if self._is_cuda else float(b - a)


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Writes a checkpoint atomically; a run that is killed meanwhile keeps the previous one."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


class Parser(argparse.ArgumentParser):
    """Describes a program by its docstring; reports errors in one line."""

    def __init__(self, text: str | None) -> None:
        summary, _, rest = (text or "").partition("\n")
        super().__init__(
            description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.add_argument("--device", type=find_device, default="cpu", help="cpu or cuda")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message.removeprefix('argument ')}\n")


def find_device(text: str) -> torch.device:
    if text not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"expected cpu or cuda, got {text}")
    if text == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError("expected cpu, as torch sees no GPU, got cuda")
    return torch.device(text)


def count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected an integer of 1 or more, got {text}")
    return int(text)


def natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer of 0 or more, got {text}")
    return int(text)


def name_of(device: torch.device) -> str:
    """The name of a device for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU ({torch.get_num_threads()} threads)"
