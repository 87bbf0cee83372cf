"""`repair`: which rows are marked, what it prints, and that loader, check and stats heed them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_files import read_manifest

import robocache as rc
from robocache.cli import main
from robocache.doctor import examine
from robocache.marking.choice import KINDS
from robocache.readers import RecordingError
from robocache.store.marks import Mark

MS = 1_000_000
ROWS = 400


def walk(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return np.cumsum(rng.normal(size=(rows, width)), 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Four episodes: the arm hangs in episode 1; in 2 it has NaN, infinity and a spike; in 3 a
    quaternion is of another norm, and a sensor is clipped."""
    rng = np.random.default_rng(0)
    with rc.StoreWriter(tmp_path / "my store", shard_bytes=1) as writer:
        writer.declare("turn", method="slerp_xyzw")
        for number in range(4):
            times = np.arange(ROWS) * 10 * MS
            arm, tilt = walk(rng, ROWS, 3), walk(rng, ROWS, 1)
            turn = np.tile([0.0, 0.0, 0.6, 0.8], (ROWS, 1))
            turn[::2] *= -1
            if number == 1:
                arm[100:130] = arm[100]
            if number == 2:
                arm[50, 1], arm[60:64], arm[200, 0] = np.nan, np.inf, 1e6
            if number == 3:
                turn[[7, 8, 300]] *= 1.5
                tilt = np.clip(20 * np.sin(np.arange(ROWS)[:, None] / 5), -9, 9)
            with writer.episode(source=str(number)) as episode:
                episode.add("arm", times, arm)
                episode.add("force", times[::2], walk(rng, ROWS // 2, 2))
                episode.add("turn", times, turn)
                episode.add("tilt", times, tilt)
    return tmp_path / "my store"


MARKS = [
    Mark(1, "arm", ((101, 130),), "stuck"),
    Mark(2, "arm", ((50, 51), (60, 64)), "not_finite"),
    Mark(2, "arm", ((200, 201),), "spike"),
]


def kinds(path: Path) -> set[str]:
    return {one.kind for one in examine(path).findings if one.severity != "info"}


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != ".lock"}


# ---- the doctor's findings -----------------------------------------------------------------------


def test_a_dry_run_changes_nothing(path: Path) -> None:
    before = files(path)
    with rc.StoreWriter(path, append=True):  # it needs no lock
        report = rc.repair(path, dry_run=True)
    assert (report.marks, report.files, report.is_dry_run) == (MARKS, 0, True)
    assert files(path) == before


def test_what_is_marked_by_default(path: Path) -> None:
    """One call is enough: the findings are gone, and the rest of the data is as it was."""
    old = rc.EpisodeStore(path)
    assert kinds(path) == {"stuck", "not_finite", "spike", "saturated", "not_unit"}
    report = rc.repair(path)
    assert (report.marks, report.files, report.is_dry_run) == (MARKS, 2, False)
    assert (report.rows, report.episodes) == ({"arm": 35}, [1, 2])
    assert kinds(path) == {"saturated", "not_unit"}
    store = rc.EpisodeStore(path)
    for number in range(4):
        for name in store.streams:
            new, was = store[number][name], old[number][name]
            assert new.values.tobytes() == was.values.tobytes()
            assert new.times.tobytes() == was.times.tobytes()
            marked = np.zeros(len(new), bool)
            for mark in MARKS:
                if (mark.episode, mark.stream) == (number, name):
                    for begin, end in mark.rows:
                        marked[begin:end] = True
            valid = np.ones(len(new), bool) if new.valid is None else new.valid
            np.testing.assert_array_equal(valid, ~marked)
    again = rc.repair(path)
    assert (again.marks, again.files) == ([], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind(path: Path, kind: str) -> None:
    report = rc.repair(path, findings=[kind])
    assert {mark.reason for mark in report.marks} == {kind}
    assert kinds(path) == {"stuck", "not_finite", "spike", "saturated", "not_unit"} - {kind}


def test_streams_and_episodes(path: Path) -> None:
    assert rc.repair(path, streams=["force"]).marks == []
    assert rc.repair(path, episodes=[0, -1]).marks == []
    assert rc.repair(path, streams=["a*"], episodes=[2], dry_run=True).marks == MARKS[1:]
    assert rc.repair(path, episodes=[-3]).marks == MARKS[:1]


def test_loader_fuse_and_statistics_heed_the_marks(path: Path) -> None:
    rc.repair(path)
    store = rc.EpisodeStore(path)
    loader = rc.Loader(path, ROWS, {"arm": [0.0]}, device="cpu", episodes=[1])
    padded = loader.gather(list(range(ROWS)))["arm_is_pad"].flatten().numpy()
    assert np.flatnonzero(padded).tolist() == list(range(101, 130))
    assert store.statistics["arm"].count.tolist() == [4 * ROWS - 35] * 3
    assert np.isfinite(store.statistics["arm"].max).all() and store.statistics["arm"].max[0] < 1e5
    times = np.arange(ROWS) * 10 * MS
    fused, valid = rc.fuse([store[2]["arm"]], times, return_valid=True, backend="cpu")
    marked = [50, 60, 61, 62, 63, 200]
    np.testing.assert_array_equal(np.flatnonzero(~valid.reshape(ROWS, -1).all(1)), marked)
    assert np.isfinite(fused[valid.reshape(ROWS, -1).all(1)]).all()


def test_advice_is_the_command(path: Path) -> None:
    """Typed as it stands, it does what the finding asks for; no placeholder is left."""
    findings = {one.kind: one for one in examine(path).findings if one.severity == "warning"}
    for kind in KINDS:
        command = f"`robocache repair '{path}' --finding {kind}`"
        assert command in findings[kind].advice, findings[kind].advice
    advice = findings["stuck"].advice.split("`")[1].replace("robocache", "")
    command = f"{sys.executable} -m robocache {advice}"
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert "stuck" not in kinds(path)


def test_advice_for_what_may_be_real(tmp_path: Path) -> None:
    """An impact is no error: the command names the rows, for who knows better."""
    rng = np.random.default_rng(0)
    force = walk(rng, ROWS, 1)
    force[[50, 90]] = 1e6
    times = np.arange(ROWS) * 10 * MS
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("my force", times, force)
    (finding,) = [one for one in examine(tmp_path / "s").findings if one.kind == "spike"]
    assert finding.advice == (
        f"nothing for an impact; if nothing was hit, `robocache repair {tmp_path}/s --stream "
        "'my force' --episode 0 --rows 50:51 --rows 90:91` marks readings as not valid"
    )
    assert rc.repair(tmp_path / "s").marks == []
    command = finding.advice.split("`")[1].replace("robocache", f"{sys.executable} -m robocache")
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert not any(one.kind == "spike" for one in examine(tmp_path / "s").findings)


def test_advice_for_a_recording(tmp_path: Path) -> None:
    values = walk(np.random.default_rng(0), ROWS, 2)
    values[3, 1] = np.nan
    np.savez(tmp_path / "r.npz", times_ns=np.arange(ROWS) * 10 * MS, arm=values)
    (finding,) = [one for one in examine(tmp_path / "r.npz").findings if one.rows]
    assert "`robocache convert` and then `robocache repair STORE --finding not_finite`" in (
        finding.advice
    )


# ---- by hand -------------------------------------------------------------------------------------


def test_rows_by_hand(path: Path) -> None:
    report = rc.repair(
        path, streams=["force"], episodes=[-4], rows=[(None, 3), (20, 21), (198, None)]
    )
    assert report.marks == [Mark(0, "force", ((0, 3), (20, 21), (198, 200)), "by hand")]
    assert rc.repair(path, streams=["force"], episodes=[0], rows=[(0, 5)]).marks == [
        Mark(0, "force", ((3, 5),), "by hand")
    ]
    assert rc.repair(path, streams=["force"], episodes=[0], rows=[(0, 5)]).marks == []


def test_times_by_hand(path: Path) -> None:
    """A range of times marks rows of all streams; its end is exclusive."""
    report = rc.repair(path, episodes=[0, 3], streams=["arm", "force"], times=[(0.3, 0.5)])
    assert report.marks == [
        Mark(number, name, rows, "by hand")
        for number in (0, 3)
        for name, rows in (("arm", ((30, 50),)), ("force", ((15, 25),)))
    ]
    assert rc.repair(path, episodes=[1], streams=["force"], times=[(3.97, None)]).marks == [
        Mark(1, "force", ((199, 200),), "by hand")
    ]
    assert rc.repair(path, episodes=[1], times=[(50.0, None)]).marks == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"findings": ["gap"]},
         "findings: expected some of not_finite, spike, stuck, saturated, not_unit, which name "
         "rows; got 'gap'"),
        ({"findings": []},
         "findings: expected at least 1 of not_finite, spike, stuck, saturated, not_unit, got "
         "none"),
        ({"findings": ["stuck"], "rows": [(0, 1)]},
         "findings: expected none where rows or times are given, got some"),
        ({"streams": ["leg"]}, "streams: expected some of arm, force, turn, tilt; got 'leg'"),
        ({"episodes": [4]}, "episodes: expected indices below 4, got 4"),
        ({"episodes": [True]}, "episodes: expected indices below 4, got True"),
        ({"times": [(0, 1)]}, "episodes: expected those that times are of, got none"),
        ({"times": [(1, 1)], "episodes": [0]},
         "times: expected seconds since the episode's start, the end after the begin, such as "
         "1.5:2, got 1:1"),
        ({"rows": [(0, 1)]}, "streams: expected 1 whose rows are numbered so, got 4"),
        ({"rows": [(0, 1)], "streams": ["arm"]},
         "episodes: expected 1 whose rows are numbered so, got 4"),
        ({"rows": [(390, 401)], "streams": ["arm"], "episodes": [0]},
         "rows: expected a range within the 400 rows of arm in episode 0, such as 0:400, got "
         "390:401"),
        ({"rows": [(5, 5)], "streams": ["arm"], "episodes": [0]},
         "rows: expected a range within the 400 rows of arm in episode 0, such as 0:400, got 5:5"),
        ({"rows": [(-5, None)], "streams": ["arm"], "episodes": [0]},
         "rows: expected a range within the 400 rows of arm in episode 0, such as 0:400, got -5:"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(path: Path, options: dict[str, Any], message: str) -> None:
    before = files(path)
    for dry_run in (False, True):
        with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is compared whole)
            rc.repair(path, dry_run=dry_run, **options)
        assert str(error.value) == message
    assert files(path) == before
    with pytest.raises(TypeError) as wrong:
        rc.repair(path, findings="stuck")
    assert str(wrong.value) == ("findings: expected a list of kinds such as ['stuck'], got 'stuck'")


