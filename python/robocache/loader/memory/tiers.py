"""Memory tiers: the budget of each, and the assignment of streams to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import torch

from robocache.loader.frames.decoder import STREAM_BYTES
from robocache.loader.frames.library import workspace_bytes
from robocache.loader.frames.stage import stage_sizes
from robocache.loader.images.stage import ImageStage
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.memory.pinned import pinned_bytes
from robocache.loader.outputs import Outputs
from robocache.loader.sampling.sampler import Order
from robocache.loader.window_spec import WindowSpec, base_window, reads_arrivals, reads_times

Tier: TypeAlias = Literal["gpu", "pinned", "ram", "disk"]
"""GPU memory; host memory that a GPU reads over the link; a CPU's memory; the store's files."""
Budget: TypeAlias = Mapping[str, int | str]

PREFETCH_DEPTH = 3
"""Prefetched batches, if rows are outside the GPU: one complete, one in flight, one in assembly."""
BATCHES_HELD_BY_USER = 1
"""Batches that the user holds while requesting the next, as ``for batch in loader`` does."""

_TIERS: Mapping[str, tuple[Tier, ...]] = {"cuda": ("gpu", "pinned"), "cpu": ("ram",)}
_UNITS: Mapping[str, int] = {"B": 1, "kB": 1000} | {
    prefix + suffix: base**power
    for suffix, base in (("B", 1000), ("iB", 1024))
    for power, prefix in enumerate("KMGT", 1)
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")
_SMALL = 1 << 20


# ---- budgets -------------------------------------------------------------------------------------


def own_tier(device: torch.device) -> Tier:
    """The tier of a device's memory."""
    return _TIERS[device.type][0]


def parse_budget(budget: object, device: torch.device) -> dict[Tier, int] | None:
    """Bytes that a loader may allocate, by tier; None: all free memory.

    A tier that the budget omits has 0 bytes; the device's tier is required.

    Raises:
        TypeError, ValueError: `budget: expected ..., got ...`.
    """
    if budget is None:
        return None
    known, own = _TIERS[device.type], own_tier(device)
    if not isinstance(budget, Mapping):
        example = {"cuda": "{'gpu': '20GB', 'pinned': '64GB'}", "cpu": "{'ram': '8GB'}"}
        raise TypeError(
            f"budget: expected bytes by tier, as in {example[device.type]}, got "
            f"{type(budget).__name__}"
        )
    for tier in budget:
        if tier not in known:
            names = " and ".join(map(repr, known))
            raise ValueError(f"budget: expected {names} of a loader on {device.type}, got {tier!r}")
    if own not in budget:
        raise ValueError(
            f"budget: expected {own!r}, of which a loader on {device.type} always takes some, "
            f"got {', '.join(map(repr, budget)) or 'none'}"
        )
    return {tier: parse_bytes(f"budget[{tier!r}]", budget.get(tier, 0)) for tier in known}


def parse_bytes(name: str, size: object) -> int:
    """An int, or a text: "20GB" is 20 * 10^9 bytes, "20GiB" 20 * 2^30.

    Raises:
        TypeError, ValueError: `<name>: expected ..., got ...`.
    """
    expected = "an int of bytes, or a text such as '20GB' or '20GiB'"
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if match is None or match[2] not in _UNITS:
            raise ValueError(f"{name}: expected {expected}, got {size!r}")
        return int(Fraction(match[1]) * _UNITS[match[2]])
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"{name}: expected {expected}, got {size!r}")
    count: int = size.__index__()
    if count < 0:
        raise ValueError(f"{name}: expected 0 bytes or more, got {count}")
    return count


# ---- sizes of allocations ------------------------------------------------------------------------


