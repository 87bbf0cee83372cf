"""The public functions that convert rotations, and poses to and from relative ones."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from robocache.core import backends
from robocache.core.arrays import ArrayT, call_with_arrays
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
    """Converts rotations to another form.

    The forms and their widths:

    - ``"quaternion_xyzw"``, ``"quaternion_wxyz"``: 4.
    - ``"rotation_vector"``: 3, the axis, whose length is the angle in radians.
    - ``"matrix"``: 9, in row-major order; ``matrices.flatten(-2)`` of [...,3,3].
    - ``"rotation_6d"``: 6, the first two rows of the matrix, as in PyTorch3D and diffusion_policy
      (Zhou et al. 2019).

    Inputs need not be exact rotations. Quaternions may have any length. Of a matrix only the first
    two rows are read, and orthonormalized (Gram-Schmidt). A zero quaternion, and rows that are zero
    or parallel, are no rotation: the result is zeros, without a gradient.

    Results are rotations up to rounding, also if source and target are the same form. Quaternions
    have w >= 0, and if w is 0, the first nonzero number of x, y, z is positive; but a quaternion
    converted from a quaternion keeps its sign. Rotation vectors have a length of at most pi; at pi
    their sign is that of such a quaternion. NaN results in NaN.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        x: [..., width of the source]; float16, bfloat16, float32 or float64. Any strides.
            Gradients flow to it.
        source: The form of `x`.
        target: The form of the result.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        [..., width of the target], of the dtype of `x`; computed in float64 for float64, else in
        float32, and rounded once. cuda and cpu return the same bits; pytorch differs in the last
        bits, since torch computes its square roots and angles.

    Raises:
        ValueError: For an invalid shape, form or backend.
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.

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
        array: ArrayT = call_with_arrays(convert_rotation, locals())
        return array
    of_source, of_target = form_code("source", source), form_code("target", target)
    check_rotation("x", x, of_source)
    if not backends.is_native("convert_rotation", backend, x, "x"):
        return pytorch.convert_rotation(x, of_source, of_target)
    out = ops.convert_rotation(as_rows(x, 1), of_source, of_target)
    return out.view([*x.shape[:-1], WIDTHS[of_target]])


def relative_pose(
    poses: ArrayT, anchor: ArrayT, form: RotationForm, *, backend: Backend = "auto"
) -> ArrayT:
    """Expresses poses in the frame of an anchor: inverse(anchor) * pose.

    A pose has P numbers: a position, 3 numbers, and a rotation in a form of
    :func:`convert_rotation`, which need not be exact. For an anchor with rotation R and position p
    the position becomes R^T (position - p), and the rotation R^T rotation; quaternions have w >= 0.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        poses: [...,K,P], K steps for each window; float16, bfloat16, float32 or float64. Any
            strides. Gradients flow to it.
        anchor: [...,P], the anchor's pose for each window, or [P], one for all; of the dtype of
            `poses`. Gradients flow to it, summed in the order of the steps.
        form: The form of the rotations: ``"quaternion_xyzw"`` (P = 7), ``"quaternion_wxyz"`` (7),
            ``"rotation_vector"`` (6), ``"matrix"`` (12) or ``"rotation_6d"`` (9).
        backend: As in :func:`convert_rotation`.

    Returns:
        [...,K,P], of the dtype of `poses`. cuda and cpu return the same bits.

    Raises:
        ValueError: For an invalid shape, device, form or backend.
        TypeError: For an argument of a wrong type or dtype.

    Example:
        >>> import torch, robocache as rc
        >>> anchor = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 2**-0.5, 2**-0.5])  # looks along y
        >>> poses = torch.tensor([[1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
        >>> rc.relative_pose(poses, anchor, "quaternion_xyzw")
        tensor([[ 2.0000,  0.0000,  0.0000,  0.0000,  0.0000, -0.7071,  0.7071]])
    """
    if isinstance(poses, np.ndarray):
        array: ArrayT = call_with_arrays(relative_pose, locals())
        return array
    return _convert("relative_pose", poses, anchor, form, False, backend)


def absolute_pose(
    poses: ArrayT, anchor: ArrayT, form: RotationForm, *, backend: Backend = "auto"
) -> ArrayT:
    """Expresses poses relative to an anchor in the frame of the anchor's pose: anchor * pose.

    The inverse of :func:`relative_pose`, up to rounding and the sign of quaternions, which is that
    of the product.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        poses: [...,K,P], relative to the anchor.
        anchor: [...,P] or [P].
        form: The form of the rotations.
        backend: As in :func:`convert_rotation`.

    Returns:
        [...,K,P], of the dtype of `poses`.

    Raises:
        ValueError: For an invalid shape, device, form or backend.
        TypeError: For an argument of a wrong type or dtype.

    Example:
        >>> import torch, robocache as rc
        >>> anchor = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0])  # looks back
        >>> relative = torch.tensor([[2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
        >>> rc.absolute_pose(relative, anchor, "quaternion_xyzw")
        tensor([[-1.,  0.,  0.,  0.,  0.,  1.,  0.]])
    """
    if isinstance(poses, np.ndarray):
        array: ArrayT = call_with_arrays(absolute_pose, locals())
        return array
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
