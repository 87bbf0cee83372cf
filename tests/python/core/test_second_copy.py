"""Two copies of the package in one process: an error that names both, not a crash of torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import robocache

SCRIPT = """
import sys
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    import robocache as rc
    print(rc.__path__[0])
    try:
        print(rc.build_info().version)
    except ImportError as error:
        print(error)
    sys.path.remove(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "robocache"]:
        del sys.modules[name]
"""


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_second_copy_is_refused(tmp_path: Path, is_replaced: bool) -> None:
    """Also where the first was removed meanwhile, as `pip install` does."""
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        shutil.copytree(Path(robocache.__file__).parent, folder / "robocache")
    script = SCRIPT
    if is_replaced:
        script += "    import shutil\n    shutil.rmtree(folder)\n"
    run = subprocess.run(
        [sys.executable, "-c", script, first, second], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == f"{first}/robocache" and lines[2] == f"{second}/robocache"
    assert lines[3] == (
        f"robocache: expected one copy of the package in a process, got {second}/robocache after "
        f"{first}/robocache (sys.path leads to both: remove one, and start Python again)"
    )
