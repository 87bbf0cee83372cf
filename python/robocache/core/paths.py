"""Paths: absolute ones, without resolving links, and the check of their type."""

from __future__ import annotations

import os


def absolute_path(path: str | os.PathLike[str]) -> str:
    """The absolute path without ``..``, its links not followed.

    `Path.absolute` keeps ``..``, and `Path.resolve` follows links.
    """
    return os.path.abspath(os.fspath(path))  # noqa: PTH100 - see above


def check_path(name: str, value: object, what: str = "a path") -> None:
    """Raises TypeError for a value that is neither a str nor an `os.PathLike`."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}: expected {what}, got {type(value).__name__}")
