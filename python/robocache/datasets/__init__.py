"""Loaders that give the batches of LeRobot, robomimic and diffusion-policy."""
