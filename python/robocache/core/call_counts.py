"""Counters of calls. Counting takes a tenth of a microsecond, so it is always on."""

from __future__ import annotations

from collections import defaultdict

# Under the GIL no count is lost between threads.
calls: defaultdict[tuple[str, str], int] = defaultdict(int)
"""The number of calls of each operation, by its name and the backend."""
fallbacks: defaultdict[str, int] = defaultdict(int)
"""The number of calls in which ``"auto"`` selected pytorch for CUDA tensors, by the reason."""
