"""Mixtures of loaders, whose samples are drawn by weight: ``Loader.mixture``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch

from robocache.core.checks import check_bool, check_functions, check_integer, check_text
from robocache.core.display import ShortRepr, counted, listed
from robocache.loader.batch_source import BatchSource
from robocache.loader.contents import Contents
from robocache.loader.device import on_device
from robocache.loader.engine import Engine
from robocache.loader.foreign_options import with_hints
from robocache.loader.make_policy_spec import find_rates, make_spec
from robocache.loader.mixture import parts as _parts
from robocache.loader.mixture.join_parts import (
    join_anchors,
    join_episodes,
    make_images,
    make_parts,
    mean_reads,
    resident_bytes,
)
from robocache.loader.mixture.part_spec import PartWindows, part_windows
from robocache.loader.outputs import (
    DATASET,
    DIM_PAD,
    METADATA,
    Batch,
    Outputs,
    check_concat,
    check_names,
)
from robocache.loader.plan import BatchPlan
from robocache.loader.plan import Mixture as Mixing
from robocache.loader.policy_spec import PolicySpec
from robocache.loader.recipe import Recipe, snapshot_arguments
from robocache.loader.sampling.identity import join
from robocache.loader.sampling.sampler import find_ranks, make_order
from robocache.loader.stats import Counters
from robocache.loader.summary import mixture_summary
from robocache.loader.window import Relative
from robocache.normalization.formulas import Normalization
from robocache.store.episode_store import EpisodeStore
from robocache.transform.transforms import check_order

_MOST_SAMPLES = 2**62


@dataclass(frozen=True, repr=False)
class MixturePart(ShortRepr):
    """A loader of a mixture, by the mixture's keys and indices."""

    store: EpisodeStore
    """Its store."""
    share: float
    """Its fraction of the drawn samples."""
    indices: range
    """Its samples, as :meth:`Loader.gather` of the mixture indexes them."""
    normalization: Mapping[str, Normalization]
    """Scale and offset of normalized keys, by their names in the mixture."""
    relative: Mapping[str, Relative]
    """References of relative keys, by their names in the mixture."""


