"""`rc.align` and `robocache align`: exact values, masks, files, and what is refused."""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import robocache
from recordings import DATA, needs

import robocache as rc
from robocache.core.extras import install_hint
from robocache.readers import MissingLibrary, open_recording

MS = 1_000_000
START = 1_700_000_000_000_000_000
BAG = DATA / "husky_bag" / "husky.bag"


def whole(message: str) -> str:
    """A pattern that matches this message alone."""
    return f"^{re.escape(message)}$"


@pytest.fixture
def streams() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A force with a gap of 300 ms, and a gripper that begins later."""
    rng = np.random.default_rng(0)
    times = START + np.arange(200) * 10 * MS + rng.integers(0, 3 * MS, 200)
    times[100:] += 300 * MS
    grip_times = START + 500 * MS + np.arange(12) * 100 * MS
    return {
        "force": (rng.normal(size=(200, 3)), times),
        "grip": (np.arange(12) * 2**50 + 1, grip_times),
    }


def test_align_stays_a_function() -> None:
    """A package `robocache.align` would replace it on its first import."""
    rc.fuse  # noqa: B018 (loads the modules of alignment)
    assert inspect.isfunction(rc.align)


def test_values_against_numpy(streams: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    table = rc.align(streams, 50, max_gap=0.05)
    force, force_times = streams["force"]
    grip, grip_times = streams["grip"]
    first, last = force_times[0], force_times[-1]
    np.testing.assert_array_equal(table.times, np.arange(first, last + 1, 20 * MS))
    t = table.times
    inside = (t >= first) & (t <= last)
    after = np.minimum(np.searchsorted(force_times, t, "right"), len(force_times) - 1)
    near = force_times[after] - force_times[after - 1] <= 50 * MS
    np.testing.assert_array_equal(table["force"].valid, inside & near)
    for channel in range(3):
        since = (t - first).astype(float)
        expected = np.interp(since, (force_times - first).astype(float), force[:, channel])
        expected[~(inside & near)] = np.nan
        np.testing.assert_allclose(table["force"].values[:, channel], expected, atol=1e-9)
    row = np.searchsorted(grip_times, t, "right") - 1
    held = (row >= 0) & (t <= grip_times[-1]) & (t - grip_times[row] <= 50 * MS)
    np.testing.assert_array_equal(table["grip"].valid, held)
    assert table["grip"].values.dtype == grip.dtype  # beyond float64: rows are chosen
    np.testing.assert_array_equal(table["grip"].values[held], grip[row[held]])
    np.testing.assert_array_equal(table["grip"].age[held], (t - grip_times[row])[held])
    assert not table.valid.all() and table.valid.shape == (len(t), 2)


def test_the_span_where_all_streams_have_rows(
    streams: dict[str, tuple[np.ndarray, np.ndarray]],
) -> None:
    table = rc.align(streams, 50, span="overlap")
    assert table.times[0] == streams["grip"][1][0] and table.valid.all()
    late = {**streams, "late": (np.zeros(2), START + np.array([5000, 6000]) * MS)}
    message = whole(
        "span: expected streams that overlap, got grip, which ends 3.400 s before late begins "
        "(leave one out, or align the union)"
    )
    with pytest.raises(ValueError, match=message):
        rc.align(late, 50, span="overlap")


def test_an_episode_is_aligned_by_its_stored_methods(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("pose", method="slerp_xyzw", channels=("x", "y", "z", "w"))
        with writer.episode() as new:
            new.add("pose", [0, 100 * MS], np.array([[0.0, 0, 0, 1], [0, 0, 1, 0]]))
            new.add("camera", [0, 100 * MS], np.zeros((2, 4, 4, 3), np.uint8))
    episode = rc.EpisodeStore(tmp_path / "s")[0]
    table = episode.align(rate=20)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(table["pose"].values[1], [0, 0, half, half], atol=1e-12)
    assert table.notes == ["images and wide streams are left out unless asked for: camera"]
    assert list(table.to_pandas().columns) == [
        "t_ns", "pose.x", "pose.y", "pose.z", "pose.w", "pose_valid", "pose_age_s"
    ]  # fmt: skip
    linear = rc.align(tmp_path / "s", 20, method={"pose": "linear"})
    assert linear.notes[1:] == [
        "pose looks like quaternions and is aligned linearly (methods slerp_xyzw and slerp_wxyz "
        "keep rotations)"
    ]
    asked = episode.align(rate=20, streams=["camera"])
    assert asked["camera"].values.shape == (3, 4, 4, 3)
    for suffix, place in ((".csv", "columns"), (".mcap", "messages")):
        if suffix == ".mcap":
            pytest.importorskip("mcap", reason="MCAP needs mcap")
        (tmp_path / f"x{suffix}").write_text("old")
        message = whole(
            f"streams[camera]: expected numbers that fit {place}, got images (NPZ holds images)"
        )
        with pytest.raises(ValueError, match=message):
            asked.save(tmp_path / f"x{suffix}")
        assert (tmp_path / f"x{suffix}").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "x.csv", "x.mcap"]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_files(
    suffix: str, streams: dict[str, tuple[np.ndarray, np.ndarray]], tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas")
    table = rc.align(streams, 50, max_gap=0.05)
    path = tmp_path / f"table{suffix}"
    table.save(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if suffix == ".npz":
        with np.load(path) as arrays:
            for name, array in table.to_numpy().items():
                np.testing.assert_array_equal(arrays[name], array)
        return
    read = pandas.read_csv(path) if suffix == ".csv" else pandas.read_parquet(path)
    np.testing.assert_array_equal(read["t_ns"], table.times)
    np.testing.assert_array_equal(read["force.1"], table["force"].values[:, 1])
    np.testing.assert_array_equal(read["force_valid"], table["force"].valid)
    np.testing.assert_array_equal(read["grip"].isna(), ~table["grip"].valid)
    with open_recording(path) as recording:  # by this project's reader: valid rows alone
        (episode,) = recording.episodes()
        rows = [rows for rows in episode.read() if rows.stream == "force"]
    valid = table["force"].valid
    np.testing.assert_array_equal(np.concatenate([r.times for r in rows]), table.times[valid])
    np.testing.assert_array_equal(
        np.concatenate([r.values for r in rows]), table["force"].values[valid]
    )


def test_mcap(streams: dict[str, tuple[np.ndarray, np.ndarray]], tmp_path: Path) -> None:
    """A topic for each stream; messages at the times at which it is valid, as two readers say."""
    library = pytest.importorskip("mcap.reader", reason="MCAP needs mcap")
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("force", channels=("x", "y", "z"))
        with writer.episode() as new:
            for name, (values, times) in streams.items():
                new.add(name, times, values)
            times = START + np.arange(40) * 50 * MS
            new.add("joints", times, np.arange(80, dtype=np.float32).reshape(40, 2))
            new.add("closed", times, np.arange(40) % 3 == 0)
    table = rc.align(tmp_path / "s", 50, max_gap=0.05)
    path = tmp_path / "new" / "table.mcap"
    table.save(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    messages: dict[str, list[tuple[int, Any]]] = {}
    schemas, metadata = {}, {}
    with path.open("rb") as file:
        for schema, channel, message in library.make_reader(file).iter_messages():
            assert message.publish_time == message.log_time
            assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
            found = messages.setdefault(channel.topic, [])
            found.append((message.log_time, json.loads(message.data)))
            schemas[channel.topic] = json.loads(schema.data)["properties"]
            metadata[channel.topic] = channel.metadata
    assert set(messages) == set(table) == {"closed", "force", "grip", "joints"}
    for name, stream in table.items():
        times = table.times[stream.valid].tolist()
        assert [time for time, _ in messages[name]] == times and 0 < len(times) < len(table.times)
        ages = [message.pop("alignment")["age_s"] for _, message in messages[name]]
        assert ages == (stream.age[stream.valid] / 1e9).tolist()
        assert metadata[name] == {"rate": "50", "method": stream.method}
    assert [list(message.values()) for _, message in messages["force"]] == (
        table["force"].values[table["force"].valid].tolist()
    )
    assert list(messages["force"][0][1]) == ["x", "y", "z"]
    assert [message for _, message in messages["grip"]] == [  # beyond float64: exact
        {"value": value} for value in table["grip"].values[table["grip"].valid].tolist()
    ]
    assert messages["joints"][1][1] == {"values": table["joints"].values[1].tolist()}
    assert messages["closed"][0][1] == {"value": True}
    age = schemas["force"].pop("alignment")
    assert age["properties"]["age_s"]["type"] == "number"
    assert schemas["force"] == {key: {"type": "number"} for key in "xyz"}
    assert schemas["grip"]["value"] == {"type": "integer"}
    assert schemas["closed"]["value"] == {"type": "boolean"}
    assert schemas["joints"]["values"]["items"] == {"type": "number"}
    with open_recording(path) as recording:
        (episode,) = recording.episodes()
        parts = list(episode.read())
        assert recording.streams["force"].channels == ("x", "y", "z")
    for name in ("force", "grip", "closed", "joints"):
        stream = table[name]
        rows = [rows for rows in parts if rows.stream in (name, f"{name}/values")]
        times = np.concatenate([r.times for r in rows])
        np.testing.assert_array_equal(times, table.times[stream.valid])
        read = np.concatenate([r.values for r in rows]).reshape(len(times), -1)
        expected = stream.values[stream.valid].reshape(len(times), -1)
        np.testing.assert_array_equal(read, expected)


def test_methods_in_mcap_are_read_again(tmp_path: Path) -> None:
    """A quaternion of a table that was written stays one: slerp, not linear."""
    pytest.importorskip("mcap", reason="MCAP needs mcap")
    pose = (("linear", 3), ("slerp_wxyz", 4))
    methods = {
        "quat": "slerp_xyzw", "named": "slerp_wxyz", "pose": pose, "count": "previous",
        "closed": "nearest", "yaw": "angle", "speed": "linear",
    }  # fmt: skip
    unit = np.tile([0.0, 0.0, 0.0, 1.0], (5, 1))
    rows = {
        "quat": unit, "named": unit[:, ::-1], "pose": np.hstack([unit[:, 1:], unit[:, ::-1]]),
        "count": np.arange(5), "closed": np.arange(5) > 2, "yaw": np.ones(5), "speed": np.ones(5),
    }  # fmt: skip
    with rc.StoreWriter(tmp_path / "s") as writer:
        for name, method in methods.items():
            writer.declare(name, method=method, channels=list("wxyz") if name == "named" else None)
        with writer.episode() as new:
            for name, values in rows.items():
                new.add(name, np.arange(5) * 100 * MS, values)
    path = tmp_path / "take.mcap"
    rc.align(tmp_path / "s", 10).save(path)
    with open_recording(path) as recording:
        parts = [rows for episode in recording.episodes() for rows in episode.read()]
        found = {n.removesuffix("/values"): metadata for n, metadata in recording.streams.items()}
    assert {name: found[name].method for name in methods} == methods
    assert found["quat/alignment"].method == "linear", "an age is no quaternion"
    assert len(parts) == 2 * len(methods)
    again = rc.align(path, 20)
    assert again["quat/values"].method == "slerp_xyzw" and again["pose/values"].method == pose


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    library = pytest.importorskip("mcap.reader", reason="MCAP needs mcap")
    values = np.array([[1.0, np.nan], [np.inf, 2.0]])
    rc.align({"a": (values, np.array([0.0, 0.1]))}, 10).save(tmp_path / "a.mcap")
    with (tmp_path / "a.mcap").open("rb") as file:
        messages = [message.data for *_, message in library.make_reader(file).iter_messages()]
    assert [json.loads(message)["values"] for message in messages] == [[1.0, None], [None, 2.0]]


def test_what_mcap_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcap", reason="MCAP needs mcap")
    path = tmp_path / "a.mcap"
    early = rc.align({"a": (np.zeros(2), np.array([-0.5, 0.5]))}, 10)
    message = whole(
        "times: expected 0 ns or later, as MCAP stores them, got -500000000 (CSV and Parquet store "
        "times before 0)"
    )
    with pytest.raises(ValueError, match=message):
        early.save(path)
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("a", channels=("x", "alignment"))
        with writer.episode() as new:
            new.add("a", [0, MS], np.zeros((2, 2)))
    message = whole(
        "streams[a]: expected channels of different names, other than alignment, got alignment"
    )
    with pytest.raises(ValueError, match=message):
        rc.align(tmp_path / "s", 10).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
    monkeypatch.setitem(sys.modules, "mcap", None)
    message = whole(f"writing MCAP needs mcap: {install_hint('ros')}")
    with pytest.raises(MissingLibrary, match=message):
        rc.align(tmp_path / "s", 10).save(path)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".svg", ".pdf"])
def test_pictures(
    suffix: str, streams: dict[str, tuple[np.ndarray, np.ndarray]], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    if suffix == ".jpg":
        pytest.importorskip("PIL")
    path = tmp_path / "new" / f"table{suffix}"
    for _ in range(2):  # one there is replaced
        assert rc.align(streams, 50, max_gap=0.05).plot(path) == []
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    begin = {".png": b"\x89PNG", ".jpg": b"\xff\xd8\xff", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert path.read_bytes().startswith(begin)


def test_what_a_picture_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aligned lines that break where not valid, over the rows; spans in colors of their kind."""
    figures = pytest.importorskip("robocache.view.figures")
    aligned = pytest.importorskip("robocache.view.aligned", reason="pictures need matplotlib")
    to_hex = pytest.importorskip("matplotlib.colors").to_hex
    kept: list[Any] = []
    monkeypatch.setattr(aligned, "save_figure", lambda figure, path: kept.append(figure))
    times = np.array([0.0, 0.1, 0.2, 0.6, 0.7])
    wide = np.linspace(0, 1, 5)[:, None] * np.arange(11)
    table = rc.align({"a": (np.arange(5.0), times), "b": (wide, times + 0.4)}, 10, max_gap=0.1)
    assert table.plot(tmp_path / "x.png", "t") == ["8 of 11 channels of b, which vary most"]
    (figure,) = kept
    assert figure.get_suptitle().splitlines()[0] == "t: 12 rows at 10 Hz, 1.1 s"
    first, second = figure.axes
    assert first.get_title("left") == "a   float64 12, linear, 41.7 % valid"
    dots, line = first.lines
    np.testing.assert_allclose(dots.get_xdata(), times)
    np.testing.assert_allclose(dots.get_ydata(), np.arange(5))
    expected = [0, 1, 2, np.nan, np.nan, np.nan, 3, 4, *[np.nan] * 4]
    np.testing.assert_allclose(line.get_ydata(), expected)
    spans = {}
    for shade in first.collections:
        color = to_hex(shade.get_facecolor()[0])
        spans[color] = [
            (round(corners.vertices[:, 0].min(), 6), round(corners.vertices[:, 0].max(), 6))
            for corners in shade.get_paths()
        ]
    assert spans == {
        figures.GAP.lower(): [(0.25, 0.55)], figures.GRAY.lower(): [(0.75, 1.15)]
    }  # fmt: skip
    assert [text.get_text() for text in second.get_legend().texts] == [str(i) for i in range(3, 11)]


