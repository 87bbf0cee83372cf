"""The command line on stores: what it prints, JSON, exit codes, and how soon it starts."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged

import robocache as rc
from robocache.cli import main

MS = 1_000_000
START = 1_700_000_000_000_000_000
COMMANDS = (
    "info", "check", "view", "convert", "merge", "repair", "stats", "align", "export", "replay",
    "demo",
)  # fmt: skip


class Result:
    """The exit code and the output of a command."""

    def __init__(self, code: object, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `robocache` in this process."""

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["robocache", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return Result(stop.value.code, printed.out, printed.err)

    return call


def write_store(path: Path, *, gap: bool = False, nan: bool = False) -> Path:
    """Two episodes: an arm at 100 Hz, a camera of 10 frames a second."""
    rng = np.random.default_rng(0)
    with rc.StoreWriter(path) as writer:
        writer.declare("arm", units="rad", channels=("a", "b"), rate=100)
        for number in range(2):
            times = START + np.arange(300) * 10 * MS + rng.integers(0, MS, 300)
            values = np.cumsum(rng.normal(size=(300, 2)), 0).astype(np.float32)
            if gap and number == 1:
                times[150:] += 400 * MS
            if nan and number == 1:
                values[7, 1] = np.nan
            with writer.episode(task="wave", source=f"made#{number}") as episode:
                episode.add("arm", times, values)
                frames = rng.integers(0, 255, (30, 12, 16, 3)).astype(np.uint8)
                episode.add("camera", START + np.arange(30) * 100 * MS, frames)
    return path


# ---- help ----------------------------------------------------------------------------------------


def test_help_lists_all_commands(run: Any) -> None:
    for arguments in (["--help"], ["-h"]):
        result = run(*arguments)
        assert result.code == 0
        for command in COMMANDS:
            assert f"\n  {command} " in result.out
        assert "Example: robocache convert" in result.out


def test_version(run: Any) -> None:
    result = run("--version")
    assert (result.code, result.out) == (0, f"robocache {rc.__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(run: Any, command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert f"Example: robocache {command} " in result.out
    assert result.out.count("\n") > 8


def test_help_needs_no_heavy_library() -> None:
    """It starts at once: nothing large is imported for it. Timings decide no test, but are said."""
    code = (
        "import sys; sys.argv = ['robocache', '--help']\n"
        "from robocache.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'rich', 'matplotlib', 'pyarrow', 'pydantic', 'asyncio'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"robocache --help: {time.perf_counter() - begin:.3f} s")
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_converting_and_looking_need_no_torch(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s")
    code = (
        "import sys\nfrom robocache.cli import main\n"
        f"sys.argv = ['robocache', sys.argv[1], {str(store)!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)\n"
    )
    for command in ("info", "check", "stats"):
        done = subprocess.run(
            [sys.executable, "-c", code, command], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "False", command


def test_errors_are_one_line(run: Any, tmp_path: Path) -> None:
    result = run("info", tmp_path / "absent")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert result.err.startswith(f"robocache: {tmp_path / 'absent'}: expected ")
    result = run("view", write_store(tmp_path / "s"), "--episode", "5")
    assert (result.code, result.err) == (2, "robocache: --episode: expected -2 to 1, got 5\n")
    rc.StoreWriter(tmp_path / "none").close()
    result = run("view", tmp_path / "none")
    expected = f"robocache: {tmp_path / 'none'}: expected at least 1 episode, got none\n"
    assert (result.code, result.err) == (2, expected)
    result = run("frobnicate")
    assert result.code == 2 and "frobnicate" in result.err


def refused(*arguments: str) -> tuple[object, str]:
    """The exit code and the message of a command, called in this process."""
    sys.argv = ["robocache", *arguments]
    with contextlib.redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, err.getvalue()


def test_what_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0.5,1\n")
    path.chmod(0)
    expected = f"robocache: {path}: expected a recording, got permission denied\n"
    assert unprivileged(refused, "info", str(path)) == (2, expected)


def test_no_memory(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("robocache.doctor.episode_data._StoredEpisode.load", load)
    result = run("info", write_store(tmp_path / "s"))
    expected = "robocache: not enough memory: Unable to allocate 7 TiB\n"
    assert (result.code, result.err) == (2, expected)


# ---- info ----------------------------------------------------------------------------------------


def test_info(run: Any, tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", gap=True)
    result = run("info", store)
    assert result.code == 0
    first, *_ = result.out.splitlines()
    assert first.startswith(f"{store}: episode store, ")
    assert "2 episodes" in first
    lines = {line.split()[0]: line.split() for line in result.out.splitlines() if line.strip()}
    assert lines["arm"][1:6] == ["float32", "2", "rad", "linear", lines["arm"][5]]
    assert float(lines["arm"][5]) == pytest.approx(100, rel=0.01)
    assert lines["camera"][1:4] == ["uint8", "12x16x3", "previous"]
    assert "wave" in result.out


def test_info_of_a_table_without_rows(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "header.csv"
    path.write_text("t,a\n")
    result = run("info", path)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{path}: CSV, 4 B, 0 episodes")


def test_info_as_json(run: Any, tmp_path: Path) -> None:
    found = run("info", write_store(tmp_path / "s", gap=True), "--json").json
    assert (found["format"], found["episodes"], found["measured"]) == ("episode store", 2, 2)
    assert found["tasks"] == {"wave": 2}
    assert found["duration_s"] == pytest.approx(2 * 2.99 + 0.4, abs=0.01)
    arm, camera = found["streams"]
    assert (arm["name"], arm["units"], arm["channels"]) == ("arm", "rad", ["a", "b"])
    assert arm["rows"] == 600 and arm["gaps"] == 1
    assert arm["measured_hz"] == pytest.approx(100, rel=0.01)
    assert arm["nominal_hz"] == 100
    assert 0.2 < arm["jitter_ms"] < 0.6
    assert arm["longest_gap_s"] == pytest.approx(0.41, abs=0.002)
    assert camera["shape"] == [12, 16, 3] and camera["measured_hz"] == pytest.approx(10)
    few = run("info", tmp_path / "s", "--json", "--episodes", 1).json
    assert few["measured"] == 1 and few["streams"][0]["rows"] == 600, "rows are those of the store"


# ---- check ---------------------------------------------------------------------------------------


def test_check_of_a_good_store(run: Any, tmp_path: Path) -> None:
    result = run("check", write_store(tmp_path / "s"), "--strict")
    assert result.code == 0, result.out
    assert result.out.strip().endswith("2 episodes: 0 errors, 0 warnings")


def test_check_finds_and_says_where(run: Any, tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", gap=True, nan=True)
    result = run("check", store)
    assert result.code == 0
    assert "gap  arm  episode 1 at 1.49" in result.out
    assert "1 of 300 rows have NaN, in channel b" in result.out
    assert run("check", store, "--strict").code == 1
    found = run("check", store, "--json").json
    assert (found["errors"], found["warnings"]) == (0, 2)
    kinds = {finding["kind"]: finding for finding in found["findings"]}
    assert kinds["not_finite"]["episode"] == 1
    assert kinds["not_finite"]["time_s"] == pytest.approx(0.07, abs=0.002)
    assert kinds["gap"]["stream"] == "arm"


def test_check_reads_every_byte(run: Any, tmp_path: Path) -> None:
    """A flipped bit in the data is an error, whatever it means."""
    store = write_store(tmp_path / "s")
    shard = store / "shard-00000.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1000] ^= 4
    shard.write_bytes(data)
    result = run("check", store, "--json")
    assert result.code == 1
    (finding,) = [f for f in result.json["findings"] if f["severity"] == "error"]
    assert finding["kind"] == "checksum" and "shard-00000.safetensors" in finding["text"]


def test_check_of_a_store_that_does_not_open(run: Any, tmp_path: Path) -> None:
    store = write_store(tmp_path / "s")
    os.truncate(store / "shard-00000.safetensors", 100)
    result = run("check", store)
    assert result.code == 2
    assert "shard-00000.safetensors" in result.err


# ---- view ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_view(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    store = write_store(tmp_path / "s", gap=True)
    picture = tmp_path / "new" / "episode.png"
    result = run("view", store, "--episode", -1, "--output", picture)
    assert (result.code, result.out) == (0, f"wrote {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000
    for name in ("episode.xyz", "new"):  # matplotlib would write new.png
        result = run("view", store, "--output", tmp_path / name)
        expected = "--output: expected a name with .png, .jpg, .jpeg, .svg, .pdf, .rrd"
        said = f"robocache: {expected}, got {tmp_path / name}\n"
        assert (result.code, result.err) == (2, said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "s"]


def test_view_of_letters_that_the_font_lacks(
    run: Any, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("matplotlib")
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("\u65e5\u672c", np.arange(5) * MS, np.zeros(5))
    assert run("view", tmp_path / "s", "--output", tmp_path / "a.png").code == 0
    assert not recwarn.list


def test_view_for_rerun(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="a Rerun recording needs rerun-sdk")
    recording = tmp_path / "episode.rrd"
    assert run("view", write_store(tmp_path / "s"), "--output", recording).code == 0
    assert recording.read_bytes().startswith(b"RRF") and recording.stat().st_size > 10_000


# ---- stats ---------------------------------------------------------------------------------------


def test_stats(run: Any, tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", nan=True)
    values = np.concatenate([np.array(e["arm"].values, np.float64) for e in rc.EpisodeStore(store)])
    found = run("stats", store, "--json").json["streams"]["arm"]
    assert found["channels"] == ["a", "b"]
    assert found["count"] == [600, 599]
    np.testing.assert_allclose(found["mean"], np.nanmean(values, 0), rtol=1e-6)
    np.testing.assert_allclose(found["std"], np.nanstd(values, 0), rtol=1e-6)
    np.testing.assert_allclose(found["quantiles"]["0.5"], np.nanmedian(values, 0), rtol=1e-6)
    printed = run("stats", store).out
    assert "camera" in printed and "q0.99" in printed


def test_rows_of_a_table_are_its_lines(run: Any, tmp_path: Path) -> None:
    """Three columns of 1,000 lines are 1,000 rows, not 3,000."""
    pytest.importorskip("pyarrow", reason="CSV needs pyarrow")
    lines = [f"{i / 100},{i},{-i},{i % 7}" for i in range(1000)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["t,speed,force,temperature", *lines]) + "\n")
    result = run("convert", path, tmp_path / "s", "--workers", "1")
    assert result.code == 0 and result.out.startswith(
        f"{tmp_path / 's'}: 1 episode added, 3 streams of 1,000 rows, "
    )
    result = run("convert", path, tmp_path / "s", "--workers", "1")
    assert result.out == (
        f"{tmp_path / 's'}: 0 episodes added (1 was there), from 1 recording (1 CSV)\n"
    )
    np.savez(tmp_path / "u.npz", t_ns=np.arange(10) * 10**7, arm=np.zeros((10, 2)))
    result = run("convert", tmp_path / "u.npz", tmp_path / "s", "--append", "--workers", "1")
    assert "1 episode added, 1 stream of 10 rows, " in result.out


# ---- merge ---------------------------------------------------------------------------------------


def test_merge(run: Any, tmp_path: Path) -> None:
    one, two = write_store(tmp_path / "one"), write_store(tmp_path / "two", gap=True)
    result = run("merge", one, two, tmp_path / "both")
    assert result.code == 0
    assert (
        result.out
        == f"{tmp_path / 'both'}: 4 episodes of 2 stores, 2 streams of up to 1,200 rows\n"
    )
    assert len(rc.EpisodeStore(tmp_path / "both")) == 4
    result = run("merge", one, tmp_path / "other")
    assert (result.code, result.err) == (
        2, "robocache: STORE...: expected two stores or more, got 1\n",
    )  # fmt: skip
    result = run("merge", one, two, tmp_path / "both")
    assert result.code == 2 and "both" in result.err
