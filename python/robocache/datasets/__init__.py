"""Loaders of other libraries' data sets, with the samples that those libraries give."""

from robocache.datasets.diffusion_policy import from_diffusion_policy
from robocache.datasets.lerobot import from_lerobot
from robocache.datasets.robomimic import from_robomimic

__all__ = ["from_diffusion_policy", "from_lerobot", "from_robomimic"]
