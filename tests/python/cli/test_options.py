"""Options of the command line that choose streams, and those that a store has no use for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robocache as rc
from robocache.cli import main
from robocache.cli.options import MEMORY_LIMIT_GIB, in_bytes, read_options
from robocache.readers import ReadOptions
from robocache.readers.limits import MEMORY_LIMIT

MS = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s"
    with rc.StoreWriter(path) as writer, writer.episode() as episode:
        times = np.arange(100) * 10 * MS
        values = np.random.default_rng(0).normal(size=(100, 3)).cumsum(0)
        for name in ("/imu/orientation", "/imu/acceleration", "/odom/position"):
            episode.add(name, times, values)
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `robocache` in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["robocache", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return call


@pytest.mark.parametrize("command", ["info", "check", "view"])
@pytest.mark.parametrize(
    ("option", "why"),
    [
        (["--rate", "50"], "its rows have times; robocache convert takes --rate"),
        (["--images"], "its images are decoded"),
        (["--stamp", "received"], "its times are fixed; robocache convert takes --stamp"),
        (["--time-column", "t"], "its times are fixed; robocache convert takes --time-column"),
        (["--time-unit", "ms"], "its times are fixed; robocache convert takes --time-unit"),
    ],
)
def test_what_has_no_effect_on_a_store(
    run: Any, store: Path, command: str, option: list[str], why: str
) -> None:
    expected = f"robocache: {option[0]}: expected a recording, got the store {store} ({why})\n"
    code, out, err = run(command, store, *option)
    assert (code, out, err) == (2, "", expected)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["/imu/*"], ["/imu/orientation", "/imu/acceleration"]),
        (["/imu"], ["/imu/orientation", "/imu/acceleration"]),
        (["position", "/imu/orientation"], ["/imu/orientation", "/odom/position"]),
    ],
)
def test_streams_of_a_store(
    run: Any, store: Path, patterns: list[str], expected: list[str], tmp_path: Path
) -> None:
    options = [word for pattern in patterns for word in ("--topic", pattern)]
    code, out, _ = run("info", store, "--json", *options)
    assert code == 0
    assert [stream["name"] for stream in json.loads(out)["streams"]] == expected
    assert run("check", store, *options)[0] == 0
    pytest.importorskip("matplotlib")
    assert run("view", store, "--output", tmp_path / "a.png", *options)[0] == 0


@pytest.mark.parametrize("command", ["info", "check", "view"])
def test_a_stream_that_a_store_lacks(run: Any, store: Path, command: str) -> None:
    streams = "/imu/orientation, /imu/acceleration, /odom/position"
    expected = f"robocache: topics: expected some of {streams}; got '/gps'\n"
    assert run(command, store, "--topic", "/gps") == (2, "", expected)


def test_check_looks_at_the_streams_that_are_asked_for(run: Any, tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        values = np.random.default_rng(0).normal(size=(100, 1))
        episode.add("good", np.arange(100) * MS, values)
        episode.add("bad", np.arange(100) * MS, np.where(np.arange(100)[:, None] == 7, np.nan, 1.0))
    assert run("check", tmp_path / "s", "--strict")[0] == 1
    assert run("check", tmp_path / "s", "--strict", "--topic", "good")[0] == 0


def test_the_default_of_the_memory_limit() -> None:
    """The command line, which loads no reader for its help, repeats the readers' default."""
    assert read_options() == ReadOptions(images=False)
    assert in_bytes(MEMORY_LIMIT_GIB) == MEMORY_LIMIT
