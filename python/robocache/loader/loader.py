"""`Loader`: whole training batches from an episode store, one launch each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

from robocache.core import config
from robocache.core.display import ByName
from robocache.core.names import Method, Outside
from robocache.loader import device as _device
from robocache.loader import plan_inputs as _inputs
from robocache.loader import windows as _windows
from robocache.loader.batch_source import BatchSource
from robocache.loader.contents import Contents
from robocache.loader.engine import make_engine
from robocache.loader.foreign_options import refuse_foreign
from robocache.loader.make_policy_spec import make_policy_spec
from robocache.loader.memory.file_rows import find_rows
from robocache.loader.memory.tiers import BatchOptions, Budget
from robocache.loader.mixture.mixture import mix_loaders
from robocache.loader.outputs import Batch, check_concat, check_names
from robocache.loader.padding import examine
from robocache.loader.plan_inputs import PlanInputs
from robocache.loader.policy_spec import PolicySpec
from robocache.loader.recipe import Recipe, snapshot_arguments
from robocache.loader.relative import Relative, check_relative, check_statistics, make_relative
from robocache.loader.sampling import anchors as _anchors
from robocache.loader.sampling.anchors import Ranges, Split
from robocache.loader.sampling.rank_sharding import shard_episodes
from robocache.loader.sampling.sampler import derived_seed, find_ranks, make_order
from robocache.loader.stats import Counters
from robocache.loader.stream_normalization import batch_scales, make_scales
from robocache.loader.windows import Images, Offsets, PerKey, Timeline, WindowOptions
from robocache.normalization.formulas import Normalization, NormalizationMode
from robocache.normalization.normalizer import Normalizer
from robocache.normalization.parse_statistics import Statistics
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import Episode
from robocache.transform.transforms import check_order


class Loader(BatchSource):
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
        _find_anchors: Callable[..., _anchors.Array] = _inputs.find_anchors,
        _finish: Callable[[Batch], Batch] | None = None,
        # For loaders that the library makes: no warning and no error about padding.
        _is_quiet: bool = False,
        **foreign: NoReturn,
    ) -> None:
        arguments = snapshot_arguments({k: v for k, v in locals().items() if k != "foreign"})
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
        table, identity = _inputs.episode_table(store, chosen), _inputs.identity(store)
        count, whole = len(found), None
        if is_split := not replicate and world_size > 1:
            whole = derived_seed(_inputs.samples_fingerprint(found, table, identity), world_size)
            share = shard_episodes(store, chosen, found, streams, rank, world_size)
            chosen, found, count = share
            table = _inputs.episode_table(store, chosen)
            of_anchor = of_anchor and find_rows(store, of_anchor.info.name, chosen)
        order = make_order(count, batch_size, seed, shuffle, drop_last, rank, world_size, is_split)
        check_names(windows, with_age)
        groups = check_concat(concat, windows)
        named = normalize.normalization if isinstance(normalize, Normalizer) else normalize
        check_order(transforms, named or (), groups)
        where = _device.find_device(device)
        windows, rows = _inputs.find_streams(
            store,
            chosen,
            windows,
            of_anchor,
            with_age,
            _windows.default_tolerances(tuple(streams), options),
        )
        samples = PlanInputs(windows, {}, found, table, identity, whole)
        wanted = BatchOptions(windows, groups, with_age, order, reuse_buffers)
        summary = examine(windows, rows, found, table, not _is_quiet, not _is_quiet and rank == 0)
        counters = Counters(config.check_text("name", name) or Path(store.path).absolute().name)
        engine = make_engine(samples, rows, wanted, budget, where, counters)
        recipe = Recipe(type(self), arguments | {"_is_quiet": True})  # it has warned here
        contents = Contents(
            store=store,
            windows=windows,
            anchor=None if of_anchor is None else of_anchor.info.name,
            rate=rate,
            relative=relations,
            normalize=arguments["normalize"] or {},
            concat=arguments["concat"] or {},
            with_age=with_age,
            has_budget=budget is not None,
            transforms=tuple(transforms),
            finish=_finish,
            plan=engine.plan,
            order=order,
            fingerprint=samples.fingerprint,
            counters=counters,
            summary=summary,
            recipe=recipe,
        )
        super().__init__(
            engine,
            order,
            samples.fingerprint,
            where,
            transforms,
            counters,
            summary,
            recipe,
            _finish,
            contents,
        )
        self.store = store
        """The store that it draws from."""
        self.normalization: Mapping[str, Normalization] = ByName(
            {w.name: w.normalization for w in windows if w.normalization is not None}
        )
        """Scale and offset of the streams that have some: ``x = y / multiply + subtract``."""
        self.relative: Mapping[str, Relative] = ByName(relations)
        """References of relative streams, by key."""

    def normalizer(self) -> Normalizer:
        """The normalizer of its batches: :meth:`Normalizer.inverse` inverts it.

        Streams that are concatenated (`concat`) are one key, as in the batch.
        """
        return Normalizer(batch_scales(self._own.windows, self._own.concat, self._own.normalize))

    def spec(self, *, training_only: Sequence[Callable[..., Any]] = ()) -> PolicySpec:
        """The policy spec: how batches are made, for a robot that computes the same inputs.

        Reads the times of the store's rows, for their rates.

        Args:
            training_only: Those of its `transforms` that the robot skips, such as noise. The others
                need a `to_dict`, which those of ``rc.transforms`` have.

        Raises:
            TypeError, ValueError: A transform that can't be serialized, or reads another step than
                the anchor's; a window of the past, or a reference, with ``causal=False``; or a
                loader with batches of another library.

        Example:
            >>> loader.spec().save("policy_spec.json")
        """
        return make_policy_spec(self._own, training_only)

    @property
    def _own(self) -> Contents:
        assert self._contents is not None
        return self._contents

    # ---- other constructors ----------------------------------------------------------------------

    mixture = staticmethod(mix_loaders)

    @staticmethod
    def from_lerobot(
        source: Any, delta_timestamps: Any = None, *, batch_size: int, **options: Any
    ) -> Loader:
        """A loader of a LeRobot data set: see :func:`robocache.datasets.from_lerobot`."""
        import robocache

        return robocache.datasets.from_lerobot(
            source, delta_timestamps, batch_size=batch_size, **options
        )

    @staticmethod
    def from_robomimic(
        path: str | os.PathLike[str],
        seq_length: int = 1,
        frame_stack: int = 1,
        *,
        batch_size: int,
        **options: Any,
    ) -> Loader:
        """A loader of a robomimic file: see :func:`robocache.datasets.from_robomimic`."""
        import robocache

        return robocache.datasets.from_robomimic(
            path, seq_length, frame_stack, batch_size=batch_size, **options
        )

    @staticmethod
    def from_diffusion_policy(
        path: str | os.PathLike[str], horizon: int, *, batch_size: int, **options: Any
    ) -> Loader:
        """A loader of a replay buffer: see :func:`robocache.datasets.from_diffusion_policy`."""
        import robocache

        return robocache.datasets.from_diffusion_policy(
            path, horizon, batch_size=batch_size, **options
        )
