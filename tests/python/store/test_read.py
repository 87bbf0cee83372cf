"""Reading episode stores that were written by hand, with the safetensors package."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stores import NAMES, HandEpisode, HandStore, safetensors

import robocache as rc
from robocache.store.library import Rows
from robocache.store.rows import merged

MS = 10**6


def rows(count: int, width: int = 3, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    times = start + np.arange(count, dtype=np.int64) * 10 * MS
    return times, np.arange(count * width, dtype=np.float32).reshape(count, width) + start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards: three episodes and one; the camera is in two episodes, the force in one shard."""
    image = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    camera = (np.array([5, 7]), image, np.array([6, 9]), np.array([True, False]))
    first = [
        HandEpisode({"action": rows(5), "camera/rgb": camera}, task=1, subsets=3, source="a.bag"),
        HandEpisode({"action": rows(1, start=3)}, source="b.bag#grün"),
        HandEpisode({"action": rows(4), "camera/rgb": camera}, task=0, subsets=1, source=""),
    ]
    force = (np.array([1, 2, 2, 9]) * MS, np.array([1.5, 2.5, 3.5, 4.5]))
    second = [HandEpisode({"action": rows(7), "force": force}, task=1, subsets=2, source="c")]
    HandStore(tmp_path / "st").write(
        [first, second],
        tasks=["place", "pick"],
        subsets=["train", "val"],
        streams={
            "action": {
                "method": [["linear", 2], ["previous", 1]],
                "units": "rad",
                "channels": ["a", "b", "c"],
                "rate": 100,
                "timeline": "rows",
                "source": "topic /joints",
            },
            "camera/rgb": {"method": "previous"},
        },
        statistics={
            "file": "statistics-00000.safetensors",
            "bytes": 9,
            "crc32": "cbf43926",
            "streams": {
                "action": {
                    "count": [17, 17, 17],
                    "mean": [1, 2.5, None],
                    "std": [0, 1, 2],
                    "min": [0, 0, 0],
                    "max": [3, 4, None],
                    "quantiles": {"0.5": [1, 2, 3], "0.01": [0, 0, 0]},
                    "exact_quantiles": True,
                }
            },
        },
    )
    (tmp_path / "st" / "statistics-00000.safetensors").write_bytes(b"123456789")
    return tmp_path / "st"