def gpu_bytes(count: int) -> int:
    """The most that torch's allocator takes for a tensor of `count` bytes.

    It rounds up to 512 bytes, and leaves up to 1 MiB after a tensor of more than that.
    """
    return -(-count // 512) * 512 + (_SMALL if count > _SMALL else 0)


def slot_bytes(count: int) -> int:
    """Bytes of a tensor within shared pinned memory: whole cache lines."""
    return -(-count // 64) * 64


def plain_bytes(count: int) -> int:
    """Bytes of a tensor in plain memory."""
    return count


# ---- placing -------------------------------------------------------------------------------------


class Need(NamedTuple):
    """Bytes of each tensor of streams that one tier must hold together."""

    keys: tuple[str, ...]
    values: tuple[int, ...]
    sides: tuple[int, ...]  # times, masks, row offsets, window offsets and normalization
    reads: int  # bytes of values read per sample

    @property
    def use(self) -> float:
        """Bytes read per sample for each resident byte."""
        return self.reads / max(sum(self.values), 1)


class Batches(NamedTuple):
    """Bytes of a loader's batches."""

    size: int  # samples of a full one
    one: int  # on the loader's device
    kept: int  # of reused buffers on the loader's device, which the user holds
    staged: int  # in pinned memory, between disk and GPU

    @property
    def held(self) -> int:
        """Bytes of all batches without prefetching."""
        return self.kept or (1 + BATCHES_HELD_BY_USER) * self.one

    @property
    def held_ahead(self) -> int:
        """Bytes of all batches with prefetching."""
        return (PREFETCH_DEPTH + 1) * self.one + (self.kept or BATCHES_HELD_BY_USER * self.one)

    def text(self, count: int) -> str:
        """A number of batches in words, for messages."""
        return f"{count} batch{'es' if count > 1 else ''} of {self.size} samples"

    @property
    def held_text(self) -> str:
        """The batches of `held` in words."""
        return self.text(1 if self.kept else 1 + BATCHES_HELD_BY_USER)


class BatchOptions(NamedTuple):
    """Options of a loader's batches."""

    windows: Sequence[WindowSpec]
    groups: Mapping[str, Sequence[str]]  # windows of each concatenated key
    with_age: bool
    order: Order  # of samples; it has the sizes of batches
    reuse: bool  # whether batches of one size share their tensors
    images: ImageStage | None = None  # makes the images of windows that have some


def place(
    wanted: BatchOptions,
    rows: Mapping[str, FileRows],
    tables: Sequence[int],
    limits: Mapping[Tier, int] | None,
    device: torch.device,
) -> dict[str, Tier]:
    """The tier of each window's stream, by key.

    Args:
        wanted: Options of the batches.
        rows: Rows of each window, by key.
        tables: Bytes of each tensor that all streams share.
        limits: The result of :func:`parse_budget`; None: all streams are on the device.
        device: Where batches are made.

    Raises:
        ValueError: `budget[<tier>]: expected at least ..., got ...`.
    """
    if limits is None:
        return dict.fromkeys(rows, own_tier(device))
    windows, groups, with_age, order, reuse, images = wanted
    by_key = {window.name: window for window in windows}
    needs = [
        _need([by_key[key] for key in keys], rows, with_age, device)
        for keys in together(windows, groups)
    ]
    take = gpu_bytes if device.type == "cuda" else plain_bytes
    outputs = Outputs(windows, groups, with_age, device, images=images)
    size = order.size(0)
    frames = [window for window in windows if rows[window.name].is_encoded]

    def of_batch(size: int) -> int:
        return outputs.nbytes(size, take) + _scratch_bytes(frames, rows, size, device, take)

    one, kept = of_batch(size), 0
    if reuse:  # and a smaller batch, of any size after a state of another batch size is loaded
        kept = one + (0 if order.drop_last else of_batch(size - 1))
    staged = 0
    if device.type == "cuda":
        undecoded = [window.name for window in frames]
        base = list(map(base_window, windows))
        slots = Outputs(base, groups, with_age, device, undecoded=undecoded)
        staged = slots.nbytes(size, slot_bytes)
        for window in frames:
            table, count = rows[window.name].frame_table, size * len(window.offsets)
            staged += _sum(slot_bytes, stage_sizes(table, count))
            staged += pinned_bytes(table.tables.nbytes)
    batches = Batches(size, one, kept, staged)
    if device.type == "cuda":
        return place_on_gpu(needs, tables, batches, limits)
    begins = 8 * (len(next(iter(rows.values())).offsets) - 1)
    return place_on_cpu(needs, tables, batches, begins, limits)


def place_on_gpu(
    needs: Sequence[Need],
    tables: Sequence[int],
    batches: Batches,
    limits: Mapping[Tier, int],
) -> dict[str, Tier]:
    """The tier of each stream's values, by key, of a loader on a GPU.

    Streams are placed in the order of their use: on the GPU until it is full, then in pinned
    memory; the rest stays on disk. If values are on the GPU or pinned, the stream's other tensors
    are on the GPU and are placed first. If any values are outside the GPU, batches are prefetched,
    and take memory too.

    Args:
        needs: Bytes of streams that are placed together.
        tables: Bytes of each tensor that all streams share.
        batches: Bytes of the batches.
        limits: Bytes of "gpu" and "pinned".

    Raises:
        ValueError: `budget[<tier>]: expected at least ..., got ...`.
    """
    shared = _sum(gpu_bytes, tables)
    whole = shared + batches.held
    whole += sum(_sum(gpu_bytes, need.values + need.sides) for need in needs)
    if whole <= limits["gpu"]:
        return {key: "gpu" for need in needs for key in need.keys}
    least = shared + batches.held_ahead
    if limits["gpu"] < least:
        of_batches = batches.text(PREFETCH_DEPTH + 1 + BATCHES_HELD_BY_USER)
        if whole < least:
            least, of_batches = whole, batches.held_text
        raise ValueError(
            f"budget['gpu']: expected at least {least} bytes, for what tells samples apart and "
            f"{of_batches}, got {limits['gpu']} (a smaller batch_size, shorter "
            "windows or fewer episodes need less)"
        )
    room, pinned = limits["gpu"] - least, limits["pinned"]
    placed = _place_by_use(needs, room, pinned)
    if "disk" in placed.values():
        staged = pinned_bytes((PREFETCH_DEPTH + 1) * batches.staged)
        if pinned < staged:
            raise ValueError(
                f"budget['pinned']: expected at least {staged} bytes, through which "
                f"{batches.text(PREFETCH_DEPTH + 1)} come from the disk, where "
                f"{_names(placed, 'disk')} would stay, got {pinned}"
            )
        placed = _place_by_use(needs, room, pinned - staged)
    return placed


def _place_by_use(needs: Sequence[Need], room: int, pinned: int) -> dict[str, Tier]:
    """Tiers by key, within `room` bytes of the GPU and `pinned` bytes of pinned memory."""
    order = sorted(needs, key=lambda need: -need.use)
    placed: dict[str, Tier] = {}
    near: list[Need] = []
    for need in order:
        sides = _sum(gpu_bytes, need.sides)
        if sides <= room:
            room -= sides
            near.append(need)
        else:
            placed |= dict.fromkeys(need.keys, "disk")
    for need in near:
        on_gpu, in_pinned = _sum(gpu_bytes, need.values), _sum(pinned_bytes, need.values)
        if on_gpu <= room:
            room -= on_gpu
            placed |= dict.fromkeys(need.keys, "gpu")
        elif in_pinned <= pinned:
            pinned -= in_pinned
            placed |= dict.fromkeys(need.keys, "pinned")
        else:
            room += _sum(gpu_bytes, need.sides)
            placed |= dict.fromkeys(need.keys, "disk")
    return placed


def place_on_cpu(
    needs: Sequence[Need],
    tables: Sequence[int],
    batches: Batches,
    begins: int,
    limits: Mapping[Tier, int],
) -> dict[str, Tier]:
    """The tier of each stream's values, by key, of a loader on a CPU: "ram" or "disk".

    Args:
        needs: Bytes of streams that are placed together.
        tables: Bytes of each tensor that all streams share.
        batches: Bytes of the batches.
        begins: Bytes of a stream's episode offsets, if its values stay on disk.
        limits: Bytes of "ram".

    Raises:
        ValueError: `budget['ram']: expected at least ..., got ...`.
    """
    least = sum(tables) + batches.held + sum(sum(n.sides) for n in needs)
    whole = least + sum(sum(need.values) for need in needs)
    if whole <= limits["ram"]:
        return {key: "ram" for need in needs for key in need.keys}
    least = min(least + begins * sum(len(need.keys) for need in needs), whole)
    room = limits["ram"] - least
    if room < 0:
        raise ValueError(
            f"budget['ram']: expected at least {least} bytes, for what tells samples apart, times "
            f"and {batches.held_text}, got {limits['ram']} (a smaller batch_size, shorter "
            "windows or fewer episodes need less)"
        )
    placed: dict[str, Tier] = {}
    for need in sorted(needs, key=lambda need: -need.use):
        values = sum(need.values)
        is_near = values <= room
        room -= values if is_near else 0
        placed |= dict.fromkeys(need.keys, "ram" if is_near else "disk")
    return placed


def together(
    windows: Sequence[WindowSpec], groups: Mapping[str, Sequence[str]]
) -> list[tuple[str, ...]]:
    """Keys of windows that one plan must have: those of a concatenation, and their references."""
    sets = {window.name: {window.name} for window in windows}
    links = [(keys[0], key) for keys in groups.values() for key in keys]
    links += [(w.name, w.relative_to.stream) for w in windows if w.relative_to is not None]
    for a, b in links:
        joint = sets[a] | sets[b]
        for key in joint:
            sets[key] = joint
    found = dict.fromkeys(
        tuple(w.name for w in windows if w.name in sets[window.name]) for window in windows
    )
    return list(found)


def _need(
    windows: Sequence[WindowSpec],
    rows: Mapping[str, FileRows],
    with_age: bool,
    device: torch.device,
) -> Need:
    sides: list[int] = []
    for window in windows:
        times, arrivals = reads_times(window, with_age), reads_arrivals(window, windows)
        sides += rows[window.name].side_bytes(times, arrivals, device)
        sides.append(8 * len(window.offsets))
        if window.normalization is not None:  # at most
            sides += [8 * len(window.normalization.subtract)] * 2
        if window.relative_to is not None:
            sides.append(4 * len(window.relative_to.columns))
    return Need(
        tuple(window.name for window in windows),
        tuple(max(count, 8) for w in windows for count in rows[w.name].value_bytes(device)),
        tuple(sides),
        round(sum(len(w.offsets) * rows[w.name].read_bytes(device) for w in windows)),
    )


def _scratch_bytes(
    frames: Sequence[WindowSpec],
    rows: Mapping[str, FileRows],
    size: int,
    device: torch.device,
    take: Callable[[int], int],
) -> int:
    """Bytes of frame numbers, the decoder's workspace and its streams, for `size` samples."""
    if not frames:
        return 0
    counts = [size * len(window.offsets) for window in frames]
    workspace = 0
    if device.type == "cuda":
        for window, count in zip(frames, counts, strict=True):
            layout = rows[window.name].frame_table.layout
            workspace += workspace_bytes(layout, count, True) + STREAM_BYTES
    return take(8 * sum(counts)) + take(workspace)


def _sum(take: Callable[[int], int], sizes: Iterable[int]) -> int:
    return sum(map(take, sizes))


def _names(placed: Mapping[str, Tier], tier: Tier) -> str:
    return ", ".join(key for key, where in placed.items() if where == tier)
