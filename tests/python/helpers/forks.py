"""Functions run in forks of this process, which may be killed at any file operation."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

FILE_OPERATIONS = ("open", "write", "fsync", "rename", "unlink", "ftruncate", "pwrite", "mkdir")
"""Functions of `os` that change files."""


def fork(child: Callable[[], object]) -> int:
    """Runs a function in a fork, whose exit status is 1 after an exception; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        child()
        status = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(status)


def kill_at_operation(n: int) -> None:
    """Makes call number `n`, from 0, of `FILE_OPERATIONS` kill this process instead."""
    left = n

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return function(*args, **kwargs)

        return call

    for name in FILE_OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
