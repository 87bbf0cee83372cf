"""Messages if torch or a reader's library is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import robocache as rc

WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
del sys.argv[1]
"""


def run_without(library: str, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + code, library, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_name_that_needs_torch_says_so() -> None:
    code = """
import robocache as rc
for name in rc.__all__:
    try:
        getattr(rc, name)
    except ImportError as error:
        print(name, str(error) == f"robocache.{name} needs torch: pip install torch", error.name)
"""
    run = run_without("torch", code)
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    names = {name for name, *_ in lines}
    assert all(rest == ["True", "torch"] for _, *rest in lines), run.stdout
    assert {"fuse", "Loader", "voxelize_sparse", "transforms"} <= names < set(rc.__all__)


def test_a_command_that_needs_torch_says_so(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        episode.add("x", [0, 1], [1.0, 2.0])
    code = "from robocache.cli import main\nmain()"
    run = run_without("torch", code, "replay", tmp_path / "store", "--spec", "spec.json")
    assert run.returncode == 2
    assert run.stderr == "robocache: this command needs torch: pip install torch\n"


def test_lerobot_without_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "set" / "meta").mkdir(parents=True)
    text = '{"codebase_version": "v3.0", "fps": 10, "features": {}, "total_episodes": 1}'
    (tmp_path / "set" / "meta" / "info.json").write_text(text)
    code = "from robocache.cli import main\nmain()"
    run = run_without("pyarrow", code, "info", tmp_path / "set")
    assert run.returncode == 2
    assert run.stderr.startswith(
        "robocache: reading LeRobot data sets needs pyarrow: pip install 'av>=14' pillow"
    )


def test_a_rerun_recording_needs_no_matplotlib(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        episode.add("x", [0, 1], [1.0, 2.0])
    code = "from robocache.cli import main\nmain()"
    output = tmp_path / "x.rrd"
    run = run_without("matplotlib", code, "view", tmp_path / "store", "--output", output)
    assert (run.returncode, output.exists()) == (0, True), run.stderr
    run = run_without("matplotlib", code, "view", tmp_path / "store", "--output", "x.png")
    assert run.returncode == 2
    assert run.stderr.startswith("robocache: drawing a picture needs matplotlib: pip install")
