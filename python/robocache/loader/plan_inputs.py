"""`PlanInputs`: windows, resident streams, anchors and episodes of a plan."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core import dtypes
from robocache.core.checks import check_integer
from robocache.core.display import byte_count, counted
from robocache.loader.device import on_device
from robocache.loader.frames.conversion import check_window, numbers_window
from robocache.loader.memory import resident_streams, row_checks
from robocache.loader.memory.file_rows import FileRows, find_rows
from robocache.loader.memory.resident_streams import ResidentStream
from robocache.loader.memory.tiers import Tier, own_tier
from robocache.loader.plan import BatchPlan, WindowData
from robocache.loader.sampling import anchors as _anchors
from robocache.loader.sampling.sampler import Order
from robocache.loader.window_spec import WindowSpec, reads_arrivals, reads_times
from robocache.store.episode_store import EpisodeStore
from robocache.store.stream_info import is_image

log = logging.getLogger(__name__)

_MOST_FRAMES = 2**62  # more than any episode has, and int64 can subtract it


class PlanInputs(NamedTuple):
    """Windows, streams and tables of a plan. E episodes, A anchors."""

    windows: Sequence[WindowSpec]
    streams: Mapping[str, ResidentStream]
    anchors: NDArray[Any]  # [A] of anchors.ANCHOR
    episodes: NDArray[np.int64]  # [E,4]: index in the store, task, start_ns, data set

    def nbytes(self, device: torch.device) -> dict[str, int]:
        """Bytes by tier of a loader on a device; of rows that stay on disk too."""
        found: Counter[str] = Counter()
        for stream in self.streams.values():
            found.update(stream.nbytes)
        # Each plan has its tables, where its streams are.
        for tier in {own_tier(device), *found} & {"gpu", "ram"}:
            found[tier] += self.anchors.nbytes + self.episodes.nbytes
        return dict(found)

    def read_bytes(self, rows: Mapping[str, FileRows], device: torch.device) -> dict[str, float]:
        """Bytes that a sample's values are made of, by tier; of JPEG frames the mean.

        Args:
            rows: The rows of each window, by key.
            device: Where batches are made.
        """
        found: dict[str, float] = {}
        for window in self.windows:
            tier = self.streams[window.name].tier
            count = len(window.offsets) * rows[window.name].read_bytes(device)
            found[tier] = found.get(tier, 0) + count
        return found

    @property
    def frames(self) -> int:
        """JPEG frames that a sample has."""
        own = [window for window in self.windows if self.streams[window.name].frames is not None]
        return sum(len(window.offsets) for window in own)


def find_anchors(
    store: EpisodeStore,
    episodes: NDArray[np.int64],
    anchor: FileRows | None,
    rate: float | None,
    drop_n_first_frames: object,
    drop_n_last_frames: object,
    time_ranges: Any,
) -> NDArray[Any]:
    """The anchors of the chosen episodes.

    Args:
        store: The store.
        episodes: [E], the indices of the chosen ones.
        anchor: The stream whose rows they are; None: they have a rate.
        rate: In Hz.
        drop_n_first_frames: So many at the start of each episode are left out.
        drop_n_last_frames: So many at the end.
        time_ranges: As :func:`anchors.in_ranges` takes them; None: all times.

    Raises:
        TypeError, ValueError: An option that does not fit, or none is left.
    """
    first = min(check_integer("drop_n_first_frames", drop_n_first_frames, 0), _MOST_FRAMES)
    last = min(check_integer("drop_n_last_frames", drop_n_last_frames, 0), _MOST_FRAMES)
    starts = store.episodes.starts_ns[episodes]
    if anchor is not None:
        found = _anchors.row_anchors(anchor.times(), anchor.offsets, first, last)
    else:
        assert rate is not None
        ends = store.episodes.ends_ns[episodes]
        found = _anchors.tick_anchors(starts, ends, rate, first, last)
    if time_ranges is not None:
        found = _anchors.in_ranges(found, time_ranges, episodes, starts, len(store))
    if not len(found):
        of = f"rows of {anchor.info.name}" if anchor is not None else f"ticks of {rate:g} Hz"
        of += f" in {counted(len(episodes), 'episode')}"
        raise ValueError(
            f"anchor: expected at least 1 anchor, got none: {of}, "
            f"less what drop_n_first_frames, drop_n_last_frames and time_ranges leave out"
        )
    return found


def find_streams(
    store: EpisodeStore,
    episodes: NDArray[np.int64],
    windows: Sequence[WindowSpec],
    anchor: FileRows | None,
    with_age: bool,
    default_tolerances: Collection[str],
) -> tuple[list[WindowSpec], dict[str, FileRows]]:
    """Checks windows against the rows that there are, of which only times are read.

    Args:
        store: The store.
        episodes: [E], the indices of the chosen ones.
        windows: All of a batch.
        anchor: The stream whose rows are the anchors; None: they have a rate.
        with_age: Whether batches have ages.
        default_tolerances: The streams whose tolerance is the default.

    Returns:
        The windows, with a tolerance where none was given, and the rows of each.

    Raises:
        ValueError: Times, arrivals or rows are not what a window needs.
    """
    fitted: list[WindowSpec] = []
    found: dict[str, FileRows] = {}
    for window in windows:
        rows = found[window.name] = find_rows(store, window.name, episodes)
        if rows.is_encoded:
            check_window(window)
        if with_age or not window.by_rows:
            row_checks.check_times(rows)
        if window.by_rows:
            assert anchor is not None
            row_checks.check_rows(rows, anchor, episodes)
        else:
            window = row_checks.with_tolerance(window, rows, window.name in default_tolerances)
            if reads_arrivals(window, windows):
                row_checks.check_arrivals(rows)
        fitted.append(window)
    return fitted, found


def load_streams(
    samples: PlanInputs,
    found: Mapping[str, FileRows],
    placed: Mapping[str, Tier],
    with_age: bool,
    device: torch.device,
    is_bounded: bool,
) -> dict[str, ResidentStream]:
    """Loads rows into the tier of each stream.

    Args:
        samples: What they are of.
        found: The rows of each window, by key.
        placed: The tier of each, by key.
        with_age: Whether ages are wanted.
        device: Where batches are to be.
        is_bounded: Whether there is a budget.

    Raises:
        torch.OutOfMemoryError: The streams do not fit; said before any is loaded.
    """
    # Times, and when rows arrived, take room only where they are looked at.
    needs = {
        window.name: (reads_times(window, with_age), reads_arrivals(window, samples.windows))
        for window in samples.windows
    }
    host = torch.device("cpu")
    wanted: dict[torch.device, dict[str, int]] = {device: {}, host: {}}
    for key, rows in found.items():
        beside = host if placed[key] == "disk" else device
        values = host if placed[key] == "pinned" else device
        wanted[beside][key] = sum(rows.side_bytes(*needs[key], device))
        if placed[key] != "disk":
            count = sum(rows.value_bytes(device))
            wanted[values][key] = wanted[values].get(key, 0) + count
    wanted[device]["anchors"] = samples.anchors.nbytes
    for where, of_streams in wanted.items():
        resident_streams.check_room(of_streams, where)
        image_bytes = sum(
            sum(rows.value_bytes(device))
            for key, rows in found.items()
            if is_image(rows.info) and placed[key] != "disk"
            if where == (host if placed[key] == "pinned" else device)
        )
        _log_size(sum(of_streams.values()), image_bytes, where, is_bounded)
    # Onto the GPU first.
    order = sorted(found, key=lambda key: placed[key] != "gpu")
    with on_device(device):
        return {
            key: resident_streams.load(found[key], device, placed[key], *needs[key], is_bounded)
            for key in order
        }


def _log_size(total: int, image_bytes: int, device: torch.device, is_bounded: bool) -> None:
    """Logs the bytes about to be loaded: a warning where images take half of the free memory."""
    if not total:
        return
    free = resident_streams.free_bytes(device)
    is_much = free is not None and image_bytes > free / 2
    hint = ""
    if image_bytes and not is_bounded:
        half = f"{max(1, (free or 2 * total) // (2 * 10**9))}GB"
        hint = f" (budget={{{own_tier(device)!r}: {half!r}}} leaves in the files what has no room)"
    log.log(
        logging.WARNING if is_much and not is_bounded else logging.INFO,
        "loading %s to %s%s%s%s",
        byte_count(total),
        device,
        f", {byte_count(image_bytes)} of it images" if image_bytes else "",
        "" if free is None else f"; {byte_count(free)} are free",
        hint,
    )


def episode_table(store: EpisodeStore, episodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """[E,4]: index in the store, task or -1, start in ns, data set (0)."""
    columns = store.episodes
    tasks, starts = columns.task_indices[episodes], columns.starts_ns[episodes]
    return np.stack([episodes, tasks, starts, np.zeros_like(episodes)], 1)


def make_plan(samples: PlanInputs, order: Order, device: torch.device) -> BatchPlan:
    """A plan of samples on a device."""
    anchors = np.ascontiguousarray(samples.anchors).view(np.int64).reshape(-1, 2)
    streams = [samples.streams[window.name] for window in samples.windows]
    windows = [
        window if stream.frames is None else numbers_window(window)
        for window, stream in zip(samples.windows, streams, strict=True)
    ]
    with on_device(device):
        return BatchPlan(
            windows,
            [window_data(w, of, device) for w, of in zip(windows, streams, strict=True)],
            torch.from_numpy(anchors).to(device),
            torch.from_numpy(np.ascontiguousarray(samples.episodes)).to(device),
            order,
        )


def window_data(spec: WindowSpec, stream: ResidentStream, device: torch.device) -> WindowData:
    """The tensors of a window, on a device; its rows lie where the stream's tier has them.

    The scale of images is none of the plan's: the ImageStage applies it.
    """
    subtract = multiply = columns = None
    if spec.normalization is not None and spec.image is None:
        compute = dtypes.compute_dtype(spec.torch_dtype, spec.torch_out_dtype)
        if spec.channels_first:
            compute = torch.float64  # x / 255, rounded once, as others divide
        subtract = _vector(spec.normalization.subtract, compute, device)
        multiply = _vector(spec.normalization.multiply, compute, device)
    if spec.relative_to is not None:
        columns = torch.tensor(spec.relative_to.columns, dtype=torch.int32, device=device)
    begins = stream.begins
    if begins is not None and spec.is_copied:
        begins = begins * spec.torch_dtype.itemsize
    return WindowData(
        values=stream.values.view(stream.values.size(0), spec.elements),
        times=stream.times,
        row_offsets=stream.offsets,
        value_begins=begins,
        received=stream.received,
        valid=stream.valid,
        window_offsets=torch.tensor(spec.offsets, dtype=torch.int64, device=device),
        subtract=subtract,
        multiply=multiply,
        reference_columns=columns,
    )


def _vector(numbers: NDArray[np.float64], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, dtype)
