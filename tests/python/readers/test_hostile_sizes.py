"""Recordings that lie about their sizes are refused, in bounded memory and time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile_files import HOSTILE

READING = Path(__file__).parents[1] / "helpers" / "hostile_reading.py"
PEAK_BYTES = 1 << 30
SECONDS = 20.0


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The outcome for each file, by its name."""
    folder = tmp_path_factory.mktemp("hostile")
    paths = {}
    for name, (write, _) in HOSTILE.items():
        try:
            paths[name] = write(folder / name)
        except pytest.skip.Exception as skipped:
            print(f"{name} is not tested: {skipped}")
    command = [sys.executable, READING, *paths.values()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(paths, found, strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_sizes_that_nothing_accounts_for(results: dict[str, dict[str, Any]], name: str) -> None:
    if name not in results:
        pytest.skip(f"{name} needs a library that is not installed")
    result = results[name]
    assert result["kind"] == "RecordingError", result
    assert HOSTILE[name][1] in result["text"], result
    assert name.partition(".")[0] in result["text"], "the error names no file"
    assert result["peak"] < PEAK_BYTES, result
    assert result["seconds"] < SECONDS, result
