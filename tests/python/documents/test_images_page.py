"""docs/images.md: its table is what its script prints, and its picture what it draws."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def test_the_table_of_qualities() -> None:
    pytest.importorskip("PIL.Image", reason="the frame is resized by Pillow")
    script = runpy.run_path(str(DOCS / "draw_images.py"))
    whole = script["frame"]()
    page = (DOCS / "images.md").read_text()
    pairs = zip(script["rows"](script["small"](whole)), script["rows"](whole), strict=True)
    for (name, size, psnr), (_, size_whole, psnr_whole) in pairs:
        cells = [f"{value:.1f}" if value else "-" for value in (psnr, psnr_whole)]
        assert f"| `{name}` | {size:,} | {cells[0]} | {size_whole:,} | {cells[1]} |\n" in page


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture is drawn by matplotlib")
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    runpy.run_path(str(DOCS / "draw_images.py"))["draw"](tmp_path / "images.png")
    drawn = image_module.open(tmp_path / "images.png").size
    assert drawn == image_module.open(DOCS / "images.png").size
