"""What the tests of readers share: real recordings, and files that may not be read."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"


def needs(path: Path) -> pytest.MarkDecorator:
    """Skips where a real recording is absent, saying so."""
    why = f"../shared/data/{path.relative_to(DATA)}, a real recording, is absent"
    return pytest.mark.skipif(not path.exists(), reason=why)


@contextlib.contextmanager
def folder_for_all() -> Iterator[Path]:
    """A temporary folder that every user may enter; pytest's own may be entered by one."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """As a user whom permissions bind; root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
