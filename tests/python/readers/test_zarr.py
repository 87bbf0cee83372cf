"""diffusion-policy's replay buffers: every row is what zarr reads, and what is wrong is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import robocache
from numpy.typing import NDArray
from privileges import unprivileged
from recordings import DATA, message_of, needs, read_all

from robocache.readers import ReadOptions, find_recordings, open_recording
from robocache.readers.rows import row_times

zarr = pytest.importorskip("zarr", reason="replay buffers need zarr")

PUSHT = DATA / "pusht_zarr" / "pusht.zarr"
AT_10 = ReadOptions(rate=10)


def write(path: Path, ends: Any, rows: int = 12, chunk: int = 5) -> dict[str, NDArray[Any]]:
    """A replay buffer of uncompressed arrays, as zarr v2 lays them out."""
    random = np.random.default_rng(0)
    arrays = {
        "data/action": random.normal(size=(rows, 2)).astype(np.float32),
        "data/count": np.arange(rows, dtype=">i2"),
        "data/img": random.integers(0, 256, (rows, 16, 12, 3)).astype(np.float32),
        "meta/episode_ends": np.asarray(ends),
    }
    for group in ("", "data", "meta"):
        (path / group).mkdir(parents=True, exist_ok=True)
        (path / group / ".zgroup").write_text('{"zarr_format": 2}')
    for name, array in arrays.items():
        folder = path / name
        folder.mkdir()
        length = min(chunk, max(1, len(array)))
        header = {
            "zarr_format": 2,
            "shape": array.shape,
            "chunks": [length, *array.shape[1:]],
            "dtype": array.dtype.str,
            "compressor": None,
            "fill_value": 0,
            "order": "C",
            "filters": None,
        }
        (folder / ".zarray").write_text(json.dumps(header))
        for number, a in enumerate(range(0, len(array), length)):
            part = np.zeros((length, *array.shape[1:]), array.dtype)
            part[: len(array) - a] = array[a : a + length]
            (folder / ".".join([str(number)] + ["0"] * (array.ndim - 1))).write_bytes(part)
    return arrays


@needs(PUSHT)
def test_every_row_is_zarr() -> None:
    read, recording = read_all(PUSHT, AT_10)
    group = zarr.open_group(str(PUSHT), mode="r")
    ends = group["meta/episode_ends"][:]
    assert len(read) == len(ends) == 206
    for name in ("action", "keypoint", "n_contacts", "state"):
        whole = group["data"][name][:]
        for key, a, b in zip(read, [0, *ends], ends, strict=False):
            found = read[key][name]
            assert found.values.dtype == whole.dtype
            np.testing.assert_array_equal(found.values, whole[a:b])
            np.testing.assert_array_equal(found.times, row_times(0, b - a, 10))
    assert sum(len(streams["state"].times) for streams in read.values()) == 25_650
    assert recording.notes == {}


@pytest.mark.parametrize("packed", [False, True])
def test_layout(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "buffer"
    arrays = write(path, [3, 3, 11])
    if packed:
        path = Path(shutil.make_archive(str(tmp_path / "a"), "zip", path))
    read, recording = read_all(path, AT_10)
    assert recording.format == "diffusion-policy zarr"
    assert list(read) == ["episode_0", "episode_2"]
    for key, a, b in (("episode_0", 0, 3), ("episode_2", 3, 11)):
        for name in ("action", "count", "img"):
            np.testing.assert_array_equal(read[key][name].values, arrays[f"data/{name}"][a:b])
    assert read["episode_0"]["img"].values.dtype == np.uint8
    assert read["episode_0"]["count"].values.dtype == np.int16
    assert recording.streams["img"].method == "previous"
    assert recording.notes == {
        "episodes without rows, skipped": 1,
        **{
            f"rows after the end of the last episode left out ({name})": 1
            for name in ("action", "count", "img")
        },
    }
    assert find_recordings(tmp_path) == sorted(find_recordings(tmp_path))


needs_zarr_3 = pytest.mark.skipif(
    int(zarr.__version__.partition(".")[0]) < 3, reason="the test writes by zarr 3"
)


@needs_zarr_3
def test_version_3_of_zarr(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(12, 2))
    group = zarr.open_group(str(tmp_path / "a"), mode="w", zarr_format=3)
    for name, array in {"data/action": values, "meta/episode_ends": np.array([5, 12])}.items():
        group.create_array(name, shape=array.shape, dtype=array.dtype, chunks=(4, *array.shape[1:]))
        group[name][...] = array
    read, _ = read_all(tmp_path / "a", AT_10)
    np.testing.assert_array_equal(read["episode_1"]["action"].values, values[5:])


def test_episodes_may_be_read_in_any_order(tmp_path: Path) -> None:
    write(tmp_path / "a", [2, 7, 12])
    with open_recording(tmp_path / "a", AT_10) as recording:
        episodes = recording.episodes()
        forwards = [next(iter(episode.read())).values.tolist() for episode in episodes]
        back = [next(iter(episode.read())).values.tolist() for episode in reversed(episodes)]
    assert back[::-1] == forwards


def test_images(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, [12])
    read, recording = read_all(path, ReadOptions(rate=10, images=False))
    assert set(read["episode_0"]) == {"action", "count"}
    assert recording.notes["streams of images left out (img)"] == 1
    read, _ = read_all(path, ReadOptions(rate=10, resize=(6, 8)))
    assert read["episode_0"]["img"].values.shape == (12, 8, 6, 3)
    part = np.fromfile(path / "data/img/0.0.0.0", np.float32)
    part[7] = 0.5
    part.tofile(path / "data/img/0.0.0.0")
    assert message_of(path, AT_10) == (
        f"{path}: expected whole numbers of 0 to 255 in the images img, got others"
    )


@needs_zarr_3
def test_workers_clean_up_after_its_library(tmp_path: Path) -> None:
    """numcodecs makes a semaphore where it is imported, which a process that is killed leaves."""
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("data/action", data=np.zeros((12, 2), np.float32))  # compressed
    group.create_array("meta/episode_ends", data=np.array([5, 12]))
    options = ("--rate", 10, "--workers", 2)
    done = robocache("convert", tmp_path / "a.zarr", tmp_path / "s", *options)
    assert done.returncode == 0, done.stderr
    assert "semaphore" not in done.stderr


# ---- what is wrong -------------------------------------------------------------------------------


def test_without_a_rate(tmp_path: Path) -> None:
    write(tmp_path / "a", [12])
    assert "expected a rate, since the recording has neither" in message_of(tmp_path / "a")


def test_ends_that_do_not_fit(tmp_path: Path) -> None:
    for number, (ends, message) in enumerate(
        [
            ([3, 13], "expected 13 rows in data/action, as meta/episode_ends says, got [12, 2]"),
            ([5, 3], "expected ascending rows in meta/episode_ends, got others"),
            ([-1, 3], "expected ascending rows in meta/episode_ends, got others"),
            ([1.5], "expected a row of integers in meta/episode_ends, got float64 [1]"),
            ([[3]], "expected a row of integers in meta/episode_ends, got int64 [1, 1]"),
        ]
    ):
        path = tmp_path / str(number)
        write(path, ends)
        assert message_of(path, AT_10) == f"{path}: {message}"


def test_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, [12])
    chunk = path / "data/action/0.0"
    chunk.write_bytes(chunk.read_bytes()[:7])
    assert message_of(path, AT_10).startswith(f"{path}: expected episode_0 to be readable, got ")
    (path / "data/action/.zarray").write_text("{")
    assert message_of(path, AT_10).startswith(f"{path}: expected a zarr group, got ")
    shutil.rmtree(path / "data")
    assert message_of(path, AT_10) == (
        f"{path}: expected groups data and meta/episode_ends, got none"
    )


def test_absent_chunks_and_groups_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    arrays = write(path, [12])
    (path / "data/action/1.0").unlink()
    (path / "data/more").mkdir()
    (path / "data/more/.zgroup").write_text('{"zarr_format": 2}')
    read, recording = read_all(path, AT_10)
    assert recording.notes == {
        "chunks absent, read as the array's fill value (action)": 1,
        "groups within data left out (more)": 1,
    }
    expected = arrays["data/action"].copy()
    expected[5:10] = 0
    np.testing.assert_array_equal(read["episode_0"]["action"].values, expected)


def test_a_truncated_zip_file(tmp_path: Path) -> None:
    write(tmp_path / "buffer", [12])
    path = Path(shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path / "buffer"))
    path.write_bytes(path.read_bytes()[:-100])
    assert message_of(path, AT_10).startswith(f"{path}: expected a recording: ")


def test_no_episodes(tmp_path: Path) -> None:
    write(tmp_path / "a", np.zeros(0, np.int64), rows=0)
    read, _ = read_all(tmp_path / "a", AT_10)
    assert read == {}


def test_permission_denied(tmp_path: Path) -> None:
    write(tmp_path / "a", [12])
    (tmp_path / "a/data/action/0.0").chmod(0)
    message = unprivileged(message_of, tmp_path / "a", AT_10)
    expected = f"{tmp_path / 'a'}: expected episode_0 to be readable, got permission denied"
    assert message == expected
