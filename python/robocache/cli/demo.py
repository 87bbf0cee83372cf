"""`robocache demo`."""

from __future__ import annotations

from pathlib import Path

from robocache.core.extras import require


def run(output: Path, seed: int, duration_s: float) -> None:
    """Runs the demo, after a check that its dependencies are installed."""
    require("matplotlib", "the demo's pictures", "demo", "drawing")
    from robocache.demo import run as demo

    demo.run(output, seed, duration_s)
