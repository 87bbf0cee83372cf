"""Replays recordings through the LiveAligner and compares the batches with the loader's bits."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core import config
from robocache.core.display import ShortRepr
from robocache.core.progress import Update, progress_bar
from robocache.jpeg import library as jpeg_library
from robocache.jpeg.frames import JpegFrames
from robocache.live.aligner import LiveAligner
from robocache.live.arguments import nanoseconds
from robocache.loader.loader import Extras, Loader, make_loader
from robocache.loader.memory.file_rows import find_rows
from robocache.loader.mixture.part_batch import as_in_mixture, own_streams
from robocache.loader.policy_spec import MixtureSpec, PolicySpec
from robocache.loader.window_spec import WindowSpec
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import StreamRows
from robocache.transform import transforms

_BUDGET = {"ram": "4GiB"}  # of rows; other rows are read from the store's files
_BLOCK = 256  # anchors compared in one batch
_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
_NO_ROWS = StreamRows(np.empty(0), np.empty(0, np.int64), None, None)
_FEW_ROWS = 16  # the capacity of a stream without a rate in the spec


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of a sequence of numbers."""

    p50: float | None
    """The median; None for an empty sequence."""
    p99: float | None
    """The quantile 0.99."""


@dataclass(frozen=True)
class StreamReplay:
    """Results of the replay of a stream."""

    windows: int
    """The number of windows that were compared."""
    differing_bits: int
    """The number of bits of values, masks and ages that differ. Bits of a `concat` key that
    transforms change are counted for its first stream."""
    steps: int
    """The number of steps of these windows."""
    padded: int
    """The number of steps that the aligner padded."""
    age_ms: Quantiles
    """The age of the last step of each window: the time from the newest row that it is computed
    from to the step, negative if that row is later; in windows by rows, from the row to the
    anchor."""
    latency_ms: Quantiles
    """The recorded time from measurement to arrival of rows."""
    by_arrival: bool
    """Whether rows were pushed at their arrival. Training computes windows by rows as if each row
    arrived at its time, so their rows are pushed at that time."""
    rows: int
    """The number of rows that were pushed."""
    overwritten: int
    """The number of rows that newer ones replaced in the ring, before a query took them."""
    given_up: int
    """The number of rows that the aligner dropped: they were too late, or from the future."""
    short_windows: int
    """The number of windows that reached back to rows that had been overwritten or dropped."""


@dataclass(frozen=True, repr=False)
class Replay(ShortRepr):
    """Results of a replay."""

    streams: Mapping[str, StreamReplay]
    """Results by stream, without streams whose windows reach into the future."""
    episodes: int
    """The number of replayed episodes."""
    anchors: int
    """The number of queries, each at an anchor."""
    query_us: Quantiles
    """The duration of a query in Python, in microseconds."""

    @property
    def differing_bits(self) -> int:
        """The number of differing bits of all streams."""
        return sum(stream.differing_bits for stream in self.streams.values())

    def as_json(self) -> dict[str, Any]:
        """The results as a dict of JSON values."""
        return {**asdict(self), "differing_bits": self.differing_bits}