def test_store(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    assert store.path == str(folder)
    assert len(store) == len(store.episodes) == 4
    assert store.tasks == ("place", "pick") and store.subsets == ("train", "val")
    assert list(store.streams) == ["action", "camera/rgb", "force"]
    assert store.bytes == sum(file.stat().st_size for file in folder.glob("shard-*"))
    action = store.streams["action"]
    assert action.dtype == np.float32 and action.shape == (3,) and action.rows == 17
    assert action.method == (("linear", 2), ("previous", 1)) and action.channels == ("a", "b", "c")
    assert (action.units, action.rate, action.timeline) == ("rad", 100, "rows")
    assert action.source == "topic /joints" and action.row_bytes == 12
    camera = store.streams["camera/rgb"]
    assert camera.dtype == np.uint8 and camera.shape == (4, 5, 3) and camera.rows == 4
    assert (camera.method, camera.units, camera.channels) == ("previous", None, None)
    assert (camera.rate, camera.timeline, camera.source) == (None, "time", None)
    assert store.streams["force"].shape == () and store.streams["force"].row_bytes == 8
    assert repr(store) == (
        f"EpisodeStore({str(folder)!r}: 4 episodes of action F32[3] 100 Hz, camera/rgb U8[4,5,3], "
        "force F64)"
    )
    with pytest.raises(TypeError):
        store.streams["x"] = action  # type: ignore[index]


def test_statistics(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    statistics = store.statistics["action"]
    assert list(store.statistics) == ["action"] and store.streams["force"].statistics is None
    assert statistics.count.dtype == np.int64 and statistics.count.tolist() == [17, 17, 17]
    np.testing.assert_array_equal(statistics.mean, [1, 2.5, np.nan])
    np.testing.assert_array_equal(statistics.std, [0, 1, 2])
    np.testing.assert_array_equal(statistics.min, [0, 0, 0])
    np.testing.assert_array_equal(statistics.max, [3, 4, np.nan])
    np.testing.assert_array_equal(statistics.quantiles[0.5], [1, 2, 3])
    assert sorted(statistics.quantiles) == [0.01, 0.5] and statistics.exact_quantiles


def test_episodes(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    first, second, third, last = store
    assert [e.index for e in (first, second, third, last)] == [0, 1, 2, 3]
    assert first.length == 5 and first.start_ns == 0 and first.end_ns == 40 * MS
    assert first.duration_s == pytest.approx(0.04)
    assert [e.task for e in store] == ["pick", None, "place", "pick"]
    assert [e.subsets for e in store] == [("train", "val"), (), ("train",), ("val",)]
    assert [e.source for e in store] == ["a.bag", "b.bag#grün", "", "c"]
    assert first.streams == ("action", "camera/rgb") and second.streams == ("action",)
    assert last.streams == ("action", "force") and list(last) == ["action", "force"]
    assert "force" in last and "force" not in first and "nothing" not in first and 3 not in first
    assert repr(third).endswith(")") and "from" not in repr(third)
    with pytest.raises(KeyError, match=r"expected one of action, .*, got 'nothing'"):
        store.streams["nothing"]
    assert repr(last) == "Episode(3: 7 rows, 0.060 s, task 'pick', action, force; from 'c')"


def test_columns(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    episodes = store.episodes
    assert episodes.lengths.tolist() == [5, 1, 4, 7]
    assert episodes.starts_ns.tolist() == [0, 3, 0, 0]
    assert episodes.ends_ns.tolist() == [40 * MS, 3, 30 * MS, 60 * MS]
    assert episodes.task_indices.tolist() == [1, -1, 0, 1]
    assert episodes[1:3].lengths.tolist() == [1, 4]
    assert episodes[::-2].lengths.tolist() == [7, 1]
    assert episodes[4:].lengths.tolist() == [] and len(episodes[4:]) == 0
    assert episodes.lengths.dtype == np.int64 and not episodes.lengths.flags.writeable


def test_indexing(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    assert store[-1].index == store.episodes[-1].index == 3
    assert [e.index for e in store[1:]] == [1, 2, 3] and store[1:][-1].index == 3
    assert [e.index for e in store.episodes[::-1][1:3]] == [2, 1]
    assert store[np.int64(2)].index == 2
    for index in (4, -5):
        with pytest.raises(IndexError, match=f"^episode: expected an index below 4, got {index}$"):
            store[index]
    with pytest.raises(TypeError):
        store["action"]  # type: ignore[call-overload]


def test_rows(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    whole = {
        number: safetensors.load_file(folder / f"shard-{number:05}.safetensors")
        for number in (0, 1)
    }
    begin = dict.fromkeys(store.streams, 0)
    for index, episode in enumerate(store):
        if index == 3:
            begin = dict.fromkeys(store.streams, 0)
        for name in store.streams:
            found = episode[name]
            tensors = whole[index // 3]
            part = slice(begin[name], begin[name] + len(found))
            begin[name] += len(found)
            assert (len(found) > 0) == (name in episode)
            if not len(found):
                assert found.values.shape == (0, *store.streams[name].shape)
                assert found.times.shape == (0,)
                continue
            assert found.values.dtype == store.streams[name].dtype
            np.testing.assert_array_equal(found.values, tensors[f"{name}/values"][part])
            np.testing.assert_array_equal(found.times, tensors[f"{name}/times"][part])
            if name == "camera/rgb":
                np.testing.assert_array_equal(found.received, tensors[f"{name}/received"][part])
                np.testing.assert_array_equal(found.valid, tensors[f"{name}/valid"][part])
            else:
                assert found.received is None and found.valid is None
    assert begin["action"] == 7
    with pytest.raises(
        KeyError, match=r"expected a stream of the store .action, camera/rgb, force"
    ):
        store[0]["odometry"]


def test_rows_of_whole_shards(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    first, second = store.stream_rows("action")
    np.testing.assert_array_equal(
        first.values, np.concatenate([e["action"].values for e in store[:3]])
    )
    np.testing.assert_array_equal(
        first.times, np.concatenate([e["action"].times for e in store[:3]])
    )
    np.testing.assert_array_equal(second.values, store[3]["action"].values)
    (camera,) = store.stream_rows("camera/rgb")  # the other shard has none
    assert camera.received is not None and camera.received.tolist() == [6, 9, 6, 9]
    assert camera.valid is not None and camera.valid.tolist() == [True, False, True, False]
    with pytest.raises(
        KeyError, match=r"expected a stream of the store .action, camera/rgb, force"
    ):
        store.stream_rows("odometry")


def test_parts_of_rows(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    camera = store[0]["camera/rgb"]
    part = camera[1:]
    assert len(part) == 1 and part.times.tolist() == [7] and part.received is not None
    assert part.received.tolist() == [9] and part.valid is not None and not part.valid[0]
    assert np.shares_memory(part.values, camera.values)
    assert (
        repr(camera) == "StreamRows(uint8[2, 4, 5, 3], times, received, valid, method='previous')"
    )
    layout = (("linear", 2), ("previous", 1))
    part_of_action = store[0]["action"][:2]
    assert repr(part_of_action) == f"StreamRows(float32[2, 3], times, method={layout})"
    with pytest.raises(TypeError, match=r"^rows: expected a slice, got int"):
        camera[0]  # type: ignore[index]
    with pytest.raises(ValueError, match=r"^rows: expected a step of 1 or more, got -1$"):
        camera[::-1]


def test_measured_rate(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    assert store[0]["action"].rate == pytest.approx(100)
    assert store[3]["force"].rate == pytest.approx(3 / 0.008)
    assert store[1]["action"].rate is None and store[0]["force"].rate is None
    assert store[3]["force"][1:3].rate is None  # both at one time


def test_rows_are_views_that_outlive_the_store(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    values = store[0]["action"].values
    again = store[0]["action"].values
    assert np.shares_memory(values, again) and not values.flags.writeable
    assert values.flags.aligned and values.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        values[0, 0] = 3
    expected = values.copy()
    del store, again
    gc.collect()
    for file in folder.iterdir():
        file.unlink()
    np.testing.assert_array_equal(values, expected)


def test_closes_its_maps(folder: Path) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(str(folder))

    store = rc.EpisodeStore(folder)
    values = store[0]["action"].values
    assert mapped() == 2
    del store
    gc.collect()
    assert mapped() == 2  # the array needs one
    del values
    gc.collect()
    assert mapped() == 0


def test_every_type(tmp_path: Path) -> None:
    streams = {}
    for name in NAMES:
        if name == "bfloat16":
            name = pytest.importorskip("ml_dtypes").bfloat16
        values = np.array([[0, 1, 1], [1, 0, 1]]).astype(name)
        streams[f"of {np.dtype(name)}"] = (np.array([1, 2]), values)
    HandStore(tmp_path).write([[HandEpisode(streams)]])
    episode = rc.EpisodeStore(tmp_path)[0]
    for name, (_, values) in streams.items():
        assert episode[name].values.dtype == values.dtype
        np.testing.assert_array_equal(episode[name].values, values)
        assert episode[name].values.flags.aligned


def test_empty_store(tmp_path: Path) -> None:
    HandStore(tmp_path).write([])
    store = rc.EpisodeStore(tmp_path)
    assert len(store) == 0 and list(store) == [] and store.statistics == {}
    assert store.episodes.lengths.shape == (0,)
    assert repr(store) == f"EpisodeStore({str(tmp_path)!r}: 0 episodes of no streams)"
    store.verify()


def test_verify_reports_progress(folder: Path) -> None:
    store = rc.EpisodeStore(folder)
    seen: list[tuple[int, int]] = []
    store.verify(lambda done, total: seen.append((done, total)))
    sizes = [file.stat().st_size for file in sorted(folder.glob("shard-*"))]
    assert seen == [(sizes[0], sum(sizes)), (sum(sizes), sum(sizes))]


def test_pickled(folder: Path) -> None:
    store = pickle.loads(pickle.dumps(rc.EpisodeStore(folder)))
    np.testing.assert_array_equal(store[3]["action"].values, rows(7)[1])


def test_pickled_and_copied_from_another_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path, as under Hydra, which changes the working directory."""
    monkeypatch.chdir(folder.parent)
    store = rc.EpisodeStore(folder.name)
    (folder.parent / "link").symlink_to(folder.name)
    linked = rc.EpisodeStore("link")
    pickled = pickle.dumps(store)
    monkeypatch.chdir("/")
    for again in (pickle.loads(pickled), pickle.loads(pickle.dumps(store)), copy.deepcopy(store)):
        assert again.path == str(folder) and store.path == folder.name
        np.testing.assert_array_equal(again[3]["action"].values, rows(7)[1])
    assert copy.copy(linked).path == str(folder.parent / "link")  # which may lead elsewhere later


def test_path_like_relative_and_odd(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = folder.rename(folder.parent / "größer mit\nZeile.store")
    monkeypatch.chdir(odd.parent)
    store = rc.EpisodeStore(odd.name)
    monkeypatch.chdir("/")
    assert store.path == odd.name and len(store) == 4
    store.verify()  # though the path leads nowhere from here
    link = odd.parent / "link"
    link.symlink_to(odd)
    assert len(rc.EpisodeStore(link)) == 4


def test_needs_no_torch(folder: Path) -> None:
    program = (
        "import sys, robocache as rc\n"
        f"store = rc.EpisodeStore({str(folder)!r})\n"
        "store.verify(); store[0]['action'].values.sum()\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_places_that_are_adjacent_are_one() -> None:
    """Times of 8 bytes: two parts side by side, none, one after a gap, and one of another shard."""
    places = [(0, 2, 4, 100), (0, 3, 5, 116), (0, 0, 0, 140), (0, 1, 7, 148), (1, 1, 1, 156)]
    parts = [
        Rows(shard=shard, rows=rows, items=items, times=times)
        for shard, rows, items, times in places
    ]
    found = [(part.shard, part.rows, part.items, part.times) for part in merged(parts)]
    assert found == [(0, 5, 9, 100), (0, 1, 7, 148), (1, 1, 1, 156)]
