"""Marking rows of a store as not valid: those that the data doctor found, or by hand."""

from robocache.marking.run import Repair, repair

__all__ = ["Repair", "repair"]
