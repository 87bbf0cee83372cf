"""The loader that ``Loader.mixture`` makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from robocache.core import config
from robocache.core.display import ShortRepr, listed
from robocache.loader.device import on_device
from robocache.loader.engine import Engine
from robocache.loader.loader import Loader, snapshot_arguments
from robocache.loader.memory.tiers import own_tier
from robocache.loader.mixture import parts as _parts
from robocache.loader.mixture.parts import Part, Stream
from robocache.loader.outputs import (
    DATASET,
    DIM_PAD,
    METADATA,
    Batch,
    Outputs,
    check_concat,
    check_names,
)
from robocache.loader.plan import BatchPlan, Mixture
from robocache.loader.relative import Relative
from robocache.loader.sampling.sampler import check_integer, find_ranks, fingerprint, make_order
from robocache.loader.stats import Counters
from robocache.loader.summary import of_mixture
from robocache.normalization.formulas import Normalization
from robocache.store.episode_store import EpisodeStore
from robocache.transform.transforms import check_order

_MOST_SAMPLES = 2**62


@dataclass(frozen=True, repr=False)
class MixturePart(ShortRepr):
    """One of the loaders that a mixture draws from, as it is in the mixture."""

    store: EpisodeStore
    """Its store."""
    share: float
    """Of the samples that are drawn."""
    indices: range
    """Its samples, as :meth:`Loader.gather` of the mixture takes them."""
    normalization: Mapping[str, Normalization]
    """Scale and offset of the keys that have some, by their names in the mixture."""
    relative: Mapping[str, Relative]
    """What keys are relative to, likewise."""


class MixedLoader(Loader):
    """A loader of several: :meth:`Loader.mixture` makes it, and says what it gives.

    It has no store, normalization and relative of its own: its `parts` have.
    """

    def __init__(
        self,
        loaders: Sequence[Loader],
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
        given = locals().items()
        arguments = snapshot_arguments(
            {key: value for key, value in given if key not in ("self", "loaders")}
        )
        for option in ("drop_last", "reuse_buffers"):
            config.check_bool(option, arguments[option])
        config.check_functions("transforms", transforms)
        device, with_age = _check_loaders(loaders)
        shares = _parts.check_weights(weights, len(loaders))
        samples = arguments["samples"] = check_integer("samples", samples, 1, _MOST_SAMPLES)
        rank, world_size = find_ranks(rank, world_size)
        arguments |= {"rank": rank, "world_size": world_size}  # a pickled mixture keeps its rank
        _check_shares(loaders, rank, world_size)
        order = make_order(samples, batch_size, seed, True, drop_last, rank, world_size)
        own = [[window.name for window in loader._windows] for loader in loaders]
        names_of = _parts.check_keys(keys, own)
        parts = _make_parts(loaders, names_of)
        agreed = _parts.agree(parts)
        check_names(agreed.windows, with_age, "keys", agreed.widths)
        widths = [key + DIM_PAD for key in agreed.widths]
        groups = check_concat(concat, agreed.windows, (*METADATA, DATASET, *widths))
        _parts.check_groups(groups, parts)
        scaled = {key for part in parts for key in part.scales}
        check_order(transforms, scaled, groups)
        begins = [0]
        for loader in loaders:
            begins.append(begins[-1] + len(loader.dataset))
        thresholds = _parts.make_thresholds(shares)
        with on_device(device):
            streams, mixed = _parts.make_streams(agreed, parts, device)
            plan = BatchPlan(
                [stream.spec for stream in streams],
                [stream.data for stream in streams],
                _join_anchors([loader._plan.anchors for loader in loaders], parts),
                _join_episodes([loader._plan.episodes for loader in loaders]),
                order,
                Mixture(
                    torch.tensor(begins[: len(thresholds) + 1], device=device),
                    # The bits of 64 without a sign; the last is not looked at.
                    torch.tensor([_signed(t) for t in thresholds[:-1]] + [0], device=device),
                ),
            )
        full = order.size(0) if reuse_buffers else None
        outputs = Outputs(agreed.windows, groups, with_age, device, full, mixed)
        names = [loader.name for loader in loaders]
        counters = Counters(config.check_text("name", name) or "+".join(dict.fromkeys(names)))
        counters.sample_reads = _mean_reads(loaders, [float(share) for share in shares])
        counters.resident = _held(loaders, parts, streams)
        samples_of = [loader._sampler_state.fingerprint for loader in loaders]
        identity = fingerprint(repr((samples_of, thresholds, samples)).encode())
        engine = Engine(plan, outputs)
        self._init_runtime(engine, order, identity, device, transforms, counters, arguments)
        self._finish = None
        # Not the loaders, so that nobody keeps their anchors beside these.
        self._recipes = [
            (type(loader), loader._arguments | {"_is_quiet": True}) for loader in loaders
        ]
        self._summary = of_mixture([loader._summary for loader in loaders], names_of, samples)
        self.parts = [
            MixturePart(
                loader.store,
                float(share),
                range(begin, begin + len(loader.dataset)),
                part.scales,
                {new[key]: replace(of, to=new[of.to]) for key, of in loader.relative.items()},
            )
            for loader, share, begin, part, new in zip(
                loaders, shares, begins[:-1], parts, names_of, strict=True
            )
        ]
        """What it draws from; ``dataset_index`` counts in them."""

    def spec(self, *, training_only: Sequence[Callable[..., Any]] = ()) -> NoReturn:
        """Refuses: a robot is like one of the loaders, which has a spec.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "spec: expected a loader of one store (each of a mixture's has a spec), got a mixture"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Stores open again where it is loaded.
        return _mixed_again, (self._recipes, self._arguments, self.state_dict())

    def __repr__(self) -> str:
        return f"Loader.mixture({self._words()}: {listed(self._outputs.keys)})"

    def _words(self) -> str:
        return (
            f"{len(self.parts)} loaders, {self._order.samples} samples an epoch of "
            f"{len(self.dataset)}, {len(self)} batches of {self._order.batch_size} on {self.device}"
        )