def replay_store(
    store: EpisodeStore | str | os.PathLike[str],
    spec: PolicySpec | str | os.PathLike[str],
    *,
    episodes: Sequence[int] | slice | None = None,
    query_every_s: float | None = None,
    progress: bool | Update = True,
) -> Replay:
    """Replays a store's recordings through a LiveAligner, and compares it with the loader.

    Pushes each episode's rows in order of arrival: at the recorded ``received`` time, but no
    earlier than the stream's latency after their time. Queries the aligner at each anchor, or as
    rarely as `query_every_s` says, and at no other time: the rings overwrite what they would
    overwrite on the robot. Compares the batch bit by bit with the loader's causal windows on a CPU:
    values, masks and ages, of padded steps too, after the spec's transforms.

    Not covered: training ignores arrival times in windows by rows, and the replay pushes their rows
    at their times (``by_arrival``). If such a stream arrives late (``latency_ms``), the robot sees
    older rows than the replay.

    Args:
        store: The recordings.
        spec: The spec of the policy's training, or the path of its file.
        episodes: Indices of episodes, or a slice; None: all.
        query_every_s: The time between the policy's queries, in seconds, as LiveAligner takes it:
            the aligner is queried at the first anchor of an episode, and then at the first one
            that is at least this much later than the last. None: at all anchors, by an aligner
            with its default.
        progress: Whether to show a progress bar on a terminal or in a notebook; or a function,
            called with the number of completed anchors and the number of all.

    Raises:
        ValueError: The store lacks a stream of the spec, its stream differs from the spec's, or the
            loader refuses the store; a `query_every_s` that is negative.
        StoreError: The store is invalid.

    Example:
        >>> rc.replay_store("robot.store", "policy_spec.json").differing_bits
        0
    """
    if not isinstance(spec, PolicySpec):
        spec = PolicySpec.load(spec)
    if not isinstance(store, EpisodeStore):
        store = EpisodeStore(store)
    spec = _live_part(spec)
    loader: Loader = make_loader(
        {
            "store": store,
            "batch_size": 1,
            "episodes": episodes,
            "shuffle": False,
            "device": "cpu",
            "budget": _BUDGET,
            "rank": 0,
            "world_size": 1,
        },
        Extras(spec=spec if spec.mixture is None else own_streams(spec), is_quiet=True),
    )
    with progress_bar("replaying", progress) as update, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LiveAligner: ", UserWarning)  # the report has it
        return _Run(store, spec, loader, query_every_s).replay(update)


def _live_part(spec: PolicySpec) -> PolicySpec:
    """The spec of the windows that are computed at control time, with ages.

    Includes a stream that reaches past the anchor only if another one is relative to it, and then
    with its value at the anchor.
    """
    made = [stream for stream in spec.streams if not stream.reaches_ahead]
    references = {stream.relative_to.stream for stream in made if stream.relative_to is not None}
    streams = tuple(
        replace(stream, offsets=(0,), causal=stream.timeline == "time")
        if stream.reaches_ahead
        else stream
        for stream in spec.streams
        if not stream.reaches_ahead or stream.name in references
    )
    if not streams:
        raise ValueError("spec: expected a stream without steps past the anchor, got none")
    names = {stream.name for stream in streams}
    # The streams of a `concat` key have the same steps: all of them are included, or none.
    concat = {key: members for key, members in spec.concat.items() if names.issuperset(members)}
    alone = [s for s in streams if not any(s.name in members for members in concat.values())]
    keys = {spec.key_of(stream) for stream in alone} | set(concat)
    kept = [f for f in spec.transforms if not keys.isdisjoint(transforms.from_dict(f).keys)]
    return replace(
        spec,
        streams=streams,
        concat=concat,
        transforms=kept,
        with_age=True,
        mixture=spec.mixture and _with_streams(spec.mixture, names),
    )


def _with_streams(mixture: MixtureSpec, names: Collection[str]) -> MixtureSpec:
    """A mixture's part with some of its streams."""
    return replace(
        mixture,
        keys={name: key for name, key in mixture.keys.items() if name in names},
        padded_widths={n: width for n, width in mixture.padded_widths.items() if n in names},
        missing=tuple(name for name in mixture.missing if name in names),
    )


def _has_sum(stream: WindowSpec) -> bool:
    runs = [(stream.method, 0)] if isinstance(stream.method, str) else stream.method
    return stream.timeline == "time" and any(method == "sum" for method, _ in runs)


