"""Reads recordings with little memory, each in a process of its own: a program for a test.

Prints a line of JSON for each path: the exception, its message, peak memory and time.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

from robocache.readers import ReadOptions, open_recording

ADDRESS_SPACE = 6 << 30
SECONDS = 60
OPTIONS = ReadOptions(rate=10, memory_limit=256 << 20)


def read(path: Path) -> dict[str, object]:
    """The outcome of reading a whole recording: its error, peak memory and time."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.alarm(SECONDS)
    before = time.perf_counter()
    kind = text = ""
    try:
        with open_recording(path, OPTIONS) as recording:
            for episode in recording.episodes():
                for _ in episode.read():
                    pass
    except BaseException as error:
        kind, text = type(error).__name__, str(error)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    seconds = time.perf_counter() - before
    return {"path": str(path), "kind": kind, "text": text, "peak": peak, "seconds": seconds}


for argument in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        print(json.dumps(read(Path(argument))), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(
            json.dumps({"path": argument, "kind": "died", "text": f"status {status}"}), flush=True
        )