def _mixed_again(
    recipes: Sequence[tuple[type[Loader], dict[str, Any]]],
    arguments: dict[str, Any],
    state: dict[str, int],
) -> MixedLoader:
    mixture = MixedLoader([kind(**options) for kind, options in recipes], **arguments)
    mixture.load_state_dict(state)
    return mixture


def _check_loaders(loaders: Any) -> tuple[torch.device, bool]:
    """Their device, and whether they have ages.

    Raises:
        TypeError, ValueError: `loaders[<i>]: expected ..., got ...`.
    """
    if not isinstance(loaders, Sequence):
        raise TypeError(f"loaders: expected a list of rc.Loader, got {type(loaders).__name__}")
    if not loaders:
        raise ValueError("loaders: expected at least 1, got none")
    for i, loader in enumerate(loaders):
        if not isinstance(loader, Loader):
            raise TypeError(f"loaders[{i}]: expected a rc.Loader, got {type(loader).__name__}")

        def refuse(expected: str, got: object, i: int = i) -> None:
            raise ValueError(f"loaders[{i}]: expected {expected}, got {got}")

        if isinstance(loader, MixedLoader):
            refuse("a loader of one store (those of a mixture can be mixed with it)", "a mixture")
        if loader._finish is not None:
            refuse(
                "a loader with batches of its own (rc.Loader(loader.store, ...) makes one of the "
                "same data set)",
                "one with those of another library",
            )
        options = loader._arguments
        for option in ("transforms", "concat"):
            if options[option]:
                refuse(f"no {option} (the mixture takes some)", "one with them")
        if options.get("budget") is not None:
            refuse("no budget (all streams of a mixture live on its device)", "one with it")
        if loader.device != loaders[0].device:
            refuse(f"device {loaders[0].device} like loaders[0]", loader.device)
        with_age = loaders[0]._arguments["with_age"]
        if options["with_age"] != with_age:
            refuse(f"with_age={with_age} like loaders[0]", options["with_age"])
    return loaders[0].device, loaders[0]._arguments["with_age"]


def _check_shares(loaders: Sequence[Loader], rank: int, ranks: int) -> None:
    """That stores which are split over ranks are so over those of the mixture.

    Raises:
        ValueError: `loaders[<i>]: expected ..., got ...`.
    """
    for i, order in enumerate(loader._order for loader in loaders):
        if order.shares > 1 and (order.share, order.shares) != (rank, ranks):
            raise ValueError(
                f"loaders[{i}]: expected a store that is split like the mixture's rank {rank} of "
                f"{ranks}, got one of rank {order.share} of {order.shares}"
            )


def _make_parts(loaders: Sequence[Loader], names: Sequence[Mapping[str, str]]) -> list[Part]:
    """The loaders as a mixture takes them, their keys under its own names."""
    parts = []
    first = 0
    for i, (loader, new) in enumerate(zip(loaders, names, strict=True)):
        data = loader._plan.data
        streams = zip(loader._windows, data, strict=True)
        episodes = len(loader._plan.episodes)
        parts.append(
            Part(
                f"loaders[{i}]",
                {new[window.name]: window for window in loader._windows},
                {
                    new[w.name]: Stream(
                        replace(
                            w,
                            name=f"loaders[{i}].{w.name}",
                            relative_to=w.relative_to
                            and w.relative_to._replace(
                                stream=f"loaders[{i}].{w.relative_to.stream}"
                            ),
                        ),
                        of._replace(first_episode=first),
                    )
                    for w, of in streams
                },
                first,
                episodes,
            )
        )
        first += episodes
    return parts


def _join_anchors(anchors: Sequence[Tensor], parts: Sequence[Part]) -> Tensor:
    """All anchors [A,2], their episodes counted through all parts."""
    joint = torch.cat(list(anchors))
    episodes = joint.view(torch.int32)[:, 0]
    end = 0
    for own, part in zip(anchors, parts, strict=True):
        begin, end = end, end + len(own)
        episodes[begin:end] += part.first_episode
    return joint


def _join_episodes(tables: Sequence[Tensor]) -> Tensor:
    """The rows of all tables [E,4], with the number of their part."""
    joint = torch.cat(list(tables))
    end = 0
    for part, own in enumerate(tables):
        begin, end = end, end + len(own)
        joint[begin:end, 3] = part
    return joint


def _held(
    loaders: Sequence[Loader], parts: Sequence[Part], streams: Sequence[Stream]
) -> dict[str, int]:
    """Bytes by tier: what loaders hold, anchors anew in as many, and streams beside theirs."""
    held: Counter[str] = Counter()
    for loader in loaders:
        held.update(loader._counters.resident)
    taken = {id(stream) for part in parts for stream in part.streams.values()}
    own = [stream for stream in streams if id(stream) not in taken]
    held[own_tier(loaders[0].device)] += sum(
        stream.data.values.nbytes + stream.data.row_offsets.nbytes for stream in own
    )
    return dict(held)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _mean_reads(loaders: Sequence[Loader], shares: Sequence[float]) -> dict[str, int]:
    """Bytes of rows that a drawn sample is made of, by tier: the mean over the parts."""
    found: dict[str, float] = {}
    for loader, share in zip(loaders, shares, strict=True):
        for tier, count in loader._counters.sample_reads.items():
            found[tier] = found.get(tier, 0.0) + share * count
    return {tier: round(count) for tier, count in found.items()}
