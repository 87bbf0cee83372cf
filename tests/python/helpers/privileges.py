"""Calls in a process that file permissions bind, also where root runs the tests.

Root reads every file by the capabilities that are dropped here. The process stays root's, so that
it can still import what lies in folders that only root may enter, such as root's home.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# From linux/capability.h: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
VERSION_3 = 0x20080522
IGNORES_PERMISSIONS = 1 << 1 | 1 << 2


def drop_privileges() -> None:
    """Makes permissions bind the calling thread, and those that it starts, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    if libc.capget(header, sets) == 0:
        sets[0] &= ~IGNORES_PERMISSIONS
        sets[1] &= ~IGNORES_PERMISSIONS
        if libc.capset(header, sets) == 0:
            return
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@cache
def _process() -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")  # before any other thread exists
    return ProcessPoolExecutor(1, spawn, initializer=drop_privileges)


def unprivileged(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls a function in a process that permissions bind."""
    return _process().submit(function, *args, **kwargs).result()
