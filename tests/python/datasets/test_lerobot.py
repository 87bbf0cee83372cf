"""A real recording: LeRobot v2.1 episodes of a humanoid, 26 channels at 30 Hz, to 50 and 10 Hz."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import Backend

import robocache as rc

ROOT = Path(__file__).parents[3]
DATA = ROOT / ".." / "shared" / "data" / "lerobot_v21_g1"
EXAMPLE = ROOT / "examples" / "python" / "resample_lerobot.py"

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared/data/lerobot_v21_g1, a real recording, is absent"
)


def example() -> Any:
    pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    return load_example()


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("resample_lerobot", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def episodes() -> list[Path]:
    return sorted((DATA / "data" / "chunk-000").glob("*.parquet"))


@needs_data
@pytest.mark.parametrize("rate", [50, 10])
def test_every_episode_is_numpy_interp(backend: Backend, rate: int) -> None:
    module = example()
    assert episodes()
    for path in episodes():
        times, columns = module.read_episode(path)
        with rc.config(backend=backend.backend):
            resampled = module.resample_episode(times, columns, rate, backend.device)
        targets = resampled["timestamp"]
        seconds = float(times[-1] - times[0])
        assert len(targets) == int(seconds * rate + 1e-6) + 1
        np.testing.assert_allclose(np.diff(targets.numpy()), 1 / rate, rtol=1e-5)
        for name, values in columns.items():
            assert values.shape[-1] == 26
            expected = np.stack(
                [np.interp(targets, times, v.astype(np.float64)) for v in values.numpy().T], -1
            )
            got = resampled[name].cpu().numpy()
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@needs_data
def test_example_runs(native: Backend) -> None:
    """As a user runs it, with the library as it is installed here."""
    example()
    command = [sys.executable, str(EXAMPLE), str(episodes()[0]), "--device", native.device]
    done = subprocess.run([*command, "--rows", "3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "479 rows at 30.0 Hz" in done.stdout
    assert "rows at 50 Hz" in done.stdout
    assert [float(line.split()[0]) for line in done.stdout.splitlines()[-3:]] == [0, 0.02, 0.04]


STEADY = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def run_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str]:
    """The exit code, and what it printed."""
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *map(str, arguments)])
    code: Any = 0
    try:
        example().main()
    except SystemExit as stopped:
        code = stopped.code
    printed = capsys.readouterr()
    assert not (code and printed.out), "an error comes before anything is printed"
    return code, printed.out + printed.err


def write_episode(path: Path, times: list[Any], state: list[Any] | None = None) -> Path:
    pa = pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    state = STEADY[: len(times)] if state is None else state
    action = pa.array(STEADY[: len(times)], pa.list_(pa.float32()))
    columns = {
        "timestamp": pa.array(times, pa.float32()),
        "observation.state": pa.array(state, pa.list_(pa.float32())),
        "action": action,
    }
    importlib.import_module("pyarrow.parquet").write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "0"), "--rate: expected a finite number above 0, got 0"),
        (("--rate", "nan"), "--rate: expected a finite number above 0, got nan"),
        (("--rate", "inf"), "--rate: expected a finite number above 0, got inf"),
        (("--rate", "1e300"), "--rate: expected at most 1000000 rows of output, got 1e+300 Hz"),
        (("--channel", "2"), "--channel: expected 0 to 1, got 2"),
        (("--channel", "-1"), "--channel: expected an integer of 0 or more, got -1"),
        (("--rows", "-1"), "--rows: expected an integer of 0 or more, got -1"),
        (("--device", "tpu"), "--device: expected cpu or cuda, got tpu"),
        (("--device", "cuda"), "--device: expected cpu, as torch sees no GPU, got cuda"),
    ],
)
def test_wrong_option(
    arguments: tuple[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    episode = write_episode(tmp_path / "episode.parquet", [0.0, 1.0, 2.0])
    code, printed = run_example(monkeypatch, capsys, episode, *arguments)
    assert code == 2 and printed.startswith(f"error: {message}") and printed.count("\n") == 1


@pytest.mark.parametrize(
    ("times", "state", "message"),
    [
        ([0, 1, 2], [[1, 2], [3], [4, 5, 6]], "observation.state: expected 2 channels as in row 0"),
        (
            [0, 1, 2],
            [[1, 2], None, [3, 4]],
            "observation.state: expected no null, got one in row 1",
        ),
        ([0, 1, 2], [[1, 2], [3, 4], [5, None]], "observation.state: expected no null, got one in"),
        ([0, 1, 2], [[], [], []], "observation.state: expected 1 channel or more, got 0"),
        ([0, 2, 1], None, "timestamp: expected ascending times, got 1 after 2 in row 2"),
        ([0, None, 1], None, "timestamp: expected no null, got one in row 1"),
        ([0, float("nan"), 1], None, "timestamp: expected finite times, got nan in row 1"),
        ([], None, "{}: expected 1 row or more, got 0"),
    ],
)
def test_wrong_rows(
    times: list[Any],
    state: list[Any] | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    episode = write_episode(tmp_path / "episode.parquet", times, state)
    code, printed = run_example(monkeypatch, capsys, episode)
    assert code == 2 and printed.count("\n") == 1
    assert printed.startswith(f"error: {message.format(episode)}")


def test_wrong_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pa = pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    for name, content in (("text", b"time,a\n0,1\n"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
    fewer = pa.table({"timestamp": [0.0], "state": [1.0]})
    importlib.import_module("pyarrow.parquet").write_table(fewer, tmp_path / "fewer")
    wanted = "timestamp, observation.state, action"
    for name, message in (
        ("nowhere", f"episode: expected a file, got {tmp_path / 'nowhere'}"),
        ("text", f"{tmp_path / 'text'}: expected a parquet file, got"),
        ("empty", f"{tmp_path / 'empty'}: expected a parquet file, got"),
        ("fewer", f"columns: expected {wanted}, got timestamp, state"),
    ):
        code, printed = run_example(monkeypatch, capsys, tmp_path / name)
        assert code == 2 and printed.startswith(f"error: {message}"), printed
        assert printed.count("\n") == 1


@pytest.mark.parametrize("times", [[5.0], [5.0, 5.0, 5.0]])
def test_no_rate_of_its_own(
    times: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    episode = write_episode(tmp_path / "episode.parquet", times)
    code, printed = run_example(monkeypatch, capsys, episode)
    assert code == 0 and f"{len(times)} rows at n/a" in printed
    assert "resampled: 1 rows" in printed


def test_without_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    episode = write_episode(tmp_path / "episode.parquet", [0.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(globals(), "example", load_example)
    code, printed = run_example(monkeypatch, capsys, "--help")
    assert code == 0 and "Example:" in printed
    code, printed = run_example(monkeypatch, capsys, episode)
    assert code == 2 and "pip install '.[lerobot]'" in printed
