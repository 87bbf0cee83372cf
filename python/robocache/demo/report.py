"""Printing and timing for the parts of the demo."""

import math
import time
from collections.abc import Callable, Sequence

import torch

import robocache as rc
from robocache.core.names import Backend

CALLS_A_TURN = 4  # of each timed function


def print_table(header: list[str], rows: list[list[str]], left: Sequence[int]) -> None:
    """Columns two spaces apart, aligned to the left if in `left`, else to the right."""
    lines = [header, ["-" * max(map(len, column)) for column in zip(header, *rows, strict=True)]]
    for line in [*lines, *rows]:
        cells = [
            cell.ljust(len(rule)) if i in left else cell.rjust(len(rule))
            for i, (cell, rule) in enumerate(zip(line, lines[1], strict=True))
        ]
        print("  ".join(cells).rstrip())


def name_of(device: torch.device) -> str:
    """The product name of a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU ({torch.get_num_threads()} threads)"


def problem_with(backend: Backend, device: torch.device) -> str | None:
    """Why a backend can't be used on a device, None if it can."""
    times = torch.zeros(1, dtype=torch.int64, device=device)
    try:
        rc.resample_trajectories(torch.zeros(1, 1, device=device), times, times, backend=backend)
    except (ValueError, RuntimeError) as error:
        return str(error)
    return None


def backends_for(device: torch.device) -> list[Backend]:
    """The backends that work on a device: plain torch, and the library's own."""
    native: Backend = "cuda" if device.type == "cuda" else "cpu"
    both: tuple[Backend, ...] = ("pytorch", native)
    return [backend for backend in both if problem_with(backend, device) is None]


def time_cells(mine: Sequence[float], theirs: Sequence[float]) -> list[str]:
    """Times of this library (ms), and its speed relative to other code."""
    cells = []
    for my_ms, their_ms in zip(mine, theirs, strict=True):
        ratio = their_ms / my_ms
        cells += [f"{my_ms:.3f}", f"{ratio:.1f} x" if ratio >= 1 else f"{ratio:.2f} x"]
    return cells


def best_ms(calls: Sequence[Callable[[], object]], device: torch.device, turns: int) -> list[float]:
    """The least wall time of each call, its work on the GPU included.

    They take turns, so that whatever else the machine does meets all of them alike; several calls a
    turn, so that none has to start from what another left in the caches.
    """
    best = [math.inf] * len(calls)
    for _ in range(turns):
        for i, call in enumerate(calls):
            for _ in range(CALLS_A_TURN):
                begin = time.perf_counter()
                call()
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                best[i] = min(best[i], (time.perf_counter() - begin) * 1e3)
    return best
