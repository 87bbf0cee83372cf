"""Examples in the README and in docs/ run as they stand; links and named files exist."""

from __future__ import annotations

import ast
import doctest
import fnmatch
import io
import re
import tokenize
from pathlib import Path
from typing import Any

import pytest
import torch

import robocache as rc

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SESSIONS = [page for page in sorted((ROOT / "docs").glob("*.md")) if "\n>>> " in page.read_text()]

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
SOURCE = re.compile(r"[\w*./-]+\.(?:py|h|cpp|cuh?|sh)\b")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)
ELSEWHERE = {  # files of other projects, and of examples
    "Python.h",
    "a/b.py",
    "jpeglib.h",
    "nvjpeg.h",
    "linux/capability.h",
    "policy.cpp",
    "processor/normalize_processor.py",
    "lerobot/processor/normalize_processor.py",
    "src/openpi/transforms.py",
    "utils/dataset.py",
    "robomimic/utils/dataset.py",
    "model/common/normalizer.py",
    "model/vision/crop_randomizer.py",
    "dlimp/augmentations.py",
    "scripts/configs/octo_pretrain_config.py",
    "src/lerobot/datasets/transforms.py",
    "src/openpi/models_pytorch/preprocessing_pytorch.py",
    "diffusion_policy/model/common/normalizer.py",
}
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)


def test_pages_with_examples() -> None:
    assert {page.name for page in SESSIONS} >= {"meaning.md", "voxelization.md"}


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_sessions(page: Path) -> None:
    """Sessions at a prompt give the printed answers."""
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


def comments_of(path: Path) -> str:
    """The comments and docstrings of a source file."""
    text = path.read_text()
    if path.suffix != ".py":
        return "\n".join(re.findall(r"//.*$", text, re.M))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, nodes)]
    return "\n".join([*comments, *(ast.get_docstring(node) or "" for node in documented)])


def test_files_that_are_named() -> None:
    """Each source file that a page, a comment or a docstring names exists; * stands for anything.

    Changelogs name files as they were.
    """
    folders = [folder for folder in ROOT.glob("[!.]*/") if folder.name != "build"]
    files = [f"/{file.relative_to(ROOT)}" for folder in folders for file in folder.rglob("*.*")]
    texts = {page: page.read_text() for page in PAGES if page.name != "CHANGELOG.md"}
    for folder in ("benchmarks", "bindings", "examples", "include", "python", "src", "tests"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in {".py", ".h", ".cpp", ".cu", ".cuh"}:
                texts[path] = comments_of(path)
    assert len(SOURCE.findall(texts[ROOT / "HACKING.md"])) > 100
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        for name in {found.lstrip("./") for found in SOURCE.findall(text)} - ELSEWHERE
        if not fnmatch.filter(files, f"*/{name}")
    }
    assert missing == set()


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def broken_links(page: Path) -> list[str]:
    """Links of a page to files, and to headings of pages, that do not exist."""
    broken = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if link.startswith("https://"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    """Each link within the repository leads to a file, and to a heading of it."""
    assert broken_links(page) == []


def test_broken_links_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading: `x`\n[a](#a-heading-x) [b](#gone) [c](gone.md) [d](page.md)\n")
    assert broken_links(page) == ["#gone", "gone.md"]


def test_voxels_in_a_file(tmp_path: Path) -> None:
    """docs/voxelization.md says how torch.load takes them."""
    voxels = rc.voxelize_sparse(torch.rand(9, 3), 0.5)
    torch.save(voxels, tmp_path / "voxels.pt")
    with torch.serialization.safe_globals([rc.SparseVoxels]):
        loaded = torch.load(tmp_path / "voxels.pt", weights_only=True)
    assert type(loaded) is rc.SparseVoxels and torch.equal(loaded.counts, voxels.counts)
