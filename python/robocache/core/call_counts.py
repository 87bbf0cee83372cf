"""Counts of calls. Adding to one costs a tenth of a microsecond, so they are always on."""

from __future__ import annotations

from collections import defaultdict

# Under the GIL no count is lost between threads.
calls: defaultdict[tuple[str, str], int] = defaultdict(int)
"""How often each operation was called, by its name and the backend that it took."""
fallbacks: defaultdict[str, int] = defaultdict(int)
"""How often ``"auto"`` took the pytorch backend on CUDA tensors, by the reason."""
