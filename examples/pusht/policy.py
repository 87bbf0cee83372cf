"""A small diffusion policy: from two states to sixteen actions.

The network learns to separate a chunk of actions from noise added to it (Ho, Jain and Abbeel,
"Denoising diffusion probabilistic models", 2020), conditioned on the robot's states (Chi and
others, "Diffusion policy", 2023). It predicts the velocity between both (Salimans and Ho,
"Progressive distillation for fast sampling of diffusion models", 2022). Sampling removes the noise
in a few steps (Song, Meng and Ermon, "Denoising diffusion implicit models", 2021).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

NOISES = 100  # noise levels in training
STEPS = 25  # denoising steps when sampling
WAVES = 3  # Fourier features of a state, which resolve finer differences


def kept_share(levels: int = NOISES) -> Tensor:
    """[levels]: the remaining share of a chunk's variance at each noise level.

    The cosine schedule of Nichol and Dhariwal, "Improved denoising diffusion probabilistic
    models", 2021.
    """
    at = torch.arange(levels + 1, dtype=torch.float64) / levels
    kept: Tensor = torch.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2
    betas = (1 - kept[1:] / kept[:-1]).clamp(max=0.999)
    left: Tensor = (1 - betas).cumprod(0).float()
    return left


class Block(nn.Module):
    """A residual block that the condition shifts and scales."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulate = nn.Linear(condition, 2 * width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale = self.modulate(condition).chunk(2, -1)
        inner = functional.silu(self.inner(self.norm(x) * (1 + scale) + shift))
        outer: Tensor = self.outer(inner)
        return x + outer


class DiffusionPolicy(nn.Module):
    """Predicts the velocity of noisy actions [B,Sa,Da] into noise, given states [B,So,Ds].

    Args:
        state_shape: Steps and channels of the states, normalized to [-1, 1].
        action_shape: Steps and channels of the actions.
        width: Width of the network.
        depth: Number of its blocks.
    """

    kept: Tensor
    frequencies: Tensor
    waves: Tensor

    def __init__(
        self, state_shape: tuple[int, int], action_shape: tuple[int, int], width: int, depth: int
    ) -> None:
        super().__init__()
        self.action_shape = action_shape
        states, actions = math.prod(state_shape), math.prod(action_shape)
        self.register_buffer("kept", kept_share())
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(32) / 32))
        self.register_buffer("waves", math.pi * 2.0 ** torch.arange(WAVES))
        self.read_states = nn.Sequential(
            nn.Linear(states * (1 + 2 * WAVES) + 64, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
        )
        self.enter = nn.Linear(actions, width)
        self.blocks = nn.ModuleList(Block(width, width) for _ in range(depth))
        self.leave = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, actions))

    def forward(self, noisy: Tensor, level: Tensor, states: Tensor) -> Tensor:
        seen = states.flatten(1)
        turns = torch.cat(
            [level[:, None] * self.frequencies, (seen[:, :, None] * self.waves).flatten(1)], -1
        )
        condition = self.read_states(torch.cat([seen, turns.sin(), turns.cos()], -1))
        x = self.enter(noisy.flatten(1))
        for block in self.blocks:
            x = block(x, condition)
        velocity: Tensor = self.leave(x)
        return velocity.view_as(noisy)

    def loss(
        self, states: Tensor, actions: Tensor, is_pad: Tensor, random: torch.Generator
    ) -> Tensor:
        """Mean squared error of the velocity predicted for noisy actions, without padding."""
        noise = torch.randn(actions.shape, device=actions.device, generator=random)
        level = torch.randint(NOISES, actions.shape[:1], device=actions.device, generator=random)
        kept = self.kept[level][:, None, None]
        noisy = kept.sqrt() * actions + (1 - kept).sqrt() * noise
        velocity = kept.sqrt() * noise - (1 - kept).sqrt() * actions
        squares = (self(noisy, level, states) - velocity).square().mean(-1)
        mean: Tensor = squares.masked_fill(is_pad, 0).sum() / (~is_pad).sum()
        return mean

    @torch.no_grad()
    def act(self, states: Tensor, random: torch.Generator) -> Tensor:
        """Samples chunks of actions [B,Sa,Da] for states [B,So,Ds], both normalized."""
        size = (len(states), *self.action_shape)
        actions = clean = torch.randn(size, device=states.device, generator=random)
        levels = torch.linspace(NOISES - 1, 0, STEPS).round().long().tolist()
        for level, lower in zip(levels, [*levels[1:], None], strict=True):
            velocity = self(actions, torch.full(size[:1], level, device=states.device), states)
            kept = self.kept[level]
            clean = (kept.sqrt() * actions - (1 - kept).sqrt() * velocity).clamp(-1, 1)
            if lower is None:
                break
            noise = (actions - kept.sqrt() * clean) / (1 - kept).sqrt()
            left = self.kept[lower]
            actions = left.sqrt() * clean + (1 - left).sqrt() * noise
        return clean
