"""`Contents`: what a loader of one store is made of, for functions that take a loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robocache.loader.frames.decoder import FrameDecoder
from robocache.loader.images.stage import ImageStage
from robocache.loader.outputs import Batch
from robocache.loader.plan import BatchPlan
from robocache.loader.recipe import Recipe
from robocache.loader.sampling.identity import SampleIdentity
from robocache.loader.sampling.sampler import Order
from robocache.loader.stats import Counters
from robocache.loader.summary import LoaderSummary
from robocache.loader.window import Relative
from robocache.loader.window_spec import WindowSpec
from robocache.store.episode_store import EpisodeStore


@dataclass(frozen=True)
class Contents:
    """The windows, tables and options of a loader of one store.

    Mixtures, policy specs and :func:`robocache.compute_stats` read a loader through this record
    alone. A mixture has no such record: its loaders have one each.
    """

    store: EpisodeStore
    windows: Sequence[WindowSpec]
    anchor: str | None
    """The stream whose rows are the anchors; None: they are ticks of a rate."""
    rate: float | None
    """That rate in Hz."""
    relative: Mapping[str, Relative]
    """The reference of each relative window."""
    modes: Mapping[str, str | None]
    """The mode of each stream that is normalized; None: by the numbers of a Normalizer."""
    concat: Mapping[str, Sequence[str]]
    """Streams of each concatenated key."""
    with_age: bool
    has_budget: bool
    transforms: Sequence[Callable[..., Any]]
    finish: Callable[[Batch], Batch] | None
    """Converts batches to the keys and shapes of another library."""
    plan: BatchPlan
    decoder: FrameDecoder | None
    """Decodes JPEG frames, whose numbers the plan writes; None without any."""
    images: ImageStage | None
    """Makes the images of windows that have some."""
    order: Order
    identity: SampleIdentity
    counters: Counters
    summary: LoaderSummary
    recipe: Recipe
