"""Rotations in other forms, and poses relative to an anchor's: the public functions."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from robocache.core import backends
from robocache.core.arrays import ArrayT, of_arrays
from robocache.core.names import Backend, RotationForm
from robocache.transform import ops, pytorch
from robocache.transform.checks import (
    WIDTHS,
    as_before,
    as_rows,
    as_windows,
    check_poses,
    check_rotation,
    form_code,
)


def convert_rotation(
    x: ArrayT, source: RotationForm, target: RotationForm, *, backend: Backend = "auto"
) -> ArrayT:
    """Rotations in another form.

    The forms, and how many numbers they have:

    - ``"quaternion_xyzw"``, ``"quaternion_wxyz"``: 4.
    - ``"rotation_vector"``: 3, the axis, as long as the angle in radians.
    - ``"matrix"``: 9, row by row; ``matrices.flatten(-2)`` makes them of [...,3,3].
    - ``"rotation_6d"``: 6, the first two rows of the matrix, as PyTorch3D and diffusion_policy have
      it (Zhou et al. 2019).

    What is read need not be exact: quaternions of any length, and the first two rows of a matrix,
    made orthonormal by the rule of Gram and Schmidt; its third row is not read. A zero quaternion,
    and rows that are zero or parallel, stand for no rotation: they give zeros, and no gradient.

    What is written is a rotation, up to rounding, also where both forms are one. Quaternions have
    w >= 0, and if that is 0 the first of x, y, z that is not 0 is positive; one that is made of a
    quaternion keeps its sign. Rotation vectors are at most pi long, and have at pi the sign of such
    a quaternion. NaN gives NaN.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        x: [..., numbers of the source]; float16, bfloat16, float32 or float64. Any strides.
            Gradients flow to it.
        source: The form of `x`.
        target: The form that is wanted.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        [..., numbers of the target], of the dtype of `x`; computed in float64 for float64, else in
        float32, and rounded once. cuda and cpu give the same bits; pytorch, whose square roots and
        angles are torch's own, differs in the last places.

    Raises:
        ValueError: For a shape, a form or a backend that does not fit.
        TypeError: For an argument of a wrong type, and a dtype that is not listed above.

    Example:
        >>> import torch, robocache as rc
        >>> quarter_turn = torch.tensor([0.0, 0.0, 1.0, 1.0])  # about z; need not be a unit
        >>> rc.convert_rotation(quarter_turn, "quaternion_xyzw", "rotation_vector")
        tensor([0.0000, 0.0000, 1.5708])
        >>> half_turn = torch.tensor([0.0, 0.0, 1.0, 0.0])
        >>> rc.convert_rotation(half_turn, "quaternion_xyzw", "rotation_6d")
        tensor([-1.,  0.,  0.,  0., -1.,  0.])
    """
    if isinstance(x, np.ndarray):
        return of_arrays(convert_rotation, locals())  # type: ignore[no-any-return]
    of_source, of_target = form_code("source", source), form_code("target", target)
    check_rotation("x", x, of_source)
    if not backends.is_native("convert_rotation", backend, x, "x"):
        return pytorch.convert_rotation(x, of_source, of_target)
    out = ops.convert_rotation(as_rows(x, 1), of_source, of_target)
    return out.view([*x.shape[:-1], WIDTHS[of_target]])


def relative_pose(
    poses: ArrayT, anchor: ArrayT, form: RotationForm, *, backend: Backend = "auto"
) -> ArrayT:
    """Poses as an anchor sees them: inverse(anchor) * pose.

    A pose is a position, 3 numbers, and a rotation of this form, as :func:`convert_rotation` has
    them; P numbers. Rotations need not be exact. With R and p for those of the anchor, the position
    becomes R^T (position - p), and the rotation R^T rotation; quaternions have w >= 0.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        poses: [...,K,P], K steps of some windows; float16, bfloat16, float32 or float64. Any
            strides. Gradients flow to it.
        anchor: [...,P], the anchor's pose of each window, or [P], one for all; of the dtype of
            `poses`. Gradients flow to it, summed in the order of the steps.
        form: The form of the rotations: ``"quaternion_xyzw"`` (P = 7), ``"quaternion_wxyz"`` (7),
            ``"rotation_vector"`` (6), ``"matrix"`` (12) or ``"rotation_6d"`` (9).
        backend: As in :func:`convert_rotation`.

    Returns:
        [...,K,P], of the dtype of `poses`. cuda and cpu give the same bits.

    Raises:
        ValueError: For a shape, device, form or backend that does not fit.
        TypeError: For an argument of a wrong type, and a dtype that does not fit.

    Example:
        >>> import torch, robocache as rc
        >>> anchor = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 2**-0.5, 2**-0.5])  # looks along y
        >>> poses = torch.tensor([[1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
        >>> rc.relative_pose(poses, anchor, "quaternion_xyzw")
        tensor([[ 2.0000,  0.0000,  0.0000,  0.0000,  0.0000, -0.7071,  0.7071]])
    """
    if isinstance(poses, np.ndarray):
        return of_arrays(relative_pose, locals())  # type: ignore[no-any-return]
    return _convert("relative_pose", poses, anchor, form, False, backend)


def absolute_pose(
    poses: ArrayT, anchor: ArrayT, form: RotationForm, *, backend: Backend = "auto"
) -> ArrayT:
    """Poses that an anchor sees, in the frame of the anchor itself: anchor * pose.

    It undoes :func:`relative_pose`, whose arguments it has, up to rounding and the sign of
    quaternions, which is that of the product.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        poses: [...,K,P], relative to the anchor.
        anchor: [...,P] or [P].
        form: The form of the rotations.
        backend: As in :func:`convert_rotation`.

    Returns:
        [...,K,P], of the dtype of `poses`.

    Raises:
        ValueError: For a shape, device, form or backend that does not fit.
        TypeError: For an argument of a wrong type, and a dtype that does not fit.

    Example:
        >>> import torch, robocache as rc
        >>> anchor = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0])  # looks back
        >>> relative = torch.tensor([[2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
        >>> rc.absolute_pose(relative, anchor, "quaternion_xyzw")
        tensor([[-1.,  0.,  0.,  0.,  0.,  1.,  0.]])
    """
    if isinstance(poses, np.ndarray):
        return of_arrays(absolute_pose, locals())  # type: ignore[no-any-return]
    return _convert("absolute_pose", poses, anchor, form, True, backend)


def _convert(
    operation: str, poses: Tensor, anchor: Tensor, form: str, inverse: bool, backend: Backend
) -> Tensor:
    code = form_code("form", form)
    check_poses(poses, anchor, code)
    windows = as_windows(poses)
    anchors = as_rows(anchor, windows.size(0))
    if not backends.is_native(operation, backend, poses, "poses", anchor):
        out = pytorch.convert_pose(windows, anchors, code, inverse)
    else:
        out = ops.convert_pose(windows, anchors, code, inverse)
    return as_before(out, poses.shape[:-2])
