"""The examples in the documentation run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["meaning.md", "voxelization.md"])
def test_examples(name: str) -> None:
    failed, tried = doctest.testfile(str(DOCS / name), module_relative=False)
    assert tried > 10 and failed == 0
