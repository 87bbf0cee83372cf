"""The pytorch backend of transforms: plain torch, on any device.

Vectors, quaternions and matrices are tuples of their components, each a tensor. Additions,
multiplications and divisions are in the order of src/transform/rotation.h; square roots and angles
are computed by torch's functions. Gradients are autograd's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from robocache.transform.checks import MATRIX, SIX_D, VECTOR, WIDTHS, WXYZ


class _Vector(NamedTuple):
    x: Tensor
    y: Tensor
    z: Tensor


class _Quaternion(NamedTuple):
    x: Tensor
    y: Tensor
    z: Tensor
    w: Tensor


class _Matrix(NamedTuple):
    """By rows."""

    x: _Vector
    y: _Vector
    z: _Vector


def convert_rotation(x: Tensor, source: int, target: int) -> Tensor:
    """Converts [...,width of the source] to [...,width of the target]."""
    numbers = _compute(x).unbind(-1)
    if _is_matrix(target):
        if _is_matrix(source):
            matrix = _matrix_of_rows(numbers)
        else:
            matrix = _matrix_of(_read_quaternion(source, numbers))
        out = _write_matrix(matrix, target)
    else:
        out = _write_quaternion(_read_quaternion(source, numbers), target)
    return torch.stack(out, -1).to(x.dtype)


def convert_pose(poses: Tensor, anchor: Tensor, form: int, inverse: bool) -> Tensor:
    """Converts [N,K,P] by [N,P] to [N,K,P]: to relative poses, or back."""
    to_relative = not inverse
    of_pose = _compute(poses).unbind(-1)
    of_anchor = _compute(anchor).unsqueeze(-2).unbind(-1)
    pose, reference = _Vector(*of_pose[:3]), _Vector(*of_anchor[:3])
    if _is_matrix(form):
        matrix = _matrix_of_rows(of_anchor[3:])
        by = _transposed(matrix) if to_relative else matrix
        rotation = _write_matrix(_times(by, _matrix_of_rows(of_pose[3:])), form)
    else:
        q = _read_quaternion(form, of_anchor[3:])
        matrix = _matrix_of(q)
        by = _transposed(matrix) if to_relative else matrix
        if to_relative:
            q = _Quaternion(-q.x, -q.y, -q.z, q.w)
        q = _product(q, _read_quaternion(form, of_pose[3:]))
        rotation = _write_quaternion(_upright(q) if to_relative else q, form)
    if to_relative:
        position = _rotated(by, _Vector(*(a - b for a, b in zip(pose, reference, strict=True))))
    else:
        moved = _rotated(by, pose)
        position = _Vector(*(a + b for a, b in zip(moved, reference, strict=True)))
    return torch.stack([*position, *rotation], -1).to(poses.dtype)


def convert_delta(
    x: Tensor, start: Tensor, times: Tensor | None, duration: float, inverse: bool
) -> Tensor:
    """Converts [N,K,D] by [N,D] to [N,K,D]. The order of torch's additions is unspecified."""
    values, first = _compute(x), _compute(start).unsqueeze(-2)
    durations: Tensor | float = duration
    if times is not None:
        difference = times.diff()
        if times.dtype == torch.int64:
            # Differences past the end of int64 have come round to the other one.
            turns = (times[..., 1:] > times[..., :-1]) & (difference < 0)
            back = (times[..., 1:] < times[..., :-1]) & (difference > 0)
            difference = (
                difference.to(_wide(x)) + (turns.to(_wide(x)) - back.to(_wide(x))) * 2.0**64
            )
            # By a tensor: of a number torch takes the reciprocal, and multiplies.
            difference = difference / torch.full_like(difference, 1e9)
        durations = difference.to(values.dtype).unsqueeze(-1)
    if inverse:
        before = torch.cat([first, values], -2).narrow(-2, 0, values.size(-2))
        return ((values - before) / _like(durations, values)).to(x.dtype).contiguous()
    return (first + (values * durations).cumsum(-2)).to(x.dtype).contiguous()


