"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata

UNKNOWN = "0+unknown"
"""The version of a source tree that was never installed."""


def package_version() -> str | None:
    """The version of the installed package; None for a source tree that was never installed."""
    try:
        return metadata.version("robocache")
    except metadata.PackageNotFoundError:
        return None
