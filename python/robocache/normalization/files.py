"""Statistics files of LeRobot and openpi."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robocache.normalization.parse_statistics import NAMES, array
from robocache.store.dtypes import Array

_PLACES = (
    "meta/stats.json",  # LeRobot v2.0 and v3.0
    "meta/episodes_stats.jsonl",  # LeRobot v2.1
    "stats.json",
    "episodes_stats.jsonl",
    "norm_stats.json",  # openpi
)


def read_statistics(
    path: str | os.PathLike[str],
) -> tuple[dict[str, dict[str, Any]], Literal["lerobot", "openpi"]]:
    """Reads the statistics of a file, by key with LeRobot's names, and the library that wrote it.

    Args:
        path: The file, or a folder with a file of `_PLACES`.

    Raises:
        OSError: The file does not exist.
        ValueError: `<path>: expected ..., got ...`.
    """
    file = Path(path)
    if file.is_dir():
        found = [file / place for place in _PLACES if (file / place).is_file()]
        if not found:
            raise FileNotFoundError(f"{file}: expected one of {', '.join(_PLACES)}, got none")
        file = found[0]
    try:
        if file.suffix == ".jsonl":
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]
            return _taken_together(file, lines), "lerobot"
        content = json.loads(file.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file}: expected JSON, got {error}") from None
    if isinstance(content, dict) and "norm_stats" in content:
        return _known(file, content["norm_stats"]), "openpi"
    return _known(file, content), "lerobot"


def _known(file: Path, content: object) -> dict[str, dict[str, Any]]:
    """The statistics with known names, by key; openpi writes null for missing quantiles."""
    if not isinstance(content, dict) or not all(isinstance(x, dict) for x in content.values()):
        raise ValueError(
            f"{file}: expected statistics of LeRobot (of each feature mean, std, min, max) or "
            f"openpi (norm_stats), got {type(content).__name__} of another form"
        )
    known = {
        key: {n: x for n, x in given.items() if n in (*NAMES, "count") and x is not None}
        for key, given in content.items()
    }
    if not any(known.values()):
        raise ValueError(f"{file}: expected one of {', '.join(NAMES)} of a feature, got none")
    return known


def _taken_together(file: Path, lines: Iterable[object]) -> dict[str, dict[str, Any]]:
    """Merges the statistics of episodes into the extremes, moments and counts of all rows.

    Leaves out quantiles: those of all rows cannot be computed from those of episodes.
    """
    parts: dict[str, list[dict[str, Array]]] = {}
    for number, line in enumerate(lines, 1):
        name = f"{file}: line {number}"
        if not isinstance(line, Mapping) or "stats" not in line:
            raise ValueError(f"{name}: expected the stats of an episode, got {str(line)[:60]!r}")
        for key, given in _known(file, line["stats"]).items():
            wanted = ("mean", "std", "min", "max", "count")
            if missing := [part for part in wanted if part not in given]:
                raise ValueError(
                    f"{name}: {key}: expected {', '.join(wanted)}, got no {missing[0]}"
                )
            part = {n: array(f"{name}: {key}[{n!r}]", given[n]) for n in wanted}
            shapes = {n: part[n].shape for n in wanted[:-1]}
            first = parts.get(key, [part])[0]["mean"].shape
            if any(shape != first for shape in shapes.values()) or part["count"].size != 1:
                raise ValueError(
                    f"{name}: {key}: expected numbers of shape {list(first)} and 1 count, got "
                    f"{', '.join(f'{list(s)} of {n}' for n, s in shapes.items())} and "
                    f"{part['count'].size}"
                )
            parts.setdefault(key, []).append(part)
    if not parts:
        raise ValueError(f"{file}: expected the statistics of at least 1 episode, got none")
    return {key: _joined(of_episodes) for key, of_episodes in parts.items()}


def _joined(parts: list[dict[str, Array]]) -> dict[str, Any]:
    counts = np.array([float(part["count"].reshape(())) for part in parts])
    weights = counts / counts.sum()
    means, stds = (np.stack([part[name] for part in parts]) for name in ("mean", "std"))
    mean = np.tensordot(weights, means, 1)
    # The variance within episodes plus that of their means
    variance = np.tensordot(weights, stds**2 + (means - mean) ** 2, 1)
    return {
        "mean": mean,
        "std": np.sqrt(variance),
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "count": counts.sum(keepdims=True),
    }
