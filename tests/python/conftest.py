"""Backends as parameters, what was tested in the header and the summary, Hypothesis profiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from support import find_backends

# No deadline: nothing here is timed. Every run draws anew; failures are kept in .hypothesis.
hypothesis.settings.register_profile(
    "default", deadline=None, derandomize=False, max_examples=200, print_blob=True
)
hypothesis.settings.register_profile(
    "thorough", parent=hypothesis.settings.get_profile("default"), max_examples=3000
)
hypothesis.settings.register_profile(
    "same", parent=hypothesis.settings.get_profile("default"), derandomize=True
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def backend_lines() -> list[str]:
    backends, left_out = find_backends()
    lines = [f"robocache backends tested: {', '.join(b.name for b in backends)}"]
    lines += [f"robocache backend NOT tested: {name}: {why}" for name, why in left_out.items()]
    return lines


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "large: needs much memory; runs where the named amount is free or asked for"
    )
    config.option.showcapture = "stdout"  # not the thousands of lines that torch.compile logs
    find_backends()  # a chosen backend that does not work ends the run here


def pytest_report_header() -> list[str]:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [f"torch {torch.__version__}, GPUs: {', '.join(gpus) or 'none'}", *backend_lines()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in backend_lines():
        terminalreporter.write_line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`backend`: all tested here; `cuda_backend`: those on CUDA; `native`: the library's own.

    `device`: where those of the library run, "cpu" and "cuda".
    """
    backends, left_out = find_backends()
    for name, fits in (
        ("backend", ("cpu", "pytorch-cpu", "cuda", "pytorch-cuda")),
        ("cuda_backend", ("cuda", "pytorch-cuda")),
        ("native", ("cpu", "cuda")),
    ):
        if name in metafunc.fixturenames:
            params = [pytest.param(b, id=b.name) for b in backends if b.name in fits]
            why = "; ".join(f"{n}: {left_out[n]}" for n in fits if n in left_out)
            none = pytest.param(None, id="none", marks=pytest.mark.skip(reason=why))
            metafunc.parametrize(name, params or [none])
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", [b.device for b in backends if b.name in ("cpu", "cuda")])


@pytest.fixture(scope="session")
def cuda_is_tested() -> None:
    """Skips where it is not; `support.needs_gpu` asks for it."""
    why = find_backends()[1].get("cuda")
    if why is not None:
        pytest.skip(why)


@pytest.fixture(params=["bag", "db3", "mcap"])
def storage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A folder of eight recordings to convert."""
    from conversions import write_recording

    for seed in range(8):
        write_recording(tmp_path / "recordings" / f"r{seed}.npz", seed)
    return tmp_path / "recordings"


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group for every two of these recordings, so that there are several commits."""
    from robocache.conversion import run as conversion

    monkeypatch.setattr(conversion, "LEAST_GROUP_BYTES", 90_000)
    monkeypatch.setattr(conversion, "COMMIT_SECONDS", 0)
