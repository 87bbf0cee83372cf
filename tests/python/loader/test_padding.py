"""Reports on padding at construction: the summary, warnings, and an error."""

from __future__ import annotations

import pickle
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_arguments
from loader_stores import write_humanoid, write_store

import robocache as rc
from robocache.loader.padding_samples import spread_evenly

MS = 1_000_000
S = 1000 * MS


def times(rate: float, begin_s: float = 0.0, end_s: float = 2.0) -> np.ndarray:
    first, last = round(begin_s * rate), round(end_s * rate)
    return np.round(np.arange(first, last) * 1e9 / rate).astype(np.int64)


def values(count: int, channels: int = 2) -> np.ndarray:
    return np.arange(count * channels, dtype=np.float32).reshape(count, channels)


def write(folder: Path, *episodes: dict[str, Any]) -> Path:
    """A store of episodes: by stream, times or the arguments of `add`."""
    with rc.StoreWriter(folder) as writer:
        for streams in episodes:
            with writer.episode() as episode:
                for name, given in streams.items():
                    rows = given if isinstance(given, dict) else {"times": given}
                    found = {"values": values(len(rows["times"]))} | rows
                    episode.add(name, found.pop("times"), found.pop("values"), **found)
    return folder


def make(store: Any, *arguments: Any, **options: Any) -> tuple[rc.Loader, list[str]]:
    """A loader, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = {"device": "cpu", "shuffle": False} | options
        loader = rc.Loader(**keyed_arguments(store, 4, *arguments, **given))
    assert all((w.category, w.filename) == (UserWarning, __file__) for w in caught)
    return loader, [str(w.message) for w in caught]


# ---- what is looked at ---------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
def test_the_summary_is_of_what_batches_hold(tmp_path: Path, causal: bool) -> None:
    store = write_store(tmp_path / "store")
    offsets = [-0.02, -0.01, 0.0]
    keys = ("joints", "pose", "force", "camera", "gripper", "counter", "depth")
    loader, _ = make(
        store,
        {key: offsets for key in keys if key in store.streams}
        | {"action": [0.0, 0.02, 0.4], "state": [-0.04, 0.0], "step": None},
        anchor="action",
        method={"force": "mean", "gripper": "nearest", "joints": [("linear", 5), ("angle", 2)]},
        mean_window_s={"force": 0.01},
        latency_s={"joints": 0.003},
        max_gap_s={"joints": 0.03, "camera": 0.05},
        causal=causal,
        channels_first={"camera": True},
        normalize={"joints": "mean_std"},
        relative_to={"action": rc.Relative("state", channels=[0, 1, 2, None, None])},
        with_age=True,
    )
    batch = loader.gather(range(len(loader.dataset)))
    summary = loader.summary()
    assert summary.looked_at == summary.samples == len(loader.dataset)
    assert [stream.key for stream in summary.streams] == list(loader._outputs.keys)
    for stream in summary.streams:
        is_pad = batch[f"{stream.key}_is_pad"].numpy()
        ages = batch[f"{stream.key}_age"].numpy()[~is_pad] / 1e6
        assert stream.padded == is_pad.mean()
        assert stream.age_median_ms == pytest.approx(np.median(ages), rel=1e-12)
        assert stream.age_max_ms == pytest.approx(ages.max(), rel=1e-12)
    by_key = {stream.key: stream for stream in summary.streams}
    assert 0 < by_key["joints"].padded < 1 and 0 < by_key["action"].padded < 1


def test_sums_and_quaternions_of_zeros(tmp_path: Path) -> None:
    rows = np.tile(np.array([0, 0, 0, 1], np.float32), (100, 1))
    rows[::2] = 0  # no rotations
    store = write(tmp_path / "s", {"pose": {"times": times(50), "values": rows}, "d": times(50)})
    loader, _ = make(
        store, {"pose": [0.0], "d": [-0.02, 0.0]}, method={"pose": "slerp_xyzw", "d": "sum"}
    )
    batch = loader.gather(range(100))
    pose, delta = loader.summary().streams
    assert pose.padded == batch["pose_is_pad"].float().mean() == 0.5
    assert delta.padded == pytest.approx(float(batch["d_is_pad"].float().mean()))


def test_at_most_1000_samples_of_100_episodes() -> None:
    anchors = np.zeros(4000 * 7, [("episode", "<i4"), ("frame", "<i4"), ("time_ns", "<i8")])
    anchors["episode"] = np.repeat(np.arange(4000), 7)
    anchors["frame"] = np.tile(np.arange(7), 4000)
    found = spread_evenly(anchors, 4000)
    assert len(found) == 700 and len(np.unique(found["episode"])) == 100
    assert (found["episode"][0], found["episode"][-1]) == (0, 3999)
    assert (np.bincount(found["frame"]) == 100).all()
    few = spread_evenly(anchors[anchors["episode"] < 3], 3)
    assert (few == anchors[:21]).all()
    anchors["episode"] = np.sort(np.arange(28000) % 50)
    found = spread_evenly(anchors, 50)
    assert len(found) == 1000 and (np.bincount(found["episode"]) == 20).all()


TABLE = """
key      Hz  offsets                method                padded  age, ms: median  largest
state   100  -0.02 to 0 s, 3 steps  linear                  0.5%                0        0
camera   30  none: at the anchor    previous 1, linear 2    0.0%               15       30
padded, age: of 200 samples
"""


def test_the_table(tmp_path: Path) -> None:
    streams = {"state": times(100), "camera": {"times": times(30), "values": values(60, 3)}}
    loader, caught = make(
        write(tmp_path / "s", streams),
        {"state": [-0.02, -0.01, 0.0], "camera": None},
        method={"camera": [("previous", 1), ("linear", 2)]},
    )
    assert caught == []
    assert str(loader.summary()) == repr(loader.summary()) == TABLE.strip()


def test_rows_that_are_a_nanosecond_apart_have_a_rate(tmp_path: Path) -> None:
    loader, _ = make(write(tmp_path / "s", {"laser": np.arange(100)}), {"laser": [0.0]})
    assert [stream.rate_hz for stream in loader.summary().streams] == [1e9]


def test_a_notebook_shows_it(tmp_path: Path) -> None:
    loader, _ = make(write(tmp_path / "s", {"a<b": times(100)}))
    shown = loader.summary()._repr_html_()
    assert shown.startswith('<table><caption style="caption-side: bottom">padded, age: of 200 samp')
    assert '<td style="text-align: left">a&lt;b</td><td style="text-align: right">100</td>' in shown


def test_a_mixture_has_the_rows_of_its_loaders(tmp_path: Path) -> None:
    store, humanoid = write_store(tmp_path / "a"), write_humanoid(tmp_path / "b")
    loaders = [
        make(store, {"action": [0.0, 0.02]})[0],
        make(humanoid, {"qpos": [0.0, 0.1], "gripper": None})[0],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture = rc.Loader.mixture(
            loaders, [1, 1], samples=10, batch_size=2, keys=[{"action": "joint"}, {}]
        )
        pickle.loads(pickle.dumps(mixture))
    summary = mixture.summary()
    found = [(stream.dataset_index, stream.key, stream.padded) for stream in summary.streams]
    a, b = (loader.summary().streams for loader in loaders)
    assert found == [
        (0, "joint", a[0].padded), (1, "qpos", b[0].padded), (1, "gripper", b[1].padded),
    ]  # fmt: skip
    assert str(summary).splitlines()[0].split()[:3] == ["loader", "key", "Hz"]
    assert str(summary).splitlines()[1].split()[:3] == ["0", "joint", "50"]


# ---- no warning ----------------------------------------------------------------------------------


def test_what_is_usual_is_no_warning(tmp_path: Path) -> None:
    """A slow camera that is held, a chunk of actions, jitter, a late start, one lost row."""
    rng = np.random.default_rng(0)
    jittered = times(200) + rng.integers(0, 2 * MS, 400)
    streams = {
        "joints": np.delete(jittered, 100),
        "camera": {"times": times(30, 0.1), "received": times(30, 0.1) + 190 * MS},
        "gps": times(2),
        "action": times(50),
    }
    offsets = {"joints": [-0.1, 0.0], "camera": [0.0], "gps": [0.0]}
    chunk = {"action": [i * 0.02 for i in range(50)]}
    store = write(tmp_path / "s", streams, streams)
    _, caught = make(store, offsets | chunk, anchor="action")
    assert caught == []


def test_latched_and_scarce_rows_have_no_silences(tmp_path: Path) -> None:
    streams = {"joints": times(100), "map": np.zeros(1, np.int64), "goal": times(100)[[0, 1, 150]]}
    _, caught = make(write(tmp_path / "s", streams), {key: [0.0] for key in streams})
    assert caught == []


# ---- keys that are mostly padded -----------------------------------------------------------------


def padding(text: str, keys: int = 1, of: int = 1) -> list[str]:
    return [
        f"Loader: padding in more than half of the steps of {keys} of {of} keys:\n  {text}\n"
        "docs/padding.md says what is_pad means; loader.summary() shows all keys"
    ]


def test_a_chunk_that_is_longer_than_the_episodes(tmp_path: Path) -> None:
    store = write(tmp_path / "s", {"action": times(50, 0, 1)}, {"action": times(50, 0, 1)})
    loader, caught = make(store, {"action": [i * 0.02 for i in range(100)]})
    share = float(loader.gather(range(100))["action_is_pad"].float().mean())
    assert share == pytest.approx(0.745)
    assert caught == padding(
        "action: 74% of its steps are padded: 74% lie after its last row (0.76 s away by the "
        "median) (shorter offsets, drop_n_last_frames or time_ranges leaves these out)"
    )
    # One warning for a process: nobody else's, and not again where a loader is made of it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(loader))
    assert str(again.summary()) == str(loader.summary())
    _, caught = make(store, {"action": [i * 0.02 for i in range(100)]}, rank=1, world_size=2)
    assert caught == []


def test_rows_that_are_counted(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("action", rate=50, timeline="rows")
        with writer.episode() as episode:
            episode.add("action", times(50, 0, 1), values(50))
    _, caught = make(tmp_path / "s", {"action": [-1.0, -0.8, 0.0]})
    assert caught == padding(
        "action: 60% of its steps are padded: 60% lie before its first row (drop_n_first_frames or "
        "time_ranges leaves such samples out)"
    )


def why(folder: Path, streams: dict[str, Any], *arguments: Any, **options: Any) -> str:
    """The line of the warning, of one key, that says why it is padded."""
    _, caught = make(write(folder, streams), *arguments, **options)
    (text,) = caught
    return text.splitlines()[1].strip()


def test_why(tmp_path: Path) -> None:
    late = {"joints": times(100), "state": times(100, 1.5)}
    assert why(tmp_path / "late", late, {"state": [0.0]}, anchor="joints") == (
        "state: 75% of its steps are padded: 75% lie before its first row (0.755 s away by the "
        "median) (drop_n_first_frames or time_ranges leaves such samples out)"
    )
    slow = {"joints": times(100), "camera": times(5)}
    found = why(
        tmp_path / "slow", slow, {"camera": [0.0]}, anchor="joints", max_gap_s={"camera": 0.05}
    )
    assert found == (
        "camera: 70% of its steps are padded: 70% are farther from their rows than max_gap_s=0.05 "
        "allows (a larger max_gap_s pads less)"
    )
    marked = {"state": {"times": times(100), "valid": np.arange(200) % 4 == 0}}
    assert why(tmp_path / "marked", marked, {"state": [0.0]}) == (
        "state: 75% of its steps are padded: 75% are made of rows that are marked as not valid "
        "(`robocache info` on the store counts such rows)"
    )
    some = [
        {"joints": times(100)},
        {"joints": times(100)},
        {"joints": times(100), "rare": times(9)},
    ]
    _, (text,) = make(write(tmp_path / "some", *some), {"rare": [0.0]}, anchor="joints")
    assert text.splitlines()[1].strip() == (
        "rare: 67% of its steps are padded: 67% are in episodes without rows of it (episodes= or "
        "predicate= leaves such episodes out)"
    )
    assert why(tmp_path / "wait", {"state": times(100)}, {"state": [0.0]}, latency_s=1.5) == (
        "state: 75% of its steps are padded: 75% are asked for before any row has arrived "
        "(latency_s=1.5) (a smaller latency_s pads less)"
    )
    sent = {
        "joints": times(100),
        "state": {"times": times(100), "received": times(100) + 1200 * MS},
    }
    found = why(tmp_path / "sent", sent, {"state": [-0.2, 0.0]}, anchor="joints")
    assert found == (
        "state: 60% of its steps are padded: 55% are asked for before any row has arrived, which "
        "takes 1.2 s by the median, 5% lie before its first row (0.105 s away by the median) "
        "(drop_n_first_frames or time_ranges leaves such samples out)"
    )
    zeros = np.zeros((200, 4), np.float32)
    zeros[:20] = 1
    pose = {"pose": {"times": times(100), "values": zeros}}
    assert why(tmp_path / "zeros", pose, {"pose": [0.0]}, method="slerp_xyzw") == (
        "pose: 90% of its steps are padded: 90% are made of quaternions of zeros (`robocache "
        "check` reports such rows)"
    )


def test_what_is_relative_is_padded_with_its_reference(tmp_path: Path) -> None:
    store = write(tmp_path / "s", {"action": times(100), "state": times(100, 1.5)})
    _, (text,) = make(store, {"action": [0.0], "state": [0.0]}, relative_to={"action": "state"})
    first, second = (line.strip() for line in text.splitlines()[1:3])
    assert first == (
        "action: 75% of its steps are padded: 75% have no valid 'state' to subtract (its own "
        "padding says why)"
    )
    assert second.startswith("state: 75% of its steps are padded: 75% lie before its first row")


def test_many_keys_are_one_warning(tmp_path: Path) -> None:
    padded = {f"s{i}": times(100, 1.9 - i / 10) for i in range(7)}
    store = write(tmp_path / "s", {"joints": times(100)} | padded)
    _, (text,) = make(store, {key: [0.0] for key in ("joints", *reversed(padded))})
    lines = text.splitlines()
    assert lines[0] == "Loader: padding in more than half of the steps of 7 of 8 keys:"
    assert [line.split(":")[0].strip() for line in lines[1:6]] == ["s0", "s1", "s2", "s3", "s4"]
    assert lines[6] == "  and 2 more"


# ---- windows that are never valid ----------------------------------------------------------------


def refuse(message: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(ValueError, match="expected a window that is valid") as error:
        make(*arguments, **options)
    assert str(error.value) == message


def test_two_clocks(tmp_path: Path) -> None:
    """Stamps of a simulation that begins at 0, receipt by the wall clock."""
    wall = times(100) + 1_700_000_000 * S
    store = write(tmp_path / "s", {"imu": {"times": times(100), "received": wall}})
    message = (
        "windows['imu']: expected a window that is valid at one sample at least, got one "
        "that is padded at all 200: 100% are asked for before any row has arrived: by the median, "
        "`received` is 1,700,000,000 s after the rows' times, which are of another clock (convert "
        "again with --stamp received; or rc.Window(causal=False) ignores arrivals)"
    )
    refuse(message, store, {"imu": [0.0]})
    refuse(message, store, {"imu": [0.0]}, rank=1, world_size=2)
    loader, caught = make(store, {"imu": [0.0]}, causal={"imu": False})
    assert caught == [] and loader.summary().streams[0].padded == 0


def test_a_stream_of_another_clock(tmp_path: Path) -> None:
    store = write(tmp_path / "s", {"imu": times(100), "cmd": times(10) + 1_700_000_000 * S})
    refuse(
        "windows['cmd']: expected a window that is valid at one sample at least, got one "
        "that is padded at all 200: 100% lie before its first row (1,699,999,999 s away by the "
        "median), whose times are of another clock (convert again with --stamp received)",
        store, {"imu": [0.0], "cmd": [0.0]},
    )  # fmt: skip
    # The other way round it is held, and very old.
    loader, _ = make(store, {"imu": [0.0], "cmd": [0.0]}, anchor="cmd")
    assert loader.summary().streams[0].age_median_ms > 1e12


def test_offsets_and_episodes_without_rows_are_warnings(tmp_path: Path) -> None:
    """All streams of a store, in episodes that have some of them, make a loader."""
    store = write(tmp_path / "s", {"a": times(100)}, {"a": times(100), "b": times(100)})
    _, (text,) = make(store, {"a": [0.0], "b": [0.0]}, episodes=[0])
    assert (
        "\n  b: 100% of its steps are padded: 100% are in episodes without rows of it (episodes= "
        "or predicate= leaves such episodes out)\n"
    ) in text
    _, (text,) = make(store, {"a": [5.0]})
    assert (
        "\n  a: 100% of its steps are padded: 100% lie after its last row (4 s away by the median) "
        "(shorter offsets, drop_n_last_frames or time_ranges leaves these out)\n"
    ) in text


def test_one_valid_sample_of_thousands_is_no_error(tmp_path: Path) -> None:
    streams = [{"a": times(10)} for _ in range(300)]
    streams[201]["b"] = times(10, 1.8)
    loader, (text,) = make(write(tmp_path / "s", *streams), {"b": [0.0]}, anchor="a")
    assert loader.summary().streams[0].padded == 1  # as far as it looked
    assert "b: 100% of its steps are padded: 100% are in episodes without rows" in text
    assert int((~loader.gather(range(6000))["b_is_pad"]).sum()) == 2


# ---- silences ------------------------------------------------------------------------------------


def test_silences(tmp_path: Path) -> None:
    silent = np.delete(times(100), np.arange(50, 80))
    store = write(tmp_path / "s", {"joints": times(100), "gps": silent, "imu": silent})
    offsets = {key: [0.0] for key in ("joints", "gps", "imu")}
    _, caught = make(store, offsets, max_gap_s={"imu": 0.05})
    assert caught == [
        "Loader: valid values across silences of more than 5 periods in 1 of 3 keys:\n"
        "  gps: 12% of its steps, with silences of up to 0.31 s in rows of 100 Hz "
        "(rc.Window(max_gap_s=0.05) pads them)\n"
        "a max_gap_s above the silences keeps the values; loader.summary() shows all keys"
    ]
    _, caught = make(store, offsets, max_gap_s={"imu": 0.05, "gps": 0.05})
    assert caught == []
    _, caught = make(store, offsets, max_gap_s=0.5)
    assert caught == []


def test_a_stream_that_ends_early_is_silent_from_then_on(tmp_path: Path) -> None:
    store = write(tmp_path / "s", {"joints": times(100), "camera": times(30, 0, 1)})
    loader, (text,) = make(store, {"joints": [0.0], "camera": [0.0]})
    assert "  camera: 43% of its steps, with silences of up to 1.02 s in rows of 30 Hz" in text
    assert loader.summary().streams[1].padded == 0


# ---- what it costs -------------------------------------------------------------------------------


def test_values_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of large images is examined through one column."""
    from robocache.loader import padding_samples

    made: list[int] = []
    plan = padding_samples.BatchPlan

    def counted(specs: Any, data: Any, *rest: Any) -> Any:
        made.extend(of.values.size(1) for of in data)
        assert all(of.values.stride(0) == 0 for of in data)
        return plan(specs, data, *rest)

    monkeypatch.setattr(padding_samples, "BatchPlan", counted)
    pictures = np.zeros((60, 48, 64, 3), np.uint8)
    store = write(tmp_path / "s", {"camera": {"times": times(30), "values": pictures}})
    loader, _ = make(store, {"camera": [-0.1, 0.0]}, channels_first=True, dtype=torch.float16)
    assert made == [1] and loader.summary().streams[0].padded > 0


def test_the_picture_of_the_page() -> None:
    """Its steps are a loader's: padded at the start, in a silence, and past the end."""
    pytest.importorskip("matplotlib", reason="docs/padding.svg is drawn by matplotlib")
    script = Path(__file__).parents[3] / "docs" / "draw_padding.py"
    found = [steps.is_pad.tolist() for steps in runpy.run_path(str(script))["see"]()]
    assert found == [
        [True, True, False, False],
        [False, False, False, False],
        [False, True, True, True],
        [False, False, False, True, True, True, True],
    ]


def test_quaternions_by_rows(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer:
        writer.declare("pose", rate=50, method=[("linear", 3), ("slerp_wxyz", 4)])
        with writer.episode() as episode:
            rows = np.tile(np.eye(7, dtype=np.float32)[3], (10, 1))
            episode.add("pose", np.arange(10) * 20_000_000, rows)
    window = rc.Window([-0.02, 0.0, 0.02], timeline="rows")
    loader = rc.Loader(tmp_path / "store", 10, {"pose": window}, shuffle=False, device="cpu")
    batch = loader.next()
    assert batch["pose_is_pad"].sum() == 2  # before the first row, and after the last
    assert (batch["pose"] == torch.from_numpy(rows[0])).all()
