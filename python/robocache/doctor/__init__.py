"""The data doctor: what is wrong with a store or a recording, and what to do about it.

Each finding is made by one small function of a stream's rows (:mod:`times`, :mod:`values`), of an
episode's streams, or of all episodes (:mod:`episodes`). :func:`examine` runs them all.
"""

from robocache.doctor.examine import Diagnosis, check_episode, examine
from robocache.doctor.finding import Finding, Metadata, Series

__all__ = ["Diagnosis", "Finding", "Metadata", "Series", "check_episode", "examine"]
