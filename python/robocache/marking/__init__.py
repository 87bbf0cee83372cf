"""Marks rows of a store as not valid: rows of the data doctor's findings, or user-named rows."""

from robocache.marking.run import Repair, repair

__all__ = ["Repair", "repair"]
