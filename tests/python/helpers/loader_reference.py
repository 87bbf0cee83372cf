"""A plain sequential loader: what the design says of a batch, one sample after the other.

It shares nothing with the library but the store's reader, whose arrays it looks at, and takes
windows by time from the plain alignment of reference.py. Times are Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import reference
import torch

import robocache as rc

VALUE_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8)
MASK64, MASK32 = 2**64 - 1, 2**32 - 1
GOLDEN = 0x9E3779B97F4A7C15
LATEST = 2**63 - 1


# ---- the order of samples ------------------------------------------------------------------------


def mix64(x: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, 2014)."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


def mix32(x: int) -> int:
    """The finalizer of MurmurHash3 (Appleby, 2011)."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B & MASK32
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & MASK32
    return x ^ (x >> 16)


def permute(seed: int, epoch: int, count: int, place: int) -> int:
    """The sample at a place of an epoch's order of `count`.

    A Feistel network (Luby and Rackoff, 1988) on numbers that are cut in two, one part of some bits
    and the other as small as it can be, walked until it ends below `count` (Black and Rogaway,
    2002).
    """
    key = mix64((mix64((seed + GOLDEN) & MASK64) + epoch) & MASK64)
    low, high = key & MASK32, (key >> 32) | 1
    rights = 2 ** ((count - 1).bit_length() // 2)
    lefts = -(-count // rights)
    x = place
    while True:
        left, right = divmod(x, rights)
        for turn in range(0, 8, 2):
            mixed = mix32((right + low + turn * high) & MASK32)
            left = (left + (mixed * lefts >> 32)) % lefts
            mixed = mix32((left + low + (turn + 1) * high) & MASK32)
            right ^= mixed % rights
        x = left * rights + right
        if x < count:
            return x


class Mixture(NamedTuple):
    """Parts that samples are drawn from: by weight, then any anchor of a part."""

    weights: Sequence[Fraction]
    counts: Sequence[int]  # anchors of each

    def index(self, seed: int, epoch: int, place: int) -> int:
        """The index of the sample at a place, counted through all parts."""
        key = mix64((mix64((seed + GOLDEN) & MASK64) + epoch) & MASK64)
        choice = mix64((key + (2 * place + 1) * GOLDEN) & MASK64)
        number = mix64((key + (2 * place + 2) * GOLDEN) & MASK64)
        part = 0
        while 2**64 * sum(self.weights[: part + 1]) // sum(self.weights) <= choice:
            part += 1
        return sum(self.counts[:part]) + number * self.counts[part] // 2**64


class Drawn(NamedTuple):
    """A batch of one rank, before anything was read for it."""

    epoch: int
    position: int  # of the global batch that it is a part of
    indices: list[int]


def draw(
    samples: int,
    batch_size: int,
    *,
    mixture: Mixture | None = None,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    rank: int = 0,
    ranks: int = 1,
    epoch: int = 0,
    position: int = 0,
    anchors: int | None = None,
) -> Iterator[Drawn]:
    """The batches of a rank from a position on, without end; of `anchors`, if they are more."""
    count = samples if anchors is None else anchors

    def index(place: int) -> int:
        if mixture is not None:
            return mixture.index(seed, epoch, place)
        return permute(seed, epoch, count, place) if shuffle else place

    while True:
        places = range(position + rank, min(position + ranks * batch_size, samples), ranks)
        yield Drawn(epoch, position, [index(place) for place in places])
        position += ranks * batch_size
        if samples - position < (ranks * batch_size if drop_last else ranks):
            epoch, position = epoch + 1, 0


# ---- anchors -------------------------------------------------------------------------------------


class Anchor(NamedTuple):
    """Where a sample stands."""

    episode: int  # its index in the store
    frame: int
    time: int  # ns


def row_anchors(
    store: rc.EpisodeStore, stream: str, episodes: Sequence[int] | None = None
) -> list[Anchor]:
    """Each row of a stream, in order."""
    chosen = range(len(store)) if episodes is None else episodes
    return [
        Anchor(episode, frame, int(time))
        for episode in chosen
        for frame, time in enumerate(store[episode][stream].times)
    ]


# ---- windows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """The window of a stream. `steps` and durations are ns, or rows with `by_rows`."""

    stream: str
    steps: Sequence[int]
    by_rows: bool = False
    layout: Sequence[tuple[str, int]] | None = None  # None: "linear" of floats, else "previous"
    causal: bool = True
    latency: int = 0
    outside: str = "hold"
    max_gap: int | None = None
    tolerance: int = 100_000
    mean_window: int | None = None
    subtract: Any = None  # [D]
    multiply: Any = None
    dtype: torch.dtype | None = None
    relative: tuple[Window, Sequence[int]] | None = (
        None  # to which, and to which columns [D]; or -1
    )


class Made(NamedTuple):
    """K steps of a window."""

    values: torch.Tensor  # [K, the row's shape...]
    is_pad: torch.Tensor  # [K]
    age: torch.Tensor  # [K] ns


class Rows(NamedTuple):
    """Rows of an episode."""

    values: torch.Tensor  # [n,D]
    times: list[int]
    valid: list[bool]


def make(store: rc.EpisodeStore, window: Window, anchor: Anchor) -> Made:
    """A window of one sample."""
    if window.relative is not None:
        return relative(store, window, anchor)
    shape = store.streams[window.stream].shape
    rows = rows_of(store, window.stream, anchor.episode)
    if window.by_rows:
        made = by_rows(rows, window, anchor)
    else:
        if is_causal(window):
            rows = known_at(store, rows, window, anchor)
        made = by_time(rows, window, anchor)
    return made._replace(values=made.values.reshape(len(window.steps), *shape))


def relative(store: rc.EpisodeStore, window: Window, anchor: Anchor) -> Made:
    """A window less another's value at the anchor, in its own compute type, and then scaled."""
    assert window.relative is not None
    to, columns = window.relative
    values_type = rows_of(store, window.stream, anchor.episode).values.dtype
    out_dtype = window.dtype or values_type
    compute = reference.compute_dtype(values_type, out_dtype)
    of = rows_of(store, to.stream, anchor.episode)
    of = of._replace(values=of.values.to(compute))
    # At the anchor, causal whatever steps it has itself.
    to = replace(to, steps=[0], subtract=None, multiply=None, dtype=compute)
    if is_causal(to):
        of = known_at(store, of, to, anchor)
    at_anchor = by_rows(of, to, anchor) if to.by_rows else by_time(of, to, anchor)
    plain = replace(window, relative=None, subtract=None, multiply=None, dtype=compute)
    made = make(store, plain, anchor)
    shape = made.values.shape
    x = made.values.reshape(len(window.steps), -1).clone()
    is_literal = literals(store, plain, anchor)
    width = x.shape[1]
    methods = [name for name, count in window.layout or [("linear", width)] for _ in range(count)]
    for c, column in enumerate(columns):
        if column < 0:
            continue
        less = x[:, c] - at_anchor.values[0, column]
        x[:, c] = wrapped(less) if methods[c] == "angle" else less
    for scale, apply in ((window.subtract, torch.sub), (window.multiply, torch.mul)):
        if scale is not None:
            x = apply(x, torch.as_tensor(scale, dtype=torch.float64).to(compute))
    x = torch.where(is_literal, made.values.reshape(x.shape), x)
    values = reference.rounded(x, out_dtype)[0].reshape(shape)
    return Made(values, made.is_pad | at_anchor.is_pad, made.age)


def is_causal(window: Window) -> bool:
    """Whether rows that had not arrived by the anchor do not exist, and the newest is held."""
    return not window.by_rows and window.causal and max(window.steps) <= 0


def wrapped(x: torch.Tensor) -> torch.Tensor:
    """Angles in (-pi, pi]."""
    pi = torch.tensor(math.pi, dtype=x.dtype)
    turned = torch.where(x > pi, x - 2 * pi, torch.where(x <= -pi, x + 2 * pi, x))
    for i in (
        torch.nonzero(x.abs() > 3 * pi).flatten().tolist()
    ):  # several turns: exactly, in float64
        turned[i] = math.remainder(float(x[i]), 2 * math.pi)
    return torch.where((turned <= -pi) | (turned > pi), pi, turned)


def literals(store: rc.EpisodeStore, window: Window, anchor: Anchor) -> torch.Tensor:
    """[K,D]: which elements stand for no value."""
    rows = rows_of(store, window.stream, anchor.episode)
    if is_causal(window):
        rows = known_at(store, rows, window, anchor)
    shape = len(window.steps), rows.values.shape[1]
    if not rows.times:
        return torch.ones(shape, dtype=torch.bool)
    if window.by_rows or window.outside not in ("zero", "nan"):
        return torch.zeros(shape, dtype=torch.bool)
    ones = rows._replace(values=torch.ones(rows.values.shape, dtype=torch.float32))
    return by_time(ones, replace(window, outside="nan", dtype=None), anchor).values.isnan()


def rows_of(store: rc.EpisodeStore, stream: str, episode: int) -> Rows:
    found = store[episode][stream]
    n = len(found)
    if store.streams[stream].type_name == "BF16":
        values = torch.from_numpy(found.values.view(np.uint16).copy()).view(torch.bfloat16)
    else:
        values = torch.from_numpy(found.values.copy())
    valid = [True] * n if found.valid is None else [bool(v) for v in found.valid]
    width = int(np.prod(store.streams[stream].shape, dtype=np.int64))
    return Rows(values.reshape(n, width), [int(t) for t in found.times], valid)


def known_at(store: rc.EpisodeStore, rows: Rows, window: Window, anchor: Anchor) -> Rows:
    """The rows that somebody who acts at the anchor's time has: as if the recording ended there."""
    received = store[anchor.episode][window.stream].received
    n = 0
    for time in rows.times:
        if time + window.latency > anchor.time:
            break
        if received is not None and received[n] > anchor.time:
            break
        n += 1
    return Rows(rows.values[:n], rows.times[:n], rows.valid[:n])


def by_time(rows: Rows, window: Window, anchor: Anchor) -> Made:
    """Alignment of the rows to the anchor's time plus the steps."""
    values = rows.values
    targets = [max(-LATEST - 1, min(anchor.time + step, LATEST)) for step in window.steps]
    out_dtype = window.dtype or values.dtype
    is_copied = values.dtype not in VALUE_TYPES
    if is_copied:  # align the numbers of rows, from 1 on; 0 is a literal zero
        source = torch.arange(1, len(rows.times) + 1, dtype=torch.float64).reshape(-1, 1)
    else:
        source = values
    default = "linear" if values.is_floating_point() else "previous"
    layout = window.layout or [(default, values.shape[1])]
    aligned = reference.align(
        source,
        torch.tensor(rows.times, dtype=torch.int64),
        torch.tensor(targets, dtype=torch.int64),
        layout=[(layout[0][0], 1)] if is_copied else layout,
        outside=window.outside,
        max_gap=window.max_gap,
        tolerance=window.tolerance,
        mean_window=window.mean_window,
        source_valid=torch.tensor(rows.valid, dtype=torch.bool),
        subtract=vector(window.subtract),
        multiply=vector(window.multiply),
        out_dtype=None if is_copied else out_dtype,
        holds_newest=is_causal(window),
    )
    if is_copied:
        zeros = torch.zeros(1, values.shape[1], dtype=values.dtype)
        made = torch.cat([zeros, values])[aligned.values[:, 0].long()]
    else:
        made = reference.rounded(aligned.values, out_dtype)[0]
    return Made(made, ~aligned.valid, aligned.age)


def vector(numbers: Any) -> torch.Tensor | None:
    return None if numbers is None else torch.as_tensor(numbers, dtype=torch.float64)


def by_rows(rows: Rows, window: Window, anchor: Anchor) -> Made:
    """Rows counted from the anchor's, those outside the episode in place of its first or last."""
    n, steps = len(rows.times), len(window.steps)
    out_dtype = window.dtype or rows.values.dtype
    values = torch.zeros(steps, rows.values.shape[1], dtype=out_dtype)
    is_pad = torch.ones(steps, dtype=torch.bool)
    age = torch.zeros(steps, dtype=torch.int64)
    for k, step in enumerate(window.steps):
        if n == 0:
            continue
        row = anchor.frame + step
        inside = min(max(row, 0), n - 1)
        x = rows.values[inside]
        if x.dtype in VALUE_TYPES:
            x = x.to(reference.compute_dtype(x.dtype, out_dtype))
            subtract, multiply = vector(window.subtract), vector(window.multiply)
            if subtract is not None:
                x = x - subtract.to(x.dtype)
            if multiply is not None:
                x = x * multiply.to(x.dtype)
            x = reference.rounded(x, out_dtype)[0]
        values[k] = x
        is_pad[k] = inside != row or not rows.valid[inside]
        age[k] = anchor.time - rows.times[inside]
    return Made(values, is_pad, age)


def batch(
    store: rc.EpisodeStore, window: Window, anchors: Sequence[Anchor], indices: Sequence[int]
) -> Made:
    """A window of several samples: [B,K,...], [B,K], [B,K]."""
    made = [make(store, window, anchors[i]) for i in indices]
    return Made(*(torch.stack(parts) for parts in zip(*made, strict=True)))


# ---- mixtures ------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A store of a mixture; its windows by the mixture's keys."""

    store: rc.EpisodeStore
    windows: dict[str, Window]
    anchors: Sequence[Anchor]


def mixed(parts: Sequence[Part], indices: Sequence[int]) -> dict[str, torch.Tensor]:
    """The samples of these indices: values, masks, ages and metadata."""
    whole = {key: whole_row(parts, key) for part in parts for key in part.windows}
    samples = []
    for index in indices:
        number, own = 0, index
        while own >= len(parts[number].anchors):
            own -= len(parts[number].anchors)
            number += 1
        part = parts[number]
        anchor = part.anchors[own]
        sample = {
            "index": torch.tensor(index),
            "dataset_index": torch.tensor(number),
            "episode_index": torch.tensor(anchor.episode),
            "frame_index": torch.tensor(anchor.frame),
            "timestamp_ns": torch.tensor(anchor.time),
        }
        for key, (row, is_vector) in whole.items():
            made = Made(row, torch.ones(len(row), dtype=torch.bool), torch.zeros(len(row)).long())
            width = 0
            if key in part.windows:
                made = make(part.store, part.windows[key], anchor)
                width = made.values.shape[-1] if is_vector else 0
            values = row.clone()
            values[..., : made.values.shape[-1]] = made.values
            sample |= {key: values, f"{key}_is_pad": made.is_pad, f"{key}_age": made.age}
            sample[f"{key}_dim_is_pad"] = torch.arange(row.shape[-1]) >= width
        samples.append(sample)
    return {key: torch.stack([sample[key] for sample in samples]) for key in samples[0]}


def whole_row(parts: Sequence[Part], key: str) -> tuple[torch.Tensor, bool]:
    """Zeros [K, ...] as wide as a key is anywhere; and whether its rows are vectors."""
    made = [
        make(part.store, part.windows[key], part.anchors[0]).values
        for part in parts
        if key in part.windows
    ]
    widest = max(made, key=lambda values: values.shape[-1])
    return torch.zeros_like(widest), widest.dim() == 2
