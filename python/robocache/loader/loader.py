"""`Loader`: whole training batches from an episode store, one launch each."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

from robocache.core.checks import check_bool, check_functions, check_text
from robocache.core.display import ByName
from robocache.image.augment import Augmentations
from robocache.loader import device as _device
from robocache.loader import plan_inputs as _inputs
from robocache.loader.batch_source import BatchSource
from robocache.loader.contents import Contents
from robocache.loader.engine import make_engine
from robocache.loader.foreign_options import refuse_foreign, with_hints
from robocache.loader.images.stage import make_stage
from robocache.loader.make_policy_spec import make_policy_spec
from robocache.loader.memory.file_rows import find_rows
from robocache.loader.memory.tiers import BatchOptions, Budget
from robocache.loader.mixture.mixture import mixture as _mixture
from robocache.loader.outputs import Batch, check_concat, check_names
from robocache.loader.padding import examine
from robocache.loader.parsing import parse_options, parse_spec
from robocache.loader.plan_inputs import PlanInputs
from robocache.loader.policy_spec import PolicySpec
from robocache.loader.recipe import Recipe, snapshot_arguments
from robocache.loader.sampling import anchors as _anchors
from robocache.loader.sampling.episodes import Episodes, as_episodes, choose_episodes
from robocache.loader.sampling.identity import identify
from robocache.loader.sampling.rank_sharding import shard_episodes
from robocache.loader.sampling.sampler import find_ranks, make_order
from robocache.loader.stats import Counters
from robocache.loader.stream_normalization import batch_scales
from robocache.loader.window import Offsets, Relative, Window
from robocache.normalization.formulas import Normalization, NormalizationMode
from robocache.normalization.normalizer import Normalizer
from robocache.normalization.parse_statistics import Statistics
from robocache.store.episode_store import EpisodeStore
from robocache.transform.transforms import check_order, from_dict

if TYPE_CHECKING:
    from typing_extensions import Self


class Extras(NamedTuple):
    """Options of a loader that its users do not choose."""

    find_anchors: Callable[..., _anchors.Array] = _inputs.find_anchors
    """Which rows are anchors; data sets of other libraries have rules of their own."""
    finish: Callable[[Batch], Batch] | None = None
    """Turns a batch into one with the keys and shapes of another library."""
    is_quiet: bool = False
    """Whether to skip the warnings and the error about padding."""
    spec: PolicySpec | None = None
    """In place of the options that declare windows."""


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

    Args:
        store: An :class:`EpisodeStore`, or its folder. The loader reads it whole, once; with a
            budget, streams that do not fit stay in its files and are read with every batch.
        batch_size: B, of each rank. The last batch of an epoch may be smaller.
        windows: A :class:`Window` for each stream of the batch, by its name. A list of seconds, or
            None, stands for a window with defaults: ``{"state": [-0.02, 0.0], "action":
            rc.Window([0.0, 0.02], max_gap_s=0.1)}``. None: every stream, at the anchor.
        delta_timestamps: `windows` under LeRobot's name.
        anchor: The stream whose rows are anchors, by default the first of the batch; or a rate in
            Hz, for anchors at its ticks from each episode's start.
        episodes: The :class:`Episodes` to draw from; indices or a slice stand for
            ``rc.Episodes(indices)``.
        shuffle: Whether an epoch is a permutation of the samples, or their order.
        seed: Decides the permutation, with the epoch's number.
        drop_last: Whether a smaller last batch is left out.
        normalize: A mode for each stream, as :func:`normalization` has it, in place of
            ``rc.Window(normalize=)``; or a :class:`Normalizer`.
        statistics: In place of the store's: the result of :func:`compute_stats`; or by stream
            ``mean``, ``std``, ``min``, ``max``, ``q01`` and so on, or a :class:`Normalization`.
            Those of relative windows are of the differences.
        concat: ``{"obs": ["joints", "gripper"]}``: these stand side by side under one key. Masks
            keep their own.
        with_age: Whether batches have ages.
        device: Where the store lives and batches are made. None: "cuda" where there is one.
        budget: The most bytes to hold, by tier: ``{"gpu": "20GB", "pinned": "64GB"}``, on a CPU
            ``{"ram": "8GiB"}``; ints too. The streams that are used most come first; the rest is
            read from the store's files. None: all of it is on the device. Not counted are batches
            that the caller keeps, and those of transforms and :meth:`gather`; docs/loader.md has
            the details.
        rank: The number of this loader among those that share an epoch. None: as torch.distributed
            says, where it is initialized.
        world_size: The number of these loaders.
        reuse_buffers: Whether a batch is overwritten by the next one of its size, also one of
            :meth:`gather`, in place of new tensors; a CUDA graph can hold :meth:`next` then.
        augment: Random steps for color images, such as ``[rc.RandomCrop(0.95),
            rc.ColorJitter(brightness=0.3)]``; or a preset: ``"openpi"``, ``"octo"``, ``"lerobot"``,
            ``"diffusion_policy"``; of all cameras, or a dict by stream. Draws depend on seed, epoch
            and sample alone. :meth:`gather` and :attr:`dataset` have images without them, but for
            the centers of random crops.
        transforms: Functions of a batch and a ``torch.Generator`` on its device, which return a
            batch. The generator is seeded anew for each, by seed, epoch, position and rank.
        name: Its name in :func:`robocache.metrics`; None: that of the store's folder. Loaders of
            one name are counted together.

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
        ...     windows={
        ...         "state": rc.Window([-0.02, 0.0], max_gap_s=0.1),
        ...         "action": rc.Window([i * 0.02 for i in range(100)], normalize="min_max"),
        ...     },
        ... )
        >>> for batch in loader:
        ...     loss = policy(batch["state"], batch["action"], batch["action_is_pad"])
    """

    @with_hints("rc.Loader")
    def __init__(
        self,
        store: EpisodeStore | str | os.PathLike[str],
        batch_size: int,
        windows: Mapping[str, Window | Offsets] | None = None,
        *,
        delta_timestamps: Mapping[str, Window | Offsets] | None = None,
        anchor: str | float | None = None,
        episodes: Episodes | Sequence[int] | slice | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        normalize: Mapping[str, NormalizationMode] | Normalizer | None = None,
        statistics: Mapping[str, Statistics] | None = None,
        concat: Mapping[str, Sequence[str]] | None = None,
        with_age: bool = False,
        device: torch.device | str | None = None,
        budget: Budget | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        reuse_buffers: bool = False,
        augment: Augmentations | None = None,
        transforms: Sequence[Callable[[Batch, torch.Generator], Batch]] = (),
        name: str | None = None,
    ) -> None:
        arguments = {k: v for k, v in locals().items() if k != "self"}
        self._build(arguments, Extras())

    @classmethod
    @with_hints("rc.Loader.from_spec")
    def from_spec(
        cls,
        store: EpisodeStore | str | os.PathLike[str],
        spec: PolicySpec | str | os.PathLike[str],
        batch_size: int,
        *,
        episodes: Episodes | Sequence[int] | slice | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        device: torch.device | str | None = None,
        budget: Budget | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        reuse_buffers: bool = False,
        augment: Augmentations | None = None,
        name: str | None = None,
    ) -> Self:
        """A loader with the windows, anchors, normalization and transforms of a policy spec.

        Its batches are those of the loader that the spec is of, on this store. The spec decides
        `windows`, `anchor`, `normalize`, `statistics`, `concat`, `with_age` and `transforms`.

        Args:
            store: An :class:`EpisodeStore`, or its folder, with the spec's streams.
            spec: A :class:`PolicySpec` of any version, or its file.
            batch_size: As of :class:`Loader`, and so are the others.
            episodes: See :class:`Loader`.
            shuffle: See :class:`Loader`.
            seed: See :class:`Loader`.
            drop_last: See :class:`Loader`.
            device: See :class:`Loader`.
            budget: See :class:`Loader`.
            rank: See :class:`Loader`.
            world_size: See :class:`Loader`.
            reuse_buffers: See :class:`Loader`.
            augment: See :class:`Loader`; its random crops have the centers that the spec has.
            name: See :class:`Loader`.

        Raises:
            ValueError: The spec is not valid, or the store lacks one of its streams or has it with
                other rows; and what :class:`Loader` raises.

        Example:
            >>> loader = rc.Loader.from_spec("robot.store", "policy_spec.json", batch_size=256)
        """
        given = {k: v for k, v in locals().items() if k not in ("cls", "spec")}
        if isinstance(spec, PolicySpec):
            spec = PolicySpec.from_json(spec.to_json(), "spec")  # which validates it
        else:
            spec = PolicySpec.load(spec)
        return make_loader(given, Extras(spec=spec), cls)

    def _build(self, arguments: dict[str, Any], extras: Extras) -> None:
        """Makes the batch source of options that are all there.

        Args:
            arguments: Every parameter of the constructor, by its name.
            extras: What users do not choose.
        """
        arguments = snapshot_arguments(arguments)
        store, transforms = arguments["store"], arguments["transforms"]
        concat, with_age = arguments["concat"], arguments["with_age"]
        if not isinstance(store, EpisodeStore):
            if not isinstance(store, (str, os.PathLike)):
                kind = type(store).__name__
                raise TypeError(f"store: expected an EpisodeStore or its folder, got {kind}")
            store = EpisodeStore(store)
        arguments["store"] = store
        for option in ("shuffle", "drop_last", "with_age", "reuse_buffers"):
            check_bool(option, arguments[option])
        check_functions("transforms", transforms)
        spec = extras.spec
        parsed = (
            parse_options(store, arguments) if spec is None else parse_spec(store, spec, arguments)
        )
        windows, rate = parsed.specs, parsed.rate
        streams = [window.name for window in windows]
        episodes = as_episodes(arguments["episodes"])
        chosen = choose_episodes(store, episodes)
        of_anchor = find_rows(store, parsed.anchor, chosen) if parsed.anchor is not None else None
        found = extras.find_anchors(
            store,
            chosen,
            of_anchor,
            rate,
            episodes.drop_n_first_frames,
            episodes.drop_n_last_frames,
            episodes.time_ranges,
        )
        rank, world_size = arguments["rank"], arguments["world_size"]
        rank, world_size = find_ranks(rank, world_size)
        arguments |= {"rank": rank, "world_size": world_size}  # a pickled loader keeps its rank
        table, count = _inputs.episode_table(store, chosen), len(found)
        is_split = not episodes.replicate and world_size > 1
        by = rate if parsed.anchor is None else parsed.anchor
        identity = identify(store, table, found, by, episodes, world_size if is_split else 1)
        if is_split:
            share = shard_episodes(store, chosen, found, streams, rank, world_size)
            chosen, found, count = share
            table = _inputs.episode_table(store, chosen)
            of_anchor = of_anchor and find_rows(store, of_anchor.info.name, chosen)
        batch_size, seed = arguments["batch_size"], arguments["seed"]
        shuffle, drop_last = arguments["shuffle"], arguments["drop_last"]
        order = make_order(count, batch_size, seed, shuffle, drop_last, rank, world_size, is_split)
        check_names(windows, with_age)
        groups = check_concat(concat, windows)
        check_order(transforms, parsed.modes, groups)
        where = _device.find_device(arguments["device"])
        windows, rows = _inputs.find_streams(
            store,
            chosen,
            windows,
            of_anchor,
            with_age,
            parsed.default_tolerances,
        )
        samples = PlanInputs(windows, {}, found, table)
        images = make_stage(windows, parsed.augments, where)
        reuse = arguments["reuse_buffers"]
        wanted = BatchOptions(windows, groups, with_age, order, reuse, images)
        is_loud = not extras.is_quiet
        summary = examine(windows, rows, found, table, is_loud, is_loud and rank == 0)
        name = check_text("name", arguments["name"])
        counters = Counters(name or Path(store.path).absolute().name)
        engine = make_engine(samples, rows, wanted, arguments["budget"], where, counters)
        is_quiet = extras._replace(is_quiet=True)  # it has warned here
        recipe = Recipe(
            make_loader, {"arguments": arguments, "extras": is_quiet, "kind": type(self)}
        )
        contents = Contents(
            store=store,
            windows=windows,
            anchor=parsed.anchor,
            rate=rate,
            relative=parsed.relative,
            modes=parsed.modes,
            concat=groups,
            with_age=with_age,
            has_budget=arguments["budget"] is not None,
            transforms=tuple(transforms),
            finish=extras.finish,
            plan=engine.plan,
            decoder=engine.outputs.decoder,
            images=engine.outputs.images,
            order=order,
            identity=identity,
            counters=counters,
            summary=summary,
            recipe=recipe,
        )
        super().__init__(
            engine,
            order,
            identity,
            where,
            transforms,
            counters,
            summary,
            recipe,
            extras.finish,
            contents,
        )
        self.store = store
        """The store that it draws from."""
        self.normalization: Mapping[str, Normalization] = ByName(
            {w.name: w.normalization for w in windows if w.normalization is not None}
        )
        """Scale and offset of the streams that have some: ``x = y / multiply + subtract``."""
        self.relative: Mapping[str, Relative] = ByName(parsed.relative)
        """The reference of each relative stream, by key."""

    def normalizer(self) -> Normalizer:
        """The normalizer of its batches: :meth:`Normalizer.inverse` inverts it.

        Streams that are concatenated (`concat`) are one key, as in the batch.
        """
        return Normalizer(batch_scales(self._own.windows, self._own.concat, self._own.modes))

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

    mixture = staticmethod(_mixture)

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


LoaderT = TypeVar("LoaderT", bound=Loader)


def make_loader(
    arguments: Mapping[str, Any],
    extras: Extras,
    kind: type[LoaderT] = Loader,  # type: ignore[assignment]
) -> LoaderT:
    """A loader with options that users do not choose.

    Args:
        arguments: Parameters of :class:`Loader`, by their names; the others have their defaults.
        extras: The options that users do not choose.
        kind: The loader's class.

    Raises:
        TypeError: The arguments have a name that :class:`Loader` lacks.
    """
    parameters = inspect.signature(Loader).parameters
    refuse_foreign(Loader, arguments)
    defaults = {name: p.default for name, p in parameters.items()}
    of_spec: dict[str, Any] = {}
    if (spec := extras.spec) is not None:
        transforms = tuple(map(from_dict, spec.transforms))
        of_spec = {"concat": spec.concat, "with_age": spec.with_age, "transforms": transforms}
    loader = kind.__new__(kind)
    loader._build({**defaults, **arguments, **of_spec}, extras)
    return loader
