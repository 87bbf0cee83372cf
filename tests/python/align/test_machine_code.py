"""Builds whose GPU code the driver has to compile first: they say so, as that takes minutes."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
import torch

import robocache as rc
from robocache.core import library


@pytest.mark.parametrize(
    ("architectures", "capability", "expected"),
    [
        (("90-real", "75-virtual"), (9, 0), True),
        (("90-real", "75-virtual"), (8, 0), False),
        (("80",), (8, 9), True),  # the same major version
        (("86",), (8, 0), False),
        (("80",), (9, 0), False),
        (("120-real", "100-virtual"), (12, 1), True),
        (("100-virtual",), (10, 0), False),
        (("90a-real",), (9, 0), True),
        (("native",), (8, 6), True),
    ],
)
def test_machine_code_serves_its_major_version(
    architectures: tuple[str, ...], capability: tuple[int, int], expected: bool
) -> None:
    assert library.has_machine_code(architectures, *capability) is expected


def test_a_build_without_it_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    info = dataclasses.replace(rc.build_info(), cuda_architectures=("90-real", "75-virtual"))
    monkeypatch.setattr(library, "build_info", lambda: info)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 6))
    with pytest.warns(RuntimeWarning) as warned:
        library._warn_of_compilation(0)
    assert str(warned[0].message) == (
        "robocache: this build has no machine code for compute capability 8.6: the driver compiles "
        "it at the first use of alignment and of the loader, about a minute each, and keeps it for "
        "the next process (`CUDAARCHS=86 pip install .` builds it in)"
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library._warn_of_compilation(0)
