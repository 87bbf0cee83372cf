"""Voxelization on every backend against the sequential NumPy reference, on calls of every kind."""

from __future__ import annotations

from typing import Any

import torch
import voxel_reference
from hypothesis import given
from support import Backend, assert_near, assert_same_bits, find_backends, same_bits
from voxel_strategies import DenseCall, SparseCall, dense_calls, sparse_calls

import robocache as rc

EXACT = ("occupancy", "count", "max", "min")


def assert_one_of(got: torch.Tensor, accepted: list[torch.Tensor], what: str) -> None:
    right = torch.stack([same_bits(got, a) for a in accepted]).any(0)
    if not right.all():
        assert_same_bits(got, accepted[0], what)


def assert_reduced(
    backend: Backend, got: torch.Tensor, accepted: list[torch.Tensor], mode: str, call: Any
) -> None:
    """The reference's bits; sums of the pytorch backend, whose order is torch's, are near them."""
    if mode in EXACT or backend.backend != "pytorch":
        assert_one_of(got, accepted, f"{backend.name}: {mode}")
        return
    assert got.dtype == accepted[0].dtype
    finite = call.options["features"].double()
    finite = finite[finite.isfinite()]
    largest = float(finite.abs().sum()) if finite.numel() else 0.0
    compute = voxel_reference.compute_dtype(call.options["features"], got.dtype)
    limit = torch.finfo(compute)
    if largest > limit.max / 4:  # a sum may overflow in one order and not in another
        return
    allowed = 32 * limit.eps * largest + limit.tiny
    want = accepted[0].double()
    if got.dtype == torch.uint8:
        allowed += 1
    else:
        out = torch.finfo(got.dtype)
        allowed = allowed + 2 * out.eps * want.abs().nan_to_num(posinf=0, neginf=0) + out.tiny
        if largest > out.max / 4:
            return
    assert_near(got, want, allowed, f"{backend.name}: {mode}")


@given(dense_calls())
def test_dense(call: DenseCall) -> None:
    accepted, dropped = voxel_reference.voxelize(*call.arguments, **call.options)
    mode = call.options["mode"]
    for backend in find_backends()[0]:
        grid, lost = backend.voxelize(*call.arguments, **call.options, return_dropped=True)
        assert grid.device.type == lost.device.type == backend.device and grid.is_contiguous()
        assert_same_bits(lost.cpu(), dropped, f"{backend.name}: dropped")
        assert_reduced(backend, grid.cpu(), accepted, mode, call)
        alone = backend.voxelize(*call.arguments, **call.options)
        if mode in EXACT or backend.name != "pytorch-cuda":  # whose sums differ from run to run
            assert_same_bits(alone.cpu(), grid.cpu(), f"{backend.name}: without the dropped")


@given(sparse_calls())
def test_sparse(call: SparseCall) -> None:
    expected = voxel_reference.voxelize_sparse(*call.arguments, **call.options)
    for backend in find_backends()[0]:
        got = backend.voxelize_sparse(*call.arguments, **call.options)
        assert isinstance(got, rc.SparseVoxels)
        for name, want in expected.items():
            tensor = getattr(got, name)
            if want is None:
                assert tensor is None
                continue
            assert tensor.device.type == backend.device and tensor.is_contiguous(), name
            if name == "features":
                assert_reduced(backend, tensor.cpu(), [want], call.options["reduce"], call)
            else:
                assert_same_bits(tensor.cpu(), want, f"{backend.name}: {name}")


@given(dense_calls())
def test_dense_and_sparse_agree(call: DenseCall) -> None:
    """The voxels of the sparse form that lie in the grid are the cells of the dense one."""
    options = dict(call.options)
    mode, origin, features = options["mode"], options["origin"], options["features"]
    if mode == "occupancy":
        return
    options["out_dtype"] = None
    sizes = voxel_reference.three(call.voxel_size)
    if origin is None:
        origin = [-(n * s) / 2 for n, s in zip(call.grid_size, sizes, strict=True)]
    for backend in find_backends()[0]:
        if backend.name == "pytorch-cuda":
            continue  # whose sums differ from run to run
        grid = backend.voxelize(*call.arguments, **options).cpu()
        voxels = backend.voxelize_sparse(
            call.points,
            call.voxel_size,
            origin=origin,
            features=features,
            reduce="mean" if mode == "count" else mode,
            offsets=options["offsets"],
        )
        if call.points.dim() == 2 and options["offsets"] is None:
            grid = grid.unsqueeze(0)
        want = torch.zeros_like(grid)
        per_voxel = (voxels.counts if features is None else voxels.features).cpu()
        for b, (first, last) in enumerate(
            zip(voxels.offsets[:-1].tolist(), voxels.offsets[1:].tolist(), strict=True)
        ):
            for v in range(first, last):
                x, y, z = voxels.coordinates[v].tolist()
                if all(0 <= i < n for i, n in zip((x, y, z), call.grid_size, strict=True)):
                    want[b, ..., x, y, z] = per_voxel[v]
        assert_same_bits(grid, want, backend.name)


@given(dense_calls())
def test_validation_accepts_what_is_right(call: DenseCall) -> None:
    """rc.config(validate=True) changes no result."""
    for b in find_backends()[0]:
        if b.name == "pytorch-cuda" and call.options["mode"] in ("mean", "sum"):
            continue
        plain = b.voxelize(*call.arguments, **call.options)
        with rc.config(validate=True):
            assert_same_bits(b.voxelize(*call.arguments, **call.options), plain, b.name)
