"""Writes items of a LeRobotDataset, as LeRobot itself reads them, to a file.

    python lerobot_items.py requests.json items.pt

Run by itself, since two releases of LeRobot are asked: one for v2.1 data sets, one for v3.0. Of
each request (root, episodes, delta_timestamps, tolerance_s) all items are read, or the class of
the error is kept. Written here are lists of dicts, and strings.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset


def read(request: dict[str, Any]) -> list[dict[str, Any]] | str:
    try:
        dataset = LeRobotDataset("made/here", video_backend="pyav", **request)
        return [dataset[index] for index in range(len(dataset))]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    logging.disable()
    asked = json.loads(Path(sys.argv[1]).read_text())
    torch.save([read(request) for request in asked], sys.argv[2])