class _Arrivals:
    """The rows of a stream in an episode, in order of arrival.

    For windows by rows in order of time, since training ignores their arrival times.
    """

    def __init__(self, stream: WindowSpec, rows: StreamRows = _NO_ROWS) -> None:
        self.name = stream.name
        arrivals = rows.times
        if rows.received is not None:
            arrivals = np.maximum(arrivals, rows.received)
        arrivals = np.maximum(arrivals, rows.times + stream.latency_ns)
        self.latencies = arrivals - rows.times
        if stream.timeline == "rows":
            arrivals = rows.times
        times, values, valid = rows.times, rows.values, rows.valid
        if (np.diff(arrivals) < 0).any():  # rows already in order are not copied from their files
            order = np.argsort(arrivals, kind="stable")
            arrivals, times, values = arrivals[order], times[order], values[order]
            valid = None if valid is None else valid[order]
        self.arrivals, self.times, self.valid = arrivals, times, valid
        self.values: Any = values
        if not isinstance(values, JpegFrames):
            self.values = values.reshape(-1, *stream.shape)
        if stream.dtype == "BF16":  # the array holds the bits
            self.values = torch.from_numpy(np.array(self.values)).view(torch.bfloat16)
        self.done = 0

    def arrived_by(self, now_ns: int) -> int:
        """The number of rows that had arrived by a time."""
        return int(np.searchsorted(self.arrivals, now_ns, side="right"))

    def push_until(self, aligner: LiveAligner, end: int) -> None:
        """Pushes the rows before `end` that have not been pushed."""
        if self.done >= end:
            return
        rows = slice(self.done, end)
        valid = None if self.valid is None else self.valid[rows]
        if isinstance(self.values, JpegFrames):
            self._push_files(aligner, end)
        else:
            aligner.push_many(self.name, self.times[rows], self.values[rows], valid=valid)
        self.done = end

    def _push_files(self, aligner: LiveAligner, end: int) -> None:
        """Pushes JPEG frames; in place of those that a robot would refuse, what training had."""
        for i in range(self.done, end):
            time, valid = int(self.times[i]), self.valid is None or bool(self.valid[i])
            file, shape = self.values.files[i], self.values.frame_shape
            if not valid and jpeg_library.inspect_file(file)["status"] != jpeg_library.OK:
                aligner.push(self.name, time, np.zeros(shape, np.uint8), valid=False)
                continue
            try:
                aligner.push(self.name, time, file, valid=valid)
            except ValueError:  # a damaged frame
                aligner.push(self.name, time, self.values[i], valid=valid)


def _spaced(times: NDArray[np.int64], every_ns: int) -> NDArray[np.int64]:
    """Indices of ascending times: the first, and each that is `every_ns` or more after the last."""
    if every_ns <= 0:
        return np.arange(len(times))
    chosen = []
    index = 0
    while index < len(times):
        chosen.append(index)
        index = int(np.searchsorted(times, times[index] + every_ns))
    return np.array(chosen, np.int64)


