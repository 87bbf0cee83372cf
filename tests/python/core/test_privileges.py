"""The tests' own means: a process that permissions bind, and that imports what its owner may."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from privileges import unprivileged


def import_from(folder: Path) -> str:
    sys.path.insert(0, str(folder))
    try:
        name: str = importlib.import_module("imported_late").NAME
        return name
    finally:
        sys.path.remove(str(folder))


def test_permissions_bind(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("text")
    closed.chmod(0)
    with pytest.raises(PermissionError, match="closed"):
        unprivileged(Path.read_text, closed)


def test_modules_in_a_folder_of_the_owner_alone(tmp_path: Path) -> None:
    """As in root's home: libraries import some of their modules on the first call."""
    tmp_path.chmod(0o700)
    (tmp_path / "imported_late.py").write_text("NAME = 'late'\n")
    assert unprivileged(import_from, tmp_path) == "late"
