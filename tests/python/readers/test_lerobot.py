"""LeRobot's data sets: a real one, generated ones, and one that LeRobot itself writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lerobot_sets import FEATURES, rows_of, table_of, write_v2, write_v3
from privileges import unprivileged
from recordings import DATA, message_of, needs, read_all

import robocache as rc
from robocache.readers import ReadOptions, open_recording
from robocache.readers.rows import row_times

pa = pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
pytest.importorskip("PIL", reason="images need pillow")

G1 = DATA / "lerobot_v21_g1"
WITHOUT_IMAGES = ReadOptions(images=False)
STREAMS = [name for name in FEATURES if FEATURES[name]["dtype"] != "string"][:5]


# ---- a real one ----------------------------------------------------------------------------------


@needs(G1)
def test_every_row_is_pyarrow() -> None:
    read, recording = read_all(G1, WITHOUT_IMAGES)
    assert list(read) == [f"episode_{number:06d}" for number in (0, 1, 29, 30)]
    for key, streams in read.items():
        table = pq.read_table(G1 / f"data/chunk-000/{key}.parquet")
        assert list(streams) == ["observation.state", "action"]
        for name, rows in streams.items():
            assert rows.values.dtype == np.float32
            np.testing.assert_array_equal(rows.values, np.array(table[name].to_pylist(), "f4"))
            np.testing.assert_array_equal(rows.times, row_times(0, len(table), 30))
            np.testing.assert_allclose(rows.times / 1e9, table["timestamp"], atol=1e-5)
    assert recording.notes == {
        "episodes whose data file is absent, skipped": 96,
        "streams of images left out (observation.images.cam_high)": 1,
    }


@needs(G1)
def test_metadata() -> None:
    with open_recording(G1, WITHOUT_IMAGES) as recording:
        metadata = recording.streams["action"]
        assert metadata.channels is not None and len(metadata.channels) == 26
        assert metadata.channels[0] == "kLeftShoulderPitch"
        assert metadata.rate == 30 and metadata.timeline == "rows"
        assert {e.task for e in recording.episodes()} == {"Pick up the yellow bottle on the table."}
        assert {e.subsets for e in recording.episodes()} == {("train",)}
    with open_recording(G1) as recording:
        camera = recording.streams["observation.images.cam_high"]
        assert camera.method == "previous" and camera.channels is None


# ---- generated ones ------------------------------------------------------------------------------


def check(root: Path, lengths: list[int], options: ReadOptions | None = None) -> dict[str, int]:
    """That reading gives back every row, and returns the notes."""
    read, recording = read_all(root, options)
    for episode, count in enumerate(lengths):
        if count == 0:
            assert f"episode_{episode:06d}" not in read
            continue
        streams = read[f"episode_{episode:06d}"]
        expected = rows_of(episode, count)
        assert set(streams) == set(recording.streams)
        for name, rows in streams.items():
            assert rows.values.dtype == expected[name].dtype
            np.testing.assert_array_equal(rows.values, expected[name])
            np.testing.assert_array_equal(rows.times, row_times(0, count, 30))
    return dict(recording.notes)


@pytest.mark.parametrize("write", [write_v2, write_v3])
def test_layouts(tmp_path: Path, write: Any) -> None:
    lengths = [5, 12, 0, 1, 9]
    root = write(tmp_path / "a", lengths)
    assert check(root, lengths) == {
        "episodes without rows, skipped": 1,
        "streams of type string left out (note)": 1,
    }
    with open_recording(root) as recording:
        assert set(recording.streams) == set(STREAMS)
        assert recording.streams["action"].channels == ("left", "right")
        assert recording.streams["observation.grid"].channels is None
        episodes = recording.episodes()
        assert [e.task for e in episodes] == ["task 0", "task 1", "task 3", "task 4"]
        assert [e.subsets for e in episodes] == [("train",), ("train",), ("test",), ("test",)]
        # In any order, and again.
        for episode in (episodes[3], episodes[0], episodes[3]):
            times = [rows.times for rows in episode.read() if rows.stream == "action"]
            assert sum(map(len, times)) == lengths[int(episode.key[-1])]


@pytest.mark.parametrize("group", [1, 3, 1000])
@pytest.mark.parametrize("per_file", [1, 3, 9])
def test_packing_makes_no_difference(tmp_path: Path, per_file: int, group: int) -> None:
    lengths = [4, 7, 1, 10, 2]
    check(write_v3(tmp_path / "a", lengths, per_file, group), lengths)


def test_packed_tables_with_other_rows_too(tmp_path: Path) -> None:
    """Episodes in another order, and one that the index does not have any more."""
    root = write_v3(tmp_path / "a", [4, 3, 5], per_file=3)
    path = root / "data/chunk-000/file-000.parquet"
    parts = [table_of(episode, count) for episode, count in ((2, 5), (7, 6), (0, 4), (1, 3))]
    pq.write_table(pa.concat_tables(parts), path)
    check(root, [4, 3, 5])
    pq.write_table(pa.concat_tables([parts[0], parts[2], parts[3]]), path)
    check(root, [4, 3, 5])


def test_images_may_be_left_out_or_resized(tmp_path: Path) -> None:
    root = write_v3(tmp_path / "a", [3, 4])
    notes = check(root, [3, 4], WITHOUT_IMAGES)
    assert notes["streams of images left out (observation.image)"] == 1
    read, _ = read_all(root, ReadOptions(resize=(12, 10)))
    assert read["episode_000001"]["observation.image"].values.shape == (4, 10, 12, 3)
    read, _ = read_all(root, ReadOptions(topics=("action", "next.*")))
    assert set(read["episode_000000"]) == {"action", "next.done"}


def test_images_in_files_of_their_own(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [3])
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    pictures = table["observation.image"].to_pylist()
    for number, picture in enumerate(pictures):
        picture["path"] = f"images/{number}.png"
        (root / "images").mkdir(exist_ok=True)
        (root / picture["path"]).write_bytes(picture["bytes"])
        picture["bytes"] = None

    def put(cells: list[dict[str, Any]]) -> None:
        index = table.schema.get_field_index("observation.image")
        column = pa.array(cells, table.schema.field(index).type)
        pq.write_table(table.set_column(index, "observation.image", column), path)

    put(pictures)
    check(root, [3])
    pictures[1]["path"] = "../a/images/1.png"
    put(pictures)
    message = f"{root}: expected paths inside the data set, got '../a/images/1.png'"
    assert message_of(root) == message
    pictures[1]["path"] = "images/absent.png"
    put(pictures)
    where = f"{path}, row 1 of observation.image"
    assert message_of(root) == f"{where}: expected an image, got none"


def test_timestamps_that_are_not_of_the_rate(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [4])
    path = root / "data/chunk-000/episode_000000.parquet"
    table = table_of(0, 4)
    index = table.schema.get_field_index("timestamp")
    pq.write_table(table.set_column(index, "timestamp", pa.array([0.0, 0.5, 0.5, 2.0])), path)
    read, recording = read_all(root)
    times = read["episode_000000"]["action"].times
    assert times.tolist() == [0, 500_000_000, 500_000_000, 2_000_000_000]
    assert recording.notes["episodes whose timestamps are not frame_index / fps, kept"] == 1
    pq.write_table(table.set_column(index, "timestamp", pa.array([0.0, 0.5, 0.4, 2.0])), path)
    assert message_of(root) == f"{path}: expected timestamps that ascend, got others"


@pytest.mark.parametrize("name", ["is_depth_map", "video.is_depth_map"])
def test_depth_kept_as_video_is_left_out(tmp_path: Path, name: str) -> None:
    depth = {"dtype": "video", "shape": [16, 24, 1], "info": {name: True}}
    root = write_v2(tmp_path / "a", [3], features={**FEATURES, "depth": depth})
    assert check(root, [3])["streams of depth kept as video left out (depth)"] == 1


# ---- one that LeRobot writes ---------------------------------------------------------------------


def picture(number: int) -> Any:
    """A frame that says its number: a block a bit, and only one of them changes from the last."""
    code = number ^ (number >> 1)
    bits = [(code >> bit) & 1 for bit in range(8)]
    row = np.repeat(np.array(bits, np.uint8) * 255, 12)
    return np.broadcast_to(row[None, :, None], (64, 96, 3)).copy()


def blocks(frames: Any) -> Any:
    """[n,8]: which blocks are white, also after a lossy codec."""
    return frames.reshape(len(frames), 64, 8, 12, 3).mean((1, 3, 4)) > 127


def test_what_lerobot_writes(tmp_path: Path) -> None:
    """v3.0, a video of all episodes, by LeRobot's create, add_frame, save_episode, finalize.

    Passes with LeRobot 0.6.1 on torch 2.15, which its wheel does not ask for: installed without
    its dependencies, and then av 15 and what else it imports.
    """
    datasets = pytest.importorskip(
        "lerobot.datasets.lerobot_dataset", reason="this needs LeRobot (pip install lerobot)"
    )
    size = {"shape": (64, 96, 3), "names": ["height", "width", "channels"]}
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
        "action": {"dtype": "float32", "shape": (2,), "names": {"motors": ["x", "y"]}},
        "observation.images.top": {"dtype": "video", **size},
        "observation.images.still": {"dtype": "image", **size},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    }
    root = tmp_path / "set"
    written = datasets.LeRobotDataset.create(
        "robocache/test", fps=30, features=features, root=root, use_videos=True
    )
    lengths = [40, 7, 63]
    random = np.random.default_rng(0)
    rows: list[list[dict[str, Any]]] = []
    number = 0
    for episode, count in enumerate(lengths):
        rows.append([])
        for row in range(count):
            frame = {
                "observation.state": random.normal(size=3).astype(np.float32),
                "action": np.array([episode, row], np.float32),
                "observation.images.top": picture(number),
                "observation.images.still": picture(number),
                "next.reward": random.normal(size=1).astype(np.float32),
                "next.done": np.array([row == count - 1]),
            }
            written.add_frame({**frame, "task": f"task {episode % 2}"})
            rows[-1].append(frame)
            number += 1
        written.save_episode()
    written.finalize()

    assert len(list(root.glob("videos/**/*.mp4"))) == 1  # all episodes share it
    read, recording = read_all(root)
    assert recording.notes == {}
    assert set(recording.streams) == set(features)
    again = datasets.LeRobotDataset("robocache/test", root=root, video_backend="pyav")
    first = 0
    for episode, frames in enumerate(rows):
        streams = read[f"episode_{episode:06d}"]
        items = [again[first + row] for row in range(len(frames))]
        for name, found in streams.items():
            expected = np.stack([frame[name] for frame in frames])
            np.testing.assert_array_equal(found.times, row_times(0, len(frames), 30))
            if name.endswith("top"):
                np.testing.assert_array_equal(blocks(found.values), blocks(expected))
                # The pixels that LeRobot's own reader makes of them: [C,H,W] of 0 to 1.
                own = np.stack([item[name].numpy().transpose(1, 2, 0) for item in items])
                np.testing.assert_array_equal(found.values, np.rint(own * 255).astype(np.uint8))
            else:
                assert found.values.dtype == expected.dtype
                np.testing.assert_array_equal(found.values, expected)
        first += len(frames)
    with open_recording(root) as recording:
        assert [e.task for e in recording.episodes()] == ["task 0", "task 1", "task 0"]


# ---- what is wrong -------------------------------------------------------------------------------


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"codebase_version": "v4.0"},
            "expected codebase_version v2.0, v2.1, v3.0, got 'v4.0'",
        ),
        ({"fps": 0}, "expected fps above 0, got 0"),
        ({"fps": "30"}, "expected fps above 0, got '30'"),
        ({"features": []}, "expected features with dtype and shape, got others"),
        (
            {"features": {"a": {"dtype": "float32"}}},
            "expected features with dtype and shape, got others",
        ),
        (
            {"splits": {"train": "all"}},
            "expected splits such as {\"train\": \"0:100\"}, got {'train': 'all'}",
        ),
        ({"chunks_size": -1}, "expected chunks_size above 0, got -1"),
    ],
)
def test_a_description_of_another_kind(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    root = write_v2(tmp_path / "a", [2], **changes)
    assert message_of(root) == f"{root / 'meta' / 'info.json'}: {message}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("../{episode_index}.parquet", "paths inside the data set, got '../0.parquet'"),
        ("/{episode_index}", "paths inside the data set, got '/0'"),
    ],
)
def test_paths_that_leave_the_data_set(tmp_path: Path, template: str, message: str) -> None:
    root = write_v2(tmp_path / "a", [2], data_path=template)
    assert message_of(root) == f"{root}: expected {message}"


@pytest.mark.parametrize(
    "template",
    [
        "{video}",
        "{episode_index",
        "{}",
        "{episode_index[0]}",
        "{episode_index.real}",
        "{episode_index!r}",
        "{episode_index:{chunk_index}}",
        "{episode_index:>9999999999}",
        "{episode_index:021d}",
        7,
    ],
)
def test_templates_that_are_not_of_numbers(tmp_path: Path, template: Any) -> None:
    root = write_v2(tmp_path / "a", [2], data_path=template)
    assert message_of(root) == (
        f"{root}/meta/info.json: expected a path made of {{episode_chunk}}, {{chunk_index}}, "
        "{episode_index}, of at most 20 digits each ({episode_index:06d}), got "
        f"{template!r}"
    )


def test_damaged_descriptions(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [2])
    episodes = root / "meta" / "episodes.jsonl"
    episodes.write_text(episodes.read_text()[:-20])
    message = f"{episodes}: expected an episode in line 1, got '"
    assert message_of(root).startswith(message)
    line = '{"episode_index": 0, "length": 2}\n'
    episodes.write_text(line * 2)
    assert message_of(root) == f"{root}: expected each episode once, got 0 twice"
    episodes.unlink()
    message = f"{episodes}: expected LeRobot's list of episodes, got no such file"
    assert message_of(root) == message
    info = root / "meta" / "info.json"
    info.write_text(info.read_text()[:40])
    assert message_of(root).startswith(
        f"{info}: expected LeRobot's description of a data set, got JSONDecodeError: "
    )


def test_two_features_of_one_name(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [2])
    info = root / "meta" / "info.json"
    info.write_text(info.read_text().replace('"observation.state"', '"action"'))
    assert message_of(root) == f"{info}: expected entries of different names, got action twice"


def test_damaged_tables(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [20])
    path = root / "data/chunk-000/episode_000000.parquet"
    data = path.read_bytes()
    for size in (0, 4, 100, len(data) - 1):
        path.write_bytes(data[:size])
        assert message_of(root).startswith(f"{path}: expected a Parquet file, got ArrowInvalid: ")
    middle = bytearray(data)
    middle[len(data) // 4 : len(data) // 4 + 400] = bytes(400)
    path.write_bytes(middle)
    assert message_of(root).startswith(f"{path}")


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [4])
    path = root / "data/chunk-000/episode_000000.parquet"
    table = table_of(0, 4)
    pq.write_table(table_of(0, 3), path)
    assert message_of(root) == f"{path}: expected 4 rows of episode 0, got 3"
    pq.write_table(table_of(1, 4), path)
    assert message_of(root) == f"{path}: expected 4 rows of episode 0, got 0"
    pq.write_table(table.drop_columns(["action"]), path)
    assert message_of(root) == f"{path}: expected one column action, got none"
    pq.write_table(table.append_column("action", pa.array([1, 2, 3, 4])), path)
    assert message_of(root) == f"{path}: expected one column action, got 2"
    index = table.schema.get_field_index("action")
    for column, message in (
        (pa.array([[1.0]] * 4), "expected rows of [2] in action, got [1]"),
        (pa.array(["a"] * 4), "expected rows of [2] in action, got no numbers"),
    ):
        pq.write_table(table.set_column(index, "action", column), path)
        assert message_of(root) == f"{path}: {message}"
    for column, message in (
        (pa.array([[1.0, 2.0], None] * 2), "expected a list in every row, got none in 2"),
        (pa.array([[1, 2], [1]] * 2), "expected lists of one length, got 2 and 1"),
        (pa.array([[1, 2], [1, None]] * 2), "expected a number in every row, got none in 2"),
    ):
        pq.write_table(table.set_column(index, "action", column), path)
        assert message_of(root) == f"{path}, column action: {message}"


def test_packed_tables_that_do_not_fit(tmp_path: Path) -> None:
    root = write_v3(tmp_path / "a", [3, 2])
    path = root / "data/chunk-000/file-000.parquet"
    mixed = pq.read_table(path).take([0, 3, 1, 2, 4])
    pq.write_table(mixed, path)
    assert message_of(root) == (
        f"{path}: expected the rows of episode_index 0 side by side, got others between them"
    )
    index = root / "meta/episodes/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(index).drop_columns(["length"]), index)
    assert message_of(root) == f"{index}: expected columns length, got none"
    index.write_bytes(b"PAR1")
    assert message_of(root).startswith(f"{index}: expected a table of episodes, got ArrowInvalid")
    index.unlink()
    folder = root / "meta/episodes"
    assert message_of(root) == f"{folder}: expected tables of episodes (*/*.parquet), got none"


def test_absent_files_are_counted(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [2, 3, 4])
    (root / "data/chunk-000/episode_000001.parquet").unlink()
    read, recording = read_all(root)
    assert list(read) == ["episode_000000", "episode_000002"]
    assert recording.notes["episodes whose data file is absent, skipped"] == 1
    (root / "meta/info.json").unlink()
    assert message_of(root).startswith(f"{root}: expected a recording: LeRobot (a folder with ")


@pytest.mark.parametrize("write", [write_v2, write_v3])
@pytest.mark.parametrize("name", ["chunk_index", "episode_chunk"])
def test_both_names_of_a_chunk(tmp_path: Path, write: Any, name: str) -> None:
    last = "episode_{episode_index:06d}" if write is write_v2 else "file-{file_index:03d}"
    template = f"data/chunk-{{{name}:03d}}/{last}.parquet"
    check(write(tmp_path / "a", [3, 4], data_path=template), [3, 4])


def without_videos(tmp_path: Path) -> Path:
    """Two cameras, of which one has a video in one episode, and the other in none."""
    camera = {"dtype": "video", "shape": [16, 24, 3], "names": ["h", "w", "c"]}
    cameras = {"top": camera, "wrist": camera}
    root = write_v2(tmp_path / "a", [3, 4], features={**FEATURES, **cameras})
    (root / "videos/chunk-000/top").mkdir(parents=True)
    (root / "videos/chunk-000/top/episode_000000.mp4").touch()
    return root


REST = "--no-images, or images=False, reads the rest"


def test_no_episode_has_its_videos(tmp_path: Path) -> None:
    root = without_videos(tmp_path)
    message = "expected an episode with all its videos, got none with that of top, wrist"
    assert message_of(root) == f"{root}: {message} ({REST})"
    report = rc.convert(root, tmp_path / "store")
    assert [one.reason for one in report.skipped] == [f"{message} ({REST})"]
    assert (report.episodes, (tmp_path / "store").exists()) == (0, False)
    check(root, [3, 4], WITHOUT_IMAGES)


def test_an_episode_has_its_videos(tmp_path: Path) -> None:
    root = without_videos(tmp_path)
    for camera in ("top", "wrist"):
        (root / f"videos/chunk-000/{camera}").mkdir(exist_ok=True)
        (root / f"videos/chunk-000/{camera}/episode_000001.mp4").touch()
    with open_recording(root) as recording:
        assert [episode.key for episode in recording.episodes()] == ["episode_000001"]
        text = f"episodes without their video of wrist, skipped ({REST})"
        assert recording.notes[text] == 1


def test_no_episode_has_its_data(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [2, 3])
    for file in root.glob("data/*/*.parquet"):
        file.unlink()
    assert message_of(root) == (
        f"{root}: expected the data file of an episode or more, got none of 2 (the first is "
        "data/chunk-000/episode_000000.parquet; download them)"
    )


def test_permission_denied(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "a", [2])
    closed = root / "data/chunk-000/episode_000000.parquet"
    closed.chmod(0)
    message = unprivileged(message_of, root)
    closed.chmod(0o644)
    (root / "meta/info.json").chmod(0)
    again = unprivileged(message_of, root)
    assert message == f"{closed}: expected a Parquet file, got permission denied"
    assert again == f"{root}: expected a recording, got permission denied"