def _like(durations: Tensor | float, values: Tensor) -> Tensor:
    """To divide by: of a number torch takes the reciprocal on a GPU."""
    if isinstance(durations, Tensor):
        return durations
    return torch.full([], durations, dtype=values.dtype, device=values.device)


# ---- numbers ---------------------------------------------------------------------------------


def _compute(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _wide(x: Tensor) -> torch.dtype:
    """The dtype in which angles are computed, so that their derivatives do not cancel."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def _root(square: Tensor, is_zero: Tensor) -> Tensor:
    """The square root, of 1 where `is_zero`: no gradient comes from there then."""
    return torch.where(is_zero, 1.0, square).sqrt()


def _dot(a: _Vector, b: _Vector) -> Tensor:
    return (a.x * b.x + a.y * b.y) + a.z * b.z


def _columns(matrix: _Matrix) -> tuple[_Vector, _Vector, _Vector]:
    a, b, c = (_Vector(*column) for column in zip(*matrix, strict=True))
    return a, b, c


def _transposed(matrix: _Matrix) -> _Matrix:
    return _Matrix(*_columns(matrix))


def _rotated(matrix: _Matrix, v: _Vector) -> _Vector:
    return _Vector(*(_dot(row, v) for row in matrix))


def _times(a: _Matrix, b: _Matrix) -> _Matrix:
    columns = _columns(b)
    return _Matrix(*(_Vector(*(_dot(row, column) for column in columns)) for row in a))


def _product(a: _Quaternion, b: _Quaternion) -> _Quaternion:
    return _Quaternion(
        ((a.w * b.x + a.x * b.w) + a.y * b.z) - a.z * b.y,
        ((a.w * b.y + a.y * b.w) + a.z * b.x) - a.x * b.z,
        ((a.w * b.z + a.z * b.w) + a.x * b.y) - a.y * b.x,
        ((a.w * b.w - a.x * b.x) - a.y * b.y) - a.z * b.z,
    )


# ---- rotations -------------------------------------------------------------------------------


def _is_matrix(form: int) -> bool:
    return form in (MATRIX, SIX_D)


def _read_quaternion(form: int, x: tuple[Tensor, ...]) -> _Quaternion:
    if form == VECTOR:
        return _quaternion_of_vector(_Vector(*x))
    if _is_matrix(form):
        return _quaternion_of(_matrix_of_rows(x))
    return _unit(_Quaternion(x[1], x[2], x[3], x[0]) if form == WXYZ else _Quaternion(*x))


def _write_quaternion(q: _Quaternion, form: int) -> tuple[Tensor, ...]:
    if form == VECTOR:
        return _vector_of(q)
    return (q.w, q.x, q.y, q.z) if form == WXYZ else q


def _write_matrix(matrix: _Matrix, form: int) -> tuple[Tensor, ...]:
    return (*matrix.x, *matrix.y, *matrix.z)[: WIDTHS[form]]


def _upright(q: _Quaternion) -> _Quaternion:
    flipped = q.z < 0
    for part in (q.y, q.x, q.w):
        flipped = (part < 0) | ((part == 0) & flipped)
    return _Quaternion(*(torch.where(flipped, -part, part) for part in q))


def _unit(q: _Quaternion) -> _Quaternion:
    square = ((q.x * q.x + q.y * q.y) + q.z * q.z) + q.w * q.w
    is_zero = square == 0
    length = _root(square, is_zero)
    return _Quaternion(*(torch.where(is_zero, 0.0, part / length) for part in q))


def _matrix_of(q: _Quaternion) -> _Matrix:
    xx, yy, zz, ww = q.x * q.x, q.y * q.y, q.z * q.z, q.w * q.w
    xy, xz, yz = q.x * q.y, q.x * q.z, q.y * q.z
    xw, yw, zw = q.x * q.w, q.y * q.w, q.z * q.w
    return _Matrix(
        _Vector(((ww + xx) - yy) - zz, 2 * (xy - zw), 2 * (xz + yw)),
        _Vector(2 * (xy + zw), ((ww - xx) + yy) - zz, 2 * (yz - xw)),
        _Vector(2 * (xz - yw), 2 * (yz + xw), ((ww - xx) - yy) + zz),
    )


def _quaternion_of(matrix: _Matrix) -> _Quaternion:
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = matrix
    trace = (xx + yy) + zz
    forms = (
        ((trace >= xx) & (trace >= yy) & (trace >= zz), (zy - yz, xz - zx, yx - xy, 1 + trace)),
        ((xx >= yy) & (xx >= zz), (1 + ((xx - yy) - zz), xy + yx, xz + zx, zy - yz)),
        (yy >= zz, (xy + yx, 1 + ((yy - xx) - zz), yz + zy, xz - zx)),
    )
    q = [xz + zx, yz + zy, 1 + ((zz - xx) - yy), yx - xy]
    for is_best, better in reversed(forms):
        q = [torch.where(is_best, a, b) for a, b in zip(better, q, strict=True)]
    is_none = _dot(matrix.x, matrix.x) == 0
    upright = _upright(_unit(_Quaternion(*q)))
    return _Quaternion(*(torch.where(is_none, 0.0, part) for part in upright))


def _matrix_of_rows(rows: tuple[Tensor, ...]) -> _Matrix:
    first, second = _Vector(*rows[:3]), _Vector(*rows[3:6])
    square = _dot(first, first)
    is_zero = square == 0
    length = _root(square, is_zero)
    x = _Vector(*(part / length for part in first))
    along = _dot(x, second)
    rest = _Vector(*(a - along * b for a, b in zip(second, x, strict=True)))
    across = _dot(rest, rest)
    least = 2.0 ** (-48 if square.dtype == torch.float64 else -19)
    is_parallel = across <= least * least * _dot(second, second)
    length = _root(across, is_parallel)
    y = _Vector(*(part / length for part in rest))
    z = _Vector(x.y * y.z - x.z * y.y, x.z * y.x - x.x * y.z, x.x * y.y - x.y * y.x)
    is_none = is_zero | is_parallel
    return _Matrix(
        *(_Vector(*(torch.where(is_none, 0.0, part) for part in row)) for row in (x, y, z))
    )


def _quaternion_of_vector(v: _Vector) -> _Quaternion:
    compute = v.x.dtype
    pi = torch.full([], math.pi, dtype=compute, device=v.x.device)
    square = _dot(v, v)
    is_half_turn = square.detach().sqrt() == pi
    square = square.to(_wide(square))
    is_small = square < 1e-6
    angle = _root(square, is_small)
    turn = 2 * math.pi
    rest = torch.where(angle.detach() > pi, angle - turn * (angle.detach() / turn).round(), angle)
    series = 0.5 - square * (1 / 48 - square / 3840)
    ratio = torch.where(is_small, series, torch.sin(rest / 2) / angle).to(compute)
    cosine = torch.where(is_small, 1 - square * (1 / 8 - square / 384), torch.cos(rest / 2))
    cosine = cosine.to(compute)
    # It is not negative in truth; half a turn is one for every type of number.
    cosine = torch.where(is_half_turn | (cosine < 0), cosine - cosine.detach(), cosine)
    return _upright(_Quaternion(ratio * v.x, ratio * v.y, ratio * v.z, cosine))


def _vector_of(quaternion: _Quaternion) -> _Vector:
    q = _upright(quaternion)
    compute = q.x.dtype
    x, y, z, w = (part.to(_wide(part)) for part in q)
    square = (x * x + y * y) + z * z
    is_small = square < 1e-6
    sine = _root(square, is_small)
    safe = torch.where(is_small & (w != 0), w, 1.0)
    tangent = square / (safe * safe)  # its square
    series = 2 / safe * (1 - tangent * (1 / 3 - tangent / 5))
    ratio = torch.where(is_small, series, 2 * torch.atan2(sine, w) / sine)
    return _Vector(*((ratio * part).to(compute) for part in (x, y, z)))
