"""Examples in the README and in docs/ run as they stand; HACKING.md names files that exist."""

from __future__ import annotations

import doctest
import fnmatch
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import robocache as rc

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
SESSIONS = [page for page in sorted((ROOT / "docs").glob("*.md")) if "\n>>> " in page.read_text()]

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
SOURCE = re.compile(r"[\w*./-]+\.(?:py|h|cpp|cu|sh)\b")
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)


def test_pages_with_examples() -> None:
    assert {page.name for page in SESSIONS} >= {"meaning.md", "voxelization.md"}


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_sessions(page: Path) -> None:
    """What is typed at a prompt, with its answers."""
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 0 and failed == 0


def test_readme(capsys: pytest.CaptureFixture[str]) -> None:
    """Its blocks as one script, which prints what the comments beside say."""
    text = README.read_text()
    blocks = list(BLOCK.finditer(text))
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(README), "exec"), names)
        assert capsys.readouterr().out.splitlines() == PRINTED.findall(block[1])


def test_files_that_are_named() -> None:
    """Each source file that HACKING.md names is there, a * standing for anything."""
    folders = [folder for folder in ROOT.glob("[!.]*/") if folder.name != "build"]
    files = [str(file) for folder in folders for file in folder.rglob("*.*")]
    named = set(SOURCE.findall((ROOT / "HACKING.md").read_text())) - {"Python.h"}
    assert len(named) > 100
    assert {name for name in named if not fnmatch.filter(files, f"*/{name}")} == set()


def test_voxels_in_a_file(tmp_path: Path) -> None:
    """docs/voxelization.md says how torch.load takes them."""
    voxels = rc.voxelize_sparse(torch.rand(9, 3), 0.5)
    torch.save(voxels, tmp_path / "voxels.pt")
    with torch.serialization.safe_globals([rc.SparseVoxels]):
        loaded = torch.load(tmp_path / "voxels.pt", weights_only=True)
    assert type(loaded) is rc.SparseVoxels and torch.equal(loaded.counts, voxels.counts)
