"""Stores written in other formats: LeRobot v3.0."""

from robocache.export.lerobot import Export, export_lerobot

__all__ = ["Export", "export_lerobot"]
