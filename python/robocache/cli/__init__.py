"""The command line: `robocache`. Every command's work is a function of the package."""

from robocache.cli.program import main

__all__ = ["main"]
