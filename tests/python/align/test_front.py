"""The package itself: what importing it costs, its names, configuration, build information."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from support import Backend, find_backends

import robocache as rc
from robocache.align import options as _options
from robocache.core import config, errors, library, names
from robocache.transform import checks
from robocache.voxel import options as _voxel_options

FUNCTIONS = (
    rc.resample_trajectories,
    rc.fuse,
    rc.fuse_multimodal,
    rc.voxelize_point_cloud,
    rc.voxelize_sparse,
    rc.unproject,
    rc.sample_farthest,
    rc.convert_rotation,
    rc.relative_pose,
    rc.absolute_pose,
    rc.delta_to_absolute,
    rc.absolute_to_delta,
    rc.relative_to,
    rc.absolute_from,
)


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_is_cheap() -> None:
    """import robocache loads neither torch nor NumPy, nor any reader's library."""
    code = (
        "import sys, robocache; "
        "print([m for m in ('torch', 'numpy', 'pyarrow', 'h5py', 'zarr') if m in sys.modules])"
    )
    assert python(code) == "[]"


def test_functions_load_what_they_need() -> None:
    assert python("import robocache as rc; rc.resample_trajectories; print(rc.config)") != ""


def test_names() -> None:
    for name in (
        "resample_trajectories",
        "voxelize_point_cloud",
        "voxelize_sparse",
        "SparseVoxels",
        "config",
        "build_info",
        "__version__",
    ):
        assert name in rc.__all__ and name in dir(rc)
        assert getattr(rc, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'resample_trajectory'"):
        rc.resample_trajectory  # noqa: B018
    with pytest.raises(TypeError):
        rc.resample_trajectories(1, 2, 3, "linear")  # type: ignore[call-overload]


def test_documentation() -> None:
    """Every public name says what it does, and the function what its parameters are."""
    for name in rc.__all__:
        value = getattr(rc, name)
        if not isinstance(value, str):
            assert inspect.getdoc(value), name
    for function in (*FUNCTIONS, rc.Stream):
        text = inspect.getdoc(function) or ""
        for name in inspect.signature(function).parameters:
            assert f"{name}:" in text, name


def test_examples_in_the_documentation(backend: Backend) -> None:
    if backend.device != "cpu":
        pytest.skip("the example's tensors are on the CPU")
    runner = doctest.DocTestRunner()
    with rc.config(backend=backend.backend):
        for function in FUNCTIONS:
            (test,) = doctest.DocTestFinder().find(function, function.__name__)
            assert test.examples
            runner.run(test)
    assert runner.failures == 0


def test_importing_fusion_hides_nothing() -> None:
    """No module has the name of a function: importing one would put it in the function's place."""
    code = "import robocache as rc; rc.Stream; rc.SparseVoxels; print(callable(rc.fuse))"
    assert python(code) == "True"


def test_names_for_type_checkers_are_those_that_functions_take() -> None:
    assert get_args(names.MethodName) == _options.METHOD_NAMES
    assert get_args(names.Outside) == tuple(_options.OUTSIDES)
    assert get_args(names.Backend) == config.BACKENDS
    assert get_args(names.VoxelMode) == _voxel_options.MODE_NAMES
    assert get_args(names.RotationForm) == tuple(checks.FORMS)
    assert get_args(names.Reduction) == _voxel_options.REDUCTIONS


def test_defaults() -> None:
    parameters = inspect.signature(rc.resample_trajectories).parameters
    defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
    assert defaults == {
        "method": "linear",
        "outside": "hold",
        "max_gap": None,
        "tolerance": 0,
        "mean_window": None,
        "source_lengths": None,
        "source_valid": None,
        "subtract": None,
        "multiply": None,
        "out_dtype": None,
        "return_valid": False,
        "backend": "auto",
    }


def current() -> tuple[str, bool]:
    """The settings, as the effect that they have."""
    from robocache.core import config

    return config.backend, config.validate


def test_config() -> None:
    before = current()
    with rc.config(backend="pytorch", validate=True):
        assert current() == ("pytorch", True)
        with rc.config(validate=False):
            assert current() == ("pytorch", False)
        assert current() == ("pytorch", True)
        with pytest.raises(KeyError), rc.config(backend="auto"):
            raise KeyError
        assert current() == ("pytorch", True)
    assert current() == before
    rc.config(validate=True)
    try:
        assert current() == (before[0], True)
    finally:
        rc.config(validate=before[1])
    assert current() == before
    with pytest.raises(TypeError, match="validate: expected a bool, got int"):
        rc.config(validate=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"validate: expected a bool, got numpy\.bool"):
        rc.config(validate=np.True_)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="backend: expected auto, cuda, cpu or pytorch, got 'x'"):
        rc.config(backend="x")
    assert current() == before


