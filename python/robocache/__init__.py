"""RoboCache: multi-rate robot recordings, aligned to one timeline on the GPU.

``import robocache`` is cheap: torch and the compiled library are loaded by the first function that
needs them.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robocache import datasets as datasets
    from robocache.align.fuse import Stream as Stream
    from robocache.align.fuse import fuse as fuse
    from robocache.align.multimodal import fuse_multimodal as fuse_multimodal
    from robocache.align.resample import resample_trajectories as resample_trajectories
    from robocache.conversion import Conversion as Conversion
    from robocache.conversion import convert as convert
    from robocache.core.config import config as config
    from robocache.core.library import BuildInfo as BuildInfo
    from robocache.core.library import build_info as build_info
    from robocache.core.ragged import RaggedArray as RaggedArray
    from robocache.export import export_lerobot as export_lerobot
    from robocache.image.drawn import DrawnAugmentation as DrawnAugmentation
    from robocache.image.image import Image as Image
    from robocache.image.steps import Augment as Augment
    from robocache.image.steps import CameraDropout as CameraDropout
    from robocache.image.steps import ColorJitter as ColorJitter
    from robocache.image.steps import GaussianNoise as GaussianNoise
    from robocache.image.steps import RandomAffine as RandomAffine
    from robocache.image.steps import RandomBrightness as RandomBrightness
    from robocache.image.steps import RandomCrop as RandomCrop
    from robocache.image.steps import RandomErasing as RandomErasing
    from robocache.image.steps import RandomGamma as RandomGamma
    from robocache.image.steps import RandomGrayscale as RandomGrayscale
    from robocache.image.steps import RandomHorizontalFlip as RandomHorizontalFlip
    from robocache.image.steps import RandomResizedCrop as RandomResizedCrop
    from robocache.image.steps import RandomRotation as RandomRotation
    from robocache.image.steps import RandomSharpness as RandomSharpness
    from robocache.image.steps import RandomSubset as RandomSubset
    from robocache.jpeg.frames import JpegFrames as JpegFrames
    from robocache.live.aligner import LiveAligner as LiveAligner
    from robocache.live.batch import LiveBatch as LiveBatch
    from robocache.live.batch import LiveTicket as LiveTicket
    from robocache.live.channel_order import ChannelOrder as ChannelOrder
    from robocache.live.replay import Replay as Replay
    from robocache.live.replay import replay_store as replay_store
    from robocache.live.stats import LiveStats as LiveStats
    from robocache.loader.compute_stats import compute_stats as compute_stats
    from robocache.loader.jax_batch import jax_batch as jax_batch
    from robocache.loader.loader import Loader as Loader
    from robocache.loader.metrics import Metrics as Metrics
    from robocache.loader.metrics import metrics as metrics
    from robocache.loader.policy_spec import PolicySpec as PolicySpec
    from robocache.loader.prometheus import MetricsCollector as MetricsCollector
    from robocache.loader.sampling.episodes import Episodes as Episodes
    from robocache.loader.stats import LoaderStats as LoaderStats
    from robocache.loader.window import Relative as Relative
    from robocache.loader.window import Window as Window
    from robocache.marking import Repair as Repair
    from robocache.marking import repair as repair
    from robocache.normalization.formulas import Normalization as Normalization
    from robocache.normalization.formulas import normalization as normalization
    from robocache.normalization.normalizer import Normalizer as Normalizer
    from robocache.normalization.window_statistics import WindowStatistics as WindowStatistics
    from robocache.points.sample import sample_farthest as sample_farthest
    from robocache.points.unproject import unproject as unproject
    from robocache.store.episode_store import EpisodeStore as EpisodeStore
    from robocache.store.errors import StoreError as StoreError
    from robocache.store.merge import merge_stores as merge_stores
    from robocache.store.shard import ShardWriter as ShardWriter
    from robocache.store.writer import StoreWriter as StoreWriter
    from robocache.timeline.align import align as align
    from robocache.transform import transforms
    from robocache.transform.delta import absolute_from as absolute_from
    from robocache.transform.delta import absolute_to_delta as absolute_to_delta
    from robocache.transform.delta import delta_to_absolute as delta_to_absolute
    from robocache.transform.delta import relative_to as relative_to
    from robocache.transform.rotation import absolute_pose as absolute_pose
    from robocache.transform.rotation import convert_rotation as convert_rotation
    from robocache.transform.rotation import relative_pose as relative_pose
    from robocache.voxel.voxelize import SparseVoxels as SparseVoxels
    from robocache.voxel.voxelize import voxelize_point_cloud as voxelize_point_cloud
    from robocache.voxel.voxelize import voxelize_sparse as voxelize_sparse

    __version__: str

__all__ = [
    "Augment",
    "BuildInfo",
    "CameraDropout",
    "ChannelOrder",
    "ColorJitter",
    "Conversion",
    "DrawnAugmentation",
    "EpisodeStore",
    "Episodes",
    "GaussianNoise",
    "Image",
    "JpegFrames",
    "LiveAligner",
    "LiveBatch",
    "LiveStats",
    "LiveTicket",
    "Loader",
    "LoaderStats",
    "Metrics",
    "MetricsCollector",
    "Normalization",
    "Normalizer",
    "PolicySpec",
    "RaggedArray",
    "RandomAffine",
    "RandomBrightness",
    "RandomCrop",
    "RandomErasing",
    "RandomGamma",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSharpness",
    "RandomSubset",
    "Relative",
    "Repair",
    "Replay",
    "ShardWriter",
    "SparseVoxels",
    "StoreError",
    "StoreWriter",
    "Stream",
    "Window",
    "WindowStatistics",
    "__version__",
    "absolute_from",
    "absolute_pose",
    "absolute_to_delta",
    "align",
    "build_info",
    "compute_stats",
    "config",
    "convert",
    "convert_rotation",
    "datasets",
    "delta_to_absolute",
    "export_lerobot",
    "fuse",
    "fuse_multimodal",
    "jax_batch",
    "merge_stores",
    "metrics",
    "normalization",
    "relative_pose",
    "relative_to",
    "repair",
    "replay_store",
    "resample_trajectories",
    "sample_farthest",
    "transforms",
    "unproject",
    "voxelize_point_cloud",
    "voxelize_sparse",
]

# The program decides where log records go: docs/cli.md, "Progress and logging in Python".
logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOME = {
    "Augment": "robocache.image.steps",
    "BuildInfo": "robocache.core.library",
    "CameraDropout": "robocache.image.steps",
    "ChannelOrder": "robocache.live.channel_order",
    "ColorJitter": "robocache.image.steps",
    "Conversion": "robocache.conversion",
    "DrawnAugmentation": "robocache.image.drawn",
    "EpisodeStore": "robocache.store.episode_store",
    "Episodes": "robocache.loader.sampling.episodes",
    "GaussianNoise": "robocache.image.steps",
    "Image": "robocache.image.image",
    "JpegFrames": "robocache.jpeg.frames",
    "LiveAligner": "robocache.live.aligner",
    "LiveBatch": "robocache.live.batch",
    "LiveStats": "robocache.live.stats",
    "LiveTicket": "robocache.live.batch",
    "Loader": "robocache.loader.loader",
    "LoaderStats": "robocache.loader.stats",
    "Metrics": "robocache.loader.metrics",
    "MetricsCollector": "robocache.loader.prometheus",
    "Normalization": "robocache.normalization.formulas",
    "Normalizer": "robocache.normalization.normalizer",
    "PolicySpec": "robocache.loader.policy_spec",
    "RaggedArray": "robocache.core.ragged",
    "RandomAffine": "robocache.image.steps",
    "RandomBrightness": "robocache.image.steps",
    "RandomCrop": "robocache.image.steps",
    "RandomErasing": "robocache.image.steps",
    "RandomGamma": "robocache.image.steps",
    "RandomGrayscale": "robocache.image.steps",
    "RandomHorizontalFlip": "robocache.image.steps",
    "RandomResizedCrop": "robocache.image.steps",
    "RandomRotation": "robocache.image.steps",
    "RandomSharpness": "robocache.image.steps",
    "RandomSubset": "robocache.image.steps",
    "Relative": "robocache.loader.window",
    "Repair": "robocache.marking",
    "Replay": "robocache.live.replay",
    "ShardWriter": "robocache.store.shard",
    "SparseVoxels": "robocache.voxel.voxelize",
    "StoreError": "robocache.store.errors",
    "StoreWriter": "robocache.store.writer",
    "Stream": "robocache.align.fuse",
    "Window": "robocache.loader.window",
    "WindowStatistics": "robocache.normalization.window_statistics",
    "absolute_from": "robocache.transform.delta",
    "absolute_pose": "robocache.transform.rotation",
    "absolute_to_delta": "robocache.transform.delta",
    "align": "robocache.timeline.align",
    "build_info": "robocache.core.library",
    "compute_stats": "robocache.loader.compute_stats",
    "config": "robocache.core.config",
    "convert": "robocache.conversion",
    "convert_rotation": "robocache.transform.rotation",
    "datasets": "robocache.datasets",
    "delta_to_absolute": "robocache.transform.delta",
    "export_lerobot": "robocache.export",
    "fuse": "robocache.align.fuse",
    "fuse_multimodal": "robocache.align.multimodal",
    "jax_batch": "robocache.loader.jax_batch",
    "merge_stores": "robocache.store.merge",
    "metrics": "robocache.loader.metrics",
    "normalization": "robocache.normalization.formulas",
    "replay_store": "robocache.live.replay",
    "relative_pose": "robocache.transform.rotation",
    "relative_to": "robocache.transform.delta",
    "repair": "robocache.marking",
    "resample_trajectories": "robocache.align.resample",
    "sample_farthest": "robocache.points.sample",
    "transforms": "robocache.transform.transforms",
    "unproject": "robocache.points.unproject",
    "voxelize_point_cloud": "robocache.voxel.voxelize",
    "voxelize_sparse": "robocache.voxel.voxelize",
}


class _Package(ModuleType):
    """This module, some of whose public functions are named like its packages.

    Importing ``robocache.normalization.formulas`` binds the name `normalization` of this module to
    the package. Here that name stays the function: users call ``rc.normalization(...)``, and an
    import finds a package by its full name. `align` likewise.
    """

    @property
    def align(self) -> object:
        return __getattr__("align")

    @align.setter
    def align(self, package: ModuleType) -> None:
        pass

    @property
    def normalization(self) -> object:
        return __getattr__("normalization")

    @normalization.setter
    def normalization(self, package: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    value: object
    if name == "__version__":
        from robocache.core.version import UNKNOWN, package_version

        value = package_version() or UNKNOWN
    elif name in _HOME:
        from importlib import import_module

        try:
            home = import_module(_HOME[name])
        except ModuleNotFoundError as error:
            from robocache.core.extras import problem_without_torch

            if problem := problem_without_torch(error, f"robocache.{name}"):
                raise ImportError(problem, name="torch") from None
            raise
        value = home if name in ("datasets", "transforms") else getattr(home, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in vars(_Package):
        globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
