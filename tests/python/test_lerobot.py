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

ROOT = Path(__file__).parents[2]
DATA = ROOT / ".." / "shared" / "data" / "lerobot_v21_g1"
EXAMPLE = ROOT / "examples" / "python" / "resample_lerobot.py"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared/data/lerobot_v21_g1, a real recording, is absent"
)


def example() -> Any:
    pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    spec = importlib.util.spec_from_file_location("resample_lerobot", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def episodes() -> list[Path]:
    return sorted((DATA / "data" / "chunk-000").glob("*.parquet"))


@pytest.mark.parametrize("rate", [50, 10])
def test_every_episode_is_numpy_interp(backend: Backend, rate: int) -> None:
    module = example()
    assert episodes()
    for path in episodes():
        times, columns = module.read_episode(path)
        with rc.config(backend=backend.backend):
            resampled = module.resample_episode(path, rate, backend.device)
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


def test_example_runs(native: Backend) -> None:
    """As a user runs it, with the library as it is installed here."""
    example()
    command = [sys.executable, str(EXAMPLE), str(episodes()[0]), "--device", native.device]
    done = subprocess.run([*command, "--rows", "3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "479 rows at 30.0 Hz" in done.stdout
    assert "rows at 50 Hz" in done.stdout
    assert [float(line.split()[0]) for line in done.stdout.splitlines()[-3:]] == [0, 0.02, 0.04]


def test_example_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = example()
    for arguments, code, message in (
        (["nowhere.parquet"], 2, "episode: expected a file, got nowhere.parquet"),
        ([str(episodes()[0]), "--rate", "0"], 2, "--rate: expected more than 0, got 0.0"),
        (["--help"], 0, "Example:"),
    ):
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
        with pytest.raises(SystemExit) as stopped:
            module.main()
        printed = capsys.readouterr()
        assert stopped.value.code == code and message in printed.out + printed.err
