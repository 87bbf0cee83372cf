"""How rows combine to values, and the rounding of these.

Shapes: B episodes, S source rows, T targets. What is [B,...] here may lack its B, which is shared
by the batch then.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from robocache.align.pytorch.locate import Window, bits_of, take

_PI_FLOAT32 = 13176795 / 2**22  # pi rounded to float32


def window_sum(values: Tensor, window: Window, valid: Tensor | None) -> Tensor:
    """The sum of the valid rows of each window, [B,T,D]; gradients flow to these rows alone.

    Sums of 1, 2, 4, ... neighboring rows are made first, and a window put together from one of
    each kind at most: log2(S) steps, and no difference of prefix sums, in which a NaN or a large
    number would reach windows that it is not in.
    """
    if valid is not None:
        values = torch.where(valid.unsqueeze(-1), values, 0.0)
    count, at = window.end - window.first, window.first
    blocks = values  # [B,S-n+1,D]: the sums of n = 1, 2, 4, ... rows
    total: Tensor | None = None
    bits = bits_of(values.size(-2))
    for bit in range(bits):
        takes = (count >> bit) & 1 == 1
        block = take(blocks, torch.where(takes, at, 0), 1)
        part = torch.where(takes.unsqueeze(-1), block, 0.0)
        total = part if total is None else total + part
        at = torch.where(takes, at + (1 << bit), at)
        if bit + 1 < bits:
            rows = blocks.size(-2) - (1 << bit)
            blocks = blocks.narrow(-2, 0, rows) + blocks.narrow(-2, 1 << bit, rows)
    assert total is not None  # there is a row to point at
    return total


def wrap(x: Tensor) -> Tensor:
    """The angle in (-pi, pi] that differs from `x` by whole turns; the slope is 1 everywhere."""
    pi = math.pi if x.dtype == torch.float64 else _PI_FLOAT32
    turn = 2 * pi
    near = torch.where(x > 0, x - turn, x + turn)
    # Far away the turn must be a better one than float32 has, and its multiples exact.
    wide = x.to(torch.float32 if x.device.type == "mps" else torch.float64)
    wide = torch.fmod(wide, 2 * math.pi)
    wide = torch.where(wide > math.pi, wide - 2 * math.pi, wide)
    far = torch.where(wide < -math.pi, wide + 2 * math.pi, wide).to(x.dtype)
    far = torch.where(far <= -pi, far + turn, far)
    wrapped = torch.where((x > -3 * pi) & (x <= 3 * pi), near, far)
    return torch.where((x > -pi) & (x <= pi), x, wrapped)


def slerp(a: Tensor, b: Tensor, weight: Tensor, alone: Tensor) -> tuple[Tensor, Tensor]:
    """Unit quaternions [B,T,4] on the short arc from a to b, and whether there is one, [B,T].

    A zero quaternion has no direction: zeros, without a gradient.
    """
    is_rotation = (_dot(a, a) != 0) & (_dot(b, b) != 0)
    flip = _dot(a, b) < 0
    a, b = _unit(a), _unit(b)
    b = torch.where(flip, -b, b)
    # Half the chord is the sine of half the angle: exact for small angles, where the dot product
    # is not.
    chord = b - a
    theta = 2 * torch.asin(_length(chord) / 2)
    point = _sine_ratio(1 - weight, theta) * a + _sine_ratio(weight, theta) * b
    result = torch.where(alone, a, _unit(point))
    return torch.where(is_rotation, result, 0.0), is_rotation.squeeze(-1)


def _sine_ratio(u: Tensor, theta: Tensor) -> Tensor:
    """sin(u theta) / sin(theta), by its series where the quotient's slope would cancel."""
    is_small = theta < (3e-3 if theta.dtype == torch.float64 else 0.15)
    far = torch.where(is_small, 1.0, theta)
    quotient = torch.sin(u * far) / torch.sin(far)
    t, v = theta * theta, u * u
    series = 1 / 6 + t * ((7 - 3 * v) / 360 + t * (31 - v * (18 - 3 * v)) / 15120)
    return torch.where(is_small, u + u * (1 - v) * t * series, quotient)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """[B,T,1]; summed in order, as every backend does, so that all agree on its sign."""
    p = a * b
    return ((p[..., 0:1] + p[..., 1:2]) + p[..., 2:3]) + p[..., 3:4]


def _length(q: Tensor) -> Tensor:
    """[B,T,1]; the gradient at zero is zero."""
    square = _dot(q, q)
    is_zero = square == 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, square).sqrt())


def _unit(q: Tensor) -> Tensor:
    """The direction of q; zeros where q is zero."""
    square = _dot(q, q)
    return q / torch.where(square == 0, 1.0, square).sqrt()


def round_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """To the output's type, to nearest even."""
    if dtype == torch.uint8:
        return x.nan_to_num(nan=0.0).round().clamp(0, 255).to(dtype)
    if dtype in (torch.float16, torch.bfloat16):
        return x.to(torch.float32).to(dtype)  # float64 goes by way of float32
    return x.to(dtype)
