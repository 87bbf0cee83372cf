"""Imports form a tree: between packages, between modules, within functions and for type checkers.

tools/import_graph.py computes the graph from the sources.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "import_graph.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = spec_from_file_location("import_graph", TOOL)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # NamedTuple looks up the module of its annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("unit", ["packages", "modules"])
def test_no_circle(tool: ModuleType, unit: str) -> None:
    graph = tool.module_graph()
    if unit == "packages":
        graph = tool.package_graph(graph)
    edges = [str(edge) for circle in tool.circles(graph) for edge in tool.edges_of(graph, circle)]
    assert not edges, f"{unit} import each other:\n" + "\n".join(edges)


def test_delegates_are_the_only_upward_calls(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its exceptions the graph has circles, through each of them."""
    delegates = tool.DELEGATES
    monkeypatch.setattr(tool, "DELEGATES", frozenset())
    graph = tool.module_graph()
    closing = {
        (edge.module, edge.target)
        for circle in tool.circles(graph)
        for edge in tool.edges_of(graph, circle)
        if (edge.module, edge.target) in delegates
    }
    assert closing == delegates


@pytest.mark.parametrize(
    ("module", "higher"),
    [
        ("robocache.loader.loader", ("robocache.datasets", "robocache.readers.hdf5")),
        ("robocache.store.rows", ("robocache.timeline", "robocache.doctor")),
        ("robocache.normalization.normalizer", ("robocache.loader", "torch")),
    ],
)
def test_importing_a_module_loads_nothing_above_it(module: str, higher: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {higher} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def write(folder: Path, **sources: str) -> Path:
    """A package `robocache` of these modules: ``a__b`` is a/b.py."""
    for name, source in sources.items():
        path = folder / "robocache" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        (path.parent / "__init__.py").touch()
    return folder / "robocache"


LAZY = "def f():\n    from robocache.{0} import x\n"
TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from robocache.{0} import x\n"
TABLE = '_HOME = {"x": "robocache.a.one"}\n'


@pytest.mark.parametrize(
    ("back", "line"),
    [
        ("from robocache.a.one import x\n", "1"),
        ("import robocache.a.one\n", "1"),
        ("from robocache.a import one\n", "1"),
        (LAZY.format("a.one"), "2 (lazy)"),
        (TYPES.format("a.one"), "3 (lazy)"),
        ("def f():\n    import robocache as rc\n    rc.x()\n", "3 (lazy)"),
        ("def f():\n    from robocache import x\n", "2 (lazy)"),
    ],
)
def test_a_circle_is_found_and_its_edges_are_named(
    tool: ModuleType, tmp_path: Path, back: str, line: str
) -> None:
    sources = write(tmp_path, a__one="from robocache.b.two import y\n", b__two=back, b__three="")
    (sources / "__init__.py").write_text(TABLE)
    modules = tool.module_graph(sources)
    assert tool.circles(modules) == [["robocache.a.one", "robocache.b.two"]]
    packages = tool.package_graph(modules)
    (circle,) = tool.circles(packages)
    assert circle == ["robocache.a", "robocache.b"]
    assert [str(edge) for edge in tool.edges_of(packages, circle)] == [
        "robocache.a.one:1 -> robocache.b.two",
        f"robocache.b.two:{line} -> robocache.a.one",
    ]
    command = [sys.executable, str(TOOL), str(sources)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "circle of 2: robocache.a, robocache.b" in run.stdout


def test_levels_count_the_longest_chain(tool: ModuleType, tmp_path: Path) -> None:
    sources = write(
        tmp_path,
        a__one="from robocache.b.two import y\nfrom robocache.c.three import z\n",
        b__two="from robocache.c.three import z\n",
        c__three="",
    )
    (sources / "__init__.py").touch()
    graph = tool.package_graph(tool.module_graph(sources))
    assert not tool.circles(graph)
    assert tool.levels(graph) == [["robocache", "robocache.c"], ["robocache.b"], ["robocache.a"]]
