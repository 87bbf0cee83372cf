"""Pictures of an episode: a timeline by matplotlib, a recording for Rerun's viewer."""

from robocache.view.timeline import draw_timeline

__all__ = ["draw_timeline"]
