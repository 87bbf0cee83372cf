"""Helpers of all tests: the backends of this machine, comparisons, and strided copies."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest
import torch

import robocache as rc

CHOICE = "ROBOCACHE_TEST_BACKENDS"
ALL = ("cpu", "pytorch-cpu", "cuda", "pytorch-cuda")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (*FLOATS, torch.uint8)
needs_gpu = pytest.mark.usefixtures("cuda_is_tested")


@dataclass(frozen=True)
class Backend:
    """A value of backend= on a device."""

    name: str
    backend: str
    device: str

    def put(self, x: Any) -> Any:
        """Tensors (also inside a dict) on this backend's device with the strides that they have."""
        if isinstance(x, dict):
            return {key: self.put(value) for key, value in x.items()}
        if not isinstance(x, torch.Tensor) or x.device.type == self.device:
            return x
        if x.layout != torch.strided or x.is_nested:
            return x.to(self.device)
        storage = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        moved = storage.to(self.device).as_strided(x.size(), x.stride(), x.storage_offset())
        # torch.func's transforms let no tensor be told whether it requires grad.
        return moved.requires_grad_() if x.requires_grad else moved

    def resample(self, data: Any, source_times: Any, target_times: Any, **options: Any) -> Any:
        """resample_trajectories on this backend; the results are wherever it puts them."""
        return rc.resample_trajectories(
            self.put(data),
            self.put(source_times),
            self.put(target_times),
            backend=self.backend,
            **self.put(options),
        )

    def stream(self, values: Any, times: Any, **options: Any) -> rc.Stream:
        """A rc.Stream on this backend's device."""
        return rc.Stream(self.put(values), self.put(times), **self.put(options))

    def fuse(self, streams: Sequence[rc.Stream], target_times: Any, **options: Any) -> Any:
        """rc.fuse on this backend; streams may be on the CPU."""
        moved = [
            self.stream(**{field.name: getattr(stream, field.name) for field in fields(stream)})
            for stream in streams
        ]
        return rc.fuse(moved, self.put(target_times), backend=self.backend, **options)

    def resample_to_cpu(self, *args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        out, valid = self.resample(*args, **options, return_valid=True)
        assert out.device.type == valid.device.type == self.device
        return out.cpu(), valid.cpu()

    def voxelize(self, points: Any, *args: Any, **options: Any) -> Any:
        """voxelize_point_cloud on this backend; the results are wherever it puts them."""
        return rc.voxelize_point_cloud(
            self.put(points), *args, backend=self.backend, **self.put(options)
        )

    def voxelize_sparse(self, points: Any, *args: Any, **options: Any) -> rc.SparseVoxels:
        """Calls voxelize_sparse on this backend."""
        return rc.voxelize_sparse(
            self.put(points), *args, backend=self.backend, **self.put(options)
        )

    def sample_farthest(self, points: Any, n: int, **options: Any) -> Any:
        """Calls sample_farthest on this backend."""
        return rc.sample_farthest(self.put(points), n, backend=self.backend, **self.put(options))

    def convert_rotation(self, x: Any, *forms: str) -> Any:
        return rc.convert_rotation(self.put(x), *forms, backend=self.backend)

    def relative_pose(self, poses: Any, anchor: Any, form: str) -> Any:
        return rc.relative_pose(self.put(poses), self.put(anchor), form, backend=self.backend)

    def absolute_pose(self, poses: Any, anchor: Any, form: str) -> Any:
        return rc.absolute_pose(self.put(poses), self.put(anchor), form, backend=self.backend)

    def delta_to_absolute(self, deltas: Any, start: Any, **options: Any) -> Any:
        return rc.delta_to_absolute(
            self.put(deltas), self.put(start), backend=self.backend, **self.put(options)
        )

    def absolute_to_delta(self, values: Any, start: Any, **options: Any) -> Any:
        return rc.absolute_to_delta(
            self.put(values), self.put(start), backend=self.backend, **self.put(options)
        )


CPU = Backend("cpu", "cpu", "cpu")
PYTORCH_CPU = Backend("pytorch-cpu", "pytorch", "cpu")
CUDA = Backend("cuda", "cuda", "cuda")
PYTORCH_CUDA = Backend("pytorch-cuda", "pytorch", "cuda")


@functools.cache
def find_backends() -> tuple[tuple[Backend, ...], dict[str, str]]:
    """The backends to test here, and why each of the others is not.

    The environment variable names the backends that must be tested; without it they are both on
    the CPU and, where torch finds a GPU, both on CUDA. A chosen backend that does not work is an
    error and never a silent omission.
    """
    known = {b.name: b for b in (CPU, PYTORCH_CPU, CUDA, PYTORCH_CUDA)}
    left_out: dict[str, str] = {}
    chosen = [name for name in os.environ.get(CHOICE, "").split(",") if name]
    if not chosen:
        chosen = [CPU.name, PYTORCH_CPU.name]
        if torch.cuda.is_available():
            chosen.append(PYTORCH_CUDA.name)
            problem = cuda_problem()
            if problem is None:
                chosen.append(CUDA.name)
            else:
                left_out[CUDA.name] = problem
        else:
            why = "torch.cuda.is_available() is False on this machine"
            left_out = {CUDA.name: why, PYTORCH_CUDA.name: why}
    else:
        left_out = {name: f"{CHOICE} leaves it out" for name in ALL if name not in chosen}
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise pytest.UsageError(f"{CHOICE}: expected {', '.join(ALL)}, got {', '.join(unknown)}")
    backends = tuple(known[name] for name in ALL if name in chosen)
    for backend in backends:
        try:
            probe(backend)
        except Exception as error:
            raise pytest.UsageError(
                f"backend {backend.name} does not work: {type(error).__name__}: {error} "
                f"({CHOICE}=... chooses the backends to test)"
            ) from error
    return backends, left_out


def cuda_problem() -> str | None:
    """Why the library cannot use the GPU that torch finds; None if it can."""
    try:
        probe(CUDA)
    except (ImportError, ValueError) as error:
        return str(error)
    return None


def probe(backend: Backend) -> None:
    out = backend.resample(torch.zeros(2, 1), torch.tensor([0, 1]), torch.tensor([0]))
    assert out.shape == (1, 1)


# ---- comparing ---------------------------------------------------------------------------------


def same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Elementwise: both NaN, or the same number with the same sign of zero."""
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape, b.dtype, b.shape)
    if not a.dtype.is_floating_point:
        return a == b
    both_nan = a.isnan() & b.isnan()
    return both_nan | ((a == b) & (a.signbit() == b.signbit()))


def assert_same_bits(got: torch.Tensor, expected: torch.Tensor, what: str = "") -> None:
    __tracebackhide__ = True
    same = same_bits(got, expected)
    if not same.all():
        where = (~same).nonzero()[0].tolist()
        pytest.fail(
            f"{what}: {int((~same).sum())} of {same.numel()} elements differ, first at {where}: "
            f"got {got[tuple(where)].item()!r}, expected {expected[tuple(where)].item()!r}"
        )


def assert_same_batch(
    got: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> None:
    """Asserts equal keys in equal order, with equal bits on the same device."""
    assert list(got) == list(expected)
    for key, values in expected.items():
        assert got[key].device == values.device
        assert_same_bits(got[key].cpu(), values.cpu(), key)


def assert_near(
    got: torch.Tensor, expected: torch.Tensor, atol: float | torch.Tensor, what: str = ""
) -> None:
    """|got - expected| <= atol in double; NaN where NaN is expected, and nowhere else."""
    __tracebackhide__ = True
    assert got.shape == expected.shape, (what, got.shape, expected.shape)
    g, e = got.double(), expected.double()
    ok = ((g - e).abs() <= atol) | (g.isnan() & e.isnan()) | (g == e)
    if not ok.all():
        where = tuple((~ok).nonzero()[0].tolist())
        pytest.fail(
            f"{what}: {int((~ok).sum())} of {ok.numel()} elements differ, first at {list(where)}: "
            f"got {g[where].item()!r}, expected {e[where].item()!r}, allowed {atol}"
        )
