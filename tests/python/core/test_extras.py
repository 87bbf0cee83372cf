"""The optional dependencies: messages install what pyproject.toml declares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from robocache.core.extras import EXTRAS, install_hint

ROOT = Path(__file__).parents[3]


def test_extras_are_those_of_pyproject() -> None:
    if sys.version_info < (3, 11):
        pytest.skip("reading pyproject.toml needs Python 3.11")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert {name: list(packages) for name, packages in EXTRAS.items()} == {
        name: packages for name, packages in declared.items() if name not in ("test", "dev")
    }


def test_hints_quote_what_a_shell_would_redirect() -> None:
    assert install_hint("hdf5") == (
        "pip install 'h5py>=3.8' pillow (or, in a checkout: pip install '.[hdf5]')"
    )


def test_no_message_or_page_names_a_release() -> None:
    """There is no released package: `robocache[extra]` from an index installs nothing of ours."""
    files = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "python/robocache").rglob("*.py"),
        *(ROOT / "examples").rglob("*.py"),
    ]
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in files
        for match in re.finditer(r"pip install ['\"]?robocache\b[^\n]*", file.read_text())
    ]
    assert found == []
