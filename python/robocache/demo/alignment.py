"""The demo's alignment: a method for each stream, and all streams fused in one call."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

import robocache as rc
from robocache.core.names import Method
from robocache.demo.recording import Floats, Recording, Stream, Times

TARGET_HZ = 50
MS = 1_000_000  # ns


@dataclass(frozen=True)
class Plan:
    """How one stream is aligned."""

    name: str  # of the Recording's stream
    method: Method
    max_gap_ms: int  # what the rows may be apart for a result to count as real
    mean_window_ms: int | None = None


PLANS = [
    # Six angles between their stops, and a wrist whose readings wrap: the short way round for that.
    Plan("joints", [("linear", 6), ("angle", 1)], 25),
    # Means of 20 rows: single rows would let the sensor's noise and ringing alias into 50 Hz.
    Plan("force", "mean", 5, mean_window_ms=20),
    # A frame is what it is: the nearest one, not a blend of two.
    Plan("vision", "nearest", 25),
    # A command holds until the next.
    Plan("gripper", "previous", 75),
    Plan("hand", "slerp_xyzw", 40),
]


@dataclass(frozen=True)
class Aligned:
    """One stream on the common timeline."""

    plan: Plan
    source: Stream
    values: Floats  # [T,D]
    valid: NDArray[np.bool_]  # [T]


def make_targets(episode: Recording) -> Times:
    """The common timeline, int64 ns at 50 Hz: from when all streams have begun till one ends."""
    streams: list[Stream] = [getattr(episode, plan.name) for plan in PLANS]
    step = 1_000_000_000 // TARGET_HZ
    first = max(int(stream.times[0]) for stream in streams)
    last = min(int(stream.times[-1]) for stream in streams)
    return np.arange(-(-first // step) * step, last + 1, step, dtype=np.int64)


def align(episode: Recording, targets: Times, device: torch.device) -> list[Aligned]:
    """All streams on the common timeline, in the order of PLANS."""
    sources: list[Stream] = [getattr(episode, plan.name) for plan in PLANS]
    values, valid = rc.fuse(
        [
            rc.Stream(
                torch.from_numpy(source.values).to(device),
                torch.from_numpy(source.times).to(device),
                method=plan.method,
                max_gap=plan.max_gap_ms * MS,
                mean_window=None if plan.mean_window_ms is None else plan.mean_window_ms * MS,
            )
            for plan, source in zip(PLANS, sources, strict=True)
        ],
        torch.from_numpy(targets).to(device),
        return_valid=True,
        backend="auto",
    )
    columns = np.cumsum([source.values.shape[1] for source in sources])[:-1]
    parts = np.split(values.double().cpu().numpy(), columns, axis=1)
    masks = valid.cpu().numpy().T
    return [
        Aligned(plan, source, part, mask)
        for plan, source, part, mask in zip(PLANS, sources, parts, masks, strict=True)
    ]