class _Run:
    """The state of a replay."""

    def __init__(
        self, store: EpisodeStore, spec: PolicySpec, loader: Loader, query_every_s: float | None
    ) -> None:
        self.store, self.spec, self.loader = store, spec, loader
        self.query_every_s = query_every_s
        plan = loader._plan
        anchors = plan.anchors.numpy().view([("episode", "<i4"), ("frame", "<i4"), ("time", "<i8")])
        self.anchors = anchors.reshape(-1)
        self.episodes = plan.episodes[:, 0].numpy()
        names = [stream.name for stream in spec.streams]
        self.pushed = [stream for stream in spec.streams if not spec.lacks(stream)]
        self.bits = dict.fromkeys(names, 0)
        self.padded = dict.fromkeys(names, 0)
        self.ages: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
        self.latencies: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
        self.took: list[int] = []
        self.transforms = list(map(transforms.from_dict, spec.transforms))
        # The streams that each key concatenates; only the first for a key that transforms change.
        changed = {key for transform in self.transforms for key in transform.keys}
        alone = {
            spec.key_of(stream): [stream.name]
            for stream in spec.streams
            if not any(stream.name in of for of in spec.concat.values())
        }
        groups = {key: list(of)[: 1 if key in changed else None] for key, of in spec.concat.items()}
        self.parts: dict[str, list[str]] = alone | groups

    def replay(self, update: Update) -> Replay:
        """Replays all episodes."""
        every_ns = 0
        if self.query_every_s is not None:
            every_ns = nanoseconds("query_every_s", self.query_every_s)
        aligner = self._make_aligner()
        bounds = np.searchsorted(self.anchors["episode"], np.arange(len(self.episodes) + 1))
        for episode, index in enumerate(self.episodes):
            aligner.reset()
            streams = [
                _Arrivals(stream, *find_rows(self.store, stream.name, np.array([index])).pieces)
                for stream in self.pushed
            ]
            for stream in streams:
                self.latencies[stream.name].append(stream.latencies)
            first, last = int(bounds[episode]), int(bounds[episode + 1])
            anchors = first + _spaced(self.anchors["time"][first:last], every_ns)
            for begin in range(0, len(anchors), _BLOCK):
                block = anchors[begin : begin + _BLOCK]
                live = self._query(aligner, streams, block)
                batch = self.loader.gather(block)
                if self.spec.mixture is not None:
                    batch = as_in_mixture(self.spec, self.spec.mixture, batch)
                with config.config(backend="cpu"):
                    for transform in self.transforms:
                        batch = transform(batch)
                self._compare(live, batch)
                is_last = begin + _BLOCK >= len(anchors)
                update(last if is_last else int(block[-1]) + 1, len(self.anchors))
        return self._result(aligner)

    def _make_aligner(self) -> LiveAligner:
        unknown = {stream.name: _FEW_ROWS for stream in self.pushed if stream.rate is None}
        # The first step of a sum adds up all of an episode's rows, also those before its anchors.
        sums = {s.name: self.store.streams[s.name].rows for s in self.pushed if _has_sum(s)}
        rows = unknown | sums
        if self.query_every_s is None:
            return LiveAligner(self.spec, buffer_rows=rows, ring_rows=rows)
        return LiveAligner(
            self.spec, buffer_rows=rows, ring_rows=rows, query_every_s=self.query_every_s
        )

    def _query(
        self, aligner: LiveAligner, streams: Sequence[_Arrivals], anchors: NDArray[np.int64]
    ) -> dict[str, Tensor]:
        """The aligner's batches at anchors of an episode."""
        batches = []
        for now in self.anchors["time"][anchors].tolist():
            for stream in streams:
                stream.push_until(aligner, stream.arrived_by(now))
            start = time.perf_counter_ns()
            batches.append(aligner.query(now))
            self.took.append(time.perf_counter_ns() - start)
        return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}

    def _compare(self, live: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> None:
        for key, names in self.parts.items():
            values, expected = live[key], batch[key].reshape(live[key].shape)
            if len(names) == 1:
                self.bits[names[0]] += differing_bits(values, expected)
                continue
            widths = [self.spec.width_of(self.spec.stream(name)) for name in names]
            parts = zip(values.split(widths, -1), expected.split(widths, -1), strict=True)
            for name, (part, of_batch) in zip(names, parts, strict=True):
                self.bits[name] += differing_bits(part, of_batch)
        for stream in self.spec.streams:
            name, key = stream.name, self.spec.key_of(stream)
            mask, ages = live[f"{key}_is_pad"], live[f"{key}_age"]
            for part in ("is_pad", "age", "dim_is_pad"):
                if (of_key := f"{key}_{part}") in live:
                    self.bits[name] += differing_bits(live[of_key], batch[of_key])
            self.padded[name] += int(mask.sum())
            last, is_pad = (x.reshape(len(mask), -1)[:, -1] for x in (ages, mask))
            self.ages[name].append(last[~is_pad | (last != 0)].numpy())  # before rows it is 0

    def _result(self, aligner: LiveAligner) -> Replay:
        stats = aligner.stats()
        count = len(self.took)
        streams = {}
        for stream in self.spec.streams:
            name = stream.name
            of_stream = stats.get(name)  # None: the robot lacks it
            streams[name] = StreamReplay(
                windows=count,
                differing_bits=self.bits[name],
                steps=count * len(stream.offsets),
                padded=self.padded[name],
                age_ms=_quantiles(self.ages[name], 1e-6),
                latency_ms=_quantiles(self.latencies[name], 1e-6),
                by_arrival=stream.timeline == "time",
                rows=of_stream.pushed if of_stream else 0,
                overwritten=of_stream.overwritten if of_stream else 0,
                given_up=of_stream.too_late + of_stream.future if of_stream else 0,
                short_windows=of_stream.short_windows if of_stream else 0,
            )
        took = _quantiles([np.array(self.took, np.int64)], 1e-3)
        return Replay(streams, len(self.episodes), count, took)


def differing_bits(a: Tensor, b: Tensor) -> int:
    """The number of bits in which two tensors of one dtype and shape differ.

    Raises:
        ValueError: Tensors of different dtypes or shapes.
    """
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        raise ValueError(f"b: expected {a.dtype} {list(a.shape)}, got {b.dtype} {list(b.shape)}")
    x, y = (t.contiguous().reshape(-1).view(torch.uint8).numpy() for t in (a, b))
    return int(_BITS[x ^ y].sum(dtype=np.int64))


def _quantiles(parts: Sequence[NDArray[np.int64]], unit: float) -> Quantiles:
    numbers = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if not len(numbers):
        return Quantiles(None, None)
    p50, p99 = np.quantile(numbers, (0.5, 0.99)) * unit
    return Quantiles(float(p50), float(p99))
