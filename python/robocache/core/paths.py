"""Absolute paths, for modules that compare or print paths without resolving links."""

from __future__ import annotations

import os


def absolute_path(path: str | os.PathLike[str]) -> str:
    """The absolute path without ``..``, its links not followed.

    `Path.absolute` keeps ``..``, and `Path.resolve` follows links.
    """
    return os.path.abspath(os.fspath(path))  # noqa: PTH100 - see above
