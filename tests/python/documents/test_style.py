"""tools/style.py reports long lines, British spelling, docstrings and comments without subject."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "style.py"


@pytest.fixture(scope="module")
def style() -> ModuleType:
    spec = spec_from_file_location("style", TOOL)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LONG = "long word " * 12  # 120 columns


@pytest.mark.parametrize(
    ("name", "text", "got"),
    [
        ("src/a.cpp", f"// {LONG[:98].strip()}", 101),
        ("src/a.cuh", f"int x;  // {LONG[:90]}x", 102),
        ("src/a.h", f"/// {LONG}", 124),
        ("src/a.cu", LONG, 120),
        ("a.py", f"x = '{LONG}'", 126),
        ("cmake/a.cmake", f"# {LONG}", 122),
        ("tests/CMakeLists.txt", f'message("{LONG}")', 131),
        ("a.sh", f"echo {LONG}", 125),
        (".ci/run", f"echo {LONG}", 125),
        ("a.md", f"{LONG}x", 121),
        ("a.md", f"- {LONG}", 122),
        ("a.md", f"{LONG} `code`", 127),
    ],
)
def test_long_lines(style: ModuleType, name: str, text: str, got: int) -> None:
    limit = 120 if name.endswith(".md") else 100
    assert len(text) == got
    found = style.check(name, f"short\n{text}\n")
    assert found == [(2, f"expected at most {limit} columns, got {got}")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cpp", "x" * 100),
        ("a.cpp", f"// https://example.org/{'x' * 100}"),
        ("a.py", f"x = 1  # type: ignore[{'arg-type, ' * 10}]"),
        ("a.md", "x" * 120),
        ("a.md", f"| {LONG} | table |"),
        ("a.md", f"```\n{LONG}{LONG}\n```"),
        ("a.md", f"`{LONG} one piece of code`"),
        ("a.json", f"{LONG}{LONG}"),
        ("pyproject.toml", f"{LONG}{LONG}"),
    ],
)
def test_lines_that_may_be_long(style: ModuleType, name: str, text: str) -> None:
    assert style.check(name, text) == []


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("colour", "color"),
        ("Colours", "Colors"),
        ("COLOURS", "COLORS"),
        ("normalise", "normalize"),
        ("normalisation", "normalization"),
        ("unnormalised", "unnormalized"),
        ("recognises", "recognizes"),
        ("synchronising", "synchronizing"),
        ("summarise", "summarize"),
        ("behaviour", "behavior"),
        ("neighbouring", "neighboring"),
        ("favourite", "favorite"),
        ("centre", "center"),
        ("centred", "centered"),
        ("metres", "meters"),
        ("millimetre", "millimeter"),
        ("licence", "license"),
        ("artefact", "artifact"),
        ("grey", "gray"),
        ("judgement", "judgment"),
        ("labelled", "labeled"),
        ("analysed", "analyzed"),
        ("whilst", "while"),
    ],
)
def test_british_spelling(style: ModuleType, british: str, american: str) -> None:
    message = f"expected {american!r}, got {british!r}"
    for text in (british, f"the_{british}_of", f"x({british})"):
        assert style.check("docs/a.txt", f"first\n{text}\n") == [(2, message)]


def test_spelling_within_a_name(style: ModuleType) -> None:
    """A name in camel case has several words."""
    assert style.check("a.h", "kMaxColours") == [(1, "expected 'Colors', got 'Colours'")]


@pytest.mark.parametrize(
    "text",
    [
        "our hour, four pours: otherwise precise, promise, noise, raised, exercise, likewise",
        "parameter, perimeter, diameter, centimeter; central, centric; hypothesis, emphasis",
        "analyses, basis, optimism, organism, specialist; cancelled(); totally, modeling, label",
        "the colours_first of a policy spec",
    ],
)
def test_american_spelling(style: ModuleType, text: str) -> None:
    assert style.check("a.py", f"# {text}") == []


def test_text_of_others_keeps_its_spelling(style: ModuleType) -> None:
    assert style.check("tests/golden/cases.json", "colour") == []
    assert style.check("benchmarks/results/h200.json", "colour") == []


OPENINGS = ["Of", "The same", "What", "Whatever", "Such", "Those"]


@pytest.mark.parametrize("opening", OPENINGS)
def test_docstrings(style: ModuleType, opening: str) -> None:
    message = "expected a docstring that names the object or action first, got"
    module = f'"""{opening} others."""\n'
    function = f'def f():\n    """{opening} others."""\n'
    attribute = f'class A:\n    """A thing."""\n\n    x: int\n    """{opening} others."""\n'
    for line, text in ((1, module), (2, function), (5, attribute)):
        for name in ("python/robocache/a.py", "tests/a.py"):
            assert style.check(name, text) == [(line, f"{message} {opening!r}")]
        assert style.check("a.md", text) == []
    assert style.check("a.py", '"""Offsets, whatever the same or those are."""\n') == []


@pytest.mark.parametrize("opening", OPENINGS)
def test_comments(style: ModuleType, opening: str) -> None:
    message = "expected a comment that names the object or action first, got"
    for mark, names in (
        ("//", ["src/a.cpp", "src/a.cuh"]),
        ("///", ["src/a.h", "src/a.cu"]),
        ("///<", ["src/a.h"]),
        ("#", ["a.py", "a.sh", "cmake/a.cmake", "CMakeLists.txt", ".ci/run"]),
    ):
        for name in names:
            for text in (
                f"x\n{mark} {opening} others.\n",
                f"{mark} A block.\nx = 1  {mark} {opening} others.\n",
                f"x\n  {mark} {opening} others,\n  {mark} {opening} others.\n",
            ):
                assert style.check(name, text) == [(2, f"{message} {opening!r}")], (name, text)
            for text in (
                f"{mark} A block\n{mark} {opening} others.\n",
                f"{mark} A block.\n{mark}\n{mark} {opening} others.\n",
                f"x = 1  {mark} A block\n       {mark} {opening} others.\n",
                f"{mark} Offsets, whatever the same or those are.\n",
            ):
                assert style.check(name, text) == [], (name, text)
    assert style.check("a.md", f"# {opening} others\n") == []


def test_command(tmp_path: Path) -> None:
    """The command names file and line, and fails if it reports anything."""
    page = tmp_path / "a.md"
    page.write_text("colour\n")
    run = [sys.executable, str(TOOL), str(page)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"{page}:1: expected 'color', got 'colour'\n"
    page.write_text("color\n")
    assert subprocess.run(run, check=False).returncode == 0
