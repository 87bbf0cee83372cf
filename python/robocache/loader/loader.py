"""`Loader`: whole training batches from an episode store, one launch each."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from robocache.core import call_counts, config
from robocache.core.display import ByName, listed
from robocache.core.names import Method, Outside
from robocache.datasets.diffusion_policy import FromDiffusionPolicy
from robocache.datasets.lerobot import FromLeRobot
from robocache.datasets.robomimic import FromRobomimic
from robocache.loader import device as _device
from robocache.loader import samples as _samples
from robocache.loader import windows as _windows
from robocache.loader.dataset import Dataset
from robocache.loader.engine import Engine, make_engine
from robocache.loader.foreign_options import refuse_data_loader, refuse_foreign
from robocache.loader.memory.file_rows import find_rows
from robocache.loader.memory.tiers import Budget, Wanted
from robocache.loader.mixture.mixture import FromLoaders
from robocache.loader.outputs import Batch, check_concat, check_names
from robocache.loader.padding import examine
from robocache.loader.relative import Relative, check_relative, check_statistics, make_relative
from robocache.loader.samples import Samples
from robocache.loader.sampling import anchors as _anchors
from robocache.loader.sampling.anchors import Ranges, Split
from robocache.loader.sampling.rank_sharding import shard_episodes
from robocache.loader.sampling.sampler import Order, derived_seed, find_ranks, make_order
from robocache.loader.sampling.sampler_state import SamplerState
from robocache.loader.scales import make_scales
from robocache.loader.spec import WithSpec
from robocache.loader.stats import Counters, LoaderStats, register
from robocache.loader.summary import LoaderSummary
from robocache.loader.windows import Images, Offsets, PerKey, Timeline, WindowOptions
from robocache.normalization.formulas import Normalization, NormalizationMode
from robocache.normalization.normalizer import Normalizer
from robocache.normalization.parse_statistics import Statistics
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import Episode
from robocache.transform.transforms import check_order


class Loader(
    FromLeRobot, FromRobomimic, FromDiffusionPolicy, FromLoaders, WithSpec, IterableDataset[Batch]
):
    """Whole training batches of windows of recordings, from a store that lives on the device.

    A sample stands at an *anchor*: a row of one stream, or a tick of a fixed rate. Of each stream
    it has K steps, at offsets from there. One launch makes a batch: it draws the anchors, finds
    episodes and rows, aligns, normalizes, casts and writes values, masks and metadata. The meaning
    of alignment is that of :func:`robocache.fuse`; docs/loader.md has the rest.

    ``for batch in loader`` gives what is left of an epoch; iterating again, the next one. A batch
    is a dict of tensors on the device, B samples:

    - ``<key>``: [B,K, the row's shape...] of each stream; without K where its offsets are None.
    - ``<key>_is_pad``: [B,K] bool, True where the value is not valid: it lies outside the episode,
      in a gap, or is made from rows that are not real.
    - ``<key>_age``, with `with_age`: [B,K] int64 ns, the time of the step less that of the newest
      row its value is made from; by row, the time of the anchor less that of the row.
    - ``index`` (what :meth:`gather` takes), ``episode_index`` (in the store), ``frame_index`` (the
      anchor's row or tick), ``task_index`` (-1: none), ``timestamp_ns``: [B] int64.
      ``timestamp``: [B] float32, seconds from the episode's start.

    When it is made, it looks at up to 1,000 samples (:meth:`summary`), and warns (``UserWarning``)
    of keys of which more than half is padded, and of streams without `max_gap_s` whose values are
    valid across silences of more than 5 of their periods. docs/padding.md says what ``is_pad``
    means.

    Options that are *by key* take one value for all streams, or a mapping with a value for some.

    Args:
        store: An :class:`EpisodeStore`, or its folder. It is read whole, once; with a budget, what
            has no room stays in its files and is read with every batch.
        batch_size: B, of each rank. The last batch of an epoch may be smaller.
        delta_timestamps: Offsets in seconds for each stream of the batch, as LeRobot has them:
            ``{"state": [-0.1, 0.0], "action": [0.0, 0.02, ...]}``. None in place of a list: at the
            anchor, without an axis of steps. Without this and `delta_ns`, all streams so.
        delta_ns: The same in nanoseconds, for keys that are not in `delta_timestamps`.
        anchor: The stream whose rows are anchors. None: the first of the batch.
        rate: Anchors at this rate in Hz, from each episode's start on, in place of rows.
        timeline: By key: ``"time"``, rows are found by their times; or ``"rows"``, they are
            counted: ``round(offset * rate)`` rows from the anchor's, those outside the episode
            being its first or last, padded. None: as the store says of the stream.
        method: By key, how rows combine, as in :func:`robocache.fuse`; None: as the store says.
        outside: By key, ``"hold"``, ``"zero"``, ``"nan"`` or ``"extrapolate"``: what lies before
            the first row and, in windows that are not causal, after the last.
        max_gap_s: By key: what is made from rows farther apart, or away, is padded. Seconds.
        tolerance_s: By key: a row this close to a step is the answer alone, but for methods mean
            and sum. By rows: how far an offset may be from a whole number of them. None: 1e-4; by
            time 0 for a stream whose rows are so close that this would span them.
        mean_window_s: By key, the window of method ``"mean"``.
        latency_s: By key, how long a row takes to arrive at least; ``received`` may be later.
        causal: By key. True: a window by time whose offsets are all 0 or less sees the rows that
            had arrived by the anchor's time, as if the recording ended there, and holds the newest
            of them: valid within `max_gap_s`. False: all rows.
        episodes: Indices of episodes, or a slice. These five choose together.
        tasks: Names of tasks, or one.
        subset: The name of a subset of the store.
        predicate: Called with each :class:`Episode` that the others choose.
        split: ``("train", 0.1)`` or ``("validation", 0.1)``: all but a tenth of the store's
            episodes, or that tenth.
        split_seed: Draws that tenth. It is not `seed`, so that both parts stay apart.
        time_ranges: Anchors in these ranges only: (begin, end) in seconds from an episode's start,
            the end left out, for all episodes or by the episode's index.
        drop_n_first_frames: So many anchors at the start of each episode are left out.
        drop_n_last_frames: So many at its end.
        shuffle: Whether an epoch is a permutation of the samples, or their order.
        seed: Decides the permutation, with the epoch's number.
        drop_last: Whether a smaller last batch is left out.
        normalize: A mode for each stream, as :func:`normalization` has it; or a Normalizer.
        statistics: In place of the store's: what :func:`compute_stats` gives; or by stream
            ``mean``, ``std``, ``min``, ``max``, ``q01`` and so on, or a :class:`Normalization`.
        dtype: By key, the type of the output: float16, bfloat16, float32, float64 or uint8. None:
            the stream's.
        images: By key: ``"stored"``, pictures as they are, uint8 [H,W,C]; ``"float"``, float32
            [C,H,W] from 0 to 1.
        relative: ``{"action": "state"}``: from each value of an action, that of the state at the
            anchor is subtracted, before it is normalized; or a :class:`Relative`, which says of
            which channels. Padded where either is. `statistics` are then those of the differences.
        concat: ``{"obs": ["joints", "gripper"]}``: these stand side by side under one key. Masks
            keep their own.
        with_age: Whether ages are wanted.
        device: Where the store lives and batches are made. None: "cuda" where there is one.
        budget: Bytes that it may hold, by tier: ``{"gpu": "20GB", "pinned": "64GB"}``, on a CPU
            ``{"ram": "8GiB"}``; ints too. The streams that are used most come first; what has no
            room is read from the store's files. None: all of it is on the device. Batches that you
            keep and what transforms and :meth:`gather` make are not counted; docs/loader.md has
            the rest.
        rank: Which of several loaders this is, that share out an epoch. None: as torch.distributed
            says, where it is initialized.
        world_size: How many they are.
        replicate: Whether each rank holds all episodes. False: each holds a share of them, by
            bytes, and draws from it alone, in an order of its own.
        reuse_buffers: Whether a batch is overwritten by the next one of its size, also one of
            :meth:`gather`, in place of new tensors; a CUDA graph can hold :meth:`next` then.
        transforms: Functions of a batch and a ``torch.Generator`` on its device, which return a
            batch. The generator is seeded anew for each, by seed, epoch, position and rank.
        name: What :func:`robocache.metrics` calls it; None: as the store's folder is named.
            Loaders of one name are counted together.

    Raises:
        ValueError: For an option that does not fit the store, a stream it lacks, no samples, a
            window that is not valid at any of them, rows that did not arrive in order for a causal
            window, a tolerance that spans rows, a budget that is too small.
        TypeError: For an argument of a wrong type.
        StoreError: For a folder that is no store.
        torch.OutOfMemoryError: If the streams do not fit the device; before any is loaded.

    Example:
        >>> loader = rc.Loader(
        ...     "robot.store",
        ...     batch_size=256,
        ...     delta_timestamps={"state": [-0.02, 0.0], "action": [i * 0.02 for i in range(100)]},
        ...     normalize={"action": "min_max"},
        ... )
        >>> for batch in loader:
        ...     loss = policy(batch["state"], batch["action"], batch["action_is_pad"])
    """

    def __init__(
        self,
        store: EpisodeStore | str | os.PathLike[str],
        batch_size: int,
        delta_timestamps: Mapping[str, Offsets] | None = None,
        *,
        delta_ns: Mapping[str, Sequence[int] | None] | None = None,
        anchor: str | None = None,
        rate: float | None = None,
        timeline: PerKey[Timeline] | None = None,
        method: PerKey[Method] | None = None,
        outside: PerKey[Outside] = "hold",
        max_gap_s: PerKey[float | None] = None,
        tolerance_s: PerKey[float | None] = None,
        mean_window_s: PerKey[float | None] = None,
        latency_s: PerKey[float] = 0.0,
        causal: PerKey[bool] = True,
        episodes: Sequence[int] | slice | None = None,
        tasks: str | Sequence[str] | None = None,
        subset: str | None = None,
        predicate: Callable[[Episode], bool] | None = None,
        split: Split | None = None,
        split_seed: int = 0,
        time_ranges: Ranges | Mapping[int, Ranges] | None = None,
        drop_n_first_frames: int = 0,
        drop_n_last_frames: int = 0,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        normalize: Mapping[str, NormalizationMode] | Normalizer | None = None,
        statistics: Mapping[str, Statistics] | None = None,
        dtype: PerKey[torch.dtype | None] = None,
        images: PerKey[Images] = "stored",
        relative: Mapping[str, str | Relative] | None = None,
        concat: Mapping[str, Sequence[str]] | None = None,
        with_age: bool = False,
        device: torch.device | str | None = None,
        budget: Budget | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        replicate: bool = True,
        reuse_buffers: bool = False,
        transforms: Sequence[Callable[[Batch, torch.Generator], Batch]] = (),
        name: str | None = None,
        # Of data sets of other libraries: which rows are anchors, and what batches are made into.
        _find_anchors: Callable[..., _anchors.Array] = _samples.find_anchors,
        _finish: Callable[[Batch], Batch] | None = None,
        # For loaders that the library makes: no warning and no error about padding.
        _is_quiet: bool = False,
        **foreign: NoReturn,
    ) -> None:
        arguments = snapshot_arguments(
            {k: v for k, v in locals().items() if k not in ("self", "foreign")}
        )
        if foreign:
            refuse_foreign(Loader, foreign)
        if not isinstance(store, EpisodeStore):
            if not isinstance(store, (str, os.PathLike)):
                kind = type(store).__name__
                raise TypeError(f"store: expected an EpisodeStore or its folder, got {kind}")
            store = EpisodeStore(store)
        arguments["store"] = store
        for option in ("shuffle", "drop_last", "with_age", "replicate", "reuse_buffers"):
            config.check_bool(option, arguments[option])
        config.check_functions("transforms", transforms)

        steps = _windows.all_steps(store.streams, delta_timestamps, delta_ns)
        streams = {key: store.streams[key] for key in steps}
        scales = make_scales(streams, normalize, statistics)
        relations = check_relative(relative, tuple(streams))
        check_statistics(relations, normalize, statistics)
        options = WindowOptions(
            timeline,
            method,
            outside,
            max_gap_s,
            tolerance_s,
            mean_window_s,
            latency_s,
            causal,
            dtype,
            images,
        )
        _windows.check_keys(tuple(streams), options)
        _windows.check_count(len(streams))
        windows = [
            _windows.make_window(info, steps[key], options, scales.get(key), rate is None)
            for key, info in streams.items()
        ]
        _windows.check_used(windows, options)
        windows = make_relative(windows, relations, lambda key: _windows.is_causal(options, key))
        chosen = _anchors.choose_episodes(
            store, episodes, tasks, subset, predicate, split, split_seed
        )
        if rate is None:
            of_anchor = find_rows(store, _anchors.anchor_stream(store, anchor, streams), chosen)
        else:
            if anchor is not None:
                raise ValueError(f"anchor: expected None with a rate, got {anchor!r}")
            of_anchor, rate = None, _anchors.check_rate(rate)
        found = _find_anchors(
            store, chosen, of_anchor, rate, drop_n_first_frames, drop_n_last_frames, time_ranges
        )
        rank, world_size = find_ranks(rank, world_size)
        arguments |= {"rank": rank, "world_size": world_size}  # a pickled loader keeps its rank
        table, identity = _samples.episode_table(store, chosen), _samples.identity(store)
        count, whole = len(found), None
        if is_split := not replicate and world_size > 1:
            whole = derived_seed(_samples.samples_fingerprint(found, table, identity), world_size)
            share = shard_episodes(store, chosen, found, streams, rank, world_size)
            chosen, found, count = share
            table = _samples.episode_table(store, chosen)
            of_anchor = of_anchor and find_rows(store, of_anchor.info.name, chosen)
        order = make_order(count, batch_size, seed, shuffle, drop_last, rank, world_size, is_split)
        check_names(windows, with_age)
        groups = check_concat(concat, windows)
        named = normalize.normalization if isinstance(normalize, Normalizer) else normalize
        check_order(transforms, named or (), groups)
        where = _device.find_device(device)
        windows, rows = _samples.find_streams(
            store,
            chosen,
            windows,
            of_anchor,
            with_age,
            _windows.default_tolerances(tuple(streams), options),
        )
        samples = Samples(windows, {}, found, table, identity, whole)
        wanted = Wanted(windows, groups, with_age, order, reuse_buffers)
        self._summary = examine(
            windows, rows, found, table, not _is_quiet, not _is_quiet and rank == 0
        )
        counters = Counters(config.check_text("name", name) or Path(store.path).absolute().name)
        engine = make_engine(samples, rows, wanted, budget, where, counters)
        self.store = store
        """The store that it draws from."""
        self.normalization: Mapping[str, Normalization] = ByName(
            {w.name: w.normalization for w in windows if w.normalization is not None}
        )
        """Scale and offset of the streams that have some: ``x = y / multiply + subtract``."""
        self.relative: Mapping[str, Relative] = ByName(relations)
        """What streams are relative to, by key."""
        self._windows = windows
        self._anchor, self._rate = of_anchor and of_anchor.info.name, rate
        self._finish = _finish
        mark = samples.fingerprint
        self._init_runtime(engine, order, mark, where, transforms, counters, arguments)

    def _init_runtime(
        self,
        engine: Engine,
        order: Order,
        identity: int,
        device: torch.device,
        transforms: Sequence[Callable[[Batch, torch.Generator], Batch]],
        counters: Counters,
        arguments: dict[str, Any],
    ) -> None:
        """What is left to do when it is known what batches are made of, and which come when."""
        self.device = device
        """Where batches are."""
        self.name = counters.name
        """What :func:`robocache.metrics` calls it."""
        self._arguments = arguments
        self._order = order
        self._transforms = tuple(transforms)
        self._generator = torch.Generator(device) if self._transforms else None
        self._engine = engine
        self._plan, self._outputs, self._disk, self._ahead = engine
        self._index = device.index if device.type == "cuda" else None
        self._sampler_state = SamplerState(order, identity, device)
        if self._index is not None:
            # Whatever stream batches are made on, all of this is there by then.
            torch.cuda.synchronize(self._index)
        self._counters = counters
        counters.sample_bytes = engine.outputs.sample_bytes
        register(self, counters)
        self._forks = _device.forks

    @property
    def dataset(self) -> Dataset:
        """Its samples one by one, to look at: ``loader.dataset[7]``."""
        # Not kept: a loader that refers to itself holds its memory until Python looks for cycles.
        return Dataset(self, len(self._plan.anchors))

    # ---- batches ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._order.batches

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the epoch.

        Raises:
            RuntimeError: In a worker of a torch DataLoader, each of which would give all samples.
            ValueError: In a torch DataLoader with a batch size, which would join whole batches.
        """
        refuse_data_loader()
        worker = get_worker_info()
        if worker is not None:
            raise RuntimeError(
                "Loader: expected no worker processes (it makes whole batches by itself: iterate "
                "over it, or give a DataLoader batch_size=None and num_workers=0), got worker "
                f"{worker.id} of {worker.num_workers}"
            )
        return self._rest_of_epoch()

    def _rest_of_epoch(self) -> Iterator[Batch]:
        sampler_state = self._sampler_state
        if sampler_state.is_captured:
            sampler_state.catch_up()
        epoch = sampler_state.epoch
        while sampler_state.epoch == epoch:
            yield self.next()

    def __getitem__(self, index: object) -> NoReturn:
        """Refuses: samples are in :attr:`dataset`, batches of them are made by :meth:`gather`.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "Loader: expected no index (loader.dataset[0] is sample 0, loader.gather([0, 7]) a "
            "batch of samples, loader.next() the next batch, loader.store[0] an episode), got "
            f"{index!r}"
        )

    def next(self) -> Batch:
        """The next batch; after an epoch's last, the first of the next epoch.

        Does not wait for the GPU, nor make it wait. With rows on disk the host waits for a batch
        that is not there yet, and for the GPU once it is a few batches ahead of it: :meth:`stats`
        counts both.

        Raises:
            RuntimeError: If the GPU refuses the launch; in the child of a fork, on CUDA; and while
                a CUDA graph is captured, with transforms, batches of several sizes, or a budget
                that leaves rows outside the GPU.
            torch.OutOfMemoryError: If the batch does not fit.
        """
        if self._forks != _device.forks:
            self._after_fork()
        index = self._index
        if index is not None:
            if torch._C._cuda_getDevice() != index:
                with torch.cuda.device(index):
                    return self.next()
            if torch._C._cuda_isCurrentStreamCapturing():
                self._engine.check_capture(self._transforms)
                self._sampler_state.check_capture()
                return self._draw(is_capturing=True)
            if self._sampler_state.is_captured:
                self._sampler_state.catch_up()
        return self._draw(is_capturing=False)

    def _draw(self, is_capturing: bool) -> Batch:
        order, outputs, sampler_state, index = (
            self._order,
            self._outputs,
            self._sampler_state,
            self._index,
        )
        epoch, position = sampler_state.epoch, sampler_state.position
        size = order.size(position)
        stream = 0
        if index is not None:
            stream = torch._C._cuda_getCurrentRawStream(index)
            torch._C._nvtx.rangePushA("robocache.Loader.next")
        try:
            if self._ahead is not None:
                batch = self._ahead.next(epoch, position)
            else:
                batch = outputs.take(size)
                windows, metadata = outputs.windows_address, outputs.facts_address
                self._plan.next(sampler_state.state_address, size, windows, metadata, stream)
        finally:
            if index is not None:
                torch._C._nvtx.rangePop()
        if is_capturing:
            sampler_state.is_captured = (
                True  # nothing has run: replays will move the device's state
            )
        else:
            sampler_state.advance()
            self._counters.batches += 1
            self._counters.samples += size
            call_counts.calls["Loader.next", self.device.type] += 1
        if self._finish is not None:
            batch = self._finish(batch)
        if self._generator is not None:
            self._generator.manual_seed(derived_seed(order.key, epoch, position + order.rank))
            for transform in self._transforms:
                batch = transform(batch, self._generator)
        return batch

    def gather(self, indices: Sequence[int] | np.ndarray[Any, Any] | Tensor) -> Batch:
        """The samples of these indices, in this order, without transforms.

        Args:
            indices: [B] integers from 0 to the number of samples less 1, in any order, also twice.
                A tensor on the loader's GPU is taken as it is: an index out of range gives a sample
                of zeros there, all padded, with index -1, since looking would mean waiting. With
                rows on disk it is looked at.

        Raises:
            TypeError: They are no integers.
            ValueError: They are out of range (not so on a GPU), or have more than one axis.
        """
        if self._forks != _device.forks:
            self._after_fork()
        index = self._index
        stream = 0
        if index is not None:
            if torch._C._cuda_getDevice() != index:
                with torch.cuda.device(index):
                    return self.gather(indices)
            stream = torch._C._cuda_getCurrentRawStream(index)
        batch = self._engine.gather(indices, self.device, stream)
        size = batch["timestamp"].size(0)
        self._counters.gathered += size
        call_counts.calls["Loader.gather", self.device.type] += 1
        return batch if self._finish is None else self._finish(batch)

    # ---- where it is -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, int]:
        """Where it is: a few integers, of which :meth:`load_state_dict` goes on.

        They say nothing of ranks and batch size: a run may go on with others. Waits for the GPU
        where a CUDA graph may have moved it.
        """
        return self._sampler_state.state()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on where a loader of the same samples and seed was.

        The samples that follow are those that would have followed there, in the same order. Where
        too few are left in the epoch for this number of ranks, or a whole batch under `drop_last`,
        the next epoch begins.

        Raises:
            TypeError, ValueError: It is the state of other samples, another seed or order, or none.
        """
        self._sampler_state.load(state)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of an epoch; where it is in that epoch already, stays there.

        Trainers that call this before each epoch may so resume in the middle of one.

        Raises:
            TypeError, ValueError: It is no int, or below 0.
        """
        self._sampler_state.set_epoch(epoch)

    def stats(self) -> LoaderStats:
        """What it has made so far, and what it holds."""
        return self._counters.stats()

    def summary(self) -> LoaderSummary:
        """A table of the batch's streams: rate, offsets, method, share padded, ages.

        Shares and ages are of up to 1,000 samples, which the loader looks at when it is made.
        Print it, or let a notebook show it.

        Example:
            >>> print(loader.summary())
        """
        return self._summary

    # ---- other processes -------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        # The store opens again where it is loaded.
        arguments = self._arguments | {"_is_quiet": True}  # it has warned here
        return _rebuild_loader, (type(self), arguments, self.state_dict())

    def _after_fork(self) -> None:
        if self._index is not None:
            raise RuntimeError(
                "Loader: expected the process that made it, or one that was spawned, got the child "
                "of a fork: CUDA does not survive that"
            )
        # The threads of the parent are gone, and OpenMP would wait for them.
        torch.set_num_threads(1)
        self._forks = _device.forks

    def __repr__(self) -> str:
        return f"Loader({self._words()}: {listed(self._outputs.keys)})"

    def _words(self) -> str:
        batches = f"{len(self)} batches of {self._order.batch_size} on {self.device}"
        return f"{len(self.dataset)} samples, {batches}"

    def _repr_html_(self) -> str:
        return self._summary.html(f"Loader: {self._words()}")


def snapshot_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments that stay what they are, whatever the caller does to lists and mappings later.

    What is the caller's own (stores, functions) is not copied.
    """
    own = ("store", "predicate", "transforms")
    return {
        name: value if name in own or name.startswith("_") else copy.deepcopy(value)
        for name, value in arguments.items()
    }


def _rebuild_loader(kind: type[Loader], arguments: dict[str, Any], state: dict[str, int]) -> Loader:
    loader = kind(**arguments)
    loader.load_state_dict(state)
    return loader
