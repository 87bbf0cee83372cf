"""Errors of the store."""

from __future__ import annotations


class StoreError(ValueError):
    """A store or one of its files is not what it should be, or does not allow what was asked.

    The text names the file, and says what was expected and what came.
    """