def test_config_kept() -> None:
    """An object entered later gives back what it found there, also within itself."""
    before = current()
    try:
        kept = rc.config(validate=True, backend="pytorch")
        rc.config(validate=False, backend="cpu")
        with kept:
            assert current() == ("pytorch", True)
            rc.config(backend="auto")
            with kept:
                assert current() == ("pytorch", True)
            assert current() == ("auto", True)
        assert current() == ("cpu", False)
        with kept:
            assert current() == ("pytorch", True)
        assert current() == ("cpu", False)
    finally:
        rc.config(backend=before[0], validate=before[1])


def test_auto_takes_the_configured_backend(backend: Backend) -> None:
    arguments: Any = [torch.zeros(2, 1), torch.tensor([1, 0]), torch.tensor([0])]
    arguments = [backend.put(a) for a in arguments]
    with rc.config(backend=backend.backend):
        if backend.backend == "cpu":  # it alone refuses descending times by itself
            with pytest.raises(ValueError, match="ascending"):
                rc.resample_trajectories(*arguments)
        else:
            rc.resample_trajectories(*arguments)


def test_auto_is_the_best_backend(native: Backend) -> None:
    """On the CPU auto is the library's own backend, which checks times by itself."""
    arguments = [
        native.put(t) for t in (torch.zeros(2, 1), torch.tensor([1, 0]), torch.tensor([0]))
    ]
    if native.device == "cpu":
        with pytest.raises(ValueError, match="ascending"):
            rc.resample_trajectories(*arguments)
    else:
        assert rc.resample_trajectories(*arguments).is_cuda


def test_what_the_gpu_refuses_has_a_class_of_its_own() -> None:
    def never(*_: object) -> None:
        raise AssertionError("an operator whose context is lost must not run again")

    def translated(text: str) -> Exception | None:
        return errors.translated(RuntimeError(text), never, (torch.zeros(1),), {})

    failed = translated("x\nrobocache.RuntimeError: alignment: cudaErrorIllegalAddress (700)\ny")
    assert type(failed) is RuntimeError
    assert str(failed) == "alignment: cudaErrorIllegalAddress (700)"
    full = translated("robocache.RuntimeError: alignment: out of memory")
    assert isinstance(full, torch.OutOfMemoryError)


def test_build_info(native: Backend) -> None:
    info = rc.build_info()
    assert info.version and info.compiler
    assert info.cpu_target in info.cpu_targets
    assert info.cuda == (info.cuda_version is not None) == bool(info.cuda_architectures)
    if native.backend == "cuda":
        assert info.cuda
    assert rc.__version__ in (info.version, "0+unknown")


def test_without_the_library_it_says_so() -> None:
    """Where the package was not built, what needs the library names the way out."""
    if any(b.backend in ("cpu", "cuda") for b in find_backends()[0]):
        pytest.skip("the library is there")
    with pytest.raises(ImportError, match="pip install"):
        rc.build_info()


def test_a_library_of_another_version_is_refused(native: Backend) -> None:
    build = rc.build_info().version
    library._check_version(Path("x.so"), build)
    with pytest.raises(ImportError, match=rf"x\.so is of version 9\.9\.9, .* of {build}"):
        library._check_version(Path("x.so"), "9.9.9")


def test_output_is_contiguous(backend: Backend) -> None:
    values = torch.randn(3, 5, 4).transpose(0, 2).contiguous().transpose(0, 2)
    out, valid = backend.resample(values, torch.arange(5), torch.arange(3), return_valid=True)
    assert out.is_contiguous() and valid.is_contiguous()
    assert out.shape == (3, 3, 4) and valid.shape == (3, 3)


def test_inputs_stay_as_they_are(backend: Backend) -> None:
    tensors = [
        backend.put(t)
        for t in (torch.randn(2, 5, 4), torch.arange(5.0), torch.tensor([0.5, float("nan")]))
    ]
    lengths = backend.put(torch.tensor([5, 9]))
    copies = [t.clone() for t in (*tensors, lengths)]
    if backend.backend == "cpu":
        lengths = lengths.clamp(max=5)
        copies[-1] = lengths.clone()
    backend.resample(*tensors, source_lengths=lengths, outside="zero", return_valid=True)
    for tensor, copy in zip((*tensors, lengths), copies, strict=True):
        assert tensor.equal(copy) or tensor.isnan().any()


def test_threads(native: Backend) -> None:
    """Calls from several threads at once give what one alone gives."""
    from concurrent.futures import ThreadPoolExecutor

    values = torch.randn(16, 200, 9)
    source, targets = torch.arange(200) * 3, torch.arange(0, 600, 2)
    want = native.resample(values, source, targets).cpu()
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda _: native.resample(values, source, targets).cpu(), range(40))
        assert all(torch.equal(result, want) for result in results)


def test_subclasses_and_grad_leaves_are_tensors(backend: Backend) -> None:
    data = torch.nn.Parameter(torch.zeros(2, 1, device=backend.device))
    assert backend.resample(data, torch.tensor([0, 1]), torch.tensor([0])).requires_grad