class Mixture(BatchSource):
    """A mixture of loaders: :meth:`Loader.mixture` makes it and describes its batches.

    It has no `store`, `normalization` and `relative`: its `parts` do.
    """

    def __init__(
        self,
        loaders: Sequence[BatchSource],
        weights: Sequence[float],
        samples: int,
        batch_size: int,
        *,
        keys: Sequence[Mapping[str, str]] | None,
        seed: int,
        drop_last: bool,
        concat: Mapping[str, Sequence[str]] | None,
        rank: int | None,
        world_size: int | None,
        reuse_buffers: bool,
        transforms: Sequence[Callable[[Batch, torch.Generator], Batch]],
        name: str | None,
    ) -> None:
        arguments = snapshot_arguments(
            {
                key: value
                for key, value in locals().items()
                if key not in ("self", "loaders", "__class__")
            }
        )
        for option in ("drop_last", "reuse_buffers"):
            check_bool(option, arguments[option])
        check_functions("transforms", transforms)
        contents = _check_loaders(loaders)
        device, with_age = loaders[0].device, contents[0].with_age
        shares = _parts.check_weights(weights, len(contents))
        samples = arguments["samples"] = check_integer("samples", samples, 1, _MOST_SAMPLES)
        rank, world_size = find_ranks(rank, world_size)
        arguments |= {"rank": rank, "world_size": world_size}  # a pickled mixture keeps its rank
        _check_shares(contents, rank, world_size)
        order = make_order(samples, batch_size, seed, True, drop_last, rank, world_size)
        names_of = _parts.check_keys(keys, [[w.name for w in of.windows] for of in contents])
        parts = make_parts(contents, names_of)
        agreed = _parts.agree(parts)
        check_names(agreed.windows, with_age, "keys", agreed.widths)
        widths = [key + DIM_PAD for key in agreed.widths]
        groups = check_concat(concat, agreed.windows, (*METADATA, DATASET, *widths))
        _parts.check_groups(groups, parts)
        scaled = {key for part in parts for key in part.scales}
        check_order(transforms, scaled, groups)
        begins = [0]
        for of in contents:
            begins.append(begins[-1] + len(of.plan.anchors))
        thresholds = _parts.make_thresholds(shares)
        with on_device(device):
            streams, mixed = _parts.make_streams(agreed, parts, device)
            plan = BatchPlan(
                [stream.spec for stream in streams],
                [stream.data for stream in streams],
                join_anchors([of.plan.anchors for of in contents], parts),
                join_episodes([of.plan.episodes for of in contents]),
                order,
                Mixing(
                    torch.tensor(begins[: len(thresholds) + 1], device=device),
                    # The bits of unsigned 64-bit integers; the last is not read.
                    torch.tensor([_signed(t) for t in thresholds[:-1]] + [0], device=device),
                ),
            )
            kept = [of.decoder for of in contents]
            decoder = _parts.make_decoder(agreed, parts, device, kept)
            images = make_images(contents, names_of, order.seed, device)
        full = order.size(0) if reuse_buffers else None
        outputs = Outputs(
            agreed.windows,
            groups,
            with_age,
            device,
            full,
            mixed,
            decoder=decoder,
            images=images,
        )
        names = [of.counters.name for of in contents]
        counters = Counters(check_text("name", name) or "+".join(dict.fromkeys(names)))
        counters.sample_reads = mean_reads(contents, [float(share) for share in shares])
        counters.resident = resident_bytes(contents, parts, streams, device)
        counters.frames = sum(
            float(share) * of.counters.frames for share, of in zip(shares, contents, strict=True)
        )
        if decoder is not None:
            counters.damaged.append(decoder.damaged)
        super().__init__(
            Engine(plan, outputs),
            order,
            join([of.identity for of in contents], thresholds, samples),
            device,
            transforms,
            counters,
            mixture_summary([of.summary for of in contents], names_of, samples),
            # Recipes and not the loaders, whose anchors would stay in memory beside these.
            Recipe(_mix_rebuilt, {"recipes": [of.recipe for of in contents]} | arguments),
        )
        self.parts = [
            MixturePart(
                of.store,
                float(share),
                range(begin, end),
                part.scales,
                {new[key]: replace(to, to=new[to.to]) for key, to in of.relative.items()},
            )
            for of, share, begin, end, part, new in zip(
                contents, shares, begins[:-1], begins[1:], parts, names_of, strict=True
            )
        ]
        """The loaders that it draws from; ``dataset_index`` is an index into them."""
        # Windows for `spec`, and not the loaders' contents, whose tables would stay in memory.
        self._part_windows = [
            PartWindows.of(contained, new, part.first_episode)
            for contained, new, part in zip(contents, names_of, parts, strict=True)
        ]
        self._agreed, self._groups, self._with_age = agreed, groups, with_age

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("store", "normalization", "relative"):
            raise AttributeError(
                f"{name}: expected a loader of one store, got a mixture (mixture.parts[i].{name} "
                "is that of its loader i)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def normalizer(self) -> NoReturn:
        """Refuses: each part has a normalization of its own.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "loader: expected a loader of one store, got a mixture (each of its loaders has a "
            "normalizer)"
        )

    def spec(
        self, part: int | None = None, *, training_only: Sequence[Callable[..., Any]] = ()
    ) -> PolicySpec:
        """The policy spec for a robot like that of one of its loaders.

        The robot pushes rows under the names that the loader's store has, and its batches have the
        mixture's keys, widths and masks, with the normalization of that loader.

        Reads the times of the store's rows, for their rates.

        Args:
            part: The loader's index, that of `parts` and of ``dataset_index``; None: the only one.
            training_only: As in :meth:`Loader.spec`.

        Raises:
            TypeError, ValueError: No loader has this index; or as :meth:`Loader.spec`.

        Example:
            >>> mixture.spec(0).save("policy_spec.json")
        """
        count = len(self.parts)
        if part is None and count > 1:
            raise ValueError(
                f"part: expected 0 to {count - 1}, the index of the loader whose robot it is for, "
                "got None"
            )
        number = check_integer("part", 0 if part is None else part, 0, count - 1)
        own = self._part_windows[number]
        windows, groups, mixture = part_windows(
            number, self._part_windows, self._agreed, self._groups
        )
        episodes = self._plan.episodes[own.first_episode :][: own.episodes]
        return make_spec(
            windows,
            find_rates(own.store, own.windows, episodes),
            own.anchor,
            own.rate,
            groups,
            self._with_age,
            own.modes,
            self._transforms,
            training_only,
            mixture,
        )

    def __repr__(self) -> str:
        return f"Loader.mixture({self._words()}: {listed(self._outputs.keys)})"

    def _words(self) -> str:
        loaders, batches = counted(len(self.parts), "loader"), counted(len(self), "batch")
        samples = counted(self._order.samples, "sample")
        return (
            f"{loaders}, {samples} an epoch of {len(self.dataset):,}, {batches} of "
            f"{self._order.batch_size} on {self.device}"
        )


@with_hints("rc.Loader.mixture")
def mixture(
    loaders: Sequence[BatchSource],
    weights: Sequence[float],
    samples: int,
    batch_size: int,
    *,
    keys: Sequence[Mapping[str, str]] | None = None,
    seed: int = 0,
    drop_last: bool = False,
    concat: Mapping[str, Sequence[str]] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    reuse_buffers: bool = False,
    transforms: Sequence[Callable[[Batch, torch.Generator], Batch]] = (),
    name: str | None = None,
) -> Mixture:
    """A loader whose batches mix the samples of several loaders, in one launch each.

    Each sample is drawn independently: a loader by weight, then one of that loader's samples with
    equal probability. So an epoch of `samples` may have a sample twice, and leave others out.

    Each loader keeps its store, anchors, windows and statistics; its batch size, order, ranks and
    buffers have no effect. The mixture shares its streams without copying them. A batch has the
    keys of all loaders, as :class:`Loader` describes them, and

    - ``dataset_index``: [B] int64, the index of a sample's loader in `loaders`. ``episode_index``
      and ``task_index`` are of that loader's store.
    - ``<key>_dim_is_pad``: [B,D] bool, of a key whose vectors differ in width between loaders:
      True for elements that the sample's loader lacks. They are 0, after normalization.

    If a loader lacks a key, its samples have zeros for it, all padded, in every dimension.

    ``index`` and :meth:`Loader.gather` number the samples of the first loader, then those of the
    second, and so on. A state resumes with the same loaders, weights and `samples`, on any number
    of ranks; with a loader of ``rc.Episodes(replicate=False)``, on the same number.

    Args:
        loaders: One loader per dataset, on one device and with one `with_age`; without budget, and
            without transforms and concat, which the mixture takes.
        weights: Numbers of 0 or more, proportional to how often each loader is drawn. They are
            taken exactly: fractions are the same on every machine. 0: only `gather` reads it.
        samples: The number of samples in an epoch.
        batch_size: B, of each rank.
        keys: For each loader, new names of some of its keys: ``[{"qpos": "state"}, {}]``. Windows
            of one name must have the same number of steps, the same axis of steps or none, one
            type, and rows of one shape; vectors may differ in width.
        seed: Determines the draws, with the epoch's number.
        drop_last: As in :class:`Loader`, and so are the next options.
        concat: By the mixture's keys.
        rank: The index of this loader among those that share an epoch.
        world_size: The number of such loaders.
        reuse_buffers: Whether a batch is overwritten by the next one of its size.
        transforms: Functions of a batch and a generator.
        name: None: the names of the loaders, joined by +.

    Raises:
        ValueError: Loaders, keys or weights that do not fit each other; more than 64 windows.
        TypeError: An argument of a wrong type.

    Example:
        >>> loader = rc.Loader.mixture([aloha, droid], [0.3, 0.7], 10**6, batch_size=256)
        >>> for batch in loader:
        ...     is_pad = batch["action_is_pad"][..., None] | batch["action_dim_is_pad"][:, None]
        ...     loss = (policy(batch) - batch["action"]).square()[~is_pad].mean()
    """
    return Mixture(
        loaders,
        weights,
        samples,
        batch_size,
        keys=keys,
        seed=seed,
        drop_last=drop_last,
        concat=concat,
        rank=rank,
        world_size=world_size,
        reuse_buffers=reuse_buffers,
        transforms=transforms,
        name=name,
    )


def _mix_rebuilt(recipes: Sequence[Recipe], **arguments: Any) -> Mixture:
    """A mixture of loaders that are built again, from a pickle."""
    return Mixture([recipe.build() for recipe in recipes], **arguments)


def _check_loaders(loaders: Any) -> list[Contents]:
    """Checks that loaders can be mixed, and returns what they are made of.

    Raises:
        TypeError, ValueError: `loaders[<i>]: expected ..., got ...`.
    """
    if not isinstance(loaders, Sequence):
        raise TypeError(f"loaders: expected a list of rc.Loader, got {type(loaders).__name__}")
    if not loaders:
        raise ValueError("loaders: expected at least 1, got none")
    found: list[Contents] = []
    for i, loader in enumerate(loaders):
        if not isinstance(loader, BatchSource):
            raise TypeError(f"loaders[{i}]: expected a rc.Loader, got {type(loader).__name__}")

        def refuse(expected: str, got: object, i: int = i) -> NoReturn:
            raise ValueError(f"loaders[{i}]: expected {expected}, got {got}")

        contents = loader._contents
        if contents is None:
            refuse("a loader of one store", "a mixture (its loaders can be mixed with the others)")
        if contents.finish is not None:
            refuse(
                "a loader with batches of its own",
                "one with those of another library (rc.Loader(loader.store, ...) makes one of the "
                "same data set)",
            )
        for option in ("transforms", "concat"):
            if getattr(contents, option):
                refuse(
                    f"a loader without {option}", f"one with them (Loader.mixture has {option}=)"
                )
        if contents.has_budget:
            refuse(
                "a loader without budget",
                "one with it (all streams of a mixture live on its device)",
            )
        if loader.device != loaders[0].device:
            refuse(f"device {loaders[0].device} like loaders[0]", loader.device)
        found.append(contents)
        if contents.with_age != found[0].with_age:
            refuse(f"with_age={found[0].with_age} like loaders[0]", contents.with_age)
    return found


def _check_shares(contents: Sequence[Contents], rank: int, ranks: int) -> None:
    """Checks that stores which are split over ranks are split over those of the mixture.

    Raises:
        ValueError: `loaders[<i>]: expected ..., got ...`.
    """
    for i, order in enumerate(of.order for of in contents):
        if order.shares > 1 and (order.share, order.shares) != (rank, ranks):
            raise ValueError(
                f"loaders[{i}]: expected a store that is split like the mixture's rank {rank} of "
                f"{ranks}, got one of rank {order.share} of {order.shares} (with "
                "rc.Episodes(replicate=False), give the loader and the mixture the same rank= and "
                "world_size=)"
            )


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
