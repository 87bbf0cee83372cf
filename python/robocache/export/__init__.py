"""Stores written in other formats: LeRobot v3.0."""

from robocache.export.lerobot import export_lerobot
from robocache.export.report import Export

__all__ = ["Export", "export_lerobot"]
