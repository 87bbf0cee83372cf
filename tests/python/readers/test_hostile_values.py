"""Values that no parser expects are errors that name file and field, never tracebacks."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import robocache
from hostile_files import calvin, mcap, npy, rlds, step_of_calvin
from lerobot_sets import FEATURES, write_info, write_v2, write_v3
from recordings import message_of, read_all

from robocache import readers
from robocache.readers import (
    MissingLibrary,
    Reader,
    ReadOptions,
    Recording,
    RecordingError,
    find_recordings,
    open_recording,
)
from robocache.readers.errors import reading
from robocache.readers.rows import row_times

HUGE = 10**400
DEEP = "[" * 200_000
AT_10 = ReadOptions(rate=10)


# ---- HDF5 ----------------------------------------------------------------------------------------


def demonstrations(path: Path, **attributes: Any) -> Path:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.ones((3, 2))
        for name, value in attributes.items():
            file["data"].attrs[name] = value
    return path


@pytest.mark.parametrize(
    "about",
    [
        {"env_kwargs": {"control_freq": HUGE}},
        {"control_freq": float("inf")},
        {"control_freq": float("nan")},
        {"control_freq": -20},
        {"control_freq": True},
        {"control_freq": [20]},
        {"sim_args": {"dt": HUGE, "decimation": HUGE}},
        {"sim_args": {"dt": 5e-324, "decimation": 1}},
        {"sim_args": {"dt": 1e400, "decimation": 1}},
    ],
)
def test_rates_that_are_none(tmp_path: Path, about: dict[str, Any]) -> None:
    path = demonstrations(tmp_path / "a.hdf5", env_args=json.dumps(about))
    assert message_of(path) == (
        f"{path}: expected a rate, since the recording has neither times nor a rate, got none "
        "(--rate, or rate=, says it)"
    )
    with open_recording(path, AT_10) as recording:
        assert recording.streams["actions"].rate == 10


def test_a_rate_whose_times_int64_does_not_hold(tmp_path: Path) -> None:
    path = demonstrations(tmp_path / "a.hdf5", env_args='{"control_freq": 1e-300}')
    assert message_of(path) == (
        "expected times within 292 years, got row 2 at 1e-300 rows per second"
    )
    with pytest.raises(RecordingError, match=r"^expected times within 292 years, got row 4 at "):
        row_times(0, 5, 1e-10)
    assert row_times(0, 0, 1e-300).tolist() == []


def test_attributes_nested_deeply(tmp_path: Path) -> None:
    path = demonstrations(tmp_path / "a.hdf5", env_args="[" * 60_000)
    assert message_of(path, AT_10) == (
        f"{path}: expected JSON in attribute env_args of /data, got arrays or objects nested too "
        "deeply"
    )


def test_masks_of_other_kinds(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    path = demonstrations(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file["mask/numbers"] = np.ones((2, 2))
        file["mask/one"] = b"demo_0"
        file["mask/none"] = h5py.Empty("f8")
        file.create_group("mask/group")
    with open_recording(path, AT_10) as recording:
        assert [episode.subsets for episode in recording.episodes()] == [("one",)]


# ---- LeRobot -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fps", [HUGE, -HUGE, 0, -1, True, None, [30], "30", float("nan"), 1e400])
def test_fps_that_is_no_rate(tmp_path: Path, fps: Any) -> None:
    write_info(tmp_path / "a", "v2.1", fps=fps)
    shown = repr(fps) if len(repr(fps)) < 60 else f"{repr(fps)[:60]}..."
    assert message_of(tmp_path / "a") == (
        f"{tmp_path}/a/meta/info.json: expected fps above 0, got {shown}"
    )


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 200_000, "1" * 5000, "\ud800", "{"])
def test_descriptions_that_are_no_json(tmp_path: Path, text: str) -> None:
    root = write_v2(tmp_path / "a", [2])
    info = root / "meta" / "info.json"
    marker = '"codebase_version"'
    info.write_bytes((text + marker).encode("utf-8", "surrogatepass"))
    assert message_of(root).startswith(
        f"{info}: expected LeRobot's description of a data set, got "
    )


@pytest.mark.parametrize(
    "line",
    [
        {"length": 2},
        {"episode_index": 0},
        {"episode_index": 1e400, "length": 2},
        {"episode_index": 0, "length": 1e400},
        {"episode_index": 0, "length": [2]},
        {"episode_index": 0, "length": 2, "tasks": 7},
        [0, 2],
        7,
    ],
)
def test_episodes_that_are_none(tmp_path: Path, line: Any) -> None:
    root = write_v2(tmp_path / "a", [2])
    episodes = root / "meta" / "episodes.jsonl"
    episodes.write_text(json.dumps(line))
    assert message_of(root).startswith(f"{episodes}: expected an episode in line 1, got ")
    episodes.write_text(DEEP)
    assert message_of(root) == f"{episodes}: expected an episode in line 1, got {DEEP[:60]!r}"


@pytest.mark.parametrize("changes", [{"length": HUGE}, {"length": -1}, {"episode_index": HUGE}])
def test_episodes_beyond_the_tables(tmp_path: Path, changes: dict[str, Any]) -> None:
    root = write_v2(tmp_path / "a", [2])
    line = {"episode_index": 0, "length": 2, **changes}
    (root / "meta" / "episodes.jsonl").write_text(json.dumps(line))
    assert message_of(root).startswith(str(root))


def test_shapes_that_are_huge(tmp_path: Path) -> None:
    features = {**FEATURES, "action": {"dtype": "float64", "shape": [HUGE], "names": None}}
    root = write_v2(tmp_path / "a", [2], features=features)
    assert message_of(root).startswith(f"{root}/data/chunk-000/episode_000000.parquet: expected ")
    root = write_v3(tmp_path / "b", [2], chunks_size=HUGE)
    assert read_all(root)[0].keys() == {"episode_000000"}


# ---- RLDS ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lengths", [[1e400], [float("nan")], ["x"], [[1]], 7, [None], [HUGE], [-1]]
)
def test_lengths_of_rlds(tmp_path: Path, lengths: Any) -> None:
    path = rlds(tmp_path / "a", lengths)
    assert "dataset_info.json" in message_of(path, AT_10)


@pytest.mark.parametrize("name", ["features.json", "dataset_info.json"])
@pytest.mark.parametrize("text", [DEEP, "1" * 5000, "7", "[]", "{"])
def test_descriptions_of_rlds(tmp_path: Path, name: str, text: str) -> None:
    path = rlds(tmp_path / "a", ["1"])
    (path / name).write_text(text)
    assert message_of(path, AT_10).startswith(f"{path / name}: expected {name} as TFDS writes it")


@pytest.mark.parametrize("size", [1e400, HUGE, "1e400", "9" * 5000, None, [2], {}])
def test_dimensions_of_rlds(tmp_path: Path, size: Any) -> None:
    path = rlds(tmp_path / "a", ["1"])
    features = path / "features.json"
    found = features.read_text().replace('["2"]', json.dumps([size]))
    features.write_text(found)
    message = message_of(path, AT_10)
    assert str(path) in message


# ---- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"x": HUGE},
        {"timestamp": {"sec": HUGE, "nsec": 0}, "x": 1.0},
        {"timestamp": {"sec": 10**18, "nsec": 0}, "x": 1.0},
    ],
)
def test_numbers_of_messages(tmp_path: Path, message: Any) -> None:
    path = mcap(tmp_path / "a.mcap", "a", "jsonschema", "{}", json.dumps(message).encode())
    text = message_of(path)
    assert text.startswith(f"{path}: expected ")


@pytest.mark.parametrize("number", ["1e400", "-Infinity", "NaN"])
def test_infinite_numbers_of_messages(tmp_path: Path, number: str) -> None:
    path = mcap(tmp_path / "a.mcap", "a", "jsonschema", "{}", f'{{"x": {number}}}'.encode())
    read, _ = read_all(path)
    assert not np.isfinite(read["0"]["/a"].values).any()


def test_archives_in_the_place_of_arrays(tmp_path: Path) -> None:
    """`numpy.load` returns an archive where an array is expected."""
    path = calvin(tmp_path / "a", step_of_calvin(), {0: step_of_calvin()})
    assert message_of(path).startswith(
        f"{path}/ep_start_end_ids.npy: expected an array of steps, got ValueError: "
    )
    ends = npy((1, 2), "<i8", struct.pack("<qq", 0, 0))
    path = calvin(tmp_path / "b", ends, {0: ends})
    assert message_of(path).startswith(
        f"{path}/episode_0000000.npz: expected the arrays of a step, got BadZipFile: "
    )


# ---- the guard -----------------------------------------------------------------------------------


class Raising(Recording):
    """A recording whose methods raise."""

    format = "raising"
    error: BaseException = ValueError()

    def episodes(self) -> Any:
        raise self.error


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[BaseException], Path]:
    """Makes a recording whose episodes raise an exception."""
    reader = Reader("raising", "images", "anything", Path.is_file, Raising)
    monkeypatch.setattr(readers, "READERS", (reader,))
    path = tmp_path / "a.raising"
    path.touch()

    def make(error: BaseException) -> Path:
        monkeypatch.setattr(Raising, "error", error)
        return path

    return make


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("a"), LookupError("a"), OverflowError("a"), RecursionError("a"),
        SystemError("a"), AssertionError("a"), UnicodeDecodeError("utf-8", b"a", 0, 1, "a"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_a_library_raises_is_an_error_of_the_recording(
    raising: Callable[[BaseException], Path], error: Exception
) -> None:
    path = raising(error)
    with pytest.raises(RecordingError) as caught:
        open_recording(path).episodes()
    expected = f"{path}: expected episodes of raising, got {type(error).__name__}: {error}"
    assert str(caught.value) == expected
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [MemoryError("a"), KeyboardInterrupt(), SystemExit(1), MissingLibrary("a"), ImportError("a")],
    ids=lambda error: type(error).__name__,
)
def test_what_passes_the_guard(
    raising: Callable[[BaseException], Path], error: BaseException
) -> None:
    recording = open_recording(raising(error))
    with pytest.raises(type(error)) as caught:
        recording.episodes()
    assert caught.value is error


@pytest.mark.parametrize("program", ["assert False", "nothing_of_this_name"])
def test_faults_of_our_own_code_pass_the_guard(tmp_path: Path, program: str) -> None:
    """No recording can cause these."""
    for name, kind in (("robocache.readers.x", (AssertionError, NameError)), ("x", RecordingError)):
        scope: dict[str, Any] = {"__name__": name}
        exec(f"def run():\n    {program}", scope)
        with pytest.raises(kind), reading(tmp_path, "a recording"):
            scope["run"]()


def test_a_long_message_of_a_library_is_cut(tmp_path: Path) -> None:
    with pytest.raises(RecordingError) as caught, reading(tmp_path, "a recording"):
        raise ValueError("a" * 10**6)
    assert str(caught.value).endswith("aaa...")
    assert len(str(caught.value)) < 1200


def test_the_command_line_prints_a_line(tmp_path: Path) -> None:
    path = write_v2(tmp_path / "a", [2], fps=HUGE)
    for command in (["info", path], ["check", path], ["convert", path, tmp_path / "store"]):
        done = robocache(*command)
        assert "Traceback" not in done.stderr + done.stdout
        assert "expected fps above 0, got 1000" in done.stderr + done.stdout
    assert find_recordings(path) == [path]
