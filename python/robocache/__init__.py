"""RoboCache: multi-rate robot recordings, aligned to one timeline on the GPU.

``import robocache`` is cheap: torch and the compiled library are loaded by the first function that
needs them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robocache import transforms as transforms
    from robocache._config import config as config
    from robocache._library import BuildInfo as BuildInfo
    from robocache._library import build_info as build_info
    from robocache._metrics import Metrics as Metrics
    from robocache._metrics import metrics as metrics
    from robocache.aligned.align import align as align
    from robocache.conversion import Conversion as Conversion
    from robocache.conversion import convert as convert
    from robocache.deltas import absolute_from as absolute_from
    from robocache.deltas import absolute_to_delta as absolute_to_delta
    from robocache.deltas import delta_to_absolute as delta_to_absolute
    from robocache.deltas import relative_to as relative_to
    from robocache.export import export_lerobot as export_lerobot
    from robocache.fusion import Stream as Stream
    from robocache.fusion import fuse as fuse
    from robocache.fusion import fuse_multimodal as fuse_multimodal
    from robocache.jax_batch import jax_batch as jax_batch
    from robocache.live import LiveAligner as LiveAligner
    from robocache.live_stats import LiveStats as LiveStats
    from robocache.loader.compute_stats import compute_stats as compute_stats
    from robocache.loader.loader import Loader as Loader
    from robocache.loader.relative import Relative as Relative
    from robocache.loader.stats import LoaderStats as LoaderStats
    from robocache.normalizer.normalizer import Normalizer as Normalizer
    from robocache.normalizer.window_statistics import WindowStatistics as WindowStatistics
    from robocache.policy_spec import PolicySpec as PolicySpec
    from robocache.poses import absolute_pose as absolute_pose
    from robocache.poses import convert_rotation as convert_rotation
    from robocache.poses import relative_pose as relative_pose
    from robocache.prometheus import MetricsCollector as MetricsCollector
    from robocache.replay import Replay as Replay
    from robocache.replay import replay_store as replay_store
    from robocache.resample import resample_trajectories as resample_trajectories
    from robocache.store.episode_store import EpisodeStore as EpisodeStore
    from robocache.store.errors import StoreError as StoreError
    from robocache.store.merge import merge_stores as merge_stores
    from robocache.store.normalization import Normalization as Normalization
    from robocache.store.normalization import normalization as normalization
    from robocache.store.shard import ShardWriter as ShardWriter
    from robocache.store.writer import StoreWriter as StoreWriter
    from robocache.voxelize import SparseVoxels as SparseVoxels
    from robocache.voxelize import voxelize_point_cloud as voxelize_point_cloud
    from robocache.voxelize import voxelize_sparse as voxelize_sparse

    __version__: str

__all__ = [
    "BuildInfo",
    "Conversion",
    "EpisodeStore",
    "LiveAligner",
    "LiveStats",
    "Loader",
    "LoaderStats",
    "Metrics",
    "MetricsCollector",
    "Normalization",
    "Normalizer",
    "PolicySpec",
    "Relative",
    "Replay",
    "ShardWriter",
    "SparseVoxels",
    "StoreError",
    "StoreWriter",
    "Stream",
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
    "replay_store",
    "resample_trajectories",
    "transforms",
    "voxelize_point_cloud",
    "voxelize_sparse",
]

# The program decides where log records go: docs/cli.md, "Progress and logging in Python".
logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOME = {
    "BuildInfo": "robocache._library",
    "Conversion": "robocache.conversion",
    "EpisodeStore": "robocache.store.episode_store",
    "LiveAligner": "robocache.live",
    "LiveStats": "robocache.live_stats",
    "Loader": "robocache.loader.loader",
    "LoaderStats": "robocache.loader.stats",
    "Metrics": "robocache._metrics",
    "MetricsCollector": "robocache.prometheus",
    "Normalization": "robocache.store.normalization",
    "Normalizer": "robocache.normalizer.normalizer",
    "PolicySpec": "robocache.policy_spec",
    "Relative": "robocache.loader.relative",
    "Replay": "robocache.replay",
    "ShardWriter": "robocache.store.shard",
    "SparseVoxels": "robocache.voxelize",
    "StoreError": "robocache.store.errors",
    "StoreWriter": "robocache.store.writer",
    "Stream": "robocache.fusion",
    "WindowStatistics": "robocache.normalizer.window_statistics",
    "absolute_from": "robocache.deltas",
    "absolute_pose": "robocache.poses",
    "absolute_to_delta": "robocache.deltas",
    "align": "robocache.aligned.align",
    "build_info": "robocache._library",
    "compute_stats": "robocache.loader.compute_stats",
    "config": "robocache._config",
    "convert": "robocache.conversion",
    "convert_rotation": "robocache.poses",
    "delta_to_absolute": "robocache.deltas",
    "export_lerobot": "robocache.export",
    "fuse": "robocache.fusion",
    "fuse_multimodal": "robocache.fusion",
    "jax_batch": "robocache.jax_batch",
    "merge_stores": "robocache.store.merge",
    "metrics": "robocache._metrics",
    "normalization": "robocache.store.normalization",
    "replay_store": "robocache.replay",
    "relative_pose": "robocache.poses",
    "relative_to": "robocache.deltas",
    "resample_trajectories": "robocache.resample",
    "transforms": "robocache.transforms",
    "voxelize_point_cloud": "robocache.voxelize",
    "voxelize_sparse": "robocache.voxelize",
}


def __getattr__(name: str) -> object:
    value: object
    if name == "__version__":
        from importlib import metadata

        try:
            value = metadata.version("robocache")
        except metadata.PackageNotFoundError:  # a source tree that was never installed
            value = "0+unknown"
    elif name in _HOME:
        from importlib import import_module

        home = import_module(_HOME[name])
        value = home if name == "transforms" else getattr(home, name)  # a module itself
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
