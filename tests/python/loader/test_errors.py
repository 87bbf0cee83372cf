"""Errors of a loader's options: every message, whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store

import robocache as rc
from robocache.core import library
from robocache.loader.device import find_device
from robocache.loader.memory import resident_streams
from robocache.loader.plan import BatchPlan


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("errors") / "store", episodes=3)


STREAMS = "joints, pose, force, camera, gripper, counter, action, state, step"
JOINTS: dict[str, Any] = {"windows": {"joints": [0.0]}}
ACTION: dict[str, Any] = {"windows": {"action": [0.0]}}

CASES: list[tuple[dict[str, Any], type[Exception], str]] = [
    # ---- offsets
    ({"windows": {"joint": [0]}}, ValueError,
     f"windows: expected streams of the store ({STREAMS}), got 'joint'"),
    ({"windows": [0.0]}, TypeError,
     "windows: expected a window for each stream, as in {'action': [0.0, 0.1]}, got list"),
    ({"windows": {}}, ValueError,
     "windows: expected at least 1 stream, got 0"),
    ({"windows": {"joints": []}}, ValueError,
     "offsets['joints']: expected at least 1 offset, got 0"),
    ({"windows": {"joints": 0.1}}, TypeError,
     "windows['joints']: expected a rc.Window, a list of seconds or None, got 0.1"),
    ({"windows": {"joints": rc.Window(0.1)}}, TypeError,
     "offsets['joints']: expected a list of numbers, got 0.1"),
    ({"windows": {"joints": "0.1"}}, TypeError,
     "windows['joints']: expected a rc.Window, a list of seconds or None, got '0.1'"),
    ({**JOINTS, "delta_timestamps": {"joints": [0.0]}}, ValueError,
     "delta_timestamps: expected None beside windows (two names of one option), got dict"),
    ({"delta_timestamps": {"joint": [0]}}, ValueError,
     f"delta_timestamps: expected streams of the store ({STREAMS}), got 'joint'"),
    ({"delta_timestamps": {"joints": 3}}, TypeError,
     "delta_timestamps['joints']: expected a rc.Window, a list of seconds or None, got 3"),
    ({"windows": {"joints": ["0"]}}, TypeError,
     "offsets['joints']: expected numbers (seconds), got '0'"),
    ({"windows": {"joints": [float("nan")]}}, ValueError,
     "offsets['joints']: expected finite numbers, got nan"),
    ({"windows": {"joints": [1e10]}}, ValueError,
     "offsets['joints']: expected offsets within 2^63 ns, got 10000000000.0"),
    ({"windows": {"joints": [1e300]}}, ValueError,
     "offsets['joints']: expected offsets within 2^63 ns, got 1e+300"),
    *(({"windows": {"joints": rc.Window(**{option: [-(10**400)]})}}, ValueError,
       f"{option}['joints']: expected offsets within 2^63 ns, got a negative number of 401 digits")
      for option in ("offsets", "offsets_ns")),
    ({"windows": {"joints": rc.Window(offsets_ns=[0.5])}}, TypeError,
     "offsets_ns['joints']: expected ints (nanoseconds), got 0.5"),
    ({"windows": {"joints": rc.Window([0.0], offsets_ns=[0])}}, ValueError,
     "offsets_ns['joints']: expected None beside offsets, got (0,)"),
    ({"windows": {"action": [0.013]}}, ValueError,
     "offsets['action']: expected multiples of 0.02 s (rows of 50 Hz) within "
     "tolerance_s=0.0001, got 0.013"),
    *(({"windows": {"action": [offset]}}, ValueError,
       f"offsets['action']: expected offsets within 2^31 rows, got {offset}")
      for offset in (1e9, -1e20, 1e308)),
    ({"windows": {"action": [10**400]}}, ValueError,
     "offsets['action']: expected offsets within 2^31 rows, got a number of 401 digits"),
    # ---- timelines and methods
    ({"windows": {"joints": rc.Window([0.0], timeline="ticks")}}, ValueError,
     "timeline['joints']: expected time or rows, got 'ticks'"),
    ({"windows": {"joints": rc.Window([0.0], timeline="rows")}}, ValueError,
     "timeline['joints']: expected a stream with a nominal rate for 'rows', got one without "
     "(StoreWriter.declare gives it one; timeline='time' needs none)"),
    ({"windows": {"action": rc.Window([0.0], timeline="rows")}, "anchor": 10}, ValueError,
     "timeline['action']: expected time where anchors have a rate (rows are counted from an "
     "anchor's row), got 'rows'"),
    ({"windows": {"action": rc.Window([0.0], outside="zero")}}, ValueError,
     "outside['action']: expected \"hold\" with timeline \"rows\", got \"zero\""),
    ({"windows": {"joints": rc.Window([0.0], outside="clamp")}}, ValueError,
     "outside['joints']: expected hold, zero, nan or extrapolate, got 'clamp'"),
    ({"windows": {"counter": rc.Window([0], outside="nan")}}, ValueError,
     'outside[\'counter\']: expected "hold", "zero" or "extrapolate" for integers, got "nan"'),
    ({"windows": {"joints": rc.Window([0.0], method="cubic")}}, ValueError,
     "method['joints']: expected linear, previous, nearest, slerp_xyzw, slerp_wxyz, angle, mean or "
     "sum, got 'cubic'"),
    ({"windows": {"joints": rc.Window([0.0], method=[("linear", 6)])}}, ValueError,
     "method['joints']: expected runs that sum to 7 for rows of shape [7], got 6"),
    ({"windows": {"joints": rc.Window([0.0], method="slerp_xyzw")}}, ValueError,
     "method['joints']: expected runs of 4 elements for slerp_xyzw, got \"slerp_xyzw\""),
    ({"windows": {"counter": rc.Window([0], method="linear")}}, ValueError,
     "method['counter']: expected \"previous\" or \"nearest\" for rows that are copied, got "
     "\"linear\""),
    ({"windows": {"joints": rc.Window([0.0], method="mean")}}, ValueError,
     "mean_window_s['joints']: expected seconds for method mean, got None"),
    ({"windows": {"joints": rc.Window([0.1, 0.0], method="sum")}}, ValueError,
     "offsets['joints']: expected ascending offsets with method \"sum\", got [100000000,0]"),
    ({"windows": {"joints": rc.Window([0.0], max_gap_s="1")}}, TypeError,
     "max_gap_s['joints']: expected a number (s), got str"),
    ({"windows": {"joints": rc.Window([0.0], max_gap_s=-1)}}, ValueError,
     "max_gap_s['joints']: expected 0 or more, got -1"),
    ({"windows": {"joints": rc.Window([0.0], max_gap_s=float("inf"))}}, ValueError,
     "max_gap_s['joints']: expected less than 2^33 s, got inf (None: no limit)"),
    ({"windows": {"joints": rc.Window([0.0], latency_s=1e10)}}, ValueError,
     "latency_s['joints']: expected less than 2^33 s, got 10000000000.0"),
    ({"windows": {"joints": rc.Window([0.0], latency_s=10**400)}}, ValueError,
     "latency_s['joints']: expected less than 2^33 s, got a number of 401 digits"),
    ({"windows": {"joints": rc.Window([0.0], causal=1)}}, TypeError,
     "causal['joints']: expected a bool, got int"),
    # ---- options that would say nothing
    *(({"windows": {"action": rc.Window([0.0], **{name: value})}}, ValueError,
       f"{name}['action']: expected {default!r} with timeline 'rows', got {value!r}")
      for name, value, default in (
          ("method", "nearest", None), ("max_gap_s", 0.1, None), ("mean_window_s", 0.1, None),
          ("latency_s", 0.1, 0.0), ("causal", False, True))),
    ({"windows": {"joints": rc.Window([0.0], mean_window_s=0.1)}}, ValueError,
     "mean_window_s['joints']: expected None without method mean, got 0.1"),
    ({"windows": {"joints": rc.Window([0], mean_window_s=0.1),
                  "force": rc.Window([0], method="mean", mean_window_s=0.1)}}, ValueError,
     "mean_window_s['joints']: expected None without method mean, got 0.1"),
    ({**JOINTS, "statistics": {"joints": {"min": [0] * 7, "max": [1] * 7}}}, ValueError,
     "statistics: expected streams that normalize has a mode for, got 'joints'"),
    ({**JOINTS, "normalize": {"joints": "min-max"},
      "statistics": {"joints": rc.Normalization(np.zeros(7), np.ones(7))}}, ValueError,
     "normalize['joints']: mode: expected mean_std, min_max, quantiles, quantile10 or identity, "
     "got 'min-max'"),
    # ---- types and scales
    ({"windows": {"camera": rc.Window([0], channels_first=True, dtype=torch.float64)}}, ValueError,
     "dtype['camera']: expected float32, float16 or bfloat16 with channels_first, whose division "
     "by 255 is exact for them, got float64"),
    ({**JOINTS, "statistics": [1]}, TypeError,
     "statistics: expected those of each stream, as in {'action': {'min': ..., 'max': ...}}, got "
     "list"),
    ({**JOINTS, "normalize": {"joints": "min_max"}, "statistics": {"joints": 3}}, TypeError,
     "statistics['joints']: expected a mapping of mean, std, min, max and so on, or a "
     "Normalization, got int"),
    ({"windows": {"joints": rc.Window([0.0], dtype=torch.int32)}}, TypeError,
     "dtype['joints']: expected float16, bfloat16, float32, float64 or uint8, got int32"),
    ({"windows": {"counter": rc.Window([0], dtype=torch.float32)}}, ValueError,
     "dtype['counter']: expected None for counter I64[2], whose rows are copied, got float32"),
    ({"windows": {"camera": [0]}, "normalize": {"camera": "mean_std"}}, ValueError,
     "dtype['camera']: expected a floating type for normalized uint8 values, got None "
     "(channels_first=True has float32)"),
    ({"windows": {"counter": [0]}, "normalize": {"counter": "min_max"}}, ValueError,
     "normalize['counter']: expected floats or uint8, got counter I64[2]"),
    ({**JOINTS, "normalize": "min_max"}, TypeError,
     "normalize: expected a mode for each stream, as in {'action': 'min_max'}, got 'min_max'"),
    ({**JOINTS, "normalize": {"pose": "min_max"}}, ValueError,
     "normalize: expected joints, got 'pose'"),
    ({**JOINTS, "normalize": {"joints": "max"}}, ValueError,
     "normalize['joints']: mode: expected mean_std, min_max, quantiles, quantile10 or identity, "
     "got 'max'"),
    ({**JOINTS, "normalize": {"joints": "mean_std"},
      "statistics": {"joints": {"mean": [0.0] * 3, "std": [1.0] * 3}}}, ValueError,
     "normalize['joints']: expected 7 channels for rows of shape [7], got 3"),
    ({**JOINTS, "normalize": {"joints": "mean_std"}, "statistics": {"joints": {"mean": "x"}}},
     TypeError, "statistics['joints']['mean']: expected numbers, got 'x'"),
    *(({**JOINTS, "normalize": {"joints": mode}, "statistics": {"joints": given}}, kind,
       f"statistics['joints']{message}")
      for mode, given, kind, message in (
          ("mean_std", {"mean": [0.0] * 7}, ValueError,
           ": expected mean and std for mode mean_std, got mean"),
          ("min_max", {}, ValueError, ": expected min and max for mode min_max, got none"),
          ("quantiles", {"q10": [0] * 7, "q90": [1] * 7}, ValueError,
           ": expected q01 and q99 for mode quantiles, got q10, q90"),
          ("mean_std", {"mean": [0.0] * 7, "sd": [1.0] * 7}, ValueError,
           ": expected mean, std, min, max, q01, q10, q50, q90, q99 or count, got 'sd'"),
          ("mean_std", {"mean": [0.0] * 7, "std": [1.0]}, ValueError,
           ": expected a number of each channel in all, got 7 of mean, 1 of std"),
          ("mean_std", {"mean": [0.0] * 6 + [np.nan], "std": [1.0] * 7}, ValueError,
           "['mean']: expected finite numbers, got nan of channel 6"),
          ("mean_std", {"mean": [0.0] * 7, "std": [1.0, -1.0] + [1.0] * 5}, ValueError,
           ": expected a std of 0 or more, got -1.0 of channel 1"),
          ("min_max", {"min": [2] + [0] * 6, "max": [1] * 7}, ValueError,
           ": expected min at or below max, got 2.0 and 1.0 of channel 0"),
          ("quantile10", {"q10": [2] * 7, "q90": [1] * 7}, ValueError,
           ": expected q10 at or below q90, got 2.0 and 1.0 of channel 0"),
          ("mean_std", {"mean": ["0"] * 7, "std": [1.0] * 7}, TypeError,
           f"['mean']: expected numbers, got {['0'] * 7}"),
          ("mean_std", {"mean": torch.zeros(1, requires_grad=True)}, TypeError,
           "['mean']: expected numbers, got tensor([0.], requires_grad=True)"),
          ("min_max", rc.Normalization(np.zeros(7), np.full(7, np.nan)), ValueError,
           ".multiply: expected finite numbers, got nan of channel 0"))),
    ({**JOINTS, "normalize": {"joints": "mean_std"},
      "statistics": {"joints": rc.Normalization(np.zeros(7), np.ones(2))}}, ValueError,
     "normalize['joints']: expected as many numbers to multiply with as to subtract, got 2 and 7"),
    ({"windows": {"joints": rc.Window([0.0], channels_first=1)}}, TypeError,
     "channels_first['joints']: expected a bool, got int"),
    ({"windows": {"joints": rc.Window([0.0], channels_first=True)}}, ValueError,
     "channels_first['joints']: expected uint8 rows [H,W,C] of at most 4 colors, got joints "
     "F32[7]"),
    ({"windows": {"camera": rc.Window([0], channels_first=True, dtype=torch.uint8)}}, ValueError,
     "dtype['camera']: expected floats with channels_first, got uint8"),
    # ---- modes in the window and beside it
    ({"windows": {"joints": rc.Window([0.0], normalize="mean_std")},
      "normalize": {"joints": "min_max"}}, ValueError,
     "normalize['joints']: expected a mode in the window or in the loader's normalize, got "
     "'mean_std' and 'min_max'"),
    ({"windows": {"joints": rc.Window([0.0], normalize="mean_std")},
      "normalize": rc.Normalizer({"joints": rc.Normalization(np.zeros(7), np.ones(7))})},
     ValueError, "normalize['joints']: expected None in the window, since the loader's normalize "
     "is a Normalizer, got 'mean_std'"),
    ({"windows": {"joints": rc.Window([0.0], normalize="max")}}, ValueError,
     "normalize['joints']: mode: expected mean_std, min_max, quantiles, quantile10 or identity, "
     "got 'max'"),
    ({"windows": {"camera": rc.Window([0], channels_first=True, method="mean",
                                      mean_window_s=0.1)}}, ValueError,
     "method['camera']: expected \"linear\", \"previous\" or \"nearest\" with channels_first, got "
     "\"mean\""),
    # ---- side by side
    ({**JOINTS, "concat": {"obs": ["pose"]}}, ValueError,
     "concat['obs']: expected streams of the batch (joints), got 'pose'"),
    ({"windows": {"joints": [0], "force": [0]}, "concat": {"obs": ["joints", "force"]}},
     ValueError, "concat['obs']: expected float32 like 'joints', got float64 of 'force' ("
     "rc.Window(dtype=) changes it)"),
    ({"windows": {"joints": [0], "pose": [0.1]}, "concat": {"obs": ["joints", "pose"]}},
     ValueError, "concat['obs']: expected the offsets of 'joints', got others of 'pose'"),
    ({"windows": {"camera": [0]}, "concat": {"obs": ["camera"]}}, ValueError,
     "concat['obs']: expected rows that are vectors, got 'camera' of shape [4,6,3]"),
    ({**JOINTS, "concat": {"index": ["joints"]}}, ValueError,
     "concat: expected keys that the batch has not, got 'index'"),
    ({**JOINTS, "concat": {"a": ["joints"], "b": ["joints"]}}, ValueError,
     "concat['b']: expected each stream once, got 'joints', which concat['a'] has"),
    ({**JOINTS, "concat": {3: ["joints"]}}, TypeError,
     "concat: expected names of keys, got 3"),
    ({**JOINTS, "concat": {"obs": [["joints"]]}}, ValueError,
     "concat['obs']: expected streams of the batch (joints), got ['joints']"),
    # ---- anchors
    ({**JOINTS, "anchor": "joint"}, ValueError,
     f"anchor: expected a stream of the store ({STREAMS}), got 'joint'"),
    ({**JOINTS, "anchor": True}, TypeError,
     "anchor: expected a stream's name or a rate (Hz), got bool"),
    ({**JOINTS, "anchor": 0}, ValueError, "anchor: expected a finite rate above 0 (Hz), got 0"),
    ({**JOINTS, "anchor": 10**400}, ValueError,
     "anchor: expected a finite rate above 0 (Hz), got a number of 401 digits"),
    ({**JOINTS, "anchor": 1e300}, ValueError,
     "anchor: expected at most 2^31 in an episode, got COUNT"),
    ({**JOINTS, "episodes": rc.Episodes(drop_n_first_frames=-1)}, ValueError,
     "drop_n_first_frames: expected 0 or more, got -1"),
    ({**JOINTS, "episodes": rc.Episodes(drop_n_last_frames=10**6)}, ValueError,
     "anchor: expected at least 1 anchor, got none: rows of joints in 3 episodes, less what "
     "drop_n_first_frames, drop_n_last_frames and time_ranges leave out"),
    ({"windows": {"camera": [0]}, "episodes": [2]}, ValueError,
     "anchor: expected at least 1 anchor, got none: rows of camera in 1 episode, less what "
     "drop_n_first_frames, drop_n_last_frames and time_ranges leave out"),
    ({**JOINTS, "episodes": rc.Episodes(time_ranges=[(2.0, 1.0)])}, ValueError,
     "time_ranges: expected an end that is not before its begin, got (2.0, 1.0)"),
    ({**JOINTS, "episodes": rc.Episodes(time_ranges=[1.0])}, TypeError,
     "time_ranges: expected (begin, end) in seconds, got 1.0"),
    ({**JOINTS, "episodes": rc.Episodes(time_ranges=[("0", 1)])}, TypeError,
     "time_ranges: expected (begin, end) in seconds, got ('0', 1)"),
    ({**JOINTS, "episodes": rc.Episodes(time_ranges=[(1e300, 1e305)])}, ValueError,
     "anchor: expected at least 1 anchor, got none: rows of joints in 3 episodes, less what "
     "drop_n_first_frames, drop_n_last_frames and time_ranges leave out"),
    ({**JOINTS, "episodes": rc.Episodes(time_ranges={3: [(0, 1)]})}, ValueError,
     "time_ranges: expected 0 to 2, got 3"),
    # ---- episodes
    ({**JOINTS, "episodes": [0, 3]}, ValueError, "episodes[1]: expected an index below 3, got 3"),
    ({**JOINTS, "episodes": [0, 0]}, ValueError,
     "episodes[1]: expected each episode once, got 0 again"),
    ({**JOINTS, "episodes": ["0"]}, TypeError,
     "episodes: expected a list of int, a slice or a rc.Episodes, got ['0']"),
    ({**JOINTS, "episodes": rc.Episodes(replicate=1)}, TypeError,
     "replicate: expected a bool, got int"),
    ({**JOINTS, "episodes": []}, ValueError,
     "episodes: expected at least 1 that indices, tasks, subset, predicate and split choose, got "
     "none of the 3 of STORE"),
    ({**JOINTS, "episodes": slice("a", None)}, TypeError,
     "episodes: expected a slice of ints, got slice('a', None, None)"),
    ({**JOINTS, "episodes": rc.Episodes(predicate="lift")}, TypeError,
     "predicate: expected a function of an Episode, got 'lift'"),
    ({**JOINTS, "episodes": rc.Episodes(tasks=3)}, TypeError,
     "tasks: expected a name or a list of names, got 3"),
    ({**JOINTS, "episodes": rc.Episodes(tasks=[3])}, TypeError,
     "tasks: expected a name or a list of names, got [3]"),
    ({**JOINTS, "episodes": rc.Episodes(tasks=["lift"])}, ValueError,
     "tasks: expected 'task 0' or 'task 1', got 'lift'"),
    ({**JOINTS, "episodes": rc.Episodes(subset="test")}, ValueError,
     "subset: expected 'val' or 'train', got 'test'"),
    ({**JOINTS, "episodes": rc.Episodes(split="train")}, TypeError,
     "split: expected ('train' or 'validation', fraction), got 'train'"),
    ({**JOINTS, "episodes": rc.Episodes(split=("test", 0.1))}, ValueError,
     "split: expected train or validation, got 'test'"),
    ({**JOINTS, "episodes": rc.Episodes(split=("train", 1.0))}, ValueError,
     "split: expected the fraction of episodes to validate with, above 0 and below 1, got 1.0"),
    # ---- order
    ({**JOINTS, "batch_size": 0}, ValueError, "batch_size: expected 1 to 536870911, got 0"),
    ({**JOINTS, "batch_size": 2**64 + 5}, ValueError,
     f"batch_size: expected 1 to 536870911, got {2**64 + 5}"),
    ({**JOINTS, "batch_size": 2.0}, TypeError, "batch_size: expected an int, got float"),
    ({**JOINTS, "seed": -1}, ValueError,
     f"seed: expected 0 to {2**64 - 1}, got -1"),
    ({**JOINTS, "seed": 2**64}, ValueError,
     f"seed: expected 0 to {2**64 - 1}, got {2**64}"),
    ({**JOINTS, "shuffle": 1}, TypeError, "shuffle: expected a bool, got int"),
    ({**JOINTS, "rank": 0}, ValueError,
     "rank: expected rank and world_size together, got rank=0, world_size=None"),
    ({**JOINTS, "rank": 2, "world_size": 2}, ValueError, "rank: expected 0 to 1, got 2"),
    ({**ACTION, "rank": 0, "world_size": 10**6}, ValueError,
     "world_size: expected at most the 97 samples, got 1000000"),
    ({**ACTION, "batch_size": 98, "drop_last": True}, ValueError,
     "batch_size: expected at most 97 with drop_last=True, 97 samples and 1 ranks, got 98"),
    ({**ACTION, "batch_size": 33, "drop_last": True, "rank": 0, "world_size": 3}, ValueError,
     "batch_size: expected at most 32 with drop_last=True, 97 samples and 3 ranks, got 33"),
    ({**JOINTS, "transforms": abs}, TypeError,
     "transforms: expected a list of functions (batch, generator), got <built-in function abs>"),
    ({**JOINTS, "transforms": "x"}, TypeError,
     "transforms: expected a list of functions (batch, generator), got 'x'"),
    # ---- where
    ({**JOINTS, "device": "meta"}, ValueError, "device: expected cpu or cuda, got 'meta'"),
    ({**JOINTS, "device": 3}, TypeError,
     "device: expected a torch.device or its name, got int"),
    ({"windows": {"joints": rc.Window([0.0], tolerance_s=0.5)}}, ValueError,
     "tolerance_s['joints']: expected less than half of the PERIOD s between its rows, got 0.5 "
     "(a row so near to a target is the answer alone; max_gap_s is what limits gaps)"),
    ({"windows": {"joints": rc.Window(timeline="rows"), "action": rc.Window(timeline="rows")}},
     ValueError,
     "timeline['action']: expected as many rows in every episode as the anchor joints has, got 25 "
     "in place of 45 in episode 0; timeline='time' finds rows by their times"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "kind", "message"), CASES, ids=[c[2][:60] for c in CASES])
def test_messages(
    store: rc.EpisodeStore, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    pattern = re.escape(message).replace("STORE", re.escape(store.path))
    arguments: dict[str, Any] = {"batch_size": 4, "device": "cpu"} | options
    pattern = pattern.replace("PERIOD", "[0-9.]+").replace("COUNT", "[0-9.e+]+")
    with pytest.raises(kind, match=f"^{pattern}$"):
        rc.Loader(store, **arguments)


def test_messages_of_gather(store: rc.EpisodeStore) -> None:
    loader = rc.Loader(store, 4, {"action": [0.0]}, device="cpu")
    count = len(loader.dataset)
    for indices, kind, message in (
        ([0, count], ValueError, f"indices[1]: expected 0 to {count - 1}, got {count}"),
        ([-1], ValueError, f"indices[0]: expected 0 to {count - 1}, got -1"),
        (torch.tensor([1, 2, -5]), ValueError, f"indices[2]: expected 0 to {count - 1}, got -5"),
        ([0.5], TypeError, "indices: expected integers, got float64"),
        (torch.tensor([True]), TypeError, "indices: expected integers, got bool"),
        (torch.tensor(3), ValueError, "indices: expected [B], got []"),
        (np.zeros((2, 2), np.int64), ValueError, "indices: expected [B], got [2, 2]"),
        ([2**64 - 1], ValueError, f"indices[0]: expected 0 to {count - 1}, got {2**64 - 1}"),
    ):
        with pytest.raises(kind, match=f"^{re.escape(message)}$"):
            loader.gather(indices)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [3, None, b"store"])
def test_no_store(wrong: Any) -> None:
    kind = type(wrong).__name__
    with pytest.raises(
        TypeError, match=f"^store: expected an EpisodeStore or its folder, got {kind}$"
    ):
        rc.Loader(wrong, 4)


def test_messages_of_the_data_set(store: rc.EpisodeStore) -> None:
    dataset = rc.Loader(store, 4, {"action": [0.0]}, device="cpu").dataset
    with pytest.raises(TypeError, match=r"^sample: expected an int, got str$"):
        dataset["3"]  # type: ignore[index]
    with pytest.raises(TypeError, match=r"^sample: expected an int, got slice$"):
        dataset[0:2]  # type: ignore[index]
    with pytest.raises(IndexError, match=r"^sample: expected below \d+, got 10000$"):
        dataset[10000]


def test_a_store_that_does_not_fit(store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_streams, "free_bytes", lambda device: 1000)
    with pytest.raises(
        torch.OutOfMemoryError,
        match=r"^store: expected streams within the 1000 bytes of memory that are free on cpu, got "
        r"\d+ bytes \(joints \d+, anchors \d+\); fewer streams or episodes need less, and a "
        r"budget leaves some elsewhere$",
    ):
        rc.Loader(store, 4, {"joints": [0.0]}, device="cpu")


def test_no_gpu(store: rc.EpisodeStore) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=r"^device: expected 'cpu' where torch finds no GPU, got"):
        rc.Loader(store, 4, {"joints": [0.0]}, device="cuda")


def test_a_plan_whose_tensors_do_not_fit(store: rc.EpisodeStore) -> None:
    """The library's own check, after all of Python's."""
    loader = rc.Loader(store, 4, {"joints": [0.0]}, device="cpu")
    plan = loader._plan
    (rows,) = plan.data
    assert rows.times is not None
    cut = [rows._replace(times=rows.times[1:])]
    count = len(rows.times)
    with pytest.raises(
        ValueError, match=rf"^times\['joints'\]: expected \[N={count}\], got \[{count - 1}\]$"
    ):
        BatchPlan(plan.specs, cut, plan.anchors, plan.episodes, loader._order)


def test_devices_of_a_machine_with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: dict[int, str | None] = {0: None, 1: None}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(library, "cuda_problem", problems.__getitem__)
    for given in (None, "cuda", "cuda:1", torch.device("cuda")):
        assert find_device(given) == torch.device("cuda", 1)
    assert find_device("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(ValueError, match=r"^device: expected one of 2 GPUs, got 2$"):
        find_device("cuda:2")
    problems[1] = "a driver for CUDA 11"
    assert find_device(None) == torch.device("cpu")
    with pytest.raises(
        ValueError,
        match=r"^device: expected a usable CUDA build for 'cuda', got a driver for CUDA 11$",
    ):
        find_device("cuda")


def test_a_folder_that_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(rc.StoreError):
        rc.Loader(tmp_path, 4)
