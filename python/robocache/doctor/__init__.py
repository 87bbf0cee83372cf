"""The data doctor: finds defects of a store or a recording, and advises how to repair them.

Each check is one small function of a stream's rows (:mod:`times`, :mod:`values`), of an episode's
streams, or of all episodes (:mod:`episodes`). :func:`examine` runs all checks.
"""

from robocache.doctor.examine import Diagnosis, check_episode, examine
from robocache.doctor.finding import Finding, Metadata, Series

__all__ = ["Diagnosis", "Finding", "Metadata", "Series", "check_episode", "examine"]
