"""Converting recordings to an episode store: in parallel, resumable, in bounded memory."""

from robocache.conversion.run import Conversion, Skipped, convert

__all__ = ["Conversion", "Skipped", "convert"]