def test_a_picture_of_many_streams(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    times = np.array([0.0, 0.1])
    still = {f"still_{i}": (np.zeros(2), times) for i in range(25)}
    path = tmp_path / "x.svg"
    assert rc.align(still, 10).plot(path) == ["values of 24 of 25 streams, none of which moves"]
    one = {**still, "arm": (np.arange(2.0), times)}
    assert rc.align(one, 10).plot(path) == ["values of 1 of 26 streams, those that move"]


def test_a_picture_of_images_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    camera = np.zeros((2, 4, 4, 3), np.uint8), np.array([0.0, 0.1])
    path = tmp_path / "x.png"
    message = whole("streams: expected at least 1 of numbers to draw, got images")
    with pytest.raises(ValueError, match=message):
        rc.align({"camera": camera}, 10, streams=["camera"]).plot(path)
    table = rc.align({"camera": camera, "q": (np.zeros(2), camera[1])}, 10, streams=["*"])
    assert table.plot(path) == ["no images of camera"]
    message = whole(
        f"path: expected a name with .png, .jpg, .jpeg, .svg, .pdf, got {tmp_path / 'x.xyz'}"
    )
    with pytest.raises(ValueError, match=message):
        table.plot(tmp_path / "x.xyz")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = whole(f"drawing a picture needs matplotlib: {install_hint('view')}")
    with pytest.raises(MissingLibrary, match=message):
        table.plot(path)


@needs(BAG)
def test_a_ros_bag(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    table = rc.align(BAG, 50, max_gap=0.2)
    name = "/imu/data/linear_acceleration"
    with open_recording(BAG) as recording:
        (episode,) = recording.episodes()
        parts = [rows for rows in episode.read() if rows.stream == name]
    times = np.concatenate([rows.times for rows in parts])
    values = np.concatenate([rows.values for rows in parts])
    valid = table[name].valid
    assert valid.mean() > 0.95
    expected = np.interp(
        (table.times - times[0]).astype(float), (times - times[0]).astype(float), values[:, 1]
    )
    np.testing.assert_allclose(table[name].values[valid, 1], expected[valid], atol=1e-5)
    turns = table["/imu/data/orientation"]
    np.testing.assert_allclose(np.linalg.norm(turns.values[turns.valid], axis=1), 1, atol=1e-6)


def test_the_command_on_files_of_one_take(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "a.csv").write_text("time,q\n" + "".join(f"{i / 10},{i}.5\n" for i in range(11)))
    (tmp_path / "b.csv").write_text("time,f\n" + "".join(f"{i / 20},{i}.0\n" for i in range(21)))
    out = tmp_path / "out.csv"
    result = robocache(
        "align", tmp_path / "a.csv", tmp_path / "b.csv", "--rate", 20, "--method", "q=previous",
        "-o", "out.csv", "--plot", "out.png", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "out.csv: 21 rows at 20 Hz, 1 s, 2 streams",
        "  q: previous, 100 % valid",
        "  f: linear, 100 % valid",
        "wrote out.png",
    ]
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    lines = out.read_text().splitlines()
    assert lines[0] == "t_ns,t_s,q,q_valid,q_age_s,f,f_valid,f_age_s"
    assert lines[2] == "50000000,0.05,0.5,1,0.05,1.0,1,0.0"


def test_the_command_for_a_picture_alone(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    header = ",".join(f"q_{i}" for i in range(9))
    rows = "".join(f"{t / 10}," + ",".join(str(t * i) for i in range(9)) + "\n" for t in range(11))
    (tmp_path / "a.csv").write_text(f"time,{header}\n{rows}")
    result = robocache("align", "a.csv", "--rate", 20, "--plot", "x.svg", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "x.svg: 21 rows at 20 Hz, 1 s, 1 stream",
        "  q: linear, 100 % valid",
        "  drawn: 8 of 9 channels of q, which vary most",
    ]


def test_what_the_command_refuses(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,q\n0.0,1.5\n0.1,2.5\n")
    for arguments, message in (
        ((path, "--rate", 20, "-o", "x.txt"),
         "--output: expected a name with .npz, .csv, .parquet, .mcap, got x.txt"),
        ((path, "--rate", 20, "--plot", "x.txt"),
         "--plot: expected a name with .png, .jpg, .jpeg, .svg, .pdf, got x.txt"),
        ((path, "--rate", 20),
         "--output: expected a file (--plot alone writes a picture), got none"),
        ((path, "--rate", 20, "-o", "x.csv", "--method", "linear", "--method", "q=mean"),
         "--method: expected one method for all streams, or NAME=METHOD, got linear, q=mean"),
        ((path, "--rate", 20, "-o", "x.csv", "--method", "linear", "--method", "mean"),
         "--method: expected one method for all streams, or NAME=METHOD, got linear, mean"),
        ((path, "--rate", 0, "-o", "x.csv"),
         "rate: expected targets per second above 0, up to 1e9, got 0.0"),
        ((path, "--rate", 20, "-o", path),
         f"--output: expected another file than the recordings, got {path}"),
        ((path, "--rate", 20, "--episode", 3, "-o", tmp_path / "x.csv"),
         f"episode: expected one of the 1 of {path}, got 3"),
    ):  # fmt: skip
        result = robocache("align", *arguments, cwd=tmp_path)
        assert (result.returncode, " ".join(result.stderr.split())) == (2, f"robocache: {message}")
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "time,q\n0.0,1.5\n0.1,2.5\n"


def test_text_is_chosen_like_integers() -> None:
    label = np.array(["open", "shut"]), np.array([0.0, 0.2])
    table = rc.align({"label": label}, rate=10)
    assert table["label"].values.tolist() == ["open", "open", "shut"]


def test_two_clocks_are_refused() -> None:
    both = {
        "a": (np.zeros(3), np.arange(3) * MS),
        "b": (np.zeros(3), START + np.arange(3) * MS),
    }
    message = whole(
        "streams: expected the times of one clock, got a silence of more than a day between a and "
        "b (choose streams of one clock; of messages, the time of receipt)"
    )
    with pytest.raises(ValueError, match=message):
        rc.align(both, 50)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, np.nan, 0.2],
         "expected seconds within 292 years of 1970, got nan at row 1 (nanoseconds are integers)"),
        ([0.0, 0.1, 1.7e18],
         "expected seconds within 292 years of 1970, got 1.7e+18 at row 2 (nanoseconds are "
         "integers)"),
        ([0.0, 0.2, 0.1], "expected ascending times, got 100000000 after 200000000 ns at row 2"),
    ],
)  # fmt: skip
def test_times_of_arrays_that_are_wrong(times: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=whole(f"source[f].times: {message}")):
        rc.align({"f": (np.zeros(3), np.array(times))}, rate=20)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    table = rc.align({"f": (np.zeros(2), np.array([0.0, 0.1]))}, rate=20)
    with pytest.raises(FileNotFoundError) as error:
        table.save("/proc/take.csv")
    assert error.value.filename == "/proc/take.csv"
