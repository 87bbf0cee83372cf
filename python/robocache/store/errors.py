"""Errors of the store."""

from __future__ import annotations


class StoreError(ValueError):
    """A store or one of its files is damaged or missing, or does not allow an operation.

    The message names the file, and says what was expected and what the file has.
    """