# ---- stores --------------------------------------------------------------------------------------


def test_a_recording_is_converted_first(tmp_path: Path) -> None:
    recording = tmp_path / "r.npz"
    np.savez(recording, times_ns=np.arange(3), arm=np.zeros((3, 2)))
    with pytest.raises(rc.StoreError) as error:
        rc.repair(recording)
    assert str(error.value) == (
        f"{recording}: expected the folder of an episode store, got a recording (NPZ) "
        f"(`robocache convert {recording} r.store` makes a store of it)"
    )
    with pytest.raises(rc.StoreError):
        rc.repair(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    assert not issubclass(RecordingError, rc.StoreError)


def test_another_writer(path: Path) -> None:
    with (
        rc.StoreWriter(path, append=True),
        pytest.raises(rc.StoreError, match="expected no other writer, got one: process"),
    ):
        rc.repair(path)
    assert kinds(path) >= {"stuck"}


def test_a_converted_store(tmp_path: Path) -> None:
    """Converted again, it keeps the marks; a store that it was merged into is not changed."""
    recording = tmp_path / "r.npz"
    np.savez(recording, times_ns=np.arange(9) * MS, arm=np.zeros((9, 2)))
    store = tmp_path / "s"
    rc.convert(recording, store)
    rc.merge_stores([store], tmp_path / "merged")  # its shards are hard links
    rc.repair(store, streams=["arm"], episodes=[0], rows=[(2, 4)])
    report = rc.convert(recording, store)
    assert (report.episodes, report.already_there, report.skipped) == (0, 1, [])
    valid = rc.EpisodeStore(store)[0]["arm"].valid
    assert valid is not None and np.flatnonzero(~valid).tolist() == [2, 3]
    assert rc.EpisodeStore(tmp_path / "merged")[0]["arm"].valid is None
    rc.EpisodeStore(tmp_path / "merged").verify()


def test_a_damaged_store(path: Path) -> None:
    """The doctor finds it before anything is written, also in a file without such rows."""
    file = path / read_manifest(path)["shards"][0]["file"]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    before = files(path)
    with pytest.raises(rc.StoreError, match=f"^{file}: expected crc32 .*: the file was altered"):
        rc.repair(path)
    assert files(path) == before


def test_a_store_without_episodes(tmp_path: Path) -> None:
    rc.StoreWriter(tmp_path / "s").close()
    assert rc.repair(tmp_path / "s").marks == []
    assert len(rc.EpisodeStore(tmp_path / "s")) == 0


# ---- the command ---------------------------------------------------------------------------------


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["robocache", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, *capsys.readouterr()


def test_the_command(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = (
        "episode  stream  finding     rows  which\n"
        "      1  arm     stuck         29  101:130\n"
        "      2  arm     not_finite     5  50:51, 60:64\n"
        "      2  arm     spike          1  200:201\n"
    )
    count = f"{path}: 35 rows of 1 stream in 2 episodes"
    assert run(capsys, monkeypatch, "repair", path, "--dry-run") == (
        0, f"{table}{count} would be marked as not valid (a dry run: nothing was changed)\n", "",
    )  # fmt: skip
    assert run(capsys, monkeypatch, "repair", path, "--finding", "stuck,not_finite,spike") == (
        0, f"{table}{count} marked as not valid, 2 files written anew\n", "",
    )  # fmt: skip
    done = (
        f"{path}: nothing to mark: the checks found no valid rows that are not_finite, spike or "
        "stuck (robocache check lists all findings)\n"
    )
    assert run(capsys, monkeypatch, "repair", path) == (0, done, "")
    done = done.replace("not_finite, spike or stuck", "stuck")
    assert run(capsys, monkeypatch, "repair", path, "--finding", "stuck") == (0, done, "")
    hand = ("repair", path, "--stream", "force", "--episode", "0", "--rows", ":2", "--rows", "9:10")
    code, said, _ = run(capsys, monkeypatch, *hand, "--rows", "20:21", "--rows", "30:31")
    assert code == 0 and "      0  force   by hand     5  0:2, 9:10, 20:21 and 1 more\n" in said
    done = f"{path}: nothing to mark: the named rows are marked as not valid already\n"
    assert run(capsys, monkeypatch, *hand) == (0, done, "")
    found = json.loads(
        run(capsys, monkeypatch, "repair", path, "--episode", "-1", "--time", "3.985:", "--json")[1]
    )
    assert found["rows"] == {"arm": 1, "tilt": 1, "turn": 1}
    assert found["marks"][0] == {
        "episode": 3, "stream": "arm", "rows": [[399, 400]], "reason": "by hand",
    }  # fmt: skip
    info = run(capsys, monkeypatch, "info", path)[1]
    assert "29 rows of arm in 1 episode marked as not valid (stuck)" in info
    assert run(capsys, monkeypatch, "check", path, "--json")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows", "3"), "--rows: expected A:B, the rows from A on and before B, got '3'"),
        (("--rows", "-3:4"), "--rows: expected A:B, the rows from A on and before B, got '-3:4'"),
        (("--time", "a:b"), "--time: expected A:B, seconds since the episode's start, got 'a:b'"),
        (("--time", "1"), "--time: expected A:B, seconds since the episode's start, got '1'"),
        (("--finding", ","),
         "findings: expected at least 1 of not_finite, spike, stuck, saturated, not_unit, got "
         "none"),
    ],
)  # fmt: skip
def test_options_of_the_command(
    path: Path,
    options: tuple[str, str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = run(capsys, monkeypatch, "repair", path, *options)
    assert found == (2, "", f"robocache: {message}\n")
