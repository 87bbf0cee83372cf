"""`Loader.from_lerobot`, `from_robomimic`, `from_diffusion_policy`: as in `robocache.datasets`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import robocache as rc

NAMES = ["from_diffusion_policy", "from_lerobot", "from_robomimic"]


def test_public_names() -> None:
    assert sorted(rc.datasets.__all__) == NAMES
    assert "datasets" in rc.__all__


@pytest.mark.parametrize("name", NAMES)
def test_signatures_agree(name: str) -> None:
    """The parameters that a method names are those of the function, in order, default and kind."""
    of_function = inspect.signature(getattr(rc.datasets, name)).parameters
    of_method = dict(inspect.signature(getattr(rc.Loader, name)).parameters)
    assert of_method.pop("options").kind is inspect.Parameter.VAR_KEYWORD
    positional = [p.name for p in of_function.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert list(of_method) == [*positional, "batch_size"]
    for parameter in of_method.values():
        other = of_function[parameter.name]
        assert (parameter.kind, parameter.default) == (other.kind, other.default)


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_passed_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = getattr(rc.datasets, name)
    calls: list[dict[str, Any]] = []

    def record(*args: Any, **options: Any) -> str:
        calls.append(inspect.signature(function).bind(*args, **options).arguments)
        return "loader"

    monkeypatch.setattr(rc.datasets, name, record)
    positional = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    values = [object() for _ in positional]
    made: Any = getattr(rc.Loader, name)(*values, batch_size=3, store="s", shuffle=False)
    assert made == "loader"
    expected = dict(zip(positional, values, strict=True))
    assert calls == [{**expected, "batch_size": 3, "store": "s", "options": {"shuffle": False}}]
